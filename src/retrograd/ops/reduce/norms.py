"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from math import inf
from typing import Any

import numpy as np

from ...arrays import eye, zeros_like
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_real, is_number, require_float
from ..dtypes.dtype import DTypeLike, as_dtype, cast
from ..pointwise.exponential import pow
from ..pointwise.pointwise import Constant
from ..pointwise.rounding import abs
from ..shape.broadcasting import Sum
from ..shape.shape import Permute, Reshape
from .reduction import Amax, Dim, axes, left_shape
from .statistics import quotient_or_zero

__all__ = ["norm"]


# ---- Norms of vectors, and the Frobenius norm of matrices -----------------------------------------------------------


class Norm1(Function):
    """sum |x| over ``axes``; the gradient at 0 is 0."""

    piecewise_linear = True

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return wrap(kernels.norm(x.array, 1, axes, keepdims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        kept = left_shape(x.array.shape, ctx.axes, True)
        return Signed.apply(Reshape.apply(g, kept), x.array, ctx.axes), None, None


class Signed(Function):
    """g times the sign of x, where g has extent 1 along ``axes``. It is linear in g; x only gives the signs."""

    @staticmethod
    def forward(g: Tensor, x: np.ndarray, axes: tuple[int, ...]) -> Tensor:
        return wrap(kernels.signed(g.array, x))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, x, ctx.axes = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return Sum.apply(Signed.apply(v, x, ()), ctx.axes, True), None, None


class Norm2(Function):
    """sqrt(sum x^2) over ``axes``; the gradient at 0 is 0."""

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return wrap(kernels.norm(x.array, 2, axes, keepdims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        kept = left_shape(x.array.shape, ctx.axes, True)
        return x * Reshape.apply(quotient_or_zero(g, y), kept), None, None


@operator(methods="norm")
def norm(input: Tensor, p: Any = "fro", dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """(sum |input|^p)^(1/p) over ``dim`` (all axes if None); "fro" and None mean 2; see ``linalg.vector_norm``.

    "nuc" is the sum of the singular values of matrices, see ``linalg.matrix_norm``.

    dtype: convert input first.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: ``p`` is not a number, "fro", "nuc" or None, or an axis is named twice; "nuc" is not over two axes.
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(norm, locals())) is not None:
        return seen
    if p is None or p == "fro":
        p = 2.0
    elif p == "nuc":
        return matrix_norm_of("norm", input, p, tuple(range(input.array.ndim)) if dim is None else dim, keepdim, dtype)
    elif p != 2 and not is_number(p):
        raise ValueError(f'norm: p={p!r} must be a number, "fro", "nuc" or None')
    return vector_norm_of("norm", input, p, dim, keepdim, dtype)


def vector_norm_of(name: str, x: Tensor, order: float, dim: Dim, keepdim: bool, dtype: Any) -> Tensor:
    """Compute the norm of any order over axes, for ``norm``, ``linalg.vector_norm`` and ``linalg.norm``."""
    require_float(name, x)
    if order != 2:
        if not is_number(order) or math.isnan(number := as_real(name, "ord", order)):
            raise ValueError(f"{name}: ord={order!r} must be a number, inf or -inf")
        order = number
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
        require_float(name, x)
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    over = axes(name, dim, x.array.ndim)
    shape = x.array.shape
    if (order < 0 or order == math.inf) and 0 in [shape[i] for i in over]:
        raise ValueError(f"{name}: input.shape={shape} has no element over dim={dim}; ord={order} needs one")
    if order == 2:
        return Norm2.apply(x, over, keepdim)
    if order == 1:
        return Norm1.apply(x, over, keepdim)
    if order == 0:
        return Constant.apply(x, kernels.count_nonzero(x.array, over, keepdim, x.array.dtype))
    size = abs(x)
    if math.isinf(order):
        return Amax.apply(size, over, keepdim, order < 0)
    # dividing by the dominant element prevents overflow and underflow of the powers
    scale = kernels.decisive(size.array, over, order < 0)
    size, scale_left = size / wrap(scale), wrap(scale.reshape(left_shape(shape, over, keepdim)))
    # powers of 0 have no derivative: replace 0 with 1, but do not count it
    at_zero = wrap(kernels.at_zero(x.array))
    if order < 0:  # the norm is 0 if an element is 0
        no_zero = wrap(kernels.cast(kernels.all(x.array, over, keepdim), x.array.dtype))
        return pow(Sum.apply(pow(size + at_zero, order), over, keepdim), 1 / order) * scale_left * no_zero
    total = Sum.apply(pow(size + at_zero, order) - at_zero, over, keepdim)
    of_nothing = wrap(kernels.at_zero(total.array))
    return (pow(total + of_nothing, 1 / order) - of_nothing) * scale_left


# ---- Norms of matrices: sums of rows or columns, and singular values ------------------------------------------------

ORDERS = ("fro", "nuc", inf, -inf, 1, -1, 2, -2)


class Svd(Function):
    """x (..., M, N) = u diag(s) v^T: u (..., M, K), s (..., K) in descending order, v (..., N, K), K = min(M, N).

    Source: J. Townsend, "Differentiating the Singular Value Decomposition", 2016. Where singular values are equal,
    their vectors are not unique, and the gradient through u and v is not finite.
    """

    gradient = "x: u (gs + (J + JT) s + s (K + KT)) vT, J = F uT gu, K = F vT gv, F = 1 / (s_j**2 - s_i**2)"

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        found = tuple(map(wrap, kernels.svd(x.array)))
        ctx.save_for_backward(*found)
        ctx.set_materialize_grads(False)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor:
        u, s, v = saved = ctx.saved_tensors
        pairs = zip(gradients, saved, strict=True)
        gu, gs, gv = (wrap(zeros_like(y.array)) if g is None else g for g, y in pairs)
        if gradients[0] is None and gradients[2] is None:  # the gradients through u and v may not exist
            return (u * gs.unsqueeze(-2)) @ _transposed(v)
        count = s.array.shape[-1]
        row, column = s.unsqueeze(-2), s.unsqueeze(-1)
        apart = (row - column) * (row + column) + wrap(eye(count, dtype=s.array.dtype, like=s.array))
        of_u, of_v = _transposed(u) @ gu, _transposed(v) @ gv
        middle = (of_u - _transposed(of_u)) / apart * row + (of_v - _transposed(of_v)) / apart * column
        gx = (u * gs.unsqueeze(-2) + u @ middle) @ _transposed(v)
        if u.array.shape[-2] > count:  # the part of gu orthogonal to u
            gx = gx + (gu - u @ of_u) / row @ _transposed(v)
        if v.array.shape[-2] > count:
            gx = gx + u @ _transposed((gv - v @ of_v) / row)
        return gx


def matrix_norm_of(name: str, x: Tensor, order: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    """Norm of matrices over the axes (rows, columns) ``dim``, for ``norm``, ``linalg.norm`` and ``matrix_norm``.

    Raises:
        TypeError: x is not a floating-point Tensor.
        ValueError: ``order`` is not in ORDERS, ``dim`` does not name two axes, or the order needs the
            smallest of no elements.
        IndexError: x has no such axis.
    """
    require_float(name, x)
    if not isinstance(order, (str, int, float)) or order not in ORDERS:
        raise ValueError(f"{name}: ord={order!r} must be one of {', '.join(map(repr, ORDERS))} for a matrix")
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    over = axes(name, dim, x.array.ndim)
    if len(over) != 2:
        raise ValueError(f"{name}: dim={dim} must name 2 axes, of the rows and of the columns, for ord={order!r}")
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
        require_float(name, x)
    rows, columns = (i % x.array.ndim for i in dim)
    shape = x.array.shape
    if order == "fro":
        return Norm2.apply(x, over, keepdim)
    if order in (1, -1, inf, -inf):
        summed, compared = (rows, columns) if order in (1, -1) else (columns, rows)
        y = _extreme_value(name, order, Norm1.apply(x, (summed,), True), compared, shape)
    else:
        others = [i for i in range(len(shape)) if i not in over]
        values = Svd.apply(Permute.apply(x, (*others, rows, columns)))[1]
        last = values.array.ndim - 1
        y = Sum.apply(values, (last,), True) if order == "nuc" else _extreme_value(name, order, values, last, shape)
    return Reshape.apply(y, tuple(1 if i in over else n for i, n in enumerate(shape) if keepdim or i not in over))


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-2, -1)


def _extreme_value(name: str, order: Any, values: Tensor, axis: int, shape: tuple[int, ...]) -> Tensor:
    """Return the largest value along an axis (0 over no elements), or the smallest if ``order`` is negative."""
    if values.array.shape[axis]:
        return Amax.apply(values, (axis,), True, order < 0)
    if order < 0:
        raise ValueError(f"{name}: input.shape={shape} has no element to compare; ord={order!r} needs one")
    return Sum.apply(values, (axis,), True)
