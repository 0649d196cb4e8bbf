"""Connectionist temporal classification (Graves et al. 2006): one task for each sample."""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..machine.scratch import per_thread

__all__ = ["ctc_loss", "ctc_loss_grad"]

_FORWARD, _BACKWARD = kernel("loss.ctc.forward"), kernel("loss.ctc.backward")
_WIDEST = 16  # no register has more lanes


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
        room = 2 * width
        _FORWARD[x.dtype.char](
            N,
            x,
            *_integers(targets, input_lengths, target_lengths),
            loss,
            alpha,
            per_thread(room, x.dtype.char),
            room,
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
        room = 5 * width + 2 * _WIDEST + _rounded(C)
        _BACKWARD[x.dtype.char](
            N,
            np.ascontiguousarray(g, like=g),
            x,
            *_integers(targets, input_lengths, target_lengths),
            np.ascontiguousarray(loss, like=loss),
            rows,
            gx,
            per_thread(room, x.dtype.char),
            room,
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
