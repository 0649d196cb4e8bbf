"""Softmax and its logarithm, and rows that are masked altogether.

The maximum is subtracted first: it cancels, and no exponential exceeds 1.
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["log_softmax", "log_softmax_grad", "softmax", "softmax_grad", "zero_masked_rows"]


@ieee
def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = exp(x) / sum exp(x), the sum along ``axis``"""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@ieee
def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = y (g - sum g y), with y = softmax(x)"""
    return y * (g - (g * y).sum(axis, keepdims=True))


@ieee
def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = x - log sum exp(x), the sum along ``axis``"""
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@ieee
def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = g - exp(y) sum g, with y = log_softmax(x)"""
    return g - np.exp(y) * g.sum(axis, keepdims=True)


def zero_masked_rows(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = 0 in place where all of x along the last axis is -inf, for y = softmax(x), which is NaN there."""
    if not y.shape[-1]:
        return
    undefined = np.isnan(y[..., 0])  # also where x has a NaN
    if undefined.any():
        y[undefined & np.isneginf(x).all(-1)] = 0
