"""Class labels in int64: which of them count, their weights, and the probabilities that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["label_goals", "label_weights", "labels_count", "labels_outside"]


def labels_count(labels: np.ndarray, classes: int, ignored: int) -> np.ndarray:
    """True where a label is a class, 0 to ``classes`` - 1, and not ``ignored``."""
    return np.asarray((labels >= 0) & (labels < classes) & (labels != ignored), like=labels)


def label_weights(
    labels: np.ndarray, weight: np.ndarray | None, ignored: int, classes: int, factor: float, dtype: np.dtype[Any]
) -> np.ndarray:
    """factor weight[label], and 0 where a label does not count, in this type; weight (C,), None for ones."""
    counts = labels_count(labels, classes, ignored)
    each = 1.0 if weight is None else weight[np.where(counts, labels, 0)]
    return np.asarray(np.where(counts, each * factor, 0.0), dtype, like=labels)


def label_goals(labels: np.ndarray, classes: int, smoothing: float, dtype: np.dtype[Any]) -> np.ndarray:
    """(1 - e) [class == label] + e / C with the smoothing e: labels (N, *D) -> (N, C, *D) of this type"""
    each = np.arange(classes, like=labels).reshape(-1, *[1] * (labels.ndim - 1)) == labels[:, None]
    return np.asarray((1 - smoothing) * each + smoothing / max(classes, 1), dtype, like=labels)


def labels_outside(labels: np.ndarray, classes: int, ignored: int | None) -> np.ndarray:
    """True where a label is neither a class, 0 to ``classes`` - 1, nor ``ignored``."""
    outside = (labels < 0) | (labels >= classes)
    return np.asarray(outside if ignored is None else outside & (labels != ignored), like=labels)
