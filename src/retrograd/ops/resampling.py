"""Resampling of images: `interpolate`, `grid_sample` and affine grids.

Along each axis, each new element is a weighted sum of a few old ones. The weights form a sparse matrix, and the
gradient is the product with its transpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..arrays import all_true, arange, broadcast_to, empty_like, ones, same, zeros
from ..engine.function import Function
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..formulas.piecewise import keys_far, keys_near
from ..kernel_set import kernels
from ..specs.geometry import pool_window
from .argument_checks import as_counts, as_flag, as_truth, is_number, require_float, require_same
from .index.gather import Gather
from .index.indexing import GetItem
from .pointwise.pointwise import Constant
from .product.matmul import matmul
from .shape.broadcasting import expand
from .shape.shape import Permute, reshape
from .sparse_products import Matrix, SparseProduct, SparseProducts

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]


# ---- `interpolate`: images, sequences and volumes at another resolution ----------------------------------------------

_AXES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
}
_LINEAR, _CUBIC = ("linear", "bilinear", "trilinear"), ("bicubic",)
_IDENTITY = "whether elements are only repeated"


class Repeat(Function):
    """x (N, C, *I) with each element repeated ``factors[k]`` times along axis k of I"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: tuple[int, ...]) -> Tensor:
        ctx.factors = factors
        lead, space = x.array.shape[:2], x.array.shape[2:]
        y = empty_like(x.array, shape=lead + tuple(n * f for n, f in zip(space, factors, strict=True)))
        apart = y.reshape(*lead, *(part for pair in zip(space, factors, strict=True) for part in pair))
        kernels.copy(apart, x.array[(..., *(slice(None), None) * len(factors))])
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return SumBoxes.apply(g, ctx.factors), None


class SumBoxes(Function):
    """The sums of boxes of ``factors`` elements of x (N, C, *O): the transpose of Repeat."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: tuple[int, ...]) -> Tensor:
        ctx.factors = factors
        means = kernels.avg_pool(x.array, pool_window(x.array.shape[2:], factors), True)
        return wrap(kernels.scale(means, float(math.prod(factors))))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return Repeat.apply(v, ctx.factors), None


@operator(records=(Repeat, SparseProducts, SparseProduct))
def interpolate(
    input: Tensor,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize input (N, C, *I) to (N, C, *O), O = size or floor(I * scale_factor); one number applies to all axes.

    mode: "nearest" (rounds down, as in OpenCV), "nearest-exact", "linear", "bilinear" or "trilinear" (for 1, 2 or
        3 axes), "bicubic" (2 axes, a = -0.75), or "area" (means of boxes that cover input).
    align_corners: align the centers of the corner elements, not their outer edges; linear modes and bicubic only.
    recompute_scale_factor: use the ratio of the extents, not ``scale_factor`` itself.
    antialias: wider windows where the image shrinks; bilinear and bicubic (a = -0.5). As in PyTorch, align_corners then
        changes only the distance of the samples, to (I - 1) / (O - 1), not the place of the first one, at half of it.

    Raises:
        TypeError: input is not a floating-point Tensor, or a size or factor has a wrong type.
        ValueError: the mode is unknown or for other axes, an option is not available for it, not exactly one of
            ``size`` and ``scale_factor`` is given, or an extent is 0.
    """
    if interpreters and (seen := interpreted(interpolate, locals())) is not None:
        return seen
    require_float("interpolate", input)
    shape = input.array.shape
    count = len(shape) - 2
    if not isinstance(mode, str) or mode not in _AXES:
        raise ValueError(f"interpolate: mode={mode!r} must be one of {', '.join(_AXES)}")
    if count not in _AXES[mode]:
        raise ValueError(
            f"interpolate: mode={mode!r} is for inputs (N, C, *I) with {' or '.join(map(str, _AXES[mode]))} axes in I; "
            f"input.shape={shape}"
        )
    for argument, value in (("align_corners", align_corners), ("recompute_scale_factor", recompute_scale_factor)):
        if value is not None:
            as_truth("interpolate", argument, value)
    antialias = as_truth("interpolate", "antialias", antialias)
    if align_corners is not None and mode not in (*_LINEAR, *_CUBIC):
        raise ValueError(f"interpolate: align_corners={align_corners} is not available for mode={mode!r}; leave it out")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias=True needs mode='bilinear' or 'bicubic'; got mode={mode!r}")
    target, ratios = _target(shape[2:], size, scale_factor, recompute_scale_factor)
    if min(shape[1:]) < 1 or min(target) < 1:
        raise ValueError(f"interpolate: input.shape={shape} and the new extents {target} must be at least 1")
    if mode.startswith("nearest"):
        factors = tuple(_factor(mode, *sizes) for sizes in zip(shape[2:], target, ratios, strict=True))
        if min(factors) >= 1:
            return Repeat.apply(input, factors)
    y = input
    matrices = [
        _matrix(mode, *sizes, bool(align_corners), antialias) for sizes in zip(shape[2:], target, ratios, strict=True)
    ]
    if count > 1 and None not in matrices[-2:]:
        y = SparseProducts.apply(y, *matrices[-2:], count)
        matrices[-2:] = None, None
    # the last axis has the shortest runs in memory, so resize it first, while the array is small
    for k in reversed(range(count)):
        if matrices[k] is not None:
            y = SparseProduct.apply(y, matrices[k], 2 + k)
    return y if y is not input else y.clone()


