"""Scans along one axis: cumulative sums, products and extremes, and differences of neighbors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import copy_for_backward, require_float, require_tensor
from ..dtypes.dtype import DTypeLike, as_dtype, cast
from ..dtypes.promotion import promoted_type
from ..index.gather import Scatter
from ..index.indexing import GetItem, PadSlice
from ..shape.shape import apply_to_0d, axis, copy_if_shared

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp"]

Gradients = tuple[Tensor | None, ...]


class CumulativeMaximum(NamedTuple):
    """The result of ``cummax`` and ``cummin``: the extreme so far and its last index (int64)."""

    values: Tensor
    indices: Tensor


class CumSum(Function):
    """y[i] = x[0] + ... + x[i] along ``axis``; from the end if ``reverse``, the transpose"""

    @staticmethod
    def forward(x: Tensor, axis: int, reverse: bool) -> Tensor:
        return wrap(kernels.cumsum(x.array, axis, reverse))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.axis, ctx.reverse = inputs

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return CumSum.apply(g, ctx.axis, not ctx.reverse), None, None


class CumProd(Function):
    """y[i] = x[0] ... x[i] along ``axis``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        y = wrap(kernels.cumprod(x.array, axis))
        ctx.save_for_backward(x, y)
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Since y[i] = x[i] y[i - 1], gx[i] is y[i - 1] times the total gradient of y[i]. x may be 0."""
        (x, y), along = ctx.saved_tensors, ctx.axis
        gy_total = LinearScan.apply(g, shifted(x, along, -1, 0.0), along, True)
        return gy_total * shifted(y, along, 1, 1.0), None


class LinearScan(Function):
    """y[i] = x[i] + factor[i] * y[i - 1] along ``axis``; from the end, with y[i + 1], if ``reverse``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor, axis: int, reverse: bool) -> Tensor:
        y = wrap(kernels.linear_scan(x.array, factor.array, axis, reverse))
        ctx.save_for_backward(factor, y)
        ctx.axis, ctx.reverse = axis, reverse
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (factor, y), along, reverse = ctx.saved_tensors, ctx.axis, ctx.reverse
        step = -1 if reverse else 1
        gx = LinearScan.apply(g, shifted(factor, along, -step, 0.0), along, not reverse)
        return gx, gx * shifted(y, along, step, 0.0) if ctx.needs_input_grad[1] else None, None, None


class LogCumSumExp(Function):
    """y[i] = log(exp(x[0]) + ... + exp(x[i])) along ``axis``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        y = wrap(kernels.logcumsumexp(x.array, axis))
        ctx.save_for_backward(x, y)
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """gx[i] = sum over j >= i of g[j] exp(x[i] - y[j]), where y is the result. Sums of g[j] exp(-y[j]) overflow, so
        scan a[i] = gx[i] / exp(x[i] - y[i]) = g[i] + exp(y[i] - y[i + 1]) a[i + 1] instead."""
        (x, y), along = ctx.saved_tensors, ctx.axis
        # exp(y[i] - y[i + 1]); the last one is exp(-inf) = 0
        ratio = (y - shifted(y, along, -1, math.inf)).exp()
        return LinearScan.apply(g, ratio, along, True) * (x - y).exp(), None


class CumExtreme(Function):
    """The largest (smallest) of x[0] ... x[i] along ``axis`` and its last index."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, smallest: bool) -> tuple[Tensor, Tensor]:
        values, indices = kernels.cumulative_extreme(x.array, axis, smallest)
        ctx.save_for_backward(copy_for_backward(indices, any(ctx.needs_input_grad)))
        ctx.axis, ctx.input_shape = axis, x.array.shape
        positions = wrap(indices)
        ctx.mark_non_differentiable(positions)
        ctx.set_materialize_grads(False)
        return wrap(values), positions

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Gradients:
        (indices,) = ctx.saved_tensors
        return Scatter.apply(g, indices, ctx.axis, ctx.input_shape), None, None


class Shift(Function):
    """x shifted by ``step`` positions along ``axis``, with gaps filled with ``fill``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, step: int, fill: float) -> Tensor:
        ctx.axis, ctx.step = axis, step
        return wrap(kernels.shift(x.array, axis, step, fill))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return Shift.apply(g, ctx.axis, -ctx.step, 0.0), None, None, None


def shifted(x: Tensor, axis: int, step: int, fill: float) -> Tensor:
    """Shift x by one position toward the back (``step`` 1) or front (-1) along ``axis``."""
    return Shift.apply(x, axis, step, fill)


def prefix_products(x: Tensor, axis: int, reverse: bool) -> Tensor:
    """Compute the product of all elements before each one along ``axis`` (after it if ``reverse``); the first is 1."""
    if reverse:
        turned = (slice(None),) * axis + (slice(None, None, -1),)
        return GetItem.apply(prefix_products(GetItem.apply(x, turned), axis, False), turned)
    return CumProd.apply(shifted(x, axis, 1, 1.0), axis)


@operator(records=CumSum, methods="cumsum", in_place=True, dtypes="bihf")
def cumsum(input: Tensor, dim: int, *, dtype: DTypeLike = None) -> Tensor:
    """y[i] = input[0] + ... + input[i] along axis ``dim``; integers and booleans sum to int64.

    dtype: convert input first; the result has this type, and integers wrap in it.

    Raises:
        TypeError: input is not a Tensor, or ``dtype`` is not an element type.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(cumsum, locals())) is not None:
        return seen
    input, along = _checked("cumsum", input, dim, dtype)
    if not input.array.ndim:
        return apply_to_0d(cumsum, input, dim, dtype=dtype)
    if input.array.dtype.kind == "f":
        return CumSum.apply(input, along, False)
    return _of_integers(kernels.integer_cumsum(input.array, along), input, dtype)


