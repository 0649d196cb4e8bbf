"""Rows against rows: products, squared distances, and combinations for their gradients."""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..memory.arrays import CHUNK

__all__ = ["row_combination", "row_products", "row_squares"]

_PRODUCTS, _SQUARES, _COMBINED = (kernel(f"matmul.distance.{name}") for name in ("products", "squares", "combined"))


def row_products(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    xy, xx, yy = (np.empty(rows, x.dtype, like=x) for _ in range(3))
    if rows:
        _PRODUCTS[x.dtype.char](-(-rows // per_task), x, y, xy, xx, yy, rows, length, per_task)
    return xy, xx, yy


def row_squares(x: np.ndarray, y: np.ndarray, eps: float) -> np.ndarray:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    z = np.empty(rows, x.dtype, like=x)
    if rows:
        _SQUARES[x.dtype.char](-(-rows // per_task), x, y, z, rows, length, per_task, eps)
    return z


def row_combination(a: np.ndarray, x: np.ndarray, b: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    z = np.empty_like(x)
    if rows:
        a, b, c = (np.ascontiguousarray(factor, like=factor) for factor in (a, b, c))
        _COMBINED[x.dtype.char](-(-rows // per_task), a, x, b, y, c, z, rows, length, per_task)
    return z


def _split(x: np.ndarray) -> tuple[int, int, int]:
    rows, length = x.shape
    return rows, length, CHUNK // max(length, 64) or 1
