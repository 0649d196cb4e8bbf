"""Diagonals and triangles of matrices."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["diagonal_fill", "diagonal_places", "triangle", "triangle_indices"]


def diagonal_fill(g: np.ndarray, shape: tuple[int, ...], offset: int, first: int, second: int) -> np.ndarray:
    """Zeros of a shape, with g on a diagonal of the matrices in two axes; that is the last axis of g."""
    y = np.zeros(shape, g.dtype, like=g)
    target = np.diagonal(y, offset, first, second)
    target.flags.writeable = True  # NumPy's view is read-only, its memory is ours
    target[...] = g
    return y


def diagonal_places(shape: tuple[int, ...], end: int) -> tuple[np.ndarray, ...]:
    """The indices along each axis (int64) of the elements (i, i, ...) that are before element ``end`` in C order.

    In a matrix that is taller than its N columns, another diagonal begins after each N + 1 rows.
    """
    step = sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    return tuple(np.unravel_index(np.arange(0, end, step), shape))


def triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    """The lower (or upper) triangles of x (..., M, N) up to a diagonal, 0 elsewhere"""
    return (np.tril if lower else np.triu)(x, diagonal)


def triangle_indices(rows: int, columns: int, offset: int, lower: bool) -> np.ndarray:
    """The indices (2, K) of the lower (or upper) triangle of a matrix up to a diagonal, row by row; int64"""
    return np.array((np.tril_indices if lower else np.triu_indices)(rows, offset, columns), np.int64)
