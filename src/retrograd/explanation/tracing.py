"""Line-by-line execution traces of the code that computes a gradient."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from ..engine.backward_pass import grad
from ..engine.tensor import Tensor
from ..kernel_set import use_kernels
from .measurements import Arrays, Call, numbers
from .source_map import part_of

__all__ = ["Algorithm", "Run", "Source", "Step", "Trace", "as_dicts", "backward_run", "follow", "traced"]


# ---- Recording of a function's lines as they run, with the arrays after each ----------------------------------------

_LARGEST = 4096  # entries of a recorded array
_STEPS = 600  # lines; a longer run is truncated, and the trace says so


@dataclass(frozen=True)
class Source:
    """A function whose lines ran: its name and file, its first line, its source, and the SHA-256 of the source."""

    name: str
    file: str
    first_line: int
    text: str
    sha256: str


@dataclass(frozen=True)
class Step:
    """A line that ran: the numbers of its function and of the line, and the arrays that it made or changed."""

    function: int
    line: int
    arrays: dict[str, int]


@dataclass
class Trace:
    """The steps of a run. ``values`` has every array once; steps refer to them by number."""

    functions: list[Source] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    complete: bool = True
    result: Any = None


def traced(call: Callable[[], Any], follows: Callable[[CodeType], bool]) -> Trace:
    """Run ``call`` and record the lines of functions that ``follows`` accepts.

    An active tracing tool, such as a debugger, is suspended during the call. If the call raises, the error is passed
    on.
    """
    recorder = _Recorder(follows)
    before = sys.gettrace()
    sys.settrace(recorder.on_call)
    try:
        recorder.trace.result = call()
    finally:
        sys.settrace(before)
    return recorder.trace


class _Recorder:
    """The trace function of a run, and its records."""

    def __init__(self, follows: Callable[[CodeType], bool]) -> None:
        self.trace = Trace()
        self._follows = follows
        self._numbers: dict[CodeType, int | None] = {}  # of functions; None: not followed
        self._known: dict[tuple[Any, ...], int] = {}  # numbers of arrays by their contents
        self._last: dict[FrameType, tuple[int, dict[str, int]]] = {}  # the current line, and the arrays before it

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Return a line tracer for a new frame, or None."""
        code = frame.f_code
        if code not in self._numbers:
            self._numbers[code] = self._add(code) if self._follows(code) else None
        if self._numbers[code] is None:
            return None
        self._last[frame] = (code.co_firstlineno, {})
        return self.on_line

    def on_line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Record what the previous line has made, before a line runs and at the end."""
        if event not in ("line", "return"):
            return self.on_line
        line, before = self._last[frame]
        arrays = self._arrays(frame)
        number = self._numbers[frame.f_code]
        assert number is not None
        if len(self.trace.steps) < _STEPS:
            changed = {name: at for name, at in arrays.items() if before.get(name) != at}
            if event == "return" and (result := _array(argument)) is not None and result.size <= _LARGEST:
                changed["returned"] = self._number(result)
            self.trace.steps.append(Step(number, line, changed))
        else:
            self.trace.complete = False
        self._last[frame] = (frame.f_lineno, arrays)
        if event == "return":
            del self._last[frame]
        return self.on_line

    def _add(self, code: CodeType) -> int:
        lines, first = inspect.getsourcelines(code)
        text = "".join(lines)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.trace.functions.append(Source(code.co_name, _file(code), first, text, digest))
        return len(self.trace.functions) - 1

    def _arrays(self, frame: FrameType) -> dict[str, int]:
        found = {}
        for name, value in inspect.getargvalues(frame).locals.items():
            array = _array(value)
            if array is not None and array.size <= _LARGEST:
                found[name] = self._number(array)
        return found

    def _number(self, array: np.ndarray) -> int:
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._known:
            self._known[key] = len(self.trace.values)
            self.trace.values.append(array.copy())
        return self._known[key]


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, Tensor):
        value = value.array
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _file(code: CodeType) -> str:
    """Return the path of the file relative to the folder of the package, or its name."""
    path = Path(code.co_filename)
    root = Path(__file__).resolve().parents[2]
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


# ---- The code that computes a gradient, line by line ----------------------------------------------------------------


class Algorithm(NamedTuple):
    """One algorithm for an array of the page, to be stepped through.

    group: the algorithm's group, such as "singa"; cost: its costs, such as "multiplications"
    """

    name: str
    group: str
    about: str
    result: str
    call: Callable[[], Any]
    cost: dict[str, int] | None = None


class Run(NamedTuple):
    """An algorithm and the lines that ran."""

    algorithm: Algorithm
    trace: Trace


def backward_run(name: str, call: Call, inputs: Arrays, gy: Any) -> Run:
    """Trace the backward of an operator on the textbook kernels: lines of its Function, of kernels, of formulas."""
    with use_kernels("textbook"):
        tensors = {each: Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for each, array in inputs.items()}
        y = call(*tensors.values())
        differentiated = [tensor for tensor in tensors.values() if tensor.requires_grad]
        upstream = Tensor(gy.astype(y.array.dtype))
        about = "the backward that ran, on the textbook kernels"
        algorithm = Algorithm(
            f"{name}: backward", "backward", about, "", lambda: grad(y, differentiated, upstream, allow_unused=True)
        )
        return follow(algorithm)


def follow(algorithm: Algorithm) -> Run:
    """Run an algorithm and record its lines."""
    return Run(algorithm, traced(algorithm.call, _is_traced))


def as_dicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the runs as in the page's document, see document.py."""
    return [
        {
            "name": run.algorithm.name,
            "group": run.algorithm.group,
            "about": run.algorithm.about,
            "result": run.algorithm.result,
            "cost": run.algorithm.cost,
            "complete": run.trace.complete,
            "functions": [
                {"name": s.name, "file": s.file, "first_line": s.first_line, "source": s.text, "sha256": s.sha256}
                for s in run.trace.functions
            ],
            "steps": [
                {"function": step.function, "line": step.line, "arrays": step.arrays} for step in run.trace.steps
            ],
            "values": [{"shape": [*each.shape], "values": numbers(each)} for each in run.trace.values],
        }
        for run in runs
    ]


@lru_cache(maxsize=4096)
def _is_traced(code: CodeType) -> bool:
    """Return whether a function is one to trace: a backward, a textbook kernel or a formula."""
    part = part_of(code.co_filename)
    if part in ("ops", ""):  # or of a user's Function
        return code.co_name == "backward"
    if part not in ("textbook", "formulas", "explanation"):
        return False
    if code.co_name.startswith("_") or Path(code.co_filename).name == "__init__.py":
        return False
    module = next((m for m in sys.modules.values() if getattr(m, "__file__", None) == code.co_filename), None)
    names = getattr(module, "__all__", ())
    return code.co_name in names if part != "formulas" else code.co_name in vars(module or object)
