"""Norms of matrices: sums of rows or columns, and singular values."""

from __future__ import annotations

from math import inf
from typing import Any

from ...arrays import eye, zeros_like
from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, require_float
from ..dtypes.dtype import as_dtype, cast
from ..shape.broadcasting import Sum
from ..shape.shape import Permute, Reshape
from .extremes import Amax
from .norms import Norm1, Norm2
from .reduction import axes

__all__: list[str] = []

ORDERS = ("fro", "nuc", inf, -inf, 1, -1, 2, -2)


class Svd(Function):
    """x (..., M, N) = u diag(s) v^T: u (..., M, K), s (..., K) from the largest down, v (..., N, K), K = min(M, N).

    Source: J. Townsend, "Differentiating the Singular Value Decomposition", 2016. Where singular values are equal, and
    their vectors not unique, the gradient of u and v is not finite.
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
        given = zip(gradients, saved, strict=True)
        gu, gs, gv = (wrap(zeros_like(y.array)) if g is None else g for g, y in given)
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
    """The norm of matrices over the axes (rows, columns) ``dim``, for ``norm``, ``linalg.norm`` and ``matrix_norm``.

    Raises:
        TypeError: x is not a floating-point Tensor.
        ValueError: ``order`` is not in ORDERS, ``dim`` does not name two axes, or a smallest value of no elements is
            needed.
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
        summed, compared = (rows, columns) if abs(order) == 1 else (columns, rows)
        y = _most(name, order, Norm1.apply(x, (summed,), True), compared, shape)
    else:
        others = [i for i in range(len(shape)) if i not in over]
        values = Svd.apply(Permute.apply(x, (*others, rows, columns)))[1]
        last = values.array.ndim - 1
        y = Sum.apply(values, (last,), True) if order == "nuc" else _most(name, order, values, last, shape)
    return Reshape.apply(y, tuple(1 if i in over else n for i, n in enumerate(shape) if keepdim or i not in over))


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-2, -1)


def _most(name: str, order: Any, values: Tensor, axis: int, shape: tuple[int, ...]) -> Tensor:
    """The largest value along an axis, 0 where there is none, or the smallest if ``order`` is negative."""
    if values.array.shape[axis]:
        return Amax.apply(values, (axis,), True, order < 0)
    if order < 0:
        raise ValueError(f"{name}: input.shape={shape} has no element to compare; ord={order!r} needs one")
    return Sum.apply(values, (axis,), True)
