"""``x[index] = value``, and the in-place forms of the operators of indices and masks.

``engine.inplace.modify`` updates the graph: overwritten elements get gradient 0, ``value`` gets that of its elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import overlap
from ...engine.inplace import Replaced, modify
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..shape.broadcasting import expand
from .indexing import GetItem, Put, fitting, places_of


def setitem(input: Tensor, index: Any, value: Any) -> None:
    """``input[index] = value``: a number, or a Tensor that is broadcast to ``input[index]``; any index of ``getitem``.

    A tensor of another type is refused unless it is 0-d. If an index repeats, the last value counts.

    Raises:
        TypeError: a part of the index is not an index, or ``value`` is neither of these.
        IndexError: an index is out of range.
        ValueError: ``value`` does not broadcast to ``input[index]``.
        RuntimeError: as ``engine.modify``.
    """
    places = places_of("setitem", input.array.shape, index)
    new = fitting("setitem", input, places, value)
    if not places.axes:
        view = GetItem.apply(input, places.basic)
        shape = view.array.shape
        modify(
            view,
            "[]=",
            lambda old: Replaced.apply(old, expand(new, shape)),
            (new,),
            lambda array: _write(array, new.array),
        )
        return
    modify(
        input,
        "[]=",
        lambda old: Put.apply(old, new, places, False),
        (new,),
        lambda array: kernels.put_into(array, new.array, places, False),
    )


def _write(array: np.ndarray, value: np.ndarray) -> None:
    """array[...] = value, which may share memory with it."""
    kernels.copy(array, kernels.duplicate(value) if overlap(array, value) else value)


METHODS: dict[str, Any] = {"__setitem__": setitem}
