"""Cross entropy and negative log-likelihood of class labels at each place of (N, C, *D)."""

from __future__ import annotations

import numpy as np

from .arrays import CHUNK, around, dense, memory_axes
from .launch import kernel
from .softmax import softmax_plan

__all__ = ["cross_entropy", "cross_entropy_grad", "nll_loss", "nll_loss_grad"]

_ROWS, _COLUMNS = kernel("cross_entropy.rows"), kernel("cross_entropy.columns")
_ROWS_GRAD, _COLUMNS_GRAD = kernel("cross_entropy.rows_grad"), kernel("cross_entropy.columns_grad")
_PICKED, _PUT = kernel("cross_entropy.picked"), kernel("cross_entropy.put")
_PLACES = 2048  # whose labels one task looks up


def cross_entropy(x: np.ndarray, labels: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-(1 - e) log p[label] - e mean(log p) at each place, p = softmax(x) over axis 1 and e the smoothing.

    x (N, C, *D), labels (N, *D) int64: a class, or below 0 where the loss is 0  ->  loss (N, *D); and for the gradient
    the maximum and log sum exp(x - maximum), both (N, *D)
    """
    x = _by_place(x)
    loss, tops, logs = (np.empty(labels.shape, x.dtype) for _ in range(3))
    if x.size:
        rows, tasks, numbers = softmax_plan(x.shape, x.strides, 1)
        labels = np.ascontiguousarray(labels, np.int64)
        (_ROWS if rows else _COLUMNS)[x.dtype.char](tasks, x, labels, loss, tops, logs, *numbers, smoothing)
    return loss, tops, logs


def cross_entropy_grad(
    g: np.ndarray, x: np.ndarray, labels: np.ndarray, smoothing: float, tops: np.ndarray, logs: np.ndarray
) -> np.ndarray:
    """gx = g (p - e / C - (1 - e where the class is the label)), and 0 at places whose label is below 0.

    g, labels, tops, logs (N, *D), the last two those of ``cross_entropy``; x, gx (N, C, *D)
    """
    x = _by_place(x)
    gx = np.empty_like(x)
    if x.size:
        rows, tasks, numbers = softmax_plan(x.shape, x.strides, 1)
        known = [np.ascontiguousarray(a) for a in (tops, logs)]
        g, labels = np.ascontiguousarray(g), np.ascontiguousarray(labels, np.int64)
        kernel = _ROWS_GRAD if rows else _COLUMNS_GRAD
        kernel[x.dtype.char](tasks, g, x, labels, *known, gx, *numbers[:3], smoothing)
    return gx


def nll_loss(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """loss[n, d] = -x[n, labels[n, d], d], and 0 where the label is below 0

    x (N, C, *D), labels (N, *D) int64  ->  loss (N, *D)
    """
    x = _by_place(x)
    loss = np.empty(labels.shape, x.dtype)
    if x.size:
        _, length, inner = around(x.shape, x.strides, 1)
        labels = np.ascontiguousarray(labels, np.int64)
        _PICKED[x.dtype.char](-(-labels.size // _PLACES), x, labels, loss, labels.size, length, inner, _PLACES)
    return loss


def nll_loss_grad(g: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """gx[n, labels[n, d], d] = -g[n, d], and 0 elsewhere; of x (N, C, *D), only the order in memory counts."""
    x = _by_place(x)
    gx = np.empty_like(x)
    if x.size:
        _, length, inner = around(x.shape, x.strides, 1)
        if inner > 1:
            gx.fill(0)
        g, labels = np.ascontiguousarray(g), np.ascontiguousarray(labels, np.int64)
        per_task = (CHUNK // length or 1) if inner == 1 else _PLACES
        _PUT[x.dtype.char](-(-labels.size // per_task), g, labels, gx, labels.size, length, inner, per_task)
    return gx


def _by_place(x: np.ndarray) -> np.ndarray:
    """A dense array (N, C, *D) whose axes but the second lie in memory in their own order."""
    x = dense(x)
    others = [axis for axis in memory_axes(x.shape, x.strides) if axis != 1]
    return x if others == sorted(others) else np.ascontiguousarray(x)
