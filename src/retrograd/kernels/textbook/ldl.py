"""LDL factorization of symmetric matrices with diagonal pivoting, as LAPACK's sytrf gives it.

Source: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", 1977.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from .ieee import ieee

__all__ = ["ldl_factor", "ldl_structure"]

_ALPHA = (1 + sqrt(17)) / 8  # it bounds the growth of elements of both kinds of blocks alike


@ieee  # elements that are not finite
def ldl_factor(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L and D in one lower triangle (..., N, N), pivots (..., N) and info (...), int32, of lower triangles x.

    D has blocks of 1 and 2 rows. pivots: as ``linalg.ldl_factor`` says. info: the first block that is 0, from 1, or 0.
    """
    a = np.tril(x)
    pivots, info = np.empty(x.shape[:-1], np.int32, like=x), np.zeros(x.shape[:-2], np.int32, like=x)
    for place in np.ndindex(info.shape):
        info[place] = _eliminate(a[place], pivots[place])
    return np.tril(a), pivots, info


def _eliminate(a: np.ndarray, pivots: np.ndarray) -> int:
    """Replace the lower triangle of a (N, N) by L and D, and set the pivots; the first zero block, from 1, or 0."""
    n, k, info = len(a), 0, 0
    while k < n:
        row, pair = _pivot(a, k)
        if row < 0:  # a column of zeros
            info, row = info or k + 1, k
        else:
            _exchange(a, k, k + pair, row)
            end = k + 1 + pair
            block = a[k:end, k:end]
            whole = np.tril(block) + np.tril(block, -1).T
            below = a[end:, k:end]
            scaled = np.linalg.solve(whole, below.T).T if pair else below / whole
            a[end:, end:] -= scaled @ below.T
            a[end:, k:end] = scaled
        pivots[k : k + 1 + pair] = -row - 1 if pair else row + 1
        k += 1 + pair
    return info


def _pivot(a: np.ndarray, k: int) -> tuple[int, bool]:
    """The row for step k, and whether it is the second of a block of two; -1 if the column is 0 or NaN."""
    own = abs(a[k, k])
    column = np.abs(a[k + 1 :, k])
    largest = column.max(initial=0)
    if np.isnan(own) or max(own, largest) == 0:
        return -1, False
    if own >= _ALPHA * largest:
        return k, False
    row = k + 1 + int(column.argmax())
    other = max(np.abs(a[row, k:row]).max(initial=0), np.abs(a[row + 1 :, row]).max(initial=0))
    if own >= _ALPHA * largest * (largest / other):
        return k, False
    return row, not abs(a[row, row]) >= _ALPHA * other


def _exchange(a: np.ndarray, k: int, first: int, second: int) -> None:
    """Swap rows and columns of the symmetric matrix whose lower triangle is a[k:, k:]."""
    if first == second:
        return
    whole = np.tril(a[k:, k:]) + np.tril(a[k:, k:], -1).T
    order = np.arange(len(whole), like=a)
    order[first - k], order[second - k] = second - k, first - k
    a[k:, k:] = np.tril(whole[order][:, order])


def ldl_structure(pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decode the pivots (..., N) of ``ldl_factor``: the order of rows, the storage of L, and the blocks of D.

    order (..., N) int64: row i of L belongs to row order[i] of the matrix. rows (..., N, N) int64: L[i, j] is stored at
    [rows[i, j], j]. blocks (..., N, N) bool: the elements of D in the lower triangle.
    """
    *lead, n = pivots.shape
    count = prod(lead)
    order = np.broadcast_to(np.arange(n, like=pivots), (count, n)).copy()
    rows = np.broadcast_to(np.arange(n, like=pivots)[:, np.newaxis], (count, n, n)).copy()
    blocks = np.broadcast_to(np.eye(n, dtype=bool, like=pivots), (count, n, n)).copy()
    for own, order_of, rows_of, blocks_of in zip(pivots.reshape(count, n), order, rows, blocks, strict=True):
        k = 0
        while k < n:
            pair = bool(own[k] < 0)
            first, second = k + pair, abs(int(own[k])) - 1
            order_of[[first, second]] = order_of[[second, first]]
            rows_of[[first, second], :k] = rows_of[[second, first], :k]
            if pair:
                blocks_of[k + 1, k] = True
            k += 1 + pair
    return order.reshape(*lead, n), rows.reshape(*lead, n, n), blocks.reshape(*lead, n, n)
