"""Cumulative sums and products along an axis."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["cumprod", "cumsum", "linear_scan"]


@ieee
def cumsum(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[0] + ... + x[i] along ``axis``; from the end if ``reverse``"""
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)


@ieee
def cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    """y[i] = x[0] ... x[i] along ``axis``"""
    return np.cumprod(x, axis)


@ieee
def linear_scan(x: np.ndarray, factor: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[i] + factor[i] y[i - 1] along ``axis``; from the end, with y[i + 1], if ``reverse``"""
    y = x.copy()
    along, factors = np.moveaxis(y, axis, 0), np.moveaxis(factor, axis, 0)
    if reverse:
        along, factors = along[::-1], factors[::-1]
    for i in range(1, len(along)):
        along[i] += factors[i] * along[i - 1]
    return y
