"""Chains of pointwise steps as one step, whose kernel is compiled for it from the formulas of the steps.

Adjacent steps on arrays of one memory order, and on single numbers, are computed element by element: what one step
leaves for the next stays in registers, and only arrays that later steps read are stored. The results are the same to
the bit, since each formula is computed and rounded as before. Kernels of chains are kept in the cache like those of
users' formulas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import address
from ..formulas import ACTIVATIONS, POINTWISE, form, stored
from ..kernel_set import formula_of, kernels
from .memory_planning import root
from .steps import Step
from .uses import is_own_kernel

__all__ = ["Chain", "estimated_gain", "function_of_one", "runs"]

_MOST_ARRAYS, _MOST_STEPS = 20, 24  # of a chain
_CHEAP = {"hardsigmoid", "hardswish", "leaky_relu"}
_OF_STEP, _OF_ELEMENT = 0.3, 8e-5  # microseconds that a short step takes


def estimated_gain(steps: int, elements: int) -> float:
    """The estimated microseconds that so many steps take less time as parts of others."""
    return steps * (_OF_STEP + _OF_ELEMENT * elements)


class _Part(NamedTuple):
    """A step as a part of a chain: formula (None: the operand itself), operands, numbers, and where the result goes.

    target: the array that holds the result; in_place: it existed before, and may be read elsewhere.
    """

    formula: Callable[..., Any] | None
    operands: tuple[np.ndarray, ...]
    numbers: tuple[float, ...]
    target: np.ndarray
    in_place: bool


class Chain:
    """Adjacent steps that run as one. It grows with ``add``, and ``step`` returns the one step."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []

    def add(self, step: Step) -> bool:
        """Whether the step can be the next part; if so, it is added."""
        part = _part(step)
        if part is None or len(self.parts) == _MOST_STEPS:
            return False
        arrays = [*part.operands, part.target]
        first = self.parts[0].target if self.parts else part.target
        if not _is_dense(first) or _layout(part.target) != _layout(first):
            return False
        if any(_layout(array) != _layout(first) and not _is_number(array, first) for array in arrays):
            return False
        known = {_key(array): id(root(array)) for array in (*self._arrays(), *arrays)}
        if len(known) > _MOST_ARRAYS or len({*known.values()}) < len(known):  # two views of one memory might overlap
            return False
        self.parts.append(part)
        return True

    def _arrays(self) -> Iterator[np.ndarray]:
        for part in self.parts:
            yield from part.operands
            yield part.target

    @property
    def gain(self) -> float:
        """The estimated microseconds that one step saves."""
        return estimated_gain(len(self.parts) - 1, self.parts[0].target.size)

    def step(self, is_read: Callable[[np.ndarray], bool]) -> Step | None:
        """The step that does the same; None if it has no result. ``is_read``: whether a later step reads an array."""
        names: dict[Any, str] = {}  # of the present content of arrays
        inputs: list[np.ndarray] = []
        numbers: list[float] = []
        scope: dict[str, Any] = {"stored": stored}
        lines: list[str] = []
        targets: dict[Any, np.ndarray] = {}

        def name_of(array: np.ndarray) -> str:
            if _key(array) not in names:
                names[_key(array)] = f"x{len(inputs)}"
                inputs.append(array)
            return names[_key(array)]

        for at, part in enumerate(self.parts):
            values = [name_of(array) for array in part.operands]
            for number in part.numbers:
                values.append(f"n{len(numbers)}")
                numbers.append(number)
            if part.formula is None:
                lines.append(f"t{at} = {values[0]}")
            else:
                scope[f"f{at}"] = part.formula
                lines.append(f"t{at} = stored(f{at}({', '.join(values)}))")
            names[_key(part.target)] = f"t{at}"
            if part.in_place or is_read(part.target):
                targets[_key(part.target)] = part.target
        if not targets:
            return None
        results = [names[key] for key in targets]
        formula = _function(lines, results, len(inputs), len(numbers), scope)
        run = kernels.found_formula(formula)
        several = len(results) > 1
        flags = (True,) * len(results) if several else ()
        outputs = (*targets.values(),)
        return Step(formula.kernel, run, (*inputs, *numbers, *flags), {}, outputs if several else outputs[0])


