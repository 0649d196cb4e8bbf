"""Points of a grid: those of an affine map, points moved into an image, and the elements around each point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .ieee import ieee

__all__ = ["affine_points", "fold_points", "grid_corner", "neighbor_indices"]


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
    """The whole points x + shift, moved into the image by ``padding``, as int64; "zeros" leaves them outside.

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
