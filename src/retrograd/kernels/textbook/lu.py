"""LU factorization of matrices with exchanges of rows, and orders of rows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["inverse_permutation", "lu_factor", "lu_order", "permutation_matrix", "zero_pivot"]

_BLOCK = 32  # columns that are eliminated one by one before a matrix product updates the rest


@ieee  # zero pivots without exchanges, and elements that are not finite
def lu_factor(x: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray]:
    """x (..., M, N) as L, below the diagonal, and U, and the row exchanges (..., K), int32, from 1; K = min(M, N).

    Gaussian elimination by blocks of columns; no rows are exchanged without ``pivot``.
    """
    *lead, m, n = x.shape
    k, count = min(m, n), prod(lead)
    a, every = x.reshape(count, m, n).copy(), np.arange(count, like=x)
    pivots = np.empty((count, k), np.int32, like=x)
    for begin in range(0, k, _BLOCK):
        end = min(begin + _BLOCK, k)
        for j in range(begin, end):
            row = j + np.abs(a[:, j:, j]).argmax(1) if pivot else np.full(count, j, like=x)
            a[every, j], a[every, row] = a[every, row], a[every, j]
            pivots[:, j] = row + 1
            # a column of zeros is eliminated already
            a[:, j + 1 :, j] /= np.where(a[:, j:, j].any(1), a[:, j, j], 1)[:, np.newaxis]
            a[:, j + 1 :, j + 1 : end] -= a[:, j + 1 :, j : j + 1] * a[:, j : j + 1, j + 1 : end]
        triangle = np.tril(a[:, begin:end, begin:end], -1) + np.eye(end - begin, dtype=a.dtype, like=x)
        a[:, begin:end, end:] = _substituted(triangle, a[:, begin:end, end:])
        a[:, end:, end:] -= a[:, end:, begin:end] @ a[:, begin:end, end:]
    return a.reshape(x.shape), pivots.reshape(*lead, k)


def _substituted(triangle: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with triangle x = b, for lower triangles with ones on their diagonals."""
    try:
        return np.linalg.solve(triangle, b)
    except np.linalg.LinAlgError:  # it holds infinite numbers, from a pivot of 0
        x = b.copy()
        for j in range(triangle.shape[-1] - 1):
            x[:, j + 1 :] -= triangle[:, j + 1 :, j : j + 1] * x[:, j : j + 1]
        return x


def zero_pivot(lu: np.ndarray) -> np.ndarray:
    """(...,) int32: the position, from 1, of the first 0 on the diagonal of lu (..., M, N); 0 if there is none"""
    singular = np.diagonal(lu, 0, -2, -1) == 0
    if not singular.shape[-1]:
        return np.zeros(lu.shape[:-2], np.int32, like=lu)
    return np.asarray(np.where(singular.any(-1), singular.argmax(-1) + 1, 0), np.int32, like=lu)


def lu_order(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The row (..., M), int64, of the matrix that each row of L U is, from the exchanges (..., K); M = ``rows``."""
    *lead, k = pivots.shape
    order = np.broadcast_to(np.arange(rows, like=pivots), (prod(lead), rows)).copy()
    every = np.arange(len(order), like=pivots)
    for i, row in enumerate(pivots.reshape(len(order), k).T - 1):
        order[every, i], order[every, row] = order[every, row], order[every, i]
    return order.reshape(*lead, rows)


def inverse_permutation(order: np.ndarray) -> np.ndarray:
    """The places (..., N), int64, of 0 to N - 1 in order (..., N)."""
    return np.argsort(order, -1)


def permutation_matrix(order: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """p (..., N, N) with p[order[i], i] = 1, else 0."""
    return (np.arange(order.shape[-1], like=order)[:, np.newaxis] == order[..., np.newaxis, :]).astype(dtype)
