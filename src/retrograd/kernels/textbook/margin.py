"""Multi-class and multi-label margin losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "cosine_embedding_slopes",
    "multi_margin_loss",
    "multi_margin_loss_slopes",
    "multi_margin_masks",
    "multilabel_margin_loss",
    "multilabel_margin_loss_slopes",
]


@ieee
def multi_margin_loss(x: np.ndarray, labels: np.ndarray, p: int, margin: float) -> np.ndarray:
    """loss[n] = sum over c != labels[n] of max(0, margin - x[n, labels[n]] + x[n, c])^p / C

    x (N, C), labels (N,) int64  ->  loss (N,); p is 1 or 2
    """
    z, others = _above(x, labels, margin)
    return np.asarray((np.where(others, np.maximum(z, 0), 0) ** p).sum(1) / x.shape[1], x.dtype, like=x)


@ieee
def multi_margin_loss_slopes(x: np.ndarray, labels: np.ndarray, margin: float) -> np.ndarray:
    """For p = 1: 1 / C where c != labels[n] violates the margin, else 0; minus their sum at the label: (N, C)."""
    z, others = _above(x, labels, margin)
    slopes = (others & (z > 0)) / x.shape[1]
    slopes[np.arange(len(x), like=x), labels] = -slopes.sum(1)
    return np.asarray(slopes, x.dtype, like=x)


def multi_margin_masks(slopes: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the label's entries, and of the others with a slope above 0: slopes (N, C) -> two (N, C) of bool"""
    own = np.zeros(slopes.shape, np.bool_, like=slopes)
    own[np.arange(len(slopes), like=slopes), labels] = True
    return own, (slopes > 0) & ~own


@ieee
def cosine_embedding_slopes(
    cosine: np.ndarray, targets: np.ndarray, margin: float, dtype: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """a and b with a cosine + b = 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1; else 0.

    cosine and targets broadcast; the slope at cosine == margin is 1, as in PyTorch.
    """
    alike, apart = targets == 1, (targets == -1) & (cosine >= margin)
    slope, start = np.where(alike, -1, apart), np.where(alike, 1, apart * -margin)
    return np.asarray(slope, dtype, like=cosine), np.asarray(start, dtype, like=cosine)


@ieee
def multilabel_margin_loss(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """loss[n] = sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / C

    x (N, C), targets (N, C) int64: classes, up to the first -1 of a row  ->  loss (N,)
    """
    loss = np.zeros(len(x), x.dtype, like=x)
    for n, row in enumerate(x):
        chosen, others = _chosen(targets[n])
        z = 1 - row[chosen][:, None] + row[others]  # (targets, others)
        loss[n] = np.maximum(z, 0).sum() / len(row)
    return loss


@ieee
def multilabel_margin_loss_slopes(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Each pair that violates the margin adds 1 / C to the other class and subtracts it from the target: (N, C)."""
    slopes = np.zeros(x.shape, x.dtype, like=x)
    for n, row in enumerate(x):
        chosen, others = _chosen(targets[n])
        above = 1 - row[chosen][:, None] + row[others] > 0
        slopes[n, others] += above.sum(0) / len(row)
        np.subtract.at(slopes[n], chosen, above.sum(1) / len(row))
    return slopes


def _above(x: np.ndarray, labels: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The margin violation of each class, and which are not the label."""
    z = margin - x[np.arange(len(x), like=x), labels][:, None] + x
    return z, np.arange(x.shape[1], like=x) != labels[:, None]


def _chosen(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The targets of a row, and the mask of the other classes."""
    ends = np.flatnonzero(targets < 0)
    chosen = targets[: ends[0]] if len(ends) else targets
    return chosen, ~np.isin(np.arange(len(targets), like=targets), chosen)
