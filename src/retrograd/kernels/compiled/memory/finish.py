"""What is done to a sum before it is stored: an array is added, and the result is clamped."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .layout import like

Finish = tuple[np.ndarray, np.ndarray]  # what is added to a result, and two elements between which it is clamped


def finish_arrays(y: np.ndarray, residual: np.ndarray | None, low: float, high: float) -> Finish:
    """The finish of a result y, for its kernel; y in place of the residual stands for none."""
    # a product turns a number of a plan into a plain one, and keeps the sign of 0
    return y if residual is None else like(residual, y), _pair(repr(low * 1.0), repr(high * 1.0), y.dtype.char)


@lru_cache(maxsize=64)
def _pair(low: str, high: str, dtype: str) -> np.ndarray:
    return np.array([float(low), float(high)], dtype)


def finish_by_numpy(y: np.ndarray, residual: np.ndarray | None, low: float, high: float) -> np.ndarray:
    """The finish of a result that no kernel computed."""
    if y.size == 0:
        return y
    if residual is not None:
        y += residual
    y[y < low] = low
    y[y > high] = high
    return y