@operator
def upsample(
    input: Tensor,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Alias of ``interpolate``, its former name.

    Raises: as ``interpolate``.
    """
    if interpreters and (seen := interpreted(upsample, locals())) is not None:
        return seen
    if align_corners is not None:
        align_corners = as_flag("upsample", "align_corners", align_corners)
    return interpolate(input, size, scale_factor, mode, align_corners)


@operator
def upsample_nearest(
    input: Tensor, size: int | tuple[int, ...] | None = None, scale_factor: float | tuple[float, ...] | None = None
) -> Tensor:
    """Resize input with ``interpolate`` in mode "nearest".

    Raises: as ``interpolate``.
    """
    if interpreters and (seen := interpreted(upsample_nearest, locals())) is not None:
        return seen
    return interpolate(input, size, scale_factor, "nearest")


@operator
def upsample_bilinear(
    input: Tensor, size: int | tuple[int, ...] | None = None, scale_factor: float | tuple[float, ...] | None = None
) -> Tensor:
    """Resize input with ``interpolate`` in mode "bilinear" with align_corners=True.

    Raises: as ``interpolate``.
    """
    if interpreters and (seen := interpreted(upsample_bilinear, locals())) is not None:
        return seen
    return interpolate(input, size, scale_factor, "bilinear", True)


def _target(
    extents: tuple[int, ...], size: Any, factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the new extents, and the distance between sampled positions per axis; None if it is their ratio."""
    if (size is None) == (factor is None):
        raise ValueError(f"interpolate: give either size or scale_factor; got size={size}, scale_factor={factor}")
    given = size if factor is None else factor
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(extents)
    label = "size" if factor is None else "scale_factor"
    wrong = [n for n in each if not (isinstance(n, (int, np.integer)) if factor is None else is_number(n))]
    if wrong:
        raise TypeError(
            f"interpolate: {label}={given!r} must be {'an int' if factor is None else 'a number'} or several"
        )
    if len(each) != len(extents):
        raise ValueError(f"interpolate: {label}={given} must be one number or one for each of the {len(extents)} axes")
    if factor is None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor=True needs scale_factor, not size")
        return tuple(map(int, each)), (None,) * len(each)
    if min(each) <= 0:
        raise ValueError(f"interpolate: scale_factor={given} must be above 0")
    target = tuple(math.floor(float(n) * float(f)) for n, f in zip(extents, each, strict=True))
    return target, (None,) * len(each) if recompute else tuple(1.0 / float(f) for f in each)


@lru_cache(maxsize=256)
def _matrix(mode: str, extent: int, target: int, ratio: float | None, align: bool, antialias: bool) -> Matrix | None:
    """Return the weights (target, extent) of one axis; None for the identity."""
    step = extent / target if ratio is None else ratio
    if target == extent and (mode in _LINEAR or antialias):
        return None  # for any factor, as in PyTorch
    if mode.startswith("nearest"):
        indices = kernels.nearest_indices(extent, target, step, mode == "nearest-exact")
        return None if same(indices, arange(extent), _IDENTITY) else Matrix(indices, extent).as_constant()
    kind = "linear" if mode in _LINEAR else "cubic" if mode in _CUBIC else mode
    starts, indices, weights = kernels.interpolation_matrix(kind, extent, target, step, align, antialias)
    if (
        mode != "area"
        and indices.size == extent == target
        and same(indices, arange(extent), _IDENTITY)
        and same(weights, ones(extent, weights.dtype), _IDENTITY)
    ):
        return None
    return Matrix(indices, extent, starts, weights).as_constant()


@lru_cache(maxsize=256)
def _factor(mode: str, extent: int, target: int, ratio: float | None) -> int:
    """Return how often the matrix of this axis repeats each element; 0 if that differs between elements."""
    matrix, factor = _matrix(mode, extent, target, ratio, False, False), target // extent
    if matrix is None:
        return factor
    if target != extent * factor:
        return 0
    repeated = broadcast_to(arange(extent)[:, None], (extent, factor))
    return factor if same(matrix.indices.reshape(extent, factor), repeated, _IDENTITY) else 0


# ---- `grid_sample`: images sampled at arbitrary points ---------------------------------------------------------------

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@operator(records=(Gather, Constant))
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample y[n, c, o] = input[n, c] at the point grid[n, o], interpolated between its neighbors.

    input (N, C, H, W), grid (N, *O, 2) with (x, y), or input (N, C, D, H, W), grid (N, *O, 3) with (x, y, z) -> y
    (N, C, *O). -1 and 1 are the outer edges of the image, or with align_corners the centers of its outermost elements.

    mode: "bilinear" (trilinear for three axes), "nearest", "bicubic" (two axes only, a = -0.75).
    padding_mode: the values outside the image: "zeros", its "border", or its "reflection".

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
    taps = []  # for each axis of input: (indices, weights) of the neighbors
    for a, extent in enumerate(sx[2:]):
        at = GetItem.apply(flat, (..., count - 1 - a))
        at = (at + 1) * ((extent - 1) / 2) if align else ((at + 1) * extent - 1) * 0.5
        taps.append(_neighbors(at, extent, mode, padding_mode, align))
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
    """The ``grid_sample`` grid of an affine map: theta applied to the points of the result.

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


def _neighbors(at: Tensor, extent: int, mode: str, padding: str, align: bool) -> list[tuple[np.ndarray, Any]]:
    """Return the indices of the elements around each point along one axis, and their weights (None: 1)."""
    if mode != "bicubic":
        at = _moved_inside(at, extent, padding, align)
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


def _moved_inside(at: Tensor, extent: int, padding: str, align: bool) -> Tensor:
    """Move outside points inside the image: at * sign + offset, where sign 0 stops the gradient."""
    if padding == "zeros":
        return at
    if padding == "reflection" and align and extent == 1:
        return at * 0
    sign, offset = kernels.fold_points(at.array, extent, padding, align)
    return at * wrap(sign) + wrap(offset)
