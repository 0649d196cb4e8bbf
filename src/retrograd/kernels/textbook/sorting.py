"""Sorting, order statistics, unique elements, binary search, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .ieee import ieee

__all__ = [
    "argsort",
    "bincount",
    "histc",
    "histogram",
    "histogramdd",
    "isin",
    "median",
    "median_index",
    "mode",
    "quantile_index",
    "searchsorted",
    "unique",
    "unique_consecutive",
]


# ---- Order statistics along an axis ---------------------------------------------------------------------------------


def argsort(x: np.ndarray, axis: int, descending: bool, stable: bool) -> np.ndarray:
    """Indices (int64) that sort x along ``axis``; a stable sort keeps the order of equal elements, descending too."""
    kind: Any = "stable" if stable else "quicksort"
    if not descending:
        return np.argsort(x, axis, kind=kind).astype(np.int64, copy=False)
    order = np.flip(np.argsort(np.flip(x, axis), axis, kind=kind), axis)
    return np.subtract(x.shape[axis] - 1, order, dtype=np.int64)


def median(x: np.ndarray, skip: bool) -> np.ndarray:
    """The median of all elements, the lower one of two: one element, with as many axes as x.

    It is NaN if there is no element, or a NaN that is not to be skipped.
    """
    line = x.reshape(-1)
    numbers = line[line == line]
    if numbers.size and (skip or numbers.size == line.size):
        middle = (numbers.size - 1) // 2
        y = np.partition(numbers, middle)[middle]
    else:
        y = np.nan
    return np.full((1,) * x.ndim, y, x.dtype, like=x)


def median_index(x: np.ndarray, axis: int, skip: bool) -> np.ndarray:
    """Index (int64) of the median along ``axis``, which gets extent 1; of the first NaN, unless they are skipped."""
    order = argsort(x, axis, False, True)
    count = (x == x).sum(axis, keepdims=True)  # numbers come before NaN
    middle = np.maximum(count - 1, 0) // 2
    if not skip:
        middle = np.where(count < x.shape[axis], count, middle)
    return np.take_along_axis(order, middle, axis)


def mode(x: np.ndarray, axis: int) -> np.ndarray:
    """Last index (int64) of the most frequent element along ``axis``, which gets extent 1; of several, the smallest."""
    order = np.moveaxis(argsort(x, axis, False, True), axis, -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
    places = np.arange(ordered.shape[-1], like=x)
    starts = np.concatenate((np.ones_like(ordered[..., :1], np.bool_), ordered[..., 1:] != ordered[..., :-1]), -1)
    run = places - np.maximum.accumulate(np.where(starts, places, 0), -1)
    index = np.take_along_axis(order, run.argmax(-1)[..., np.newaxis], -1)
    return np.moveaxis(index, -1, axis)


def quantile_index(
    x: np.ndarray, q: np.ndarray, axis: int, interpolation: str, skip: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Locate the quantiles q, () or (Q,), along ``axis``: at rank q (n - 1) of the n sorted elements.

    Returns the indices of the elements below and above this rank; a mask, True where they differ; the fraction of the
    step between them that lies below the rank; and n - 1. A NaN is the quantile, unless NaN are skipped.
    """
    last: Any = x.shape[axis] - 1
    order = argsort(x, axis, False, False)
    missing = np.isnan(x)
    if skip:
        last = np.maximum((~missing).sum(axis, keepdims=True) - 1, 0)
    rank = q.reshape(-1, *(1,) * (x.ndim - axis - 1)).astype(np.float64) * last
    if not skip:
        rank = np.where(missing.any(axis, keepdims=True), last, rank)
    if interpolation == "nearest":
        rank = np.round(rank)
    elif interpolation in ("lower", "higher"):
        rank = (np.floor if interpolation == "lower" else np.ceil)(rank)
    low, high = np.floor(rank), np.ceil(rank)
    lower, upper = (np.take_along_axis(order, each.astype(np.int64), axis) for each in (low, high))
    return lower, upper, low < high, np.asarray(rank - low, x.dtype, like=x), np.asarray(last, x.dtype, like=x)


def unique(x: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct elements, or slices along ``axis``, sorted; the index of each of x among them; their counts.

    NaN differ from each other.
    """
    output, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    inverse = inverse.reshape(x.shape if axis is None else (x.shape[axis],))
    return output, inverse.astype(np.int64, copy=False), counts.astype(np.int64, copy=False)


def unique_consecutive(
    x: np.ndarray, axis: int, inverse: bool, counts: bool
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """x with equal neighboring slices along ``axis`` merged; the index of each of x in the result; the run lengths."""
    rows = np.moveaxis(x, axis, 0)
    changes = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
    starts = np.concatenate(([True] * bool(len(rows)), changes)).astype(np.bool_)
    merged = np.ascontiguousarray(np.moveaxis(rows[starts], 0, axis), like=x)
    number = np.cumsum(starts, dtype=np.int64) - 1 if inverse else None
    count = np.diff(np.append(np.flatnonzero(starts), len(rows))).astype(np.int64) if counts else None
    return merged, number, count


# ---- Search in sorted sequences, membership, and histograms ---------------------------------------------------------


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
