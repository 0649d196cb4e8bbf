"""Loss kernels: elementwise losses, cross entropy, margin losses, and CTC.

The formulas of elementwise losses are in ``formulas/losses.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...formulas.losses import LOSSES, minus_first
from .machine.launch import Kernel, kernel
from .machine.prepared import prepared
from .machine.scratch import per_thread
from .machine.target import vector_bytes
from .memory.layout import CHUNK, Shape, around, dense, like, memory_axes, tasks
from .moments import total
from .normalization import softmax_plan

__all__ = [
    "cross_entropy",
    "cross_entropy_grad",
    "ctc_loss",
    "ctc_loss_grad",
    "element_loss",
    "element_loss_grad",
    "multi_margin_loss",
    "multi_margin_loss_slopes",
    "multilabel_margin_loss",
    "multilabel_margin_loss_slopes",
    "nll_loss",
    "nll_loss_grad",
]


# ---- Losses of elements, or their sum, in one pass over dense memory; and the gradient in another -------------------

_LOSS = {name: kernel(f"loss.{name}") for name in LOSSES}
_GRAD = {
    # gradients to other operands are rare: they are compiled on demand
    (name, of): (Kernel if of else kernel)(f"loss.{gradient.__name__}")
    for name, loss in LOSSES.items()
    for of, gradient in enumerate(loss.gradients)
    if gradient is not minus_first
}
_OF_TARGET = ("kullback_leibler", "kullback_leibler_of_logs")  # whose gradient to x does not depend on x


@prepared
def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    x, t, w = _ordered(operands)
    n, dtype = x.size, x.dtype
    partial = np.zeros(tasks(n), dtype, like=x)
    y = partial if factor is not None else np.empty_like(x)
    if n:
        _LOSS[name][dtype.char](partial.size, x, t, w, y, partial, n, factor is None, *(numbers or (0.0,)))
    return y if factor is None else total(partial, 1, factor).reshape(())


@prepared
def element_loss_grad(
    name: str,
    of: int,
    g: np.ndarray,
    operands: tuple[np.ndarray, ...],
    numbers: tuple[float, ...],
    factor: float | None,
) -> np.ndarray:
    x, t, w = _ordered(operands)
    gx = np.empty_like(x)
    n = x.size
    if n:
        each = factor is None
        g = like(g, gx) if each else g
        x = t if of == 0 and name in _OF_TARGET else x  # one array less to read
        launch = _GRAD[name, of][x.dtype.char]
        launch(tasks(n), g, x, t, w, gx, n, each, 1.0 if factor is None else factor, *(numbers or (0.0,)))
    return gx


def _ordered(operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands in the memory order of the first, which is also passed in place of a missing third."""
    x = dense(operands[0])
    t = like(operands[1], x)
    return x, t, like(operands[2], x) if len(operands) > 2 else x


# ---- Cross entropy and negative log-likelihood of class labels at each position of (N, C, *D) -----------------------

_ROWS, _COLUMNS = kernel("cross_entropy.rows"), kernel("cross_entropy.columns")
_ROWS_GRAD, _COLUMNS_GRAD = kernel("cross_entropy.rows_grad"), kernel("cross_entropy.columns_grad")
_FEW, _FEW_GRAD = kernel("cross_entropy.few"), kernel("cross_entropy.few_grad")
_PICKED, _PUT = kernel("cross_entropy.picked"), kernel("cross_entropy.put")
_PLACES = 2048  # positions per task


