"""Strided copies."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["accumulate", "copy"]


def copy(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x in place, x broadcast to y's shape; both of one type, with any strides and no shared memory."""
    np.copyto(y, x)


@ieee
def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] += x in place, as ``copy``; y has no overlapping elements."""
    np.add(y, x, out=y)
