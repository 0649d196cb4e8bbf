"""Array addition and copies for the engine."""

from __future__ import annotations

import numpy as np

from ..kernel_set import exact, kernels


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x + y for equal shapes. Like the kernels, it does not warn where infinities cancel or sums overflow."""
    fits = x.dtype.char in "fd" and 0 not in x.strides  # a broadcast array would have to be copied first
    return kernels.add(x, y) if fits else exact("add")(x, y)


def copy(x: np.ndarray) -> np.ndarray:
    """Return a copy that owns its memory, with the same axis order in memory."""
    return kernels.duplicate(x)


def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """Compute y += x for equal shapes and dtypes. Like ``add``, it does not warn."""
    kernels.accumulate(y, x)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    """Compute y[...] = x for equal shapes and dtypes."""
    kernels.copy(y, x)
