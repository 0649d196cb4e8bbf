"""Cross entropy and negative log-likelihood of class labels at each position of (N, C, *D)."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["cross_entropy", "cross_entropy_grad", "nll_loss", "nll_loss_grad"]


@ieee
def cross_entropy(
    x: np.ndarray, labels: np.ndarray, smoothing: float, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """w[label] (-(1 - e) log p[label] - e mean(log p)) at each position, p = softmax(x) over axis 1, e the smoothing.

    x (N, C, *D), labels (N, *D) int64, weight (C,), 1 where it is None  ->  loss (N, *D), 0 where the label is
    ``ignored`` or invalid; for the gradient the maximum and log sum exp(x - maximum), both (N, *D); and (3,): the sum
    of the losses, the sum of their weights, and the number of labels that are neither a class nor ignored
    """
    counts, weights = _weights(x, labels, ignored, weight)
    if not x.size:
        tops = logs = loss = np.zeros(labels.shape, x.dtype, like=x)
    else:
        tops = x.max(1)
        logs = np.log(np.exp(x - tops[:, None]).sum(1))
        log_p = (x - tops[:, None]) - logs[:, None]
        loss = _picked(-log_p, np.where(counts, labels, 0))
        if smoothing:
            loss = (1 - smoothing) * loss - smoothing * log_p.mean(1)
    loss = np.where(counts, loss * weights, 0).astype(x.dtype)
    return loss, tops.copy(), logs.copy(), _sums(loss, weights, counts, labels, ignored)


@ieee
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
    """gx = factor g w[label] (p - e / C - (1 - e where the class is the label)), 0 at ignored positions.

    labels, tops, logs (N, *D), the last two from ``cross_entropy``; g (N, *D) or (); x, gx (N, C, *D)
    """
    counts, weights = _weights(x, labels, ignored, weight)
    goal = (1 - smoothing) * _is_label(x, labels) + smoothing / max(x.shape[1], 1)
    p = np.exp((x - tops[:, None]) - logs[:, None])
    return np.where(counts[:, None], (p - goal) * (factor * g * weights)[:, None], 0).astype(x.dtype)


@ieee
def nll_loss(
    x: np.ndarray, labels: np.ndarray, ignored: int = -1, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """loss[n, d] = -w[label] x[n, label, d], label = labels[n, d]; and sums (3,) as of ``cross_entropy``

    x (N, C, *D), labels (N, *D) int64, weight (C,) or None  ->  loss (N, *D), 0 at ignored positions
    """
    counts, weights = _weights(x, labels, ignored, weight)
    loss = np.zeros(labels.shape, x.dtype, like=x)
    if x.size:
        loss = np.where(counts, _picked(-x, np.where(counts, labels, 0)) * weights, 0).astype(x.dtype)
    return loss, _sums(loss, weights, counts, labels, ignored)


@ieee
def nll_loss_grad(
    g: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    ignored: int = -1,
    weight: np.ndarray | None = None,
    factor: float = 1.0,
) -> np.ndarray:
    """gx[n, label, d] = -factor g[n, d] w[label], label = labels[n, d], and 0 elsewhere; g (N, *D) or ()

    Of x (N, C, *D) only the memory order is used.
    """
    counts, weights = _weights(x, labels, ignored, weight)
    chosen = _is_label(x, labels) & counts[:, None]
    return np.where(chosen, -(factor * g * weights)[:, None], 0).astype(x.dtype)


def _weights(
    x: np.ndarray, labels: np.ndarray, ignored: int, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The mask of positions that count, and the weight of each, 0 where ignored."""
    counts = (labels >= 0) & (labels < x.shape[1]) & (labels != ignored)
    if weight is None:
        return counts, counts.astype(x.dtype)
    return counts, np.where(counts, np.append(weight, 0)[np.where(counts, labels, -1)], 0).astype(x.dtype)


def _sums(loss: np.ndarray, weights: np.ndarray, counts: np.ndarray, labels: np.ndarray, ignored: int) -> np.ndarray:
    return np.array([loss.sum(), weights.sum(), (~counts & (labels != ignored)).sum()], loss.dtype, like=loss)


def _picked(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """x[n, labels[n, d], d]"""
    return np.take_along_axis(x, labels[:, None], 1)[:, 0]


def _is_label(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether each class is the label of its position."""
    return np.arange(x.shape[1], like=x).reshape(-1, *[1] * (x.ndim - 2)) == labels[:, None]