@operator(records=CumProd, methods="cumprod", in_place=True, dtypes="bihf")
def cumprod(input: Tensor, dim: int, *, dtype: DTypeLike = None) -> Tensor:
    """y[i] = input[0] * ... * input[i] along axis ``dim``; the gradient is also correct at zeros.

    dtype: as in ``cumsum``

    Raises: as ``cumsum``.
    """
    if interpreters and (seen := interpreted(cumprod, locals())) is not None:
        return seen
    input, along = _checked("cumprod", input, dim, dtype)
    if not input.array.ndim:
        return apply_to_0d(cumprod, input, dim, dtype=dtype)
    if input.array.dtype.kind == "f":
        return CumProd.apply(input, along)
    return _of_integers(kernels.integer_cumprod(input.array, along), input, dtype)


def _of_integers(found: np.ndarray, x: Tensor, dtype: Any) -> Tensor:
    """Return the result in int64, or in the type of x if the caller requested a type; integers wrap."""
    return wrap(found if dtype is None or found.dtype == x.array.dtype else kernels.cast(found, x.array.dtype))


@operator(records=LogCumSumExp, methods="logcumsumexp")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """y[i] = log(exp(input[0]) + ... + exp(input[i])) along axis ``dim``, computed without overflow.

    Raises:
        TypeError: input is not a floating-point Tensor.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(logcumsumexp, locals())) is not None:
        return seen
    require_float("logcumsumexp", input)
    if not input.array.ndim:
        return apply_to_0d(logcumsumexp, input, dim)
    return LogCumSumExp.apply(input, axis("logcumsumexp", "dim", dim, input.array.ndim))


@operator(records=CumExtreme, methods="cummax", dtypes="bihf")
def cummax(input: Tensor, dim: int) -> CumulativeMaximum:
    """(values, indices): the largest of input[0] ... input[i] along axis ``dim``, and its last index.

    NaN counts as the largest. The gradient goes to the index.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(cummax, locals())) is not None:
        return seen
    return _extreme("cummax", input, dim, False)


@operator(records=CumExtreme, methods="cummin", dtypes="bihf")
def cummin(input: Tensor, dim: int) -> CumulativeMaximum:
    """(values, indices): the smallest of input[0] ... input[i] along axis ``dim``; see ``cummax``.

    Raises: as ``cummax``.
    """
    if interpreters and (seen := interpreted(cummin, locals())) is not None:
        return seen
    return _extreme("cummin", input, dim, True)


@operator(methods="diff", dtypes="bihf")
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """input[i + 1] - input[i] along axis ``dim``, applied ``n`` times.

    Unless n is 0, prepend and append are first joined to input. Types promote.

    Raises:
        TypeError: input, prepend or append is not a Tensor.
        ValueError: ``n`` is negative, prepend or append does not fit input's other axes, or input has no axis.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(diff, locals())) is not None:
        return seen
    input, along = _checked("diff", input, dim, None)
    if not input.array.ndim:
        raise ValueError("diff: input has no axis, needs at least 1")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"diff: n={n!r} must be an int of at least 0")
    joined = _joined(input, along, prepend, append)
    given, input = input, input if n == 0 else joined
    for _ in range(min(n, input.array.shape[along])):
        front: list[Any] = [slice(None)] * input.array.ndim
        back = list(front)
        front[along], back[along] = slice(None, -1), slice(1, None)
        if input.array.dtype.kind == "b":
            input = wrap(kernels.bitwise_xor(input.array[tuple(back)], input.array[tuple(front)]))
        else:
            input = GetItem.apply(input, tuple(back)) - GetItem.apply(input, tuple(front))
    return copy_if_shared(input, given)


def _joined(x: Tensor, along: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    named = {"prepend": prepend, "input": x, "append": append}
    given = {label: part for label, part in named.items() if part is not None}
    for label, part in given.items():
        require_tensor("diff", part, label)
    dtype = promoted_type(*[part.array for part in given.values()])
    x, parts = cast(x, dtype), []
    for label, part in given.items():
        shape, own = list(part.array.shape), list(x.array.shape)
        if len(shape) != len(own) or shape[:along] + shape[along + 1 :] != own[:along] + own[along + 1 :]:
            raise ValueError(
                f"diff: {label}.shape={part.array.shape} must equal input.shape={x.array.shape} except in axis {along}"
            )
        parts.append(cast(part, dtype))
    if len(parts) == 1:
        return x
    if x.array.dtype.kind != "f":
        return wrap(kernels.concatenate([part.array for part in parts], along))
    extents = [part.array.shape[along] for part in parts]
    shape = list(x.array.shape)
    shape[along] = sum(extents)
    total: Any = None
    start = 0
    for part, extent in zip(parts, extents, strict=True):
        place = (slice(None),) * along + (slice(start, start + extent),)
        padded = PadSlice.apply(part, tuple(shape), place)
        total = padded if total is None else total + padded
        start += extent
    return total


def _extreme(name: str, x: Tensor, dim: int, smallest: bool) -> CumulativeMaximum:
    x, along = _checked(name, x, dim, None)
    if not x.array.ndim:
        return apply_to_0d(cummin if smallest else cummax, x, dim)
    return CumulativeMaximum(*CumExtreme.apply(x, along, smallest))


def _checked(name: str, x: Tensor, dim: int, dtype: Any) -> tuple[Tensor, int]:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: input is {kind_name(x)}, needs a Tensor; make one with retrograd.tensor(input)")
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
    return x, axis(name, "dim", dim, x.array.ndim or 1)
