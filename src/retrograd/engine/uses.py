"""An index of the steps that read or write each array: fusions ask it what may disappear or move."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf
from typing import Any

import numpy as np

from ..kernel_set import kernels
from .memory_planning import root
from .steps import Step, Steps

__all__ = ["Uses", "is_own_kernel"]


class Uses:
    """The places of the steps that read or write each array, by the memory that it is in.

    outside: arrays that are read after the steps, such as the results. taken: places of steps that have become part of
    another one.
    """

    def __init__(self, steps: Steps, outside: Iterable[np.ndarray]) -> None:
        self.steps = steps
        self.taken: set[int] = set()
        self._places: dict[int, list[int]] = {}
        self._writes: dict[int, list[int]] = {}
        self._outside = {id(root(array)) for array in outside}
        self._decided = {id(root(array)) for _, each in steps.decisions for array in each.arrays}
        for place, step in enumerate(steps):
            read, written = ({id(root(array)) for array in arrays} for arrays in (step.inputs, step.outputs))
            views = read - {id(root(array)) for array in step.changed}  # a result that is one writes nothing
            for memory in read | written:
                self._places.setdefault(memory, []).append(place)
            for memory in written - views:
                self._writes.setdefault(memory, []).append(place)

    def after(self, array: np.ndarray, place: int) -> list[int]:
        """The later steps that use it."""
        return [each for each in self._places.get(id(root(array)), ()) if each > place]

    def is_outside(self, array: np.ndarray) -> bool:
        return id(root(array)) in self._outside

    def is_decided_by(self, array: np.ndarray) -> bool:
        return id(root(array)) in self._decided

    def is_kept(self, array: np.ndarray) -> bool:
        """Whether it is read by something other than steps."""
        return self.is_outside(array) or self.is_decided_by(array)

    def is_read_after(self, place: int, array: np.ndarray) -> bool:
        return self.is_kept(array) or bool(self.after(array, place))

    def is_written(self, array: np.ndarray, first: int, last: float = inf, but: Collection[int] = ()) -> bool:
        """Whether a step after ``first`` and up to ``last`` writes to its memory."""
        return any(first < each <= last and each not in but for each in self._writes.get(id(root(array)), ()))


def is_own_kernel(step: Step) -> bool:
    """Whether a step calls the kernel of the active set, without named arguments."""
    found: Any = kernels.found(step.kernel)
    return not step.kwargs and step.run is found
