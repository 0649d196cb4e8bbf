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
    if _worthwhile(x):
        return kernels.scale(x, 1.0)
    if x.size >= _LARGE and x.dtype.char in "fd":  # a sum's gradient, for one
        return kernels.spread(x[tuple(slice(1) if step == 0 else slice(None) for step in x.strides)], x.shape)
    return plain.copy(x)


def _worthwhile(x: np.ndarray) -> bool:
    # a broadcast array has to be spread out first, which is a copy already
    return x.size >= _LARGE and x.dtype.char in "fd" and 0 not in x.strides


plain.arithmetic.add, plain.arithmetic.copy = _add, _copy
