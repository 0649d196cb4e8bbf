"""Softmax, its logarithm, and the cross entropy of class labels.

The maximum is subtracted first: it cancels, and no exponential is then above 1.
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["cross_entropy", "cross_entropy_grad", "log_softmax", "log_softmax_grad", "softmax", "softmax_grad"]


@ieee
def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = exp(x) / sum exp(x), the sum along ``axis``"""
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


@ieee
def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = y (g - sum g y), with y = softmax(x)"""
    return np.asarray(y * (g - (g * y).sum(axis, keepdims=True)))


@ieee
def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = x - log sum exp(x), the sum along ``axis``"""
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


@ieee
def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx = g - exp(y) sum g, with y = log_softmax(x)"""
    return np.asarray(g - np.exp(y) * g.sum(axis, keepdims=True))


@ieee
def cross_entropy(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """loss[n] = -log_probabilities[n, labels[n]], with log_probabilities = log_softmax(x)

    x (N, C), labels (N,) int64  ->  loss (N,), log_probabilities (N, C)
    """
    log_probabilities = log_softmax(x, 1)
    return -log_probabilities[np.arange(len(x)), labels], log_probabilities


@ieee
def cross_entropy_grad(g: np.ndarray, log_probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """gx[n, c] = g[n] (probability[n, c] - 1 if c is the label of n, else g[n] probability[n, c])

    g (N,), log_probabilities (N, C), labels (N,) int64  ->  gx (N, C)
    """
    gx: np.ndarray = np.exp(log_probabilities)
    gx[np.arange(len(labels)), labels] -= 1
    gx *= g[:, None]  # (N, C) * (N, 1)
    return gx
