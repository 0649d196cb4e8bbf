"""The largest or smallest number along an axis and its index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..memory.arrays import dense
from ..memory.axes import rows_and_columns
from .reduction import amax, amin
from .scan import scan_plan

__all__ = ["max", "min"]

_PLACE = rows_and_columns("reduction.extremes.place_in")


def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return _extreme("max", amax, x, axis)


def min(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return _extreme("min", amin, x, axis)


def _extreme(name: str, of: Callable[..., np.ndarray], x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    if not x.shape[axis]:
        raise ValueError(f"{name}: x.shape={x.shape} has no elements along axis={axis}; choose another axis")
    x = dense(x)
    values = of(x, (axis,), False)
    indices = np.empty_like(values, np.int64)
    if values.size:
        rows, tasks, numbers = scan_plan(x.shape, x.strides, axis)
        _PLACE[0 if rows else 1][x.dtype.char](tasks, x, values, indices, *numbers)
    return values, indices
