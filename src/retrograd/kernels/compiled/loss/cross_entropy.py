"""Cross entropy and negative log-likelihood of class labels at each position of (N, C, *D)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..machine.launch import kernel
from ..memory.arrays import CHUNK, Shape, around, dense, memory_axes
from ..normalization.softmax import softmax_plan
from ..reduction.moments import total

__all__ = ["cross_entropy", "cross_entropy_grad", "nll_loss", "nll_loss_grad"]

_ROWS, _COLUMNS = kernel("loss.cross_entropy.rows"), kernel("loss.cross_entropy.columns")
_ROWS_GRAD, _COLUMNS_GRAD = kernel("loss.cross_entropy.rows_grad"), kernel("loss.cross_entropy.columns_grad")
_PICKED, _PUT = kernel("loss.cross_entropy.picked"), kernel("loss.cross_entropy.put")
_PLACES = 2048  # positions per task


def cross_entropy(
    x: np.ndarray, labels: np.ndarray, smoothing: float, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    x = _by_place(x)
    shape, dtype = labels.shape, x.dtype
    loss, tops, logs = np.empty(shape, dtype, like=x), np.empty(shape, dtype, like=x), np.empty(shape, dtype, like=x)
    if not x.size:
        return _nothing(x, labels, ignored, loss, tops, logs)
    rows, tasks, numbers = softmax_plan(x.shape, x.strides, 1)
    sums = np.empty((tasks, 3), dtype, like=x)
    (_ROWS if rows else _COLUMNS)[dtype.char](
        tasks,
        x,
        _in_c_order(labels),
        _weights(weight, x),
        loss,
        tops,
        logs,
        sums,
        ignored,
        weight is not None,
        *numbers,
        smoothing,
    )
    return loss, tops, logs, _total(sums)


def cross_entropy_grad(
    g: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    smoothing: float,
    tops: np.ndarray,
    logs: np.ndarray,
    ignored: int = -1,
    weight: np.ndarray | None = None,
    factor: float = 1.0,
) -> np.ndarray:
    x = _by_place(x)
    gx = np.empty_like(x)
    if x.size:
        rows, tasks, numbers = softmax_plan(x.shape, x.strides, 1)
        (_ROWS_GRAD if rows else _COLUMNS_GRAD)[x.dtype.char](
            tasks,
            _in_c_order(g),
            x,
            _in_c_order(labels),
            _weights(weight, x),
            _in_c_order(tops),
            _in_c_order(logs),
            gx,
            g.ndim > 0,
            ignored,
            weight is not None,
            factor,
            *numbers,
            smoothing,
        )
    return gx


def nll_loss(
    x: np.ndarray, labels: np.ndarray, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    x = _by_place(x)
    loss = np.empty(labels.shape, x.dtype, like=x)
    if not x.size:
        return _nothing(x, labels, ignored, loss)
    _, length, inner = around(x.shape, x.strides, 1)
    places = labels.size
    tasks = -(-places // _PLACES)
    sums = np.empty((tasks, 3), x.dtype, like=x)
    _PICKED[x.dtype.char](
        tasks,
        x,
        _in_c_order(labels),
        _weights(weight, x),
        loss,
        sums,
        ignored,
        weight is not None,
        places,
        length,
        inner,
        _PLACES,
    )
    return loss, _total(sums)


def nll_loss_grad(
    g: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    ignored: int = -1,
    weight: np.ndarray | None = None,
    factor: float = 1.0,
) -> np.ndarray:
    x = _by_place(x)
    gx = np.empty_like(x)
    if x.size:
        _, length, inner = around(x.shape, x.strides, 1)
        if inner > 1:
            gx.fill(0)
        places = labels.size
        per_task = (CHUNK // length or 1) if inner == 1 else _PLACES
        _PUT[x.dtype.char](
            -(-places // per_task),
            _in_c_order(g),
            _in_c_order(labels),
            _weights(weight, x),
            gx,
            g.ndim > 0,
            ignored,
            weight is not None,
            factor,
            places,
            length,
            inner,
            per_task,
        )
    return gx


def _in_c_order(a: np.ndarray) -> np.ndarray:
    return a if a.flags.c_contiguous else np.ascontiguousarray(a, like=a)


def _weights(weight: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """The class weights for the kernel; x stands in if there are none."""
    return x if weight is None else _in_c_order(weight)


def _total(sums: np.ndarray) -> np.ndarray:
    """The sums of all tasks."""
    return sums[0] if len(sums) == 1 else total(sums, 3)


def _nothing(x: np.ndarray, labels: np.ndarray, ignored: int, *results: np.ndarray) -> Any:
    """The results if x has no elements; there may be positions, but no classes."""
    for result in results:
        result.fill(0)
    return *results, np.array([0, 0, np.count_nonzero(labels != ignored)], x.dtype)


def _by_place(x: np.ndarray) -> np.ndarray:
    """A dense array (N, C, *D) whose axes except the second are in C order in memory."""
    x = dense(x)
    return x if _is_by_place(x.shape, x.strides) else np.ascontiguousarray(x, like=x)


@lru_cache(maxsize=4096)
def _is_by_place(shape: Shape, strides: Shape) -> bool:
    others = [axis for axis in memory_axes(shape, strides) if axis != 1]
    return others == sorted(others)
