"""Losses that want the classes of a row apart by a margin."""

from __future__ import annotations

import numpy as np

from .arrays import CHUNK
from .launch import kernel
from .scratch import per_thread

__all__ = ["multi_margin_loss", "multi_margin_loss_grad", "multilabel_margin_loss", "multilabel_margin_loss_grad"]

_MULTI, _MULTI_GRAD = kernel("margin.multi_margin"), kernel("margin.multi_margin_grad")
_MULTILABEL, _MULTILABEL_GRAD = kernel("margin.multilabel_margin"), kernel("margin.multilabel_margin_grad")
_WIDEST = 16  # no register has more lanes


def multi_margin_loss(x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    """loss[n] = sum over c != labels[n] of max(0, margin - x[n, labels[n]] + x[n, c])^p / C

    x (N, C), labels (N,) int64  ->  loss (N,); p is 1 or 2
    """
    x, labels, (rows, length, per_task) = *_contiguous(x, labels), _split(x)
    loss = np.empty(rows, x.dtype)
    if rows:
        _MULTI[x.dtype.char](-(-rows // per_task), x, labels, loss, rows, length, per_task, p, margin)
    return loss


def multi_margin_loss_grad(g: np.ndarray, x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    """Each c != labels[n] above the margin gets g[n] p z^(p - 1) / C, the label minus their sum: gx (N, C)."""
    x, labels, (rows, length, per_task) = *_contiguous(x, labels), _split(x)
    gx = np.empty_like(x)
    if rows:
        g = np.ascontiguousarray(g)
        _MULTI_GRAD[x.dtype.char](-(-rows // per_task), g, x, labels, gx, rows, length, per_task, p, margin)
    return gx


def multilabel_margin_loss(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """loss[n] = sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / C

    x (N, C), targets (N, C) int64: classes, the first -1 of a row ends them  ->  loss (N,)
    """
    x, targets, (rows, length, per_task) = *_contiguous(x, targets), _split(x)
    loss = np.empty(rows, x.dtype)
    if rows:
        room = length + _WIDEST
        _MULTILABEL[x.dtype.char](
            -(-rows // per_task), x, targets, loss, per_thread(room, x.dtype.char), room, rows, length, per_task
        )
    return loss


def multilabel_margin_loss_grad(g: np.ndarray, x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Each pair above the margin gives g[n] / C to the other one and takes it from the target: gx (N, C)."""
    x, targets, (rows, length, per_task) = *_contiguous(x, targets), _split(x)
    gx = np.empty_like(x)
    if rows:
        room, g = length + _WIDEST, np.ascontiguousarray(g)
        _MULTILABEL_GRAD[x.dtype.char](
            -(-rows // per_task), g, x, targets, gx, per_thread(room, x.dtype.char), room, rows, length, per_task
        )
    return gx


def _contiguous(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(x), np.ascontiguousarray(labels, np.int64)


def _split(x: np.ndarray) -> tuple[int, int, int]:
    """Rows, their length, and rows per task; no rows where there is nothing in them."""
    rows, length = x.shape
    return rows, length, CHUNK // (4 * length) or 1
