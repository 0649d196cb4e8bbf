"""Softmax and its logarithm.

The maximum is subtracted first: it cancels, and no exponential exceeds 1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..machine.launch import Kernel
from ..memory.arrays import CHUNK, Shape, around, dense, like
from ..memory.axes import rows_and_columns

__all__ = ["log_softmax", "log_softmax_grad", "softmax", "softmax_grad"]

Pair = tuple[Kernel, Kernel]  # for an axis that is innermost in memory, and for one that is not
_SOFTMAX, _LOG_SOFTMAX, _SOFTMAX_GRAD, _LOG_SOFTMAX_GRAD = (
    rows_and_columns(f"normalization.softmax.{name}")
    for name in ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")
)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return _forward(_SOFTMAX, x, axis)


def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return _backward(_SOFTMAX_GRAD, g, y, axis)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return _forward(_LOG_SOFTMAX, x, axis)


def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return _backward(_LOG_SOFTMAX_GRAD, g, y, axis)


@lru_cache(maxsize=4096)
def softmax_plan(shape: Shape, strides: Shape, axis: int) -> tuple[bool, int, tuple[int, ...]]:
    """Whether the axis of a dense array is innermost, the tasks and the numbers of the kernel."""
    outer, length, inner = around(shape, strides, axis)
    if 0 in shape:
        return True, 1, (0, 0, 1)
    if inner == 1:
        per_task = CHUNK // length or 1
        return True, -(-outer // per_task), (outer, length, per_task)
    # wide blocks, because long runs of memory are read fastest; but all rows of a block should fit into level 2
    block = min(CHUNK // 32, max(64, 2 * CHUNK // length))
    block = -(-inner // -(-inner // block) // 64) * 64  # of nearly equal width
    width = block * (CHUNK // (block * length) or 1)
    return False, outer * -(-inner // width), (length, inner, width, block)


def _forward(kernels: Pair, x: np.ndarray, axis: int) -> np.ndarray:
    x = dense(x)
    y = np.empty_like(x)
    rows, tasks, numbers = softmax_plan(x.shape, x.strides, axis)
    kernels[0 if rows else 1][x.dtype.char](tasks, x, y, *numbers)
    return y


def _backward(kernels: Pair, g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    y = dense(y)
    gx = np.empty_like(y)
    rows, tasks, numbers = softmax_plan(gx.shape, gx.strides, axis)
    kernels[0 if rows else 1][y.dtype.char](tasks, like(g, gx), like(y, gx), gx, *numbers)
    return gx