def _function(lines: list[str], results: list[str], operands: int, numbers: int, scope: dict[str, Any]) -> Any:
    """The formula of a chain; its source and the sources of its parts determine its kernel."""
    parameters = [f"x{at}" for at in range(operands)] + [f"n{at}: float" for at in range(numbers)]
    names = [getattr(scope[name], "digest", scope[name].__name__) for name in scope]
    body = "\n    ".join([*lines, f"return {', '.join(results)}"])
    source = f"def chain({', '.join(parameters)}):\n    {body}\n"
    exec(source, scope)
    made: Any = scope["chain"]
    made.__name__ = "+".join(formula.__name__ for name, formula in scope.items() if name[0] == "f") or "copy"
    made.__doc__ = source
    made.__annotations__ = {f"n{at}": float for at in range(numbers)}
    made.results, made.broadcasts = len(results), True
    made.digest = hashlib.sha256("\n".join([source, *names]).encode()).hexdigest()[:32]
    made.kernel = f"formula_{made.digest}"
    return made


def _part(step: Step) -> _Part | None:
    if not is_own_kernel(step):
        return None
    if step.kernel == "accumulate":  # y += x
        y, x = step.args
        return _Part(POINTWISE["add"], (y, x), (), y, True) if _is_float(y) and _is_float(x) else None
    if step.kernel == "copy":  # y[...] = x
        y, x = step.args
        return _Part(None, (x,), (), y, True) if _is_float(y) and _is_float(x) else None
    if not _is_float(step.result):
        return None
    if step.kernel == "duplicate":
        return _Part(None, step.args, (), step.result, False)
    formula = POINTWISE.get(step.kernel) or formula_of(step.kernel)
    if formula is None:
        return None
    one = form(formula)
    operands, numbers = step.args[: len(one.operands)], step.args[len(one.operands) :]
    if one.truth or one.results > 1 or any(one.conditions) or len(numbers) != len(one.numbers):
        return None
    if not all(map(_is_float, operands)) or not all(type(number) in (int, float) for number in numbers):
        return None
    return _Part(formula, operands, tuple(map(float, numbers)), step.result, False)


class FunctionOfOne(NamedTuple):
    """A formula of one array with its numbers; common ones are compiled in advance, cheap ones hide behind a load."""

    formula: Callable[..., Any]
    numbers: tuple[float, ...]
    is_common: bool
    is_cheap: bool


def function_of_one(step: Step) -> FunctionOfOne | None:
    """The formula that a step computes, if it has one operand."""
    part = _part(step)
    if part is None or part.formula is None or part.in_place or len(part.operands) > 1:
        return None
    return FunctionOfOne(part.formula, part.numbers, step.kernel in ACTIVATIONS, step.kernel in _CHEAP)


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.char in "fd"


def _key(x: np.ndarray) -> Any:
    """Of the elements; the first one of a larger array is another array at the same address."""
    return address(x), x.size


def _layout(x: np.ndarray) -> Any:
    return x.shape, x.strides, x.dtype.char


def _is_number(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether x is a single element, which y takes for all of its own."""
    return x.size == 1 and x.dtype == y.dtype and x.ndim <= y.ndim


def _is_dense(x: np.ndarray) -> bool:
    step = x.itemsize
    for stride, extent in sorted(zip(x.strides, x.shape, strict=True)):
        if extent > 1:
            if stride != step:
                return False
            step *= extent
    return x.size > 0


def runs(steps: list[Step], ends: set[int]) -> Iterator[tuple[int, Chain]]:
    """Yield the chains of at least two steps, with the place of the first; ``ends``: places that begin a new one."""
    chain, begin = Chain(), 0
    for at, step in enumerate(steps):
        if at not in ends and chain.add(step):
            continue
        if len(chain.parts) > 1:
            yield begin, chain
        chain, begin = Chain(), at
        if not chain.add(step):
            begin = at + 1
    if len(chain.parts) > 1:
        yield begin, chain
