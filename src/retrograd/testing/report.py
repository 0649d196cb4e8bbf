"""The report of the checks, and the error that carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], Iterable[str]]


@dataclass
class ConformanceReport:
    """The names of passed checks and the faults of failed ones; true if there are no faults."""

    name: str
    passed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        if self.faults:
            return "\n".join([f"{self.name} failed:", *[f"  {fault}" for fault in self.faults]])
        return f"{self.name}: passed {', '.join(self.passed)}"


class ConformanceError(AssertionError):
    """A check failed; ``report`` says which and how."""

    def __init__(self, report: ConformanceReport) -> None:
        super().__init__(str(report))
        self.report = report


def run(name: str, checks: Mapping[str, Check]) -> ConformanceReport:
    """Run all checks; an exception counts as a fault, and the other checks still run."""
    report = ConformanceReport(name)
    for label, check in checks.items():
        try:
            faults = list(check())
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        report.faults += [f"{label}: {fault}" for fault in faults]
        if not faults:
            report.passed.append(label)
    return report
