"""Multi-class and multi-label margin losses."""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..machine.scratch import per_thread
from ..memory.arrays import CHUNK

__all__ = ["multi_margin_loss", "multi_margin_loss_slopes", "multilabel_margin_loss", "multilabel_margin_loss_slopes"]

_MULTI, _MULTI_SLOPES = kernel("loss.margin.multi_margin"), kernel("loss.margin.multi_margin_slopes")
_MULTILABEL, _MULTILABEL_SLOPES = (
    kernel("loss.margin.multilabel_margin"),
    kernel("loss.margin.multilabel_margin_slopes"),
)
_WIDEST = 16  # no register has more lanes


def multi_margin_loss(x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    x, labels, (rows, length, per_task) = *_contiguous(x, labels), _split(x)
    loss = np.empty(rows, x.dtype, like=x)
    if rows:
        _MULTI[x.dtype.char](-(-rows // per_task), x, labels, loss, rows, length, per_task, p, margin)
    return loss


def multi_margin_loss_slopes(x: np.ndarray, labels: np.ndarray, margin: float) -> np.ndarray:
    x, labels, (rows, length, per_task) = *_contiguous(x, labels), _split(x)
    slopes = np.empty_like(x)
    if rows:
        _MULTI_SLOPES[x.dtype.char](-(-rows // per_task), x, labels, slopes, rows, length, per_task, margin)
    return slopes


def multilabel_margin_loss(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    x, targets, (rows, length, per_task) = *_contiguous(x, targets), _split(x)
    loss = np.empty(rows, x.dtype, like=x)
    if rows:
        room = length + _WIDEST
        _MULTILABEL[x.dtype.char](
            -(-rows // per_task), x, targets, loss, per_thread(room, x.dtype.char), room, rows, length, per_task
        )
    return loss


def multilabel_margin_loss_slopes(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    x, targets, (rows, length, per_task) = *_contiguous(x, targets), _split(x)
    slopes = np.empty_like(x)
    if rows:
        room = length + _WIDEST
        _MULTILABEL_SLOPES[x.dtype.char](
            -(-rows // per_task), x, targets, slopes, per_thread(room, x.dtype.char), room, rows, length, per_task
        )
    return slopes


def _contiguous(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(x, like=x), np.ascontiguousarray(labels, np.int64, like=labels)


def _split(x: np.ndarray) -> tuple[int, int, int]:
    """Rows, their length, and rows per task; no rows if they are empty."""
    rows, length = x.shape
    return rows, length, CHUNK // (4 * length) or 1
