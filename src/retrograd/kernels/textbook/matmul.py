"""Matrix products and pairwise distances between rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...formulas.piecewise import clamp
from .ieee import ieee
from .pointwise import on_arrays

__all__ = [
    "is_zero",
    "largest",
    "largest_slope",
    "matmul",
    "matmul_clamp",
    "pair_indices",
    "row_combination",
    "row_products",
    "row_squares",
    "short_lengths",
    "signum",
]


# ---- Product of matrices --------------------------------------------------------------------------------------------


@ieee
def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n]

    a (..., M, K), b (..., K, N), bias (N,) or None  ->  (..., M, N); leading axes are broadcast.
    """
    c: np.ndarray = a @ b
    return c if bias is None else c + bias


@ieee
def matmul_clamp(
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """formula(min(max(matmul + residual, low), high), numbers...): residual (..., M, N) or None  ->  (..., M, N)"""
    c = matmul(a, b, bias)
    c = clamp(c if residual is None else c + residual, low, high)
    return c if formula is None else on_arrays(formula)(c, *numbers)


# ---- Row-wise products, distances and norms -------------------------------------------------------------------------


@ieee
def row_products(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sums over the last axis of x y, x x and y y: x, y (N, D)  ->  three (N,)"""
    return (x * y).sum(1), (x * x).sum(1), (y * y).sum(1)


@ieee
def row_squares(x: np.ndarray, y: np.ndarray, eps: float) -> np.ndarray:
    """The sum over the last axis of (x - y + eps)^2: x, y (N, D)  ->  (N,)"""
    return ((x - y + eps) ** 2).sum(1)


@ieee
def row_combination(a: np.ndarray, x: np.ndarray, b: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a[n] x[n] + b[n] y[n] + c[n]: x, y (N, D), a, b, c (N,)  ->  (N, D)"""
    return a[:, None] * x + b[:, None] * y + c[:, None]


def is_zero(x: np.ndarray) -> np.ndarray:
    """True where x is 0."""
    return np.asarray(x == 0, like=x)


def short_lengths(square: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """length = sqrt(square), and True where it is below eps"""
    length = np.asarray(np.sqrt(square), like=square)
    return length, np.asarray(length < eps, like=square)


def signum(x: np.ndarray) -> np.ndarray:
    """1 where x > 0, -1 where x < 0, 0 where x is 0; NaN stays."""
    return np.asarray(np.sign(x), like=x)


def largest(x: np.ndarray) -> np.ndarray:
    """max |x| along the last axis, 0 where that has no element: x (..., N)  ->  (...)"""
    return np.asarray(np.abs(x).max(-1, initial=0), like=x)


def largest_slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of y = ``largest(x)``: the sign of x over the number of ties, where |x| is y, else 0

    x (..., N), y (...)  ->  (..., N)
    """
    largest = np.abs(x) == y[..., None]
    share = largest / np.maximum(largest.sum(-1, keepdims=True), 1)
    return np.asarray(np.sign(x) * share.astype(x.dtype), like=x)


def pair_indices(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """i and j, int64, of all pairs of rows i < j of x (N, D), ordered by i, then by j: two (N (N - 1) / 2,)"""
    first, second = np.triu_indices(len(x), 1)
    return first, second
