"""Gives the engine kernels for what it does itself with large gradients: it adds and copies them."""

from __future__ import annotations

import numpy as np

from ..engine import arithmetic as plain
from .kernel_set import kernels

_LARGE = 65536  # elements: below, NumPy is done before a second thread has begun


def _add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y of one shape"""
    return kernels.add(x, y) if _worthwhile(x) else plain.add(x, y)


def _copy(x: np.ndarray) -> np.ndarray:
    """The same numbers in an array of their own."""
    if x.size < _LARGE:
        return plain.copy(x)
    y = np.empty(x.shape, x.dtype) if 0 in x.strides else np.empty_like(x)  # a sum's gradient is x repeated
    kernels.copy(y, x)
    return y


def _worthwhile(x: np.ndarray) -> bool:
    # a broadcast array has to be spread out first, which is a copy already
    return x.size >= _LARGE and x.dtype.char in "fd" and 0 not in x.strides


plain.arithmetic.add, plain.arithmetic.copy = _add, _copy
