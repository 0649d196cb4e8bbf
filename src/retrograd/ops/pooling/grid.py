"""Images sampled at any points: grid_sample, and grids of affine maps. Composed of gathers and products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...arrays import all_true, broadcast_to, zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...formulas.interpolation import keys_far, keys_near
from ...kernel_set import kernels
from ..arguments.checks import as_counts, as_flag, require_float, require_same
from ..index.gather import Gather
from ..index.indexing import GetItem
from ..pointwise.operands import Constant
from ..product.matmul import matmul
from ..shape.broadcasting import expand
from ..shape.shape import Permute, reshape

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
    align, places = _aligned("grid_sample", align_corners), prod(sg[1:-1])
    flat = reshape(grid, sx[0], places, count)
    taps = []  # for each axis of input: (indices, weights) of the neighbours
    for a, extent in enumerate(sx[2:]):
        at = GetItem.apply(flat, (..., count - 1 - a))
        at = (at + 1) * ((extent - 1) / 2) if align else ((at + 1) * extent - 1) * 0.5
        taps.append(_neighbours(at, extent, mode, padding_mode, align))
    image = reshape(input, sx[0], sx[1], prod(sx[2:]))
    total: Tensor | None = None
    for corner in product(*taps):
        index, inside = kernels.grid_corner([i for i, _ in corner], sx[2:])
        weight: Tensor | None = None
        for _, w in corner:
            weight = w if weight is None or w is None else weight * w
        wide = broadcast_to(index[:, None], (sx[0], sx[1], places))
        value = Gather.apply(image, wide, 2)
        if not all_true(inside, "whether points lie outside the image"):
            kept = wrap(kernels.cast(inside, grid.array.dtype))
            weight = kept if weight is None else weight * kept
        if weight is not None:
            value = value * reshape(weight, sx[0], 1, places)
        total = value if total is None else total + value
    assert total is not None
    if mode == "nearest" and grid.requires_grad:
        total = total + Constant.apply(grid, zeros(total.array.shape, total.array.dtype, like=total.array))
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
    base = kernels.affine_points(theta.array, extents[2:], _aligned("affine_grid", align_corners))
    moved = matmul(expand(wrap(base), (extents[0], *base.shape)), Permute.apply(theta, (0, 2, 1)))
    return reshape(moved, extents[0], *extents[2:], count)


def _aligned(name: str, align_corners: bool | None) -> bool:
    return align_corners is not None and as_flag(name, "align_corners", align_corners)


def _neighbours(at: Tensor, extent: int, mode: str, padding: str, align: bool) -> list[tuple[np.ndarray, Any]]:
    """The elements around each point along one axis, and their weights (None: 1)."""
    if mode != "bicubic":
        at = _pulled_in(at, extent, padding, align)
        padding = "zeros"
    if mode == "nearest":
        return [(kernels.neighbor_indices(kernels.round(at.array), 0, extent, padding, align), None)]
    low = kernels.floor(at.array)
    above = at - wrap(low)
    shifts = (0, 1) if mode == "bilinear" else (-1, 0, 1, 2)
    indices = [kernels.neighbor_indices(low, shift, extent, padding, align) for shift in shifts]
    if mode == "bilinear":
        weights = [1 - above, above]
    else:
        weights = [(keys_near if k in (0, 1) else keys_far)(above - k if k < 1 else k - above, -0.75) for k in shifts]
    return list(zip(indices, weights, strict=True))


def _pulled_in(at: Tensor, extent: int, padding: str, align: bool) -> Tensor:
    """Points outside moved inside: x sign + offset, where sign 0 stops the gradient."""
    if padding == "zeros":
        return at
    if padding == "reflection" and align and extent == 1:
        return at * 0
    sign, offset = kernels.fold_points(at.array, extent, padding, align)
    return at * wrap(sign) + wrap(offset)
