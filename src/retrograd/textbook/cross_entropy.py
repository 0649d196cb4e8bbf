"""Cross entropy and negative log-likelihood of class labels at each place of (N, C, *D)."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["cross_entropy", "cross_entropy_grad", "nll_loss", "nll_loss_grad"]


@ieee
def cross_entropy(
    x: np.ndarray, labels: np.ndarray, smoothing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-(1 - e) log p[label] - e mean(log p) at each place, p = softmax(x) over axis 1 and e the smoothing.

    x (N, C, *D), labels (N, *D) int64: a class, or below 0 where the loss is 0  ->  loss (N, *D); and for the gradient
    the maximum and log sum exp(x - maximum), both (N, *D)
    """
    tops = x.max(1)
    logs = np.log(np.exp(x - tops[:, None]).sum(1))
    log_p = (x - tops[:, None]) - logs[:, None]
    loss = _picked(-log_p, labels)
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(1)
    return np.where(labels < 0, 0, loss).astype(x.dtype), tops, logs


@ieee
def cross_entropy_grad(
    g: np.ndarray, x: np.ndarray, labels: np.ndarray, smoothing: float, tops: np.ndarray, logs: np.ndarray
) -> np.ndarray:
    """gx = g (p - e / C - (1 - e where the class is the label)), and 0 at places whose label is below 0.

    g, labels, tops, logs (N, *D), the last two those of ``cross_entropy``; x, gx (N, C, *D)
    """
    goal = (1 - smoothing) * _is_label(x, labels) + smoothing / x.shape[1]
    p = np.exp((x - tops[:, None]) - logs[:, None])
    return np.where(labels[:, None] < 0, 0, (p - goal) * g[:, None]).astype(x.dtype)


@ieee
def nll_loss(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """loss[n, d] = -x[n, labels[n, d], d], and 0 where the label is below 0

    x (N, C, *D), labels (N, *D) int64  ->  loss (N, *D)
    """
    return np.where(labels < 0, 0, _picked(-x, labels)).astype(x.dtype)


@ieee
def nll_loss_grad(g: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """gx[n, labels[n, d], d] = -g[n, d], and 0 elsewhere; of x (N, C, *D), only the order in memory counts."""
    return np.where(_is_label(x, labels), -g[:, None], 0).astype(x.dtype)


def _picked(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """x[n, labels[n, d], d]; anything for a label below 0."""
    return np.take_along_axis(x, np.maximum(labels, 0)[:, None], 1)[:, 0]


def _is_label(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether each class is the label of its place."""
    return np.asarray(np.arange(x.shape[1]).reshape(-1, *[1] * (x.ndim - 2)) == labels[:, None])
