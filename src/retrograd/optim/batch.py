"""The arguments of one kernel launch of an optimiser step, cached while only the gradients change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import numpy as np

from ..engine.tensor import Tensor

__all__ = ["Batch"]

State = dict[str, Any]
array_of = attrgetter("array")
_shape_of, _dtype_of = attrgetter("shape"), attrgetter("dtype")


class Batch:
    """Parameters of one dtype that take the same step, by one formula, with their arrays, states and buffers.

    ``columns`` holds a list of arrays for each buffer. ``keep`` belongs to the kernel. ``fresh`` says whether the
    states were created for this step.

    The next step reuses a batch if ``holds`` finds all objects unchanged. A batch keeps parameters, arrays and states
    alive, so that their ids are not reused, but not gradients.
    """

    def __init__(
        self,
        formula: Callable[..., Any],
        parameters: Sequence[Tensor],
        states: Sequence[State],
        buffers: Sequence[str],
        counters: Iterable[str],
        fresh: bool,
    ) -> None:
        self.formula, self.parameters, self.fresh = formula, list(parameters), fresh
        self._buffers, self._counters = tuple(buffers), tuple(counters)
        self.states = list(states) if buffers or self._counters else []  # without both there is no state
        self.arrays: list[np.ndarray] = list(map(array_of, parameters))
        self.columns = [_column(states, name) for name in buffers]
        self.keep: dict[str, Any] = {}
        self._shapes, self._dtypes = list(map(_shape_of, self.arrays)), list(map(_dtype_of, self.arrays))
        self._objects = [*parameters, *self.arrays, *self.states, *chain(*self.columns)]

    def holds(self, formula: Callable[..., Any], parameters: Sequence[Tensor], states: Mapping[Tensor, State]) -> bool:
        """Whether these are its parameters, with the same formula, arrays and buffers, all at the same step."""
        if len(parameters) != len(self.parameters) or formula is not self.formula:
            return False
        try:
            current = [states[parameter] for parameter in parameters] if self.states else []
            columns = [_column(current, name) for name in self._buffers]
            same = all(len({state[name] for state in current}) == 1 for name in self._counters)
        except (KeyError, AttributeError):
            return False
        # map, chain and is_ stay within the interpreter's C code: this runs in every step
        objects = chain(parameters, map(array_of, parameters), current, *columns)
        return same and all(map(is_, objects, self._objects))

    def takes(self, gradients: Sequence[np.ndarray]) -> bool:
        """Whether the gradients have the shapes and dtypes of the parameters."""
        same = list(map(_shape_of, gradients)) == self._shapes
        return same and all(map(is_, map(_dtype_of, gradients), self._dtypes))


def _column(states: Sequence[State], name: str) -> list[np.ndarray]:
    return [state[name].array for state in states]