@prepared
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
    launch = (_FEW if _are_few(x) else _ROWS) if rows else _COLUMNS
    launch[dtype.char](
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


def _are_few(x: np.ndarray) -> bool:
    """Whether all classes of a position fit a register."""
    return 2 <= x.shape[1] <= vector_bytes() // x.itemsize


@prepared
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
        launch = (_FEW_GRAD if _are_few(x) else _ROWS_GRAD) if rows else _COLUMNS_GRAD
        launch[x.dtype.char](
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


@prepared
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


@prepared
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
    """The class weights for the kernel; x as a placeholder if there are none."""
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


# ---- Multi-class and multi-label margin losses ----------------------------------------------------------------------

_MULTI, _MULTI_SLOPES = kernel("loss.multi_margin"), kernel("loss.multi_margin_slopes")
_MULTILABEL, _MULTILABEL_SLOPES = (
    kernel("loss.multilabel_margin"),
    kernel("loss.multilabel_margin_slopes"),
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
        scratch_size = length + _WIDEST
        _MULTILABEL[x.dtype.char](
            -(-rows // per_task),
            x,
            targets,
            loss,
            per_thread(scratch_size, x.dtype.char),
            scratch_size,
            rows,
            length,
            per_task,
        )
    return loss


def multilabel_margin_loss_slopes(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    x, targets, (rows, length, per_task) = *_contiguous(x, targets), _split(x)
    slopes = np.empty_like(x)
    if rows:
        scratch_size = length + _WIDEST
        _MULTILABEL_SLOPES[x.dtype.char](
            -(-rows // per_task),
            x,
            targets,
            slopes,
            per_thread(scratch_size, x.dtype.char),
            scratch_size,
            rows,
            length,
            per_task,
        )
    return slopes


def _contiguous(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(x, like=x), np.ascontiguousarray(labels, np.int64, like=labels)


def _split(x: np.ndarray) -> tuple[int, int, int]:
    """Rows, their length, and rows per task; no rows if they are empty."""
    rows, length = x.shape
    return rows, length, CHUNK // (4 * length) or 1


# ---- Connectionist temporal classification (Graves et al. 2006): one task for each sample ---------------------------

_CTC_FORWARD, _CTC_BACKWARD = kernel("loss.ctc_forward"), kernel("loss.ctc_backward")


def ctc_loss(
    log_probs: np.ndarray, targets: np.ndarray, input_lengths: np.ndarray, target_lengths: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray]:
    x = np.ascontiguousarray(log_probs, like=log_probs)
    T, N, C = x.shape
    S = targets.shape[1]
    width = _rounded(2 * S + 1)
    loss = np.empty(N, x.dtype, like=x)
    alpha = np.full((N, T, width + 2), -np.inf, x.dtype, like=x)
    if N:
        scratch_size = 2 * width
        _CTC_FORWARD[x.dtype.char](
            N,
            x,
            *_integers(targets, input_lengths, target_lengths),
            loss,
            alpha,
            per_thread(scratch_size, x.dtype.char),
            scratch_size,
            T,
            N,
            C,
            S,
            width,
            blank,
        )
    return loss, alpha[:, :, 2 : 2 * S + 3]


def ctc_loss_grad(
    g: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: np.ndarray,
    target_lengths: np.ndarray,
    blank: int,
    loss: np.ndarray,
    alpha: np.ndarray,
    zero_infinity: bool,
) -> np.ndarray:
    x = np.ascontiguousarray(log_probs, like=log_probs)
    T, N, C = x.shape
    S = targets.shape[1]
    width = _rounded(2 * S + 1)
    rows = alpha.base
    if not isinstance(rows, np.ndarray) or rows.shape != (N, T, width + 2) or rows.dtype != x.dtype:
        rows = np.full((N, T, width + 2), -np.inf, x.dtype, like=x)
        rows[:, :, 2 : 2 * S + 3] = alpha
    gx = np.empty_like(x)
    if N:
        scratch_size = 5 * width + 2 * _WIDEST + _rounded(C)
        _CTC_BACKWARD[x.dtype.char](
            N,
            np.ascontiguousarray(g, like=g),
            x,
            *_integers(targets, input_lengths, target_lengths),
            np.ascontiguousarray(loss, like=loss),
            rows,
            gx,
            per_thread(scratch_size, x.dtype.char),
            scratch_size,
            T,
            N,
            C,
            S,
            width,
            blank,
            zero_infinity,
        )
    return gx


def _rounded(count: int) -> int:
    return -(-count // _WIDEST) * _WIDEST


def _integers(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(array, np.int64, like=array) for array in arrays]
