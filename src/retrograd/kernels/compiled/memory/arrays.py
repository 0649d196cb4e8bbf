"""Shared by the wrappers: cutting work into tasks, and the memory order of arrays.

An array is *dense* if its elements fill one piece of memory, in whatever order of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from .moves import copy, duplicate

CHUNK = 16384  # elements per task: enough work to be worth handing to another thread
Shape = tuple[int, ...]

# glibc returns memory to the system when the arrays of a step are freed, and then every page of the next step's arrays
# faults: a third of the time of a small network. Once a block of up to 32 MiB has been freed it keeps twice as much
# (mallopt(3), M_MMAP_THRESHOLD). No page of this one is touched; elsewhere it has no effect.
np.empty((32 << 20) - (1 << 16), np.uint8)


def tasks(elements: int) -> int:
    """Tasks of ``CHUNK`` elements each; at least one."""
    return 1 if elements <= CHUNK else -(-elements // CHUNK)


@lru_cache(maxsize=4096)
def memory_axes(shape: Shape, strides: Shape) -> Shape:
    """The axes from the longest step in memory to the shortest."""
    return tuple(sorted(range(len(shape)), key=lambda axis: -abs(strides[axis])))


@lru_cache(maxsize=4096)
def is_dense(shape: Shape, strides: Shape, size: int) -> bool:
    """Whether an array of elements of ``size`` bytes is dense."""
    for axis in reversed(memory_axes(shape, strides)):
        if shape[axis] != 1 and strides[axis] != size:
            return 0 in shape
        size *= shape[axis]
    return True


def dense(x: np.ndarray) -> np.ndarray:
    """``x`` itself where it is dense, else a copy that is, with the same order of axes."""
    return x if is_dense(x.shape, x.strides, x.itemsize) else duplicate(x)


@lru_cache(maxsize=4096)
def same_order(shape: Shape, strides: Shape, others: Shape) -> bool:
    """Whether two arrays of a shape have the same memory layout: strides along extents of 1 do not matter."""
    return all(extent <= 1 or step == other for extent, step, other in zip(shape, strides, others, strict=True))


def like_in_memory(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and memory layout."""
    return x.dtype == y.dtype and x.shape == y.shape and same_order(x.shape, x.strides, y.strides)


def like(x: np.ndarray, model: np.ndarray) -> np.ndarray:
    """``x`` where its strides are those of the dense ``model``, else a copy of it that has them."""
    if x.strides == model.strides:
        return x
    y = np.empty_like(model)
    copy(y, x)
    return y


@lru_cache(maxsize=4096)
def around(shape: Shape, strides: Shape, axis: int) -> tuple[int, int, int]:
    """A dense array as (outer, extent of ``axis``, inner): the elements outside and inside of the axis in memory."""
    order = memory_axes(shape, strides)
    place = order.index(axis)
    return prod(shape[a] for a in order[:place]), shape[axis], prod(shape[a] for a in order[place + 1 :])


def transposition(order: Sequence[int]) -> Shape:
    """The transposition from memory order back to the axes; empty if they are in C order."""
    back = tuple(sorted(range(len(order)), key=lambda place: order[place]))
    return () if back == tuple(range(len(order))) else back
