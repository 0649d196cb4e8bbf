"""Memory layout: axis order, dense groups of axes, and channels-last arrays.

An array is *dense* if its elements fill one piece of memory, in whatever order of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..machine.launch import Kernel, kernel
from ..machine.scratch import aligned
from .moves import copy, duplicate

# ---- Shared by the wrappers: cutting work into tasks, and the memory order of arrays --------------------------------

CHUNK = 16384  # elements per task: enough work to be worth handing to another thread
Shape = tuple[int, ...]


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


# ---- A dense array seen as groups of adjacent axes, in memory order, that are reduced or kept -----------------------

Groups = list[tuple[bool, int]]  # whether it is reduced, and its elements
FEW, MANY = 64, 1024  # rows that one task combines, at least and at most; also: columns, a multiple of the first


def rows_and_columns(name: str) -> tuple[Kernel, Kernel]:
    """The kernels of this name over an axis that is innermost in memory, and over one that is not."""
    return kernel(f"{name}_rows"), kernel(f"{name}_columns")


class View(NamedTuple):
    """A dense array as groups, and its reduced shape."""

    groups: tuple[tuple[bool, int], ...]
    memory: Shape  # the shape of the result in the order of memory
    back: Shape  # its transposition to the result; empty if there is none


def append(groups: Groups, reduced: bool, extent: int) -> None:
    """Add an axis inside the others; adjacent axes of one kind form one group."""
    if extent != 1:
        outer = groups.pop()[1] if groups and groups[-1][0] == reduced else 1
        groups.append((reduced, outer * extent))


@lru_cache(maxsize=4096)
def view(shape: Shape, strides: Shape, size: int, axes: tuple[int, ...], keepdims: bool) -> View | None:
    """The view of an array of elements of ``size`` bytes; None if it is not dense."""
    if not is_dense(shape, strides, size):
        return None
    order = memory_axes(shape, strides)
    left = [axis for axis in order if keepdims or axis not in axes]
    groups: Groups = []
    for axis in order:
        append(groups, axis in axes, shape[axis])
    return View(tuple(groups), tuple(1 if axis in axes else shape[axis] for axis in left), transposition(left))


def row_numbers(rows: int, length: int) -> tuple[int, int, tuple[int, int, int, int]]:
    """Tasks, pieces per row and the integer arguments of a kernel over rows."""
    pieces = -(-length // CHUNK)
    per_task = CHUNK // length or 1
    return -(-rows * pieces // per_task), pieces, (rows, length, pieces, per_task)


def column_numbers(outer: int, length: int, inner: int) -> tuple[int, int, tuple[int, int, int, int, int]]:
    """As ``row_numbers`` for a kernel over columns."""
    piece = min(length, sorted((FEW, CHUNK // inner, MANY))[1])
    pieces = -(-length // piece)
    width = min(inner, -(-CHUNK // piece // FEW) * FEW)
    return outer * pieces * -(-inner // width), pieces, (length, inner, pieces, piece, width)


# ---- The memory order of activations --------------------------------------------------------------------------------

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
