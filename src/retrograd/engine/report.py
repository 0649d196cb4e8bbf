"""Results of gradcheck: faults, the report that lists them, and the error that holds the report."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GradcheckFault:
    """One fault; `check` is the name of the check that found it."""

    check: str
    message: str
    diagnosis: str = ""
    output: int | None = None  # position among the outputs of the function
    input: int | None = None  # position among its inputs
    output_index: tuple[int, ...] = ()  # the worst entry: d output[output_index] / d input[input_index]
    input_index: tuple[int, ...] = ()
    analytic: float | None = None
    numeric: float | None = None
    differing: int = 0  # entries of the Jacobian that differ, of `total`
    total: int = 0

    def __str__(self) -> str:
        return f"{self.message}\n  diagnosis: {self.diagnosis}" if self.diagnosis else self.message


@dataclass
class GradcheckReport:
    """The faults that a check has found; true if there are none."""

    name: str
    faults: list[GradcheckFault] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        if not self.faults:
            return f"{self.name}: passed"
        return "\n".join([f"{self.name} failed:", *[str(fault) for fault in self.faults]])


class GradcheckError(RuntimeError):
    """A gradient is wrong; `report` says which and how."""

    def __init__(self, report: GradcheckReport) -> None:
        super().__init__(str(report))
        self.report = report
