"""The largest or smallest number along an axis and where it is."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .arrays import CHUNK, Shape, around, is_dense, memory_axes, transposition
from .axes import FEW, row_numbers
from .launch import Kernel, kernel

__all__ = ["max", "min"]

_MAX = kernel("extremes.max_rows"), kernel("extremes.max_columns")
_MIN = kernel("extremes.min_rows"), kernel("extremes.min_columns")


class _Plan(NamedTuple):
    shape: Shape  # of the result in memory
    back: Shape  # its transposition to the result
    rows: bool
    pieces: int  # of each row
    tasks: int
    numbers: tuple[int, ...]


def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The maximum along ``axis``, which is removed, and its index (int64).

    Of equal maxima the first one counts; if there is a NaN, the first NaN is the maximum.

    Raises:
        ValueError: there is nothing along ``axis``.
    """
    return _extreme("max", _MAX, x, axis)


def min(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The minimum along ``axis`` and its index; as ``max``.

    Raises:
        ValueError: there is nothing along ``axis``.
    """
    return _extreme("min", _MIN, x, axis)


def _extreme(name: str, kernels: tuple[Kernel, Kernel], x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    if not is_dense(x.shape, x.strides, x.itemsize):
        x = x.copy(order="K")
    shape, back, rows, pieces, tasks, numbers = _plan(name, x.shape, x.strides, axis)
    parts = shape if pieces == 1 else (*shape, pieces)
    values, indices = np.empty(parts, x.dtype), np.empty(parts, np.int64)
    if values.size:
        kernels[0 if rows else 1][x.dtype.char](tasks, x, values, indices, *numbers)
    if pieces > 1:
        best = (values.argmax(-1) if name == "max" else values.argmin(-1))[..., np.newaxis]  # a NaN, or the first
        values = np.take_along_axis(values, best, -1)[..., 0]
        indices = np.take_along_axis(indices, best, -1)[..., 0]
    return (values.transpose(back), indices.transpose(back)) if back else (values, indices)


@lru_cache(maxsize=4096)
def _plan(name: str, shape: Shape, strides: Shape, axis: int) -> _Plan:
    """How to find the extremes of a dense array."""
    outer, length, inner = around(shape, strides, axis)
    if length == 0:
        raise ValueError(f"{name}: x.shape={shape} has no elements along axis={axis}; choose another axis")
    left = [a for a in memory_axes(shape, strides) if a != axis]
    memory, back = tuple(shape[a] for a in left), transposition(left)
    if inner == 1:
        tasks, pieces, numbers = row_numbers(outer, length)
        return _Plan(memory, back, True, pieces, tasks, numbers)
    width = -(-CHUNK // length // FEW) * FEW
    return _Plan(memory, back, False, 1, outer * -(-inner // width), (length, inner, width))
