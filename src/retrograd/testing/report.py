"""What the checks found: faults, the report that lists them, and the error that carries the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], Iterable[str]]


@dataclass
class ConformanceReport:
    """The names of the checks that passed, and the faults of those that failed; true if there is none."""

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
    """Run all checks; what one of them raises is a fault like any other, and the rest still runs."""
    report = ConformanceReport(name)
    for label, check in checks.items():
        try:
            found = list(check())
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        report.faults += [f"{label}: {fault}" for fault in found]
        if not found:
            report.passed.append(label)
    return report
