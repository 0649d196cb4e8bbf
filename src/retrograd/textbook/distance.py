"""Rows against rows: products, squared distances, and combinations for their gradients."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["row_combination", "row_products", "row_squares"]


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
