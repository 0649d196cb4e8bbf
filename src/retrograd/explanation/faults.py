"""The failure lab: one line of a textbook kernel is broken, the library runs with it, and gradcheck says what is wrong.

The kernel's own text is changed, compiled and put in the place of the kernel for the time of one backward, so what
turns red on the page is what a programmer who makes this mistake would see.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from ..engine.gradcheck import gradcheck
from ..engine.tensor import Tensor
from ..kernel_set import instead, use_kernels
from .measure import Arrays, Call, gradients, jacobians
from .mutations import MOST, Mutation, mutations
from .numbers import numbers

__all__ = ["Fault", "Outcome", "as_dicts", "outcomes"]

_FEW = 3  # mistakes: with fewer, others are derived
_LARGEST = 2000  # entries of all inputs; with more, gradcheck takes long


@dataclass(frozen=True)
class Fault:
    """A common mistake: one line of a kernel of the textbook set, and what it becomes.

    kernel: its name, and module: the module of the textbook set that has it
    before, after: the text that is replaced; it occurs once. ``replace`` is that of dataclasses
    function: that which the kernel calls and whose line it is; by default the kernel itself
    """

    name: str
    about: str
    module: str
    kernel: str
    before: str
    after: str
    function: str = ""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The textbook set with the mistake."""
        with use_kernels("textbook"), instead({self.kernel: self.planted()}):
            yield

    def planted(self) -> Callable[..., Any]:
        """The kernel with the mistake.

        Raises:
            ValueError: the line is not in the text, or more than once.
        """
        module = importlib.import_module(f"retrograd.kernels.textbook.{self.module}")
        place = self.function or self.kernel
        text = _text(module, place)
        if text.count(self.before) != 1:
            raise ValueError(f"Fault: {self.before!r} occurs {text.count(self.before)} times in {place}")
        home = importlib.import_module(inspect.unwrap(getattr(module, place)).__module__)
        broken = self._made(text.replace(self.before, self.after), place, vars(home) | {"replace": replace})
        if not self.function:
            return broken
        return self._made(_text(module, self.kernel), self.kernel, vars(module) | {self.function: broken})

    def _made(self, text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
        """A function of a text, with these names around it."""
        exec(compile(text, f"<{name}: {self.name}>", "exec"), names)
        made: Callable[..., Any] = names[name]
        return made


def _text(module: ModuleType, name: str) -> str:
    return textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(module, name))))


@dataclass
class Outcome:
    """The outcome of a fault: the gradients that differ, gradcheck's report and diagnoses; or the error it ends with.

    wrong: by name, the gradients whose entries differ from the right ones; empty if the fault makes no difference
    """

    fault: Fault | Mutation
    wrong: Arrays = field(default_factory=dict)
    report: str = ""
    diagnosis: str = ""
    error: str = ""


def outcomes(faults: Sequence[Fault], call: Call, inputs: Arrays, gy: np.ndarray, exact: bool = True) -> list[Outcome]:
    """Return the outcomes of the given mistakes and, if those are fewer than three, of some derived from the backward.

    Of the latter, only those that gradcheck diagnoses. Everything runs in float64; large inputs give an empty list.
    exact: whether the declared gradient is the derivative; if not, it is what gradcheck compares with
    """
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    if sum(array.size for array in wide.values()) > _LARGEST:
        return []
    surrogate = None if exact else _linear(call, wide)
    found = [_outcome(fault, call, wide, gy, surrogate) for fault in faults]
    if len(faults) >= _FEW:
        return found
    more = mutations(call, wide, gy, MOST - len(faults), {each.fault.name: each.wrong for each in found})
    derived = [_outcome(each, call, wide, gy, surrogate) for each in more]
    return [*found, *(each for each in derived if each.diagnosis and not each.error)]


def _linear(call: Call, inputs: Arrays) -> Call:
    """The linear function of the inputs whose derivative is what the operator declares as its gradient."""
    with use_kernels("textbook"):
        y, matrices = jacobians("the operator", call, inputs)

    def function(*tensors: Tensor) -> Tensor:
        values = {name: tensor.array.ravel() for name, tensor in zip(inputs, tensors, strict=True)}
        total = sum(matrix @ values[name] for name, matrix in matrices.items())
        return Tensor(np.reshape(np.asarray(total), y.array.shape))

    return function


def _outcome(
    fault: Fault | Mutation, call: Call, wide: Arrays, gy: np.ndarray, surrogate: Call | None = None
) -> Outcome:
    """Run the operator's backward with the fault, and gradcheck."""
    found = Outcome(fault)
    right = gradients(call, wide, gy, "textbook")
    with fault.in_place(), np.errstate(all="ignore"):
        try:
            broken = gradients(call, wide, gy, "textbook")
            tensors = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in wide.values()]
            report = gradcheck(call, tensors, raise_exception=False, check_layouts=False, surrogate=surrogate)
        except Exception as error:  # what a broken line raises is part of the answer
            found.error = f"{type(error).__name__}: {error}"
            return found
    found.wrong = {name: broken[name] for name in right if not np.allclose(broken[name], right[name])}
    found.report = str(report)
    found.diagnosis = next((each.diagnosis for each in report.faults if each.diagnosis), "")
    return found


def as_dicts(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The outcomes as the page's document has them, see document.py."""
    return [
        {
            "name": each.fault.name,
            "about": each.fault.about,
            "kernel": each.fault.kernel,
            "before": each.fault.before,
            "after": each.fault.after,
            "wrong": {name: numbers(array) for name, array in each.wrong.items()},
            "report": each.report,
            "diagnosis": each.diagnosis,
            "error": each.error,
        }
        for each in outcomes
    ]
