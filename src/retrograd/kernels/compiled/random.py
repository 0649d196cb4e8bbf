"""Dropout. The number of an element is its index in C order, whatever the memory order."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from .machine.launch import kernel
from .memory.layout import CHUNK, Shape, dense, like, memory_axes, tasks

__all__ = ["dropout", "dropout_grad"]

_DROPOUT, _DROPOUT_GRAD = kernel("random.dropout"), kernel("random.dropout_grad")


def dropout(x: np.ndarray, p: float, key: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
    x = dense(x)
    if not x.size:
        return np.empty_like(x), np.empty_like(x, np.bool_)
    steps = _steps(x.shape, x.strides)
    if not steps:  # three steps cannot describe this order of axes
        x = np.ascontiguousarray(x, like=x)
        steps = _steps(x.shape, x.strides)
    y, kept = np.empty_like(x), np.empty_like(x, np.bool_)
    _DROPOUT[x.dtype.char](steps[0], x, y, kept, x.size, *steps[1:], key, stream, round(p * 2.0**32), _scale(p))
    return y, kept


def dropout_grad(g: np.ndarray, kept: np.ndarray, p: float) -> np.ndarray:
    kept = dense(kept)
    gx = np.empty_like(kept, g.dtype)
    _DROPOUT_GRAD[g.dtype.char](tasks(gx.size), like(g, gx), kept, gx, gx.size, _scale(p))
    return gx


def _scale(p: float) -> float:
    """The factor of the elements that are kept."""
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


@lru_cache(maxsize=4096)
def _steps(shape: Shape, strides: Shape) -> tuple[int, ...]:
    """Tasks, inner and middle extent, rows per task, and the steps of numbers along three axes of the memory."""
    merged: list[tuple[int, int]] = []  # extent and step in C order, from the slowest axis in memory to the fastest
    for axis in memory_axes(shape, strides):
        step = prod(shape[axis + 1 :])
        if merged and merged[-1][1] == shape[axis] * step:
            merged[-1] = (merged[-1][0] * shape[axis], step)
        elif shape[axis] != 1:
            merged.append((shape[axis], step))
    if len(merged) == 1 and merged[0][0] > CHUNK:
        (extent, step), *_ = merged
        merged = [(-(-extent // CHUNK), CHUNK * step), (CHUNK, step)]
    if len(merged) > 3:
        return ()
    merged = [(1, 0)] * (3 - len(merged)) + merged
    (_, outer), (middle, middle_step), (inner, inner_step) = merged
    rows_per_task = CHUNK // inner or 1
    return -(-prod(shape) // (inner * rows_per_task)), inner, middle, rows_per_task, outer, middle_step, inner_step
