"""Distances and similarities of vectors, row by row or between all pairs."""

from __future__ import annotations

from math import inf
from typing import Any

from ...arrays import any_true, from_host, zeros, zeros_like
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import (
    are_floats,
    are_integers,
    as_flag,
    as_float,
    as_real,
    require_float,
    require_number,
    require_same,
)
from ..dtypes.dtype import float32
from ..dtypes.promotion import floats
from ..pointwise.exponential import sqrt
from ..reduce.norms import vector_norm_of
from ..reduce.reduction import sum
from ..shape.broadcasting import broadcast_shape, expand
from ..shape.shape import axis, unsqueeze

__all__ = ["cdist", "pdist"]


# ---- Distances and similarities of vectors --------------------------------------------------------------------------


class RowNorm(Function):
    """(sum |x|^p)^(1/p) along the last axis, for p > 0 or inf; the gradient at 0 is 0"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        a, last = x.array, (x.array.ndim - 1,)
        ctx.p = p
        if p == 2:
            y = kernels.sqrt(kernels.sum(kernels.mul(a, a), last, False))
        elif p == 1:
            y = kernels.sum(kernels.abs(a), last, False)
        elif p == inf:
            y = kernels.largest(a)
        else:
            y = kernels.power(kernels.sum(kernels.power(kernels.abs(a), p), last, False), 1 / p)
        result = wrap(y)
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (x, y), p = ctx.saved_tensors, ctx.p
        rows = (*y.array.shape, 1)
        if p == inf:  # ties share the gradient
            return g.reshape(rows) * wrap(kernels.largest_slope(x.array, y.array)), None
        if p == 2:
            return x * (g / _divisor(y)).reshape(rows), None
        sign = wrap(kernels.signum(x.array))
        if p == 1:
            return g.reshape(rows) * sign, None
        return _divisor(x * sign) ** (p - 1) * sign * (g / _divisor(y) ** (p - 1)).reshape(rows), None


class EuclideanDistance(Function):
    """sqrt(sum (x - y + eps)^2) of rows x, y (N, D) -> (N,); the gradient at 0 is 0"""

    gradient = "x: g (x - y) / d, summed over the pairs, 0 where d is 0; y: its negative"

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, eps: float) -> Tensor:
        d = wrap(kernels.sqrt(kernels.row_squares(x.array, y.array, eps)))
        ctx.save_for_backward(x, y, d)
        ctx.eps = eps
        return d

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_y, _), (x, y, d) = ctx.needs_input_grad, ctx.saved_tensors
        a = g / _divisor(d)
        gx = RowCombination.apply(a, x, -a, y, a * ctx.eps)
        return gx if want_x else None, -gx if want_y else None, None


class RowProducts(Function):
    """Sums of x y, x x and y y over the last axis; x, y (N, D)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        xy, xx, yy = kernels.row_products(x.array, y.array)
        return wrap(xy), wrap(xx), wrap(yy)

    @staticmethod
    def backward(ctx: Any, gxy: Tensor, gxx: Tensor, gyy: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        zero = wrap(zeros_like(gxy.array))
        gx = RowCombination.apply(gxx * 2.0, x, gxy, y, zero) if want_x else None
        gy = RowCombination.apply(gxy, x, gyy * 2.0, y, zero) if want_y else None
        return gx, gy


class RowCombination(Function):
    """a[n] x[n] + b[n] y[n] + c[n]; x, y (N, D), a, b, c (N,)"""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, b: Tensor, y: Tensor, c: Tensor) -> Tensor:
        ctx.save_for_backward(a, x, b, y)
        return wrap(kernels.row_combination(a.array, x.array, b.array, y.array, c.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        needs_grad, (a, x, b, y) = ctx.needs_input_grad, ctx.saved_tensors
        rows = (len(a.array), 1)
        return (
            sum(g * x, 1) if needs_grad[0] else None,
            g * a.reshape(rows) if needs_grad[1] else None,
            sum(g * y, 1) if needs_grad[2] else None,
            g * b.reshape(rows) if needs_grad[3] else None,
            sum(g, 1) if needs_grad[4] else None,
        )


def row_cosine(x: Tensor, y: Tensor, eps: float) -> Tensor:
    """sum x y / sqrt((sum x x + eps) (sum y y + eps)) over the last axis; x, y (N, D) -> (N,)"""
    xy, xx, yy = RowProducts.apply(x, y)
    return xy / sqrt((xx + eps) * (yy + eps))


def row_norm(name: str, x: Tensor, p: float) -> Tensor:
    """The p-norm along the last axis."""
    return RowNorm.apply(x, p) if p > 0 else vector_norm_of(name, x, p, -1, False, None)


@operator(records=EuclideanDistance, dtypes="if")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """(sum |x1 - x2 + eps|^p)^(1/p) along the last axis.

    x1, x2 (..., D), broadcast -> (...), or (..., 1) with ``keepdim``
    p: any number; inf and -inf give the largest and smallest difference, 0 the number of nonzero differences

    Raises:
        TypeError: an operand is not a Tensor of numbers.
        ValueError: p is NaN, or the shapes do not broadcast or have no axes.
    """
    if interpreters and (seen := interpreted(pairwise_distance, locals())) is not None:
        return seen
    name = "pairwise_distance"
    if not are_floats(x1, x2):
        x1, x2 = as_float_pair(name, x1=x1, x2=x2)
    keepdim = as_flag(name, "keepdim", keepdim)
    p, eps = as_real(name, "p", p), as_real(name, "eps", eps)
    if p != p:
        raise ValueError(f"{name}: p={p} must be a number, inf or -inf")
    shape = broadcast_shape(name, x1.array.shape, x2.array.shape)
    if not shape:
        raise ValueError(f"{name}: x1 and x2 have no axes, need (..., D)")
    if p == 2 and len(shape) == 2:
        y = EuclideanDistance.apply(expand(x1, shape), expand(x2, shape), eps)
    else:
        y = row_norm(name, x1 - x2 + eps, p)
    return y.reshape((*y.shape, 1)) if keepdim else y


def as_float_pair(name: str, **operands: Any) -> tuple[Tensor, ...]:
    """Promote two operands, given by their names in the caller, to a floating-point type.

    Two integer operands become their exact difference and 0. TypeError unless both are Tensors of numbers.
    """
    for label, value in operands.items():
        require_number(name, value, label)
    x, y = operands.values()
    if are_integers(x, y):
        broadcast_shape(name, x.array.shape, y.array.shape)
        return as_float(name, x - y), wrap(zeros((), float32, like=x.array))
    return floats(name, **operands)


@operator
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along axis ``dim``, which is removed; shapes broadcast.

    Raises:
        TypeError: an operand is not a Tensor, or neither is floating-point.
        ValueError: the shapes do not broadcast.
        IndexError: the operands have no axis ``dim``.
    """
    if interpreters and (seen := interpreted(cosine_similarity, locals())) is not None:
        return seen
    name = "cosine_similarity"
    eps = as_real(name, "eps", eps)
    if not are_floats(x1, x2):
        x1, x2 = floats(name, x1=x1, x2=x2)
    shape = broadcast_shape(name, x1.array.shape, x2.array.shape)
    along = axis(name, "dim", dim, len(shape) or 1)
    x1, x2 = expand(x1, shape), expand(x2, shape)
    return sum(_unit(x1, along, eps) * _unit(x2, along, eps), along)


def _unit(x: Tensor, along: int, eps: float) -> Tensor:
    """Return x / max(|x|, eps); the gradient ignores the max, as in PyTorch."""
    square = sum(x * x, along, True)
    length, short = kernels.short_lengths(square.array, eps)
    if not any_true(short, "whether a vector is shorter than eps"):
        return x / sqrt(square)
    # at length 0, use the derivative of the square root at 1
    root = sqrt(_divisor(square))
    longer = kernels.maximum(length, from_host(eps, length.dtype, like=length))
    return x / (root - wrap(root.array) + wrap(longer))  # the value of longer, without rounding 1 + eps


def _divisor(y: Tensor) -> Tensor:
    """Return y with 1 in place of 0; the gradient is that of y."""
    zero = kernels.is_zero(y.array)
    return y + wrap(kernels.cast(zero, y.array.dtype)) if any_true(zero, "whether a length is 0") else y


# ---- Distances between all pairs of vectors -------------------------------------------------------------------------

_MODES = "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"


@operator
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """y[..., i, j] = (sum over k of |x1[..., i, k] - x2[..., j, k]|^p)^(1/p)

    x1 (..., P, M), x2 (..., R, M) -> (..., P, R); the gradient at distance 0 is 0
    p: at least 0; float("inf") gives the largest difference, 0 the number of nonzero differences
    compute_mode: one of PyTorch's three names; here all of them sum differences, which is accurate

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: an operand has fewer than two axes, M differs, the leading axes do not broadcast, p is below 0, or
            compute_mode is unknown.
    """
    if interpreters and (seen := interpreted(cdist, locals())) is not None:
        return seen
    require_same("cdist", "x1", x1, "x2", x2)
    s1, s2 = x1.array.shape, x2.array.shape
    if len(s1) < 2 or len(s2) < 2 or s1[-1] != s2[-1]:
        raise ValueError(f"cdist: x1.shape={s1}, x2.shape={s2} must be (..., P, M) and (..., R, M)")
    p = as_real("cdist", "p", p)
    if not p >= 0:
        raise ValueError(f"cdist: p={p:g} must be at least 0")
    if compute_mode not in _MODES:
        raise ValueError(f"cdist: compute_mode={compute_mode!r} must be one of {', '.join(map(repr, _MODES))}")
    lead = broadcast_shape("cdist", s1[:-2], s2[:-2])
    rows = unsqueeze(expand(x1, lead + s1[-2:]), -2)
    return row_norm("cdist", rows - unsqueeze(expand(x2, lead + s2[-2:]), -3), p)


@operator
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, starting with rows 0 and 1: input (N, M) -> (N (N - 1) / 2,)

    p: as in ``cdist``

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input is not a matrix, or p is below 0.
    """
    if interpreters and (seen := interpreted(pdist, locals())) is not None:
        return seen
    require_float("pdist", input)
    if input.array.ndim != 2:
        raise ValueError(f"pdist: input.shape={input.array.shape} must have two axes: (N, M)")
    p = as_real("pdist", "p", p)
    if not p >= 0:
        raise ValueError(f"pdist: p={p:g} must be at least 0")
    rows, columns = kernels.pair_indices(input.array)
    return row_norm("pdist", input[wrap(rows)] - input[wrap(columns)], p)
