"""Images sampled at any points: grid_sample, and grids of affine maps. Composed of gathers and products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_counts, as_flag, require_float, require_same
from ..index.gather import Gather
from ..index.indexing import GetItem
from ..pointwise.operands import Constant
from ..product.matmul import matmul
from ..shape.broadcasting import expand
from ..shape.shape import Permute, reshape
from .resampling import keys_far, keys_near

__all__ = ["affine_grid", "grid_sample"]

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@operator(records=(Gather, Constant))
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """y[n, c, o] = input[n, c] at the point grid[n, o], interpolated between its neighbours.

    input (N, C, H, W), grid (N, *O, 2) with (x, y), or input (N, C, D, H, W), grid (N, *O, 3) with (x, y, z) -> y
    (N, C, *O). -1 and 1 are the outer edges of the image, with align_corners the centres of its outermost elements.

    mode: "bilinear" (trilinear for three axes), "nearest", "bicubic" (two axes only, a = -0.75).
    padding_mode: outside the image are "zeros", its "border", or its "reflection".

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, an extent of input is 0, or a mode is unknown or for other axes.
    """
    if interpreters and (seen := interpreted(grid_sample, locals())) is not None:
        return seen
    require_same("grid_sample", "input", input, "grid", grid)
    sx, sg = input.array.shape, grid.array.shape
    count = len(sx) - 2
    if mode not in _MODES or (mode == "bicubic" and count != 2):
        raise ValueError(f"grid_sample: mode={mode!r} must be one of {', '.join(_MODES)}, bicubic for two axes only")
    if padding_mode not in _PADDINGS:
        raise ValueError(f"grid_sample: padding_mode={padding_mode!r} must be one of {', '.join(_PADDINGS)}")
    if count not in (2, 3) or len(sg) != len(sx) or sg[0] != sx[0] or sg[-1] != count or min(sx[2:]) < 1:
        raise ValueError(
            f"grid_sample: input.shape={sx}, grid.shape={sg} must be (N, C, H, W) and (N, *O, 2), or (N, C, D, H, W) "
            f"and (N, *O, 3)"
        )
    align, places = _aligned("grid_sample", align_corners), int(np.prod(sg[1:-1]))
    flat = reshape(grid, sx[0], places, count)
    taps = []  # for each axis of input: (indices, weights) of the neighbours
    for a, extent in enumerate(sx[2:]):
        at = GetItem.apply(flat, (..., count - 1 - a))
        at = (at + 1) * ((extent - 1) / 2) if align else ((at + 1) * extent - 1) * 0.5
        taps.append(_neighbours(at, extent, mode, padding_mode, align))
    image = reshape(input, sx[0], sx[1], int(np.prod(sx[2:])))
    total: Tensor | None = None
    for corner in product(*taps):
        index = np.zeros((sx[0], places), np.int64)
        inside = np.ones((sx[0], places), np.bool_)
        weight: Tensor | None = None
        for (i, w), extent in zip(corner, sx[2:], strict=True):
            inside &= (i >= 0) & (i < extent)
            index = index * extent + np.clip(i, 0, extent - 1)
            weight = w if weight is None or w is None else weight * w
        wide = np.broadcast_to(index[:, None], (sx[0], sx[1], places))
        value = Gather.apply(image, wide, 2)
        if not inside.all():
            kept = wrap(inside.astype(grid.array.dtype))
            weight = kept if weight is None else weight * kept
        if weight is not None:
            value = value * reshape(weight, sx[0], 1, places)
        total = value if total is None else total + value
    assert total is not None
    if mode == "nearest" and grid.requires_grad:
        total = total + Constant.apply(grid, np.zeros(total.array.shape, total.array.dtype))
    return reshape(total, sx[0], sx[1], *sg[1:-1])


@operator
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for ``grid_sample`` of an affine map: theta applied to the points of the result.

    theta (N, 2, 3), size (N, C, H, W) -> (N, H, W, 2), or theta (N, 3, 4), size (N, C, D, H, W) -> (N, D, H, W, 3)

    Raises:
        TypeError: theta is not a floating-point Tensor.
        ValueError: the shapes do not fit, or an extent is below 1.
    """
    if interpreters and (seen := interpreted(affine_grid, locals())) is not None:
        return seen
    require_float("affine_grid", theta, "theta")
    st, extents = theta.array.shape, tuple(as_counts("affine_grid", "size", size).tolist())
    count = len(extents) - 2
    if count not in (2, 3) or st != (extents[0], count, count + 1) or min(extents) < 1:
        raise ValueError(
            f"affine_grid: theta.shape={st}, size={extents} must be (N, 2, 3) and (N, C, H, W), or (N, 3, 4) and "
            f"(N, C, D, H, W)"
        )
    align, lines = _aligned("affine_grid", align_corners), []
    for n in extents[2:]:
        places = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        lines.append(places if align else places * (n - 1) / n)
    grid = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*grid, np.ones(extents[2:])], -1).reshape(-1, count + 1).astype(theta.array.dtype)
    moved = matmul(expand(wrap(base), (extents[0], *base.shape)), Permute.apply(theta, (0, 2, 1)))
    return reshape(moved, extents[0], *extents[2:], count)


def _aligned(name: str, align_corners: bool | None) -> bool:
    return align_corners is not None and as_flag(name, "align_corners", align_corners)


def _neighbours(at: Tensor, extent: int, mode: str, padding: str, align: bool) -> list[tuple[np.ndarray, Any]]:
    """The elements around each point along one axis, and their weights (None: 1)."""
    if mode != "bicubic":
        at = _pulled_in(at, extent, padding, align)
    with np.errstate(invalid="ignore"):
        if mode == "nearest":
            return [(_whole(np.rint(at.array), extent), None)]
        low = np.floor(at.array)
    above = at - wrap(low)
    if mode == "bilinear":
        return [(_whole(low, extent), 1 - above), (_whole(low + 1, extent), above)]
    taps = []
    for k in (-1, 0, 1, 2):
        index = _whole(_pulled_in(wrap(low + k), extent, padding, align).array, extent)
        distance = above - k if k < 1 else k - above
        taps.append((index, (keys_near if k in (0, 1) else keys_far)(distance, -0.75)))
    return taps


def _whole(places: np.ndarray, extent: int) -> np.ndarray:
    """Points as int64; NaN and points far outside are moved just outside."""
    return np.clip(np.nan_to_num(places, nan=-1), -1, extent).astype(np.int64)


def _pulled_in(at: Tensor, extent: int, padding: str, align: bool) -> Tensor:
    """Points outside moved inside: x sign + offset, where sign 0 stops the gradient."""
    if padding == "zeros":
        return at
    x = at.array
    sign, moved = np.ones_like(x), x
    if padding == "reflection":
        low, span = (0.0, extent - 1.0) if align else (-0.5, float(extent))
        if span == 0:
            return at * 0
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
    return at * wrap(sign) + wrap(offset.astype(x.dtype))
