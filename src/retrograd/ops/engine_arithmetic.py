"""Kernels for the engine, which adds and copies gradients."""

from __future__ import annotations

import numpy as np

from ..engine import arithmetic as plain
from .kernel_set import kernels

_LARGE = 65536  # elements: below, NumPy has copied them before a second thread starts


def _add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y of one shape"""
    return kernels.add(x, y) if _fits(x) else plain.add(x, y)


def _copy(x: np.ndarray) -> np.ndarray:
    """A copy of x."""
    if x.size < _LARGE:
        return plain.copy(x)
    y = np.empty(x.shape, x.dtype) if 0 in x.strides else np.empty_like(x)  # broadcast, like the gradient of a sum
    kernels.copy(y, x)
    return y


def _fits(x: np.ndarray) -> bool:
    # a broadcast array would have to be copied first
    return x.dtype.char in "fd" and 0 not in x.strides


def _accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """y += x"""
    if y.size >= _LARGE and _fits(y):
        kernels.accumulate(y, x)
    else:
        plain.accumulate(y, x)


def _assign(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x"""
    if y.size < _LARGE:
        plain.assign(y, x)
    else:
        kernels.copy(y, x)


plain.arithmetic.add, plain.arithmetic.copy = _add, _copy
plain.arithmetic.accumulate, plain.arithmetic.assign = _accumulate, _assign
