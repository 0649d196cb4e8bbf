"""Mean and variance, and the logarithm of a sum of exponentials: one pass over memory, in pieces.

Each piece is summed about its own mean or maximum and the pieces are merged in float64, without cancellation or
overflow. There are few pieces, and they depend on the shape alone.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from .machine.launch import Kernel, kernel
from .machine.prepared import prepared
from .memory.layout import CHUNK, Groups, Shape, column_numbers, dense, row_numbers, rows_and_columns, view

__all__ = ["logsumexp", "moments"]

MOMENTS, SUMS = rows_and_columns("moments.moments"), rows_and_columns("moments.sums")
_LOGSUMEXP = rows_and_columns("moments.logsumexp")
_MERGE = kernel("moments.merge")
_MERGE_LOGSUMEXP, _TOTAL = kernel("moments.merge_logsumexp"), kernel("moments.merge_total")
MERGED = 64  # results whose pieces one task merges


class _Plan(NamedTuple):
    memory: Shape  # of the result in memory; reduced axes have extent 1
    back: Shape  # its transposition to the result
    rows: bool
    tasks: int
    numbers: tuple[int, ...]
    pieces: Shape  # the extents of the groups outside, pieces, 2 numbers, inner
    merged: tuple[int, ...]  # axes of the pieces, after selecting one of the 2 numbers, that are merged
    order: tuple[int, ...]  # of all axes of the pieces: the merged ones, parts, 2 numbers, the others
    length: int  # of a whole row or column
    piece: int  # and of a piece of it; the last one may be shorter
    elements: int  # of each result


@prepared
def moments(x: np.ndarray, axes: tuple[int, ...], factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    x, plan, pieces = _pieces(MOMENTS, x, axes, factor)
    mean, squares = pieces[..., 0, :], pieces[..., 1, :]
    if plan.merged:
        parts = plan.pieces[-3]
        repeats = plan.elements // plan.length
        results = pieces.size // (2 * parts * repeats)
        mean, squares = np.empty((2, results), x.dtype, like=x)
        _MERGE[x.dtype.char](
            -(-results // MERGED),
            np.ascontiguousarray(pieces.transpose(plan.order), like=pieces),
            mean,
            squares,
            results,
            plan.length,
            parts,
            plan.piece,
            repeats,
            factor,
        )
    elif not plan.elements:
        mean = np.full(plan.memory, np.nan, x.dtype, like=x)
    return _result(plan, mean), _result(plan, squares)


@prepared
def logsumexp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    x, plan, pieces = _pieces(_LOGSUMEXP, x, axes)
    results = prod(plan.memory)
    y = np.empty(plan.memory, x.dtype, like=x)
    if not plan.elements:
        y.fill(-np.inf)
    elif results:
        pieces = np.ascontiguousarray(pieces.transpose(plan.order), like=pieces)
        parts = pieces.size // (2 * results)
        _MERGE_LOGSUMEXP[x.dtype.char](-(-results // MERGED), pieces, y, results, parts)
    return y.transpose(plan.back) if plan.back else y


def total(pieces: np.ndarray, columns: int, factor: float = 1.0) -> np.ndarray:
    """The sums (columns,) of pieces that are dense, in float64 and in their order, times a factor."""
    y = np.empty(columns, pieces.dtype, like=pieces)
    _TOTAL[pieces.dtype.char](1, pieces, y, pieces.size // columns, columns, factor)
    return y


def _pieces(
    kernels: tuple[Kernel, Kernel], x: np.ndarray, axes: tuple[int, ...], factor: float = 1.0
) -> tuple[np.ndarray, _Plan, np.ndarray]:
    """The dense x, its plan, and the two numbers of each piece."""
    x = dense(x)
    plan = _plan(x.shape, x.strides, x.itemsize, axes)
    if not plan.tasks:
        return x, plan, np.zeros(plan.pieces, x.dtype, like=x)
    pieces = np.empty(plan.pieces, x.dtype, like=x)
    kernels[0 if plan.rows else 1][x.dtype.char](plan.tasks, x, pieces, *plan.numbers, factor)
    return x, plan, pieces


def _result(plan: _Plan, values: np.ndarray) -> np.ndarray:
    y = np.ascontiguousarray(values, like=values).reshape(plan.memory)
    return y.transpose(plan.back) if plan.back else y


@lru_cache(maxsize=4096)
def _plan(shape: Shape, strides: Shape, size: int, axes: tuple[int, ...]) -> _Plan:
    """Plan the reduction of a dense array: pieces of the innermost reduced group, then the merge of all pieces."""
    seen = view(shape, strides, size, axes, True)
    assert seen is not None
    count = prod(shape[axis] for axis in axes)
    if 0 in shape:
        return _Plan(seen.memory, seen.back, True, 0, (), (*seen.memory, 2, 1), (), (), 0, 0, count)
    groups: Groups = list(seen.groups)
    inner = 1
    if groups and not groups[-1][0]:
        inner = groups.pop()[1]
    length = groups.pop()[1] if groups else 1
    if inner > 1 and length == 1:  # no reduction: rows of one number
        groups, inner = [(False, inner)], 1
    outer = prod(extent for _, extent in groups)
    rows = inner == 1
    numbers: tuple[int, ...]
    if rows:
        tasks, parts, numbers = row_numbers(outer, length)
        piece = length if parts == 1 else CHUNK
    else:
        tasks, parts, numbers = column_numbers(outer, length, inner)
        piece = numbers[3]
    merged = tuple(place for place, (reduced, _) in enumerate(groups) if reduced)
    kept = tuple(place for place, (reduced, _) in enumerate(groups) if not reduced)
    order = (*merged, len(groups), len(groups) + 1, *kept, len(groups) + 2)
    if parts > 1:
        merged = (*merged, len(groups))
    pieces = (*(extent for _, extent in groups), parts, 2, inner)
    return _Plan(seen.memory, seen.back, rows, tasks, numbers, pieces, merged, order, length, piece, count)
