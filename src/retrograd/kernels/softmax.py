"""Softmax, its logarithm, and the cross entropy of class labels.

The maximum is subtracted first: it cancels, and no exponential is then above 1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .arrays import CHUNK, Shape, around, dense, like
from .launch import Kernel, kernel

__all__ = ["cross_entropy", "cross_entropy_grad", "log_softmax", "log_softmax_grad", "softmax", "softmax_grad"]

Pair = tuple[Kernel, Kernel]  # for an axis that is innermost in memory, and for one that is not
_SOFTMAX = kernel("softmax.softmax_rows"), kernel("softmax.softmax_columns")
_LOG_SOFTMAX = kernel("softmax.log_softmax_rows"), kernel("softmax.log_softmax_columns")
_SOFTMAX_GRAD = kernel("softmax.softmax_grad_rows"), kernel("softmax.softmax_grad_columns")
_LOG_SOFTMAX_GRAD = kernel("softmax.log_softmax_grad_rows"), kernel("softmax.log_softmax_grad_columns")
_CROSS_ENTROPY, _CROSS_ENTROPY_GRAD = kernel("softmax.cross_entropy"), kernel("softmax.cross_entropy_grad")


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = exp(x) / sum exp(x), the sum along ``axis``"""
    return _forward(_SOFTMAX, x, axis)


def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = y (g - sum g y), with y = softmax(x)"""
    return _backward(_SOFTMAX_GRAD, g, y, axis)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = x - log sum exp(x), the sum along ``axis``"""
    return _forward(_LOG_SOFTMAX, x, axis)


def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = g - exp(y) sum g, with y = log_softmax(x)"""
    return _backward(_LOG_SOFTMAX_GRAD, g, y, axis)


def cross_entropy(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """loss[n] = -log_probabilities[n, labels[n]], with log_probabilities = log_softmax(x)

    x (N, C), labels (N,) int64  ->  loss (N,), log_probabilities (N, C)
    """
    y = _forward(_LOG_SOFTMAX, np.ascontiguousarray(x), 1)
    rows, length = y.shape
    loss = np.empty(rows, y.dtype)
    if y.size:
        labels = np.ascontiguousarray(labels, np.int64)
        _CROSS_ENTROPY[y.dtype.char](1, y, labels, loss, rows, length, rows)
    return loss, y


def cross_entropy_grad(g: np.ndarray, log_probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """gx[n, c] = g[n] (probability[n, c] - 1 if c is the label of n, else g[n] probability[n, c])

    g (N,), log_probabilities (N, C), labels (N,) int64  ->  gx (N, C)
    """
    y = np.ascontiguousarray(log_probabilities)
    gx = np.empty_like(y)
    rows, length = y.shape
    if y.size:
        per_task = CHUNK // length or 1
        g, labels = np.ascontiguousarray(g), np.ascontiguousarray(labels, np.int64)
        _CROSS_ENTROPY_GRAD[y.dtype.char](-(-rows // per_task), g, y, labels, gx, rows, length, per_task)
    return gx


@lru_cache(maxsize=4096)
def _plan(shape: Shape, strides: Shape, axis: int) -> tuple[bool, int, tuple[int, ...]]:
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
    rows, tasks, numbers = _plan(x.shape, x.strides, axis)
    kernels[0 if rows else 1][x.dtype.char](tasks, x, y, *numbers)
    return y


def _backward(kernels: Pair, g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    y = dense(y)
    gx = np.empty_like(y)
    rows, tasks, numbers = _plan(gx.shape, gx.strides, axis)
    kernels[0 if rows else 1][y.dtype.char](tasks, like(g, gx), like(y, gx), gx, *numbers)
    return gx
