"""Fusion of batch norms in recorded steps with the sum, ReLU or ReLU6 after them, forward and backward.

The fused kernels read and write memory less often, and compute the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..arrays import empty
from ..kernel_set import kernels
from ..specs.array_spec import arrays_in, mapped
from .memory_planning import root
from .steps import Step, Steps

__all__ = ["with_fused_batch_norms"]


class _Fused(NamedTuple):
    """A fused step in place of the one at ``place``; the steps ``gone`` are part of it."""

    place: int
    step: Step
    gone: tuple[int, ...]


def with_fused_batch_norms(steps: Steps, forward: int, seen: Iterable[np.ndarray]) -> tuple[Steps, int]:
    """Return the steps with sums and clamps (ReLU, ReLU6) as parts of the batch norms before them, and backward too.

    forward: the number of steps of the forward pass; that of the returned steps is returned, too. seen: arrays that
    are read when the steps have run.
    """
    graph = _Graph(steps, [*seen, *(array for _, each in steps.decisions for array in each.arrays)])
    fused = [each for place in range(forward) for each in graph.fused_at(place)]
    by_place = {each.place: each.step for each in fused}
    gone = {place for each in fused for place in each.gone}
    left = [place for place in range(len(steps)) if place not in gone]
    found = Steps(_reading(by_place.get(place, steps[place]), graph.others) for place in left)
    found.result, found.reads = steps.result, [*steps.reads]
    before = {place: sum(one < place for one in left) for place in {forward, *(place for place, _ in steps.decisions)}}
    found.decisions = [(before[place], each) for place, each in steps.decisions]
    return found, before[forward]


def _reading(step: Step, others: dict[int, np.ndarray]) -> Step:
    """The step with other arrays in place of some, by their ids."""
    if not any(id(each) in others for each in step.inputs):
        return step
    args, kwargs = mapped((step.args, step.kwargs), lambda leaf: others.get(id(leaf), leaf))
    return step._replace(args=args, kwargs=kwargs)


class _Activation(NamedTuple):
    """A clamp at a place, its result, and the gradients that read its argument in its place."""

    place: int
    result: np.ndarray
    low: float
    high: float
    grads: tuple[int, ...]


class _Graph:
    """The places where the steps make, read and change each array, and the fusions found so far.

    others: by the id of an array that is no longer made, the array that gradients read in its place.
    """

    def __init__(self, steps: Sequence[Step], seen: Iterable[np.ndarray]) -> None:
        self.steps = steps
        self.seen = {id(root(array)) for array in seen}
        self.made: dict[int, int] = {}
        self.changed: dict[int, list[int]] = {}
        self.readers: dict[int, list[int]] = {}
        self.taken: set[int] = set()  # places of steps that have become part of another one
        self.others: dict[int, np.ndarray] = {}
        for place, step in enumerate(steps):
            for array in step.inputs:
                self.readers.setdefault(id(root(array)), []).append(place)
            for array in step.changed:
                self.changed.setdefault(id(root(array)), []).append(place)
            for array in arrays_in(step.result):
                self.made.setdefault(id(root(array)), place)

    def fused_at(self, place: int) -> list[_Fused]:
        """The fusions of the batch norm at a place: that of the forward pass, and of its gradient."""
        step = self.steps[place]
        if not self._is(place, "batch_norm", None, None, None, None):
            return []
        y, *statistics = step.result
        x, weight, bias, eps = step.args
        added = self._sum(y, place)
        at, total, other = (place, y, None) if added is None else added
        clamp = self._activation(total)
        if clamp is None:
            if added is None:
                return []
            clamp = _Activation(at, total, nan, nan, ())
        if not _same_layout(clamp.result, y):
            return []
        coefficients = empty((2, weight.size), weight.dtype, like=weight)
        args = x, other, weight, bias, eps, clamp.low, clamp.high
        result = clamp.result, *statistics, coefficients
        gone = tuple({at, clamp.place} - {place})
        found = [_Fused(place, _step("batch_norm_clamp", args, result), gone)]
        self.taken.update(gone)
        if clamp.grads:
            self.others[id(total)] = clamp.result
        if other is None:
            given = x, weight, *statistics[::2]
            found += self._gradients(clamp, given, coefficients)
        return found

    def _sum(self, y: np.ndarray, place: int) -> tuple[int, np.ndarray, np.ndarray] | None:
        """The place of y plus an array that is ready at ``place``, the sum, and that array; None if there is none."""
        at = self._only_reader(y)
        if at is None or not self._is(at, "add", None, None):
            return None
        a, b = self.steps[at].args
        other, total = b if a is y else a, self.steps[at].result
        ready = (
            isinstance(other, np.ndarray)
            and other is not y
            and id(root(other)) != id(root(y))
            and _same_layout(other, y)
            and _same_layout(total, y)
            and self.made.get(id(root(other)), -1) < place
            and self._stays(other, place, at)
        )
        return (at, total, other) if ready else None

    def _activation(self, x: np.ndarray) -> _Activation | None:
        """The clamp of x, if all else that reads x is the clamp's gradient."""
        if id(root(x)) in self.seen or id(root(x)) in self.changed:
            return None
        readers = self.readers.get(id(root(x)), [])
        found = [at for at in readers if self._is(at, "relu", x) or self._is(at, "clamp", x, None, None)]
        if len(found) != 1:
            return None
        step, grads = self.steps[found[0]], tuple([at for at in readers if at != found[0]])
        if step.kernel == "relu":
            return None if grads else _Activation(found[0], step.result, 0.0, nan, ())
        low, high = step.args[1:]
        same = all(self._is(at, "hardtanh_grad", None, x, low, high) for at in grads)
        if not same or not low < high or (grads and id(root(step.result)) in self.changed):
            return None
        return _Activation(found[0], step.result, low, high, grads)

    def _gradients(self, clamp: _Activation, given: tuple[Any, ...], coefficients: np.ndarray) -> list[_Fused]:
        """The gradients of a batch norm of these x, weight, mean and 1 / deviation, each with that of the clamp."""
        found = []
        readers = self.readers.get(id(root(clamp.result)), [])
        masks = clamp.grads or [at for at in readers if self._is(at, "relu_grad", None, clamp.result)]
        for at in masks:
            g, passed = self.steps[at].args[0], self.steps[at].result
            last = self._only_reader(passed)
            if last is not None and self._is(last, "batch_norm_grad", passed, *given) and self._stays(g, at, last):
                args = g, *given, coefficients, clamp.low, clamp.high
                step = _step("batch_norm_clamp_grad", args, self.steps[last].result)
                found.append(_Fused(last, step, (at,)))
                self.taken.add(at)
        return found

    def _is(self, place: int, kernel: str, *args: Any) -> bool:
        """Whether a step is the call of a kernel with these arguments; None: with any one."""
        step = self.steps[place]
        if (step.kernel, len(step.args), step.kwargs) != (kernel, len(args), {}) or place in self.taken:
            return False
        pairs = zip(step.args, args, strict=True)
        same = all(b is None or (a is b if isinstance(b, np.ndarray) else a == b) for a, b in pairs)
        return same and step.run is kernels.found(kernel)

    def _only_reader(self, x: np.ndarray) -> int | None:
        """The place of the only step that reads x, which it has as an argument and not as a view."""
        readers = self.readers.get(id(root(x)), [])
        if len(readers) != 1 or id(root(x)) in self.seen or id(root(x)) in self.changed:
            return None
        return readers[0] if any(each is x for each in self.steps[readers[0]].args) else None

    def _stays(self, x: np.ndarray, first: int, last: int) -> bool:
        """Whether no step between the two changes x."""
        return not any(first < place <= last for place in self.changed.get(id(root(x)), []))


def _same_layout(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)


def _step(kernel: str, args: tuple[Any, ...], result: Any) -> Step:
    return Step(kernel, kernels.found(kernel), args, {}, result)
