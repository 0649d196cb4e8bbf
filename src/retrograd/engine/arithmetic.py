"""How the engine adds and copies arrays: small ones by NumPy, which is done before a second thread starts."""

from __future__ import annotations

import numpy as np

from ..kernel_set import kernels

_LARGE = 65536  # elements


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y of one shape; silent where infinities cancel or sums overflow, as the kernels are"""
    if _fits(x):
        return np.asarray(kernels.add(x, y))
    with np.errstate(all="ignore"):
        return np.asarray(np.add(x, y))


def copy(x: np.ndarray) -> np.ndarray:
    """The same numbers in an array of their own, in the same order of axes."""
    if x.size < _LARGE:
        return x.copy(order="K")
    y = np.empty(x.shape, x.dtype) if 0 in x.strides else np.empty_like(x)  # broadcast, like the gradient of a sum
    kernels.copy(y, x)
    return y


def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """y += x, of one shape and type; silent as ``add``"""
    if y.size >= _LARGE and _fits(y):
        kernels.accumulate(y, x)
        return
    with np.errstate(all="ignore"):
        np.add(y, x, out=y)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x, of one shape and type"""
    if y.size < _LARGE:
        np.copyto(y, x)
    else:
        kernels.copy(y, x)


def _fits(x: np.ndarray) -> bool:
    # a broadcast array would have to be copied first
    return x.dtype.char in "fd" and 0 not in x.strides
