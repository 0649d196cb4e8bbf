"""Interpolation along one axis: the old elements of which each new one is made, and their weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...formulas.interpolation import keys_far, keys_near

__all__ = ["interpolation_matrix", "nearest_indices"]

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def nearest_indices(extent: int, target: int, step: float, centered: bool) -> np.ndarray:
    """indices[r] = min(floor((r + c) step), extent - 1), c = 0.5 if ``centered``, else 0: (target,) int64

    In float32 for data of any type, as in PyTorch: 3.5 / 0.7 is 5, and not just below.
    """
    at = (np.arange(target, dtype=np.float32) + np.float32(0.5 * centered)) * np.float32(step)
    return np.minimum(np.floor(at).astype(np.int64), extent - 1)


def interpolation_matrix(mode: str, extent: int, target: int, step: float, align_corners: bool, antialias: bool) -> Csr:
    """The weights (target, extent) of one axis as a matrix with compressed rows: starts, indices, weights.

    mode: "area", "linear" or "cubic". starts (target + 1,) and indices (K,) int64, weights (K,) float64; weights of 0
    are left out where each row has as many entries.
    """
    if mode == "area":
        number = np.arange(target)
        first, last = number * extent // target, -((number + 1) * -extent // target)
        return _rows(first, last - first, lambda r, k: np.full(k.size, 1.0 / (last[r] - first[r])))
    if antialias:
        return _antialiased(mode, extent, target, step)
    if align_corners:
        places = np.arange(target) * ((extent - 1) / (target - 1) if target > 1 else 0.0)
    else:
        places = (np.arange(target) + 0.5) * step - 0.5
    if mode == "cubic":
        base = np.floor(places).astype(np.int64)
        taps = np.arange(-1, 3)
        weights = _cubic(places[:, None] - base[:, None] - taps, -0.75)
        return _dense(np.clip(base[:, None] + taps, 0, extent - 1), weights)
    places = np.maximum(places, 0)
    base = np.minimum(np.floor(places).astype(np.int64), extent - 1)
    above = np.clip(places - base, 0, 1)
    return _dense(np.stack([base, np.minimum(base + 1, extent - 1)], 1), np.stack([1 - above, above], 1))


def _antialiased(mode: str, extent: int, target: int, step: float) -> Csr:
    """Windows that grow with the step, as in Pillow."""
    stretch = max(step, 1.0)
    reach = (1.0 if mode == "linear" else 2.0) * stretch
    centers = (np.arange(target) + 0.5) * step
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    counts = np.minimum((centers + reach + 0.5).astype(np.int64), extent) - first

    def weights(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        away = (columns - centers[rows] + 0.5) / stretch
        values = np.maximum(1 - np.abs(away), 0) if mode == "linear" else _cubic(away, -0.5)
        return np.asarray(values / np.bincount(rows, values, target)[rows], like=rows)

    return _rows(first, counts, weights)


def _dense(indices: np.ndarray, weights: np.ndarray) -> Csr:
    """A matrix from equally many entries in each row; those with weight 0 are dropped."""
    kept = weights != 0
    return np.concatenate([[0], np.cumsum(kept.sum(1))]), indices[kept], weights[kept]


def _rows(first: np.ndarray, counts: np.ndarray, weights: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Csr:
    """A matrix from adjacent entries in each row, with ``weights`` of row and column."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(np.arange(first.size, like=first), counts)
    columns = np.arange(rows.size, like=first) - starts[rows] + first[rows]
    return starts, columns, weights(rows, columns)


def _cubic(away: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel at signed distances; 0 from a distance of 2 on."""
    t = np.abs(away)
    return np.where(t <= 1, keys_near(t, a), np.where(t < 2, keys_far(t, a), 0.0))
