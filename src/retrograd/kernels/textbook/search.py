"""Search in sorted sequences, membership, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .ieee import ieee

__all__ = ["bincount", "histc", "histogram", "histogramdd", "isin", "searchsorted"]


def searchsorted(sequence: np.ndarray, values: np.ndarray, right: bool, dtype: Any) -> np.ndarray:
    """The index of each value in its sorted sequence, before equal elements, or after them if ``right``.

    sequence (*, L), values (*, K) -> (*, K); with a sequence (L,) values has any shape.
    """
    side: Literal["left", "right"] = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side), dtype, like=sequence)
    places = np.empty(values.shape, dtype, like=sequence)
    for at in np.ndindex(*values.shape[:-1]):
        places[at] = np.searchsorted(sequence[at], values[at], side)
    return places


def isin(x: np.ndarray, y: np.ndarray, invert: bool) -> np.ndarray:
    """True where an element of x occurs in y; with ``invert``, where it does not."""
    return np.asarray(np.isin(x, y, invert=invert), like=x)


def bincount(x: np.ndarray, weights: np.ndarray | None, length: int) -> np.ndarray:
    """Count each integer below ``length``, which exceeds all of x (n,); with weights (n,), sum those instead.

    The counts are int64; the sums have the type of the weights, or float64 if these are integers.
    """
    counts = np.bincount(x, weights, length)
    if weights is None:
        return counts.astype(np.int64, copy=False)
    return counts.astype(weights.dtype if weights.dtype.kind == "f" else np.float64)


def histc(x: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    """The number of elements in each of ``bins`` equal parts of [low, high], in x's type; NaN are not counted."""
    line = x.reshape(-1)
    counts, _ = np.histogram(line[line == line], bins, (low, high))
    return counts.astype(x.dtype)


@ieee
def histogram(x: np.ndarray, edges: np.ndarray, weights: np.ndarray | None, density: bool) -> np.ndarray:
    """The number of elements, or the sum of their weights, between neighboring edges (L,), the last one included.

    density: divided by the total and the widths; NaN where nothing is counted
    """
    factors = None if weights is None else weights.reshape(-1)
    counts, _ = np.histogram(x.reshape(-1), edges.astype(np.float64), weights=factors, density=density)
    return counts.astype(x.dtype)


@ieee
def histogramdd(
    points: np.ndarray, edges: Sequence[np.ndarray], weights: np.ndarray | None, density: bool
) -> np.ndarray:
    """The number of points (P, N), or the sum of their weights (P,), in each bin of a grid with N axes of edges.

    density: divided by the total and the volume of a bin; NaN where nothing is counted
    """
    counts = np.zeros([len(own) - 1 for own in edges], np.float64, like=points)
    places = [np.searchsorted(own, x, "right") - 1 - (x == own[-1]) for own, x in zip(edges, points.T, strict=True)]
    inside = np.ones(len(points), bool, like=points)
    for place, own in zip(places, edges, strict=True):
        inside &= (place >= 0) & (place < len(own) - 1)
    amounts = np.ones(len(points), like=points) if weights is None else weights.reshape(-1)
    np.add.at(counts, tuple(place[inside] for place in places), amounts[inside])
    if density:
        counts /= counts.sum()
        for axis, own in enumerate(edges):
            counts /= np.diff(own.astype(np.float64)).reshape([-1] + [1] * (len(edges) - 1 - axis))
    return np.asarray(counts, points.dtype, like=points)
