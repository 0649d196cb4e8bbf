"""The memory order of activations: channels-last, (N, C, ...) with the channels of a position contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from ..machine.scratch import aligned
from .arrays import Shape
from .moves import copy

_LAST_FIRST = {2: (0, 1), 3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}  # (N, *S, C) seen as (N, C, *S)

_LARGE = 1 << 16  # elements from which alignment to a cache line pays


def empty(memory: Shape, dtype: np.dtype, like: np.ndarray) -> np.ndarray:
    """A new array (N, C, *S) next to ``like``, dense and channels-last; ``memory`` is (N, *S, C)."""
    count = prod(memory)
    if count < _LARGE:
        return np.empty(memory, dtype, like=like).transpose(_LAST_FIRST[len(memory)])
    return aligned(count, dtype.char).reshape(memory).transpose(_LAST_FIRST[len(memory)])


@lru_cache(maxsize=4096)
def memory_of(shape: Shape) -> Shape:
    """The extents (N, C, *S) in the order of memory, (N, *S, C)."""
    return (shape[0], *shape[2:], shape[1])


@lru_cache(maxsize=4096)
def is_channels_last(shape: Shape, strides: Shape, size: int) -> bool:
    """Whether an array of elements of ``size`` bytes is dense in the order (N, *S, C)."""
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] != 1 and strides[axis] != size:
            return 0 in shape
        size *= shape[axis]
    return True


def usual_strides(batch: int, channels: int, extents: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides N, C, ... in bytes of a dense, channels-last array with elements of ``size`` bytes."""
    return nested_strides((batch, *extents, channels), size, (0, -1, *range(1, len(extents) + 1)))


def nested_strides(memory: Sequence[int], size: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The strides along these axes of a dense array that has the extents ``memory``."""
    found = [size * prod(memory[axis + 1 :]) for axis in range(len(memory))]
    return tuple(found[axis] for axis in axes)


def fill(y: np.ndarray, init: np.ndarray) -> None:
    """y[n, c, s] = init[c], line by line: y (N, C, *S), best channels-last."""
    y.transpose(0, *range(2, y.ndim), 1)[...] = np.broadcast_to(init, (y.shape[-1], y.shape[1])).copy()


def channels_last(x: np.ndarray) -> np.ndarray:
    """``x`` (N, C, *S) if it is dense and channels-last, else a copy that is."""
    if is_channels_last(x.shape, x.strides, x.itemsize):
        return x
    y = empty(memory_of(x.shape), x.dtype, x)
    copy(y, x)
    return y
