"""Fusion of steps: a sum and what follows it, or a chain of pointwise steps, as one step.

``fused(steps, ...)`` returns fewer steps with the same results to the bit. A convolution or matrix product takes over
the addition of another array, as in a residual network, and a ReLU or clamp: they run while the sums are in registers.
Adjacent pointwise steps become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..formulas.optimizers import rectified
from ..kernel_set import kernels
from .chains import runs
from .memory_planning import root
from .steps import Step, Steps, left_before

__all__ = ["fused"]

LEAST_GAIN = 20.0  # microseconds that a chain must save in each replay: its kernel takes 0.2 s to compile


class _Epilogue(NamedTuple):
    """What follows a sum: these steps, and the array that holds the result in the end.

    residual: an array that is added, and the step that does so. bounds: those of a clamp after that.
    """

    result: np.ndarray
    steps: tuple[int, ...]
    residual: tuple[np.ndarray, int] | None = None
    bounds: tuple[float, float] | None = None


def fused(steps: Steps, forward: int, outside: Iterable[np.ndarray]) -> tuple[Steps, int]:
    """Return the steps with epilogues and chains, and how many of them belong to the forward pass.

    forward: the number of steps of the forward pass; it and the rest are fused separately. outside: arrays that are
    read after the steps, such as the results.
    """
    kept = [*outside]
    steps, forward = _with_epilogues(steps, forward, _Uses(steps, kept))
    return _in_chains(steps, forward, _Uses(steps, kept))


def _in_chains(steps: Steps, forward: int, uses: _Uses) -> tuple[Steps, int]:
    """Adjacent pointwise steps as one; see chains.py."""
    found: list[tuple[int, int, Step]] = []
    gain: dict[str, float] = {}  # by kernel, which is compiled once
    for begin, chain in runs(steps, {forward, *(place for place, _ in steps.decisions)}):
        last = begin + len(chain.parts) - 1
        if (step := chain.step(partial(uses.is_read_after, last))) is not None:
            found.append((begin, last, step))
            gain[step.kernel] = gain.get(step.kernel, 0.0) + chain.gain
    made: dict[int, Step] = {}
    dropped: set[int] = set()
    for begin, last, step in found:
        if gain[step.kernel] >= LEAST_GAIN:
            made[last] = step
            dropped.update(range(begin, last))
    return steps.replaced(made, dropped), left_before(forward, dropped)


def _with_epilogues(steps: Steps, forward: int, uses: _Uses) -> tuple[Steps, int]:
    made: dict[int, Step] = {}
    dropped: set[int] = set()
    for at, step in enumerate(steps):
        if at in dropped or _arguments(step) is None or step.run is not kernels.found(step.kernel):
            continue
        found = _epilogue(steps, uses, at, forward if at < forward else len(steps))
        if found.steps:
            *others, last = found.steps
            made[last] = _with_epilogue(step, found)
            dropped.update((at, *others))
            uses.taken.update(found.steps)
    return steps.replaced(made, dropped), left_before(forward, dropped)


class _Uses:
    """The steps that make, read or change each array, by the memory that it is in."""

    def __init__(self, steps: Steps, outside: Iterable[np.ndarray]) -> None:
        self.steps = steps
        self.taken: set[int] = set()  # steps that are part of an epilogue
        self._places: dict[int, list[int]] = {}
        for at, step in enumerate(steps):
            for array in (*step.inputs, *step.outputs):
                places = self._places.setdefault(id(root(array)), [])
                if not places or places[-1] != at:
                    places.append(at)
        self._outside = {id(root(array)) for array in outside}
        self._decided = {id(root(array)) for _, each in steps.decisions for array in each.arrays}

    def after(self, array: np.ndarray, at: int) -> list[int]:
        """The later steps that use it."""
        return [place for place in self._places.get(id(root(array)), ()) if place > at]

    def is_outside(self, array: np.ndarray) -> bool:
        return id(root(array)) in self._outside

    def is_read_after(self, at: int, array: np.ndarray) -> bool:
        return self.is_outside(array) or self.is_decided_by(array) or bool(self.after(array, at))

    def is_decided_by(self, array: np.ndarray) -> bool:
        return id(root(array)) in self._decided

    def is_changed(self, array: np.ndarray, first: int, last: int, but: tuple[int, ...]) -> bool:
        """Whether a step after ``first`` and up to ``last`` writes to the memory of the array."""
        return any(
            root(each) is root(array)
            for place in self.after(array, first)
            if place <= last and place not in but
            for each in self.steps[place].outputs
        )


def _arguments(step: Step) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
    """The factors and the bias of a convolution or product that may have an epilogue."""
    if step.kwargs or not isinstance(step.result, np.ndarray):
        return None
    if step.kernel == "conv" or step.kernel == "matmul":
        first, second, *others = step.args
        return first, second, others[0] if others else None
    return None


def _epilogue(steps: Steps, uses: _Uses, at: int, end: int) -> _Epilogue:
    """The longest epilogue of a step, before the step ``end``."""
    read = [(array, at) for array in _arguments(steps[at]) or () if array is not None]
    found = _Epilogue(steps[at].result, ())
    while (longer := _longer(steps, uses, found, at, end)) is not None:
        needed = [*read, longer.residual] if longer.residual else read
        if any(uses.is_changed(array, since, longer.steps[-1], longer.steps) for array, since in needed):
            break
        found = longer
    return found


def _longer(steps: Steps, uses: _Uses, found: _Epilogue, at: int, end: int) -> _Epilogue | None:
    """The epilogue with the next step that uses its result, if that can be part of it and nothing else needs both."""
    y, later = found.result, uses.after(found.result, max(found.steps, default=at))
    if not later or later[0] >= end or uses.is_decided_by(y) or found.bounds is not None:
        return None
    place, step = later[0], steps[later[0]]
    if place in uses.taken or step.run is not kernels.found(step.kernel):
        return None
    residual, bounds = found.residual, None
    if step.kernel == "relu" and _fits(step.args[0], y):
        bounds = 0.0, inf
    elif step.kernel == "clamp" and _fits(step.args[0], y):
        bounds = step.args[1:]
    elif step.kernel == "add" and residual is None and (other := _other(step.args, y)) is not None:
        residual = other, place
    elif step.kernel == "update" and step.args[0] is rectified and _fits(step.args[1][0], y):
        return _Epilogue(y, (*found.steps, place), residual, (0.0, inf))  # ReLU in place
    else:
        return None
    result = step.result
    if step.kwargs or not _fits_layout(result, y):
        return None
    if len(later) == 1:
        return None if uses.is_outside(y) else _Epilogue(result, (*found.steps, place), residual, bounds)
    write = steps[later[1]]  # another operation in place: the result is copied to where it was computed from
    if (
        later[1] < end
        and write.kernel == "copy"
        and write.args[1] is result
        and _fits(write.args[0], y)
        and uses.after(result, place) == [later[1]]
        and not uses.is_outside(result)
    ):
        return _Epilogue(y, (*found.steps, *later[:2]), residual, bounds)
    return None


def _other(summands: tuple[Any, ...], y: np.ndarray) -> np.ndarray | None:
    """What is added to y, if it has the layout of y."""
    for one, other in (summands, summands[::-1]):
        if _fits(one, y):
            return other if _fits_layout(other, y) and root(other) is not root(y) else None
    return None


def _fits(x: Any, y: np.ndarray) -> bool:
    """Whether x is y, or the same memory in another shape."""
    return _fits_layout(x, y) and root(x) is root(y)


def _fits_layout(x: Any, y: np.ndarray) -> bool:
    """Whether x is an array with the memory order of y, perhaps with other axes."""
    if not isinstance(x, np.ndarray) or x.dtype != y.dtype or x.size != y.size:
        return False
    return (x.shape, x.strides) == (y.shape, y.strides) or (x.flags.c_contiguous and y.flags.c_contiguous)


def _with_epilogue(step: Step, found: _Epilogue) -> Step:
    def in_shape(x: np.ndarray) -> np.ndarray:
        return x if x.shape == step.result.shape else x.reshape(step.result.shape)

    first, second, *others = step.args
    bias, *options = others or [None]
    residual = None if found.residual is None else in_shape(found.residual[0])
    name = f"{step.kernel}_clamp"
    args = (first, second, bias, residual, *(found.bounds or (-inf, inf)), *options)
    return Step(name, kernels.found(name), args, {}, in_shape(found.result))
