"""Sums and products of all numbers up to each place along an axis."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["cumprod", "cumsum"]


@ieee
def cumsum(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[0] + ... + x[i] along ``axis``; from the end if ``reverse``"""
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)


@ieee
def cumprod(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[0] ... x[i] along ``axis``; from the end if ``reverse``"""
    return np.flip(np.cumprod(np.flip(x, axis), axis), axis) if reverse else np.cumprod(x, axis)
