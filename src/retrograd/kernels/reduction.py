"""Sum and maximum along axes, whatever the memory order of the array.

A dense array is seen as groups of neighbouring axes, in the order of memory, that are summed or kept. The innermost
summed group goes first: over rows if it is the innermost of all, else over columns. Sums are cut into pieces by shape,
so that neither bits nor accuracy depend on threads: errors grow as if the numbers were added in a tree.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from .arrays import CHUNK, Shape, around, is_dense, memory_axes, transposition
from .launch import kernel

__all__ = ["max", "sum"]

_SUM_ROWS, _SUM_COLUMNS = kernel("reduction.sum_rows"), kernel("reduction.sum_columns")
_MAX_ROWS, _MAX_COLUMNS = kernel("reduction.max_rows"), kernel("reduction.max_columns")


class _Pass(NamedTuple):
    """One launch: its kernel, tasks, the elements of its result and its numbers."""

    rows: bool
    tasks: int
    results: int
    numbers: tuple[int, ...]


class _Plan(NamedTuple):
    shape: Shape  # of the result in memory
    back: Shape  # its transposition to the result
    passes: tuple[_Pass, ...]


def sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The sum over ``axes``, which have extent 1 afterwards if ``keepdims`` and are removed if not."""
    plan = _plan(x.shape, x.strides, x.itemsize, axes, keepdims)
    if plan is None:
        x = x.copy(order="K")
        plan = _plan(x.shape, x.strides, x.itemsize, axes, keepdims)
        assert plan is not None  # a copy is dense
    shape, back, passes = plan
    dtype = x.dtype
    if not passes:  # nothing to add: there are no elements, or one in each sum
        y = np.zeros(shape, dtype)
        y = y.transpose(back) if back else y
        if x.size:
            np.copyto(y, x.reshape(y.shape))
        return y
    y = np.empty(shape, dtype)
    if len(passes) == 1:
        _, tasks, _, numbers = passes[0]
        (_SUM_ROWS if passes[0].rows else _SUM_COLUMNS)[dtype.char](tasks, x, y, *numbers)
    else:
        for rows, tasks, results, numbers in passes:
            target = y if results < 0 else np.empty(results, dtype)
            (_SUM_ROWS if rows else _SUM_COLUMNS)[dtype.char](tasks, x, target, *numbers)
            x = target
    return y.transpose(back) if back else y


@lru_cache(maxsize=4096)
def _plan(shape: Shape, strides: Shape, size: int, axes: tuple[int, ...], keepdims: bool) -> _Plan | None:
    """How to sum a dense array; None if it is not dense."""
    if not is_dense(shape, strides, size):
        return None
    order = memory_axes(shape, strides)
    left = [axis for axis in order if keepdims or axis not in axes]
    memory = tuple(1 if axis in axes else shape[axis] for axis in left)
    back = transposition(left)
    groups: list[tuple[bool, int]] = []  # summed or kept, and how many elements
    for axis in order:
        _append(groups, axis in axes, shape[axis])
    passes: list[_Pass] = []
    while 0 not in shape and any(summed for summed, _ in groups):
        if groups[-1][0]:
            length = groups.pop()[1]
            rows, pieces = prod(extent for _, extent in groups), -(-length // CHUNK)
            per_task = CHUNK // length or 1
            passes.append(_Pass(True, -(-rows * pieces // per_task), rows * pieces, (rows, length, pieces, per_task)))
            _append(groups, True, pieces)
        else:
            inner, length = groups.pop()[1], groups.pop()[1]
            outer = prod(extent for _, extent in groups)
            piece = min(length, sorted((_FEW, CHUNK // inner, _MANY))[1])
            pieces = -(-length // piece)
            width = min(inner, -(-CHUNK // piece // _FEW) * _FEW)
            tasks = outer * pieces * -(-inner // width)
            passes.append(_Pass(False, tasks, outer * pieces * inner, (length, inner, pieces, piece, width)))
            _append(groups, True, pieces)
            _append(groups, False, inner)
    if passes:
        passes[-1] = passes[-1]._replace(results=-1)  # the result itself
    return _Plan(memory, back, tuple(passes))


def _append(groups: list[tuple[bool, int]], summed: bool, extent: int) -> None:
    """Add an axis inside of the others; neighbours of one kind are one group."""
    if extent != 1:
        outer = groups.pop()[1] if groups and groups[-1][0] == summed else 1
        groups.append((summed, outer * extent))


_FEW, _MANY = 64, 1024  # rows that one task adds up, at least and at most; also: columns, a multiple of the first


def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The maximum along ``axis``, which is removed, and its index (int64).

    Of equal maxima the first one counts; if there is a NaN, the first NaN is the maximum.

    Raises:
        ValueError: there is nothing along ``axis``.
    """
    plan = _max_plan(x.shape, x.strides, x.itemsize, axis)
    if plan is None:
        x = x.copy(order="K")
        plan = _max_plan(x.shape, x.strides, x.itemsize, axis)
        assert plan is not None  # a copy is dense
    shape, back, (rows, tasks, results, numbers) = plan
    values, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    if results:
        (_MAX_ROWS if rows else _MAX_COLUMNS)[x.dtype.char](tasks, x, values, indices, *numbers)
    return (values.transpose(back), indices.transpose(back)) if back else (values, indices)


@lru_cache(maxsize=4096)
def _max_plan(shape: Shape, strides: Shape, size: int, axis: int) -> tuple[Shape, Shape, _Pass] | None:
    """How to find the maxima of a dense array: the result's shape in memory, its transposition and the launch."""
    if not is_dense(shape, strides, size):
        return None
    outer, length, inner = around(shape, strides, axis)
    if length == 0:
        raise ValueError(f"max: x.shape={shape} has no elements along axis={axis}; choose another axis")
    left = [a for a in memory_axes(shape, strides) if a != axis]
    if inner == 1:
        per_task = CHUNK // length or 1
        launch = _Pass(True, -(-outer // per_task), outer, (outer, length, per_task))
    else:
        width = -(-CHUNK // length // _FEW) * _FEW
        launch = _Pass(False, outer * -(-inner // width), outer * inner, (length, inner, width))
    return tuple(shape[a] for a in left), transposition(left), launch
