"""Interpolation along an axis, affine grids, and grid sampling indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...formulas.piecewise import keys_far, keys_near
from .ieee import ieee

__all__ = ["affine_points", "fold_points", "grid_corner", "interpolation_matrix", "nearest_indices", "neighbor_indices"]


# ---- Interpolation along one axis: the source elements of each new one, and their weights ---------------------------

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def nearest_indices(extent: int, target: int, step: float, centered: bool) -> np.ndarray:
    """indices[r] = min(floor((r + c) step), extent - 1), c = 0.5 if ``centered``, else 0: (target,) int64

    Computed in float32 for data of any dtype, as in PyTorch, so that 3.5 / 0.7 is 5 and not slightly less.
    """
    at = (np.arange(target, dtype=np.float32) + np.float32(0.5 * centered)) * np.float32(step)
    return np.minimum(np.floor(at).astype(np.int64), extent - 1)


def interpolation_matrix(mode: str, extent: int, target: int, step: float, align_corners: bool, antialias: bool) -> Csr:
    """The weights (target, extent) of one axis as a matrix with compressed rows: starts, indices, weights.

    mode: "area", "linear" or "cubic". starts (target + 1,) and indices (K,) int64, weights (K,) float64. "linear" and
    "cubic" without antialiasing drop weights of 0.
    """
    if mode == "area":
        number = np.arange(target)
        first, last = number * extent // target, -((number + 1) * -extent // target)
        return _rows(first, last - first, lambda r, k: np.full(k.size, 1.0 / (last[r] - first[r])))
    if align_corners:
        step = (extent - 1) / (target - 1) if target > 1 else 0.0
    if antialias:
        return _antialiased(mode, extent, target, step)
    places = np.arange(target) * step if align_corners else (np.arange(target) + 0.5) * step - 0.5
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
    """The matrix of antialiased interpolation: windows grow with the step, as in Pillow."""
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
    """A CSR matrix from the same number of entries in each row; those with weight 0 are dropped."""
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


# ---- Points of a grid -----------------------------------------------------------------------------------------------


def affine_points(theta: np.ndarray, extents: tuple[int, ...], align_corners: bool) -> np.ndarray:
    """The points of an image and a 1, (x, y, 1) or (x, y, z, 1) in C order: (prod(extents), len(extents) + 1).

    They have the type of theta, the affine maps that are applied to them. -1 and 1 are the outer edges of the image,
    with ``align_corners`` the centers of its outermost elements.
    """
    lines = []
    for n in extents:
        places = np.asarray(np.linspace(-1, 1, n) if n > 1 else np.zeros(1), like=theta)
        lines.append(places if align_corners else places * (n - 1) / n)
    grid = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*grid, np.ones(extents, like=theta)], -1).reshape(-1, len(extents) + 1).astype(theta.dtype)
    return np.asarray(points, like=theta)


@ieee
def fold_points(x: np.ndarray, extent: int, padding: str, align_corners: bool) -> tuple[np.ndarray, np.ndarray]:
    """sign and offset, of x's shape and type: x sign + offset lies between 0 and extent - 1. sign 0 stops the gradient.

    padding: "border" clips the points, "reflection" mirrors them at both edges first, as often as needed.
    """
    sign, moved = np.ones_like(x), x
    if padding == "reflection":
        low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
        away = np.abs(x - low)
        turns = np.floor(away / span)
        rest = away - turns * span
        odd = turns % 2 == 1
        moved = np.where(odd, span - rest + low, rest + low)
        sign = np.where(x < low, -1.0, 1.0) * np.where(odd, -1.0, 1.0)
    inside = (moved > 0) & (moved < extent - 1)
    sign = np.where(inside, sign, 0.0).astype(x.dtype)
    moved = np.clip(moved, 0, extent - 1)
    offset = np.where(sign == 0, moved, moved - np.where(sign == 0, 0, x) * sign)
    return sign, offset.astype(x.dtype)


@ieee
def neighbor_indices(x: np.ndarray, shift: int, extent: int, padding: str, align_corners: bool) -> np.ndarray:
    """The integer points x + shift, moved into the image by ``padding``, as int64; "zeros" leaves them outside.

    NaN and points far outside are moved just outside, to -1 and ``extent``.
    """
    at = x + shift if shift else x
    if padding == "reflection" and align_corners and extent == 1:
        at = at * 0
    elif padding != "zeros":
        sign, offset = fold_points(at, extent, padding, align_corners)
        at = at * sign + offset
    return np.clip(np.nan_to_num(at, nan=-1), -1, extent).astype(np.int64)


def grid_corner(places: Sequence[np.ndarray], extents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The flat index of the element at the coordinates ``places``, clipped to ``extents``; and whether it is inside.

    places: an array (N, P) of int64 for each axis -> int64 (N, P), bool (N, P)
    """
    index = np.zeros(places[0].shape, np.int64, like=places[0])
    inside = np.ones(places[0].shape, np.bool_, like=places[0])
    for i, extent in zip(places, extents, strict=True):
        inside &= (i >= 0) & (i < extent)
        index = index * extent + np.clip(i, 0, extent - 1)
    return index, inside
