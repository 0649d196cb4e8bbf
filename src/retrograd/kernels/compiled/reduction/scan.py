"""Cumulative sums and products along an axis."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..machine.launch import Kernel
from ..memory.arrays import CHUNK, Shape, around, dense, like
from ..memory.axes import FEW, rows_and_columns

__all__ = ["cumprod", "cumsum", "linear_scan"]

_CUMSUM, _CUMPROD = rows_and_columns("reduction.scan.cumsum"), rows_and_columns("reduction.scan.cumprod")
_LINEAR = rows_and_columns("reduction.scan.linear")


def cumsum(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return _scan(_CUMSUM, x, axis, reverse)


def cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    return _scan(_CUMPROD, x, axis, False)


def linear_scan(x: np.ndarray, factor: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return _scan(_LINEAR, x, axis, reverse, factor)


def _scan(kernels: tuple[Kernel, Kernel], x: np.ndarray, axis: int, reverse: bool, *others: np.ndarray) -> np.ndarray:
    x = dense(x)
    y = np.empty_like(x)
    if x.size:
        rows, tasks, numbers = scan_plan(x.shape, x.strides, axis)
        arrays = (like(other, x) for other in others)
        kernels[0 if rows else 1][x.dtype.char](tasks, x, *arrays, y, *numbers, int(reverse))
    return y


@lru_cache(maxsize=4096)
def scan_plan(shape: Shape, strides: Shape, axis: int) -> tuple[bool, int, tuple[int, int, int]]:
    """Whether the axis of a dense array is innermost, the tasks and the numbers of the kernel."""
    outer, length, inner = around(shape, strides, axis)
    if inner == 1:
        per_task = CHUNK // length or 1
        return True, -(-outer // per_task), (outer, length, per_task)
    width = -(-CHUNK // length // FEW) * FEW
    return False, outer * -(-inner // width), (length, inner, width)
