"""Connectionist temporal classification (Graves et al. 2006), sample by sample, in logarithms.

The states of a sample are blank, first label, blank, second label, ..., blank. From one time to the next a path stays,
advances by one state, or skips the blank between two different labels.
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["ctc_loss", "ctc_loss_grad", "zero_infinite"]


def _states(target: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """The label of each state, and 0 where a path may come from the state two before, else -inf."""
    labels = np.full(2 * len(target) + 1, blank, like=target)
    labels[1::2] = target
    skip = np.full(len(labels), -np.inf, like=target)
    skip[3::2][target[1:] != target[:-1]] = 0
    return labels, skip


def _log_sum(*rows: np.ndarray) -> np.ndarray:
    """The logarithm of the sum of exponentials."""
    top = np.maximum.reduce(np.stack(rows))
    top = np.where(top == -np.inf, 0, top)
    return np.log(sum(np.exp(row - top) for row in rows)) + top


def _shifted(row: np.ndarray, by: int) -> np.ndarray:
    """row[s - by], -inf outside."""
    y = np.full_like(row, -np.inf)
    source = row[: len(row) - by] if by > 0 else row[-by:]
    y[max(by, 0) : max(by, 0) + len(source)] = source
    return y


@ieee
def ctc_loss(
    log_probs: np.ndarray, targets: np.ndarray, input_lengths: np.ndarray, target_lengths: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray]:
    """-log of the probability of all paths that collapse to the target, for each sample.

    log_probs (T, N, C), targets (N, S), lengths (N,), int64  ->  loss (N,), inf where there is no such path, and
    alpha (N, T, 2 S + 1): log-probability of all prefixes that end in a state at a time, for the gradient.
    """
    T, N, _ = log_probs.shape
    loss = np.empty(N, log_probs.dtype, like=log_probs)
    alpha = np.full((N, T, 2 * targets.shape[1] + 1), -np.inf, log_probs.dtype, like=log_probs)
    for n in range(N):
        labels, skip = _states(targets[n, : target_lengths[n]], blank)
        time, count = int(input_lengths[n]), len(labels)
        if time == 0:
            loss[n] = 0 if count == 1 else np.inf
            continue
        row = np.full(count, -np.inf, like=log_probs)
        row[:2] = log_probs[0, n, labels[:2]]
        alpha[n, 0, :count] = row
        for t in range(1, time):
            row = _log_sum(row, _shifted(row, 1), _shifted(row, 2) + skip) + log_probs[t, n, labels]
            alpha[n, t, :count] = row
        loss[n] = -_log_sum(*row[-2:])
    return loss, alpha


@ieee
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
    """gx[t, n, c] = g[n] (exp(log_probs[t, n, c]) - probability of label c at time t, given the target), PyTorch's.

    After the end of an input it is 0. A sample with an infinite loss has NaN, or 0 with ``zero_infinity``.
    """
    gx = np.zeros_like(log_probs)
    for n in range(log_probs.shape[1]):
        labels, skip = _states(targets[n, : target_lengths[n]], blank)
        time, count = int(input_lengths[n]), len(labels)
        if loss[n] == np.inf:
            gx[:time, n] = 0 if zero_infinity else np.nan
            continue
        rest = np.full(count, -np.inf, like=log_probs)  # log-probability of all suffixes
        rest[-2:] = 0
        for t in reversed(range(time)):
            emitted = log_probs[t, n, labels]
            passed = np.where(emitted == -np.inf, 0, np.exp(alpha[n, t, :count] + rest + loss[n]))
            share = np.zeros(log_probs.shape[2], like=log_probs)
            np.add.at(share, labels, passed)
            gx[t, n] = (np.exp(log_probs[t, n]) - share) * g[n]
            row = rest + emitted
            rest = _log_sum(row, _shifted(row, -1), _shifted(row + skip, -2))
    return gx


def zero_infinite(loss: np.ndarray) -> np.ndarray:
    """The losses, with 0 instead of inf, the loss of a target that no path can give."""
    return np.where(loss == np.inf, loss.dtype.type(0), loss)
