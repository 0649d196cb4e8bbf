"""Sum, mean, product and similar reductions over all or some axes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ...arrays import all_finite, all_true
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, require_float, require_tensor
from ..dtypes.dtype import as_dtype, cast, int64
from ..shape.broadcasting import Sum, expand_axes, kept_shape
from ..shape.shape import Permute, Reshape, axis
from .scan import prefix_products

__all__ = ["all", "any", "count_nonzero", "mean", "nanmean", "nansum", "prod", "sum"]

_ALL = [tuple(range(ndim)) for ndim in range(65)]  # by the number of axes; NumPy allows 64
Dim = int | tuple[int, ...] | list[int] | None


class Mean(Function):
    """Mean over ``axes`` (sorted, non-negative); NaN over no elements."""

    gradient = "x: g / count, repeated over the axes of the mean"

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        ctx.input_shape, ctx.axes, ctx.keepdims = x.array.shape, axes, keepdims
        return wrap(kernels.mean(x.array, axes, keepdims))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        shape, axes = ctx.input_shape, ctx.axes
        count = math.prod([shape[i] for i in axes])
        return expand_axes(g, shape, axes, ctx.keepdims, 1.0 / count if count else math.nan), None, None


class Prod(Function):
    """Product over ``axes`` (sorted, non-negative); the gradient is correct also at zeros."""

    gradient = "x: g times the product of the other elements"

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        y = wrap(kernels.prod(x.array, axes, keepdims))
        ctx.save_for_backward(x, y)
        ctx.axes = axes
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (x, y), axes = ctx.saved_tensors, ctx.axes
        shape = x.array.shape
        why = "whether a product can be divided by its factors"
        if all_true(y.array, why) and all_finite(y.array, why):  # no zeros, no underflow
            return Reshape.apply(g * y, kept_shape(shape, axes)) / x, None, None
        # for each element: the product of all before it and all after it, on one line
        kept = tuple(i for i in range(len(shape)) if i not in axes)
        order = (*kept, *axes)
        lines = Reshape.apply(Permute.apply(x, order), (*(shape[i] for i in kept), math.prod([shape[i] for i in axes])))
        others = prefix_products(lines, len(kept), False) * prefix_products(lines, len(kept), True)
        others = Reshape.apply(others, tuple(shape[i] for i in order))
        others = Permute.apply(others, tuple(sorted(range(len(order)), key=order.__getitem__)))
        return Reshape.apply(g, kept_shape(shape, axes)) * others, None, None


class NanToZero(Function):
    """x, and 0 where it is NaN"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(kernels.eq(x.array, x.array))
        return wrap(kernels.nan_to_num(x.array, 0.0, math.inf, -math.inf))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return (g * wrap(kernels.cast(kept, g.array.dtype)),)


@operator(records=Sum, methods="sum", dtypes="bihf")
def sum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum of input over ``dim`` (all axes if None); integers and truth values sum to int64.

    dtype: convert input first; with bool the result says whether any element is not 0.

    Raises:
        TypeError: input is not a Tensor, or ``dtype`` is not an element type.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(sum, locals())) is not None:
        return seen
    input, over, keepdim = operands("sum", input, dim, keepdim, dtype)
    if input.array.dtype.kind == "f":
        return Sum.apply(input, over, keepdim)
    return wrap(kernels.integer_sum(input.array, over, keepdim, _wide(input, dtype)))


@operator(records=Mean, methods="mean")
def mean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of input over ``dim`` (all axes if None); NaN over no elements.

    dtype: convert input first.

    Raises:
        TypeError: input holds integers or truth values.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(mean, locals())) is not None:
        return seen
    return Mean.apply(*operands("mean", input, dim, keepdim, dtype, floating=True))


@operator(records=Prod, methods="prod", dtypes="bihf")
def prod(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product of input over ``dim`` (all axes if None); 1 over no elements; integers multiply to int64.

    The gradient to an element is the product of the others, also where that or the element is 0.

    dtype: convert input first; with bool the result says whether all elements are not 0.

    Raises: as ``sum``.
    """
    if interpreters and (seen := interpreted(prod, locals())) is not None:
        return seen
    input, over, keepdim = operands("prod", input, dim, keepdim, dtype)
    if input.array.dtype.kind == "f":
        return Prod.apply(input, over, keepdim)
    return wrap(kernels.integer_prod(input.array, over, keepdim, _wide(input, dtype)))


def _wide(x: Tensor, dtype: Any) -> Any:
    """The type to reduce integers in: ``dtype`` if it is given; in bool, a sum is any, a product all."""
    return int64 if dtype is None else x.array.dtype


@operator(records=(Sum, NanToZero), methods="nansum", dtypes="bihf")
def nansum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """As ``sum``, with NaN counted as 0, without gradient.

    Raises: as ``sum``.
    """
    if interpreters and (seen := interpreted(nansum, locals())) is not None:
        return seen
    input, over, keepdim = operands("nansum", input, dim, keepdim, dtype)
    if input.array.dtype.kind == "f":
        return Sum.apply(NanToZero.apply(input), over, keepdim)
    return sum(input, dim, keepdim, dtype=dtype)


@operator(records=(Sum, NanToZero), methods="nanmean")
def nanmean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of the elements over ``dim`` that are not NaN; NaN where there is none.

    Raises: as ``mean``.
    """
    if interpreters and (seen := interpreted(nanmean, locals())) is not None:
        return seen
    input, over, keepdim = operands("nanmean", input, dim, keepdim, dtype, floating=True)
    numbers = kernels.eq(input.array, input.array)
    count = kernels.count_nonzero(numbers, over, keepdim, input.array.dtype)
    return Sum.apply(NanToZero.apply(input), over, keepdim) / wrap(count)


@operator(methods="count_nonzero", dtypes="bihf")
def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """The number of nonzero elements over ``dim`` (all axes if None), NaN included. int64, no gradient.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(count_nonzero, locals())) is not None:
        return seen
    input, over, _ = operands("count_nonzero", input, dim)
    return wrap(kernels.count_nonzero(input.array, over, False, int64))


@operator(methods="all", dtypes="bihf")
def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether no element of input over ``dim`` (all axes if None) is 0 or False. ``dim=()`` tells it of each element.

    Raises: as ``count_nonzero``.
    """
    if interpreters and (seen := interpreted(all, locals())) is not None:
        return seen
    input, over, keepdim = operands("all", input, dim, keepdim)
    over = () if isinstance(dim, (tuple, list)) and not dim else over
    return wrap(kernels.all(input.array, over, keepdim))


@operator(methods="any", dtypes="bihf")
def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether some element of input over ``dim`` (all axes if None) is neither 0 nor False.

    ``dim=()`` tells it of each element.

    Raises: as ``count_nonzero``.
    """
    if interpreters and (seen := interpreted(any, locals())) is not None:
        return seen
    input, over, keepdim = operands("any", input, dim, keepdim)
    over = () if isinstance(dim, (tuple, list)) and not dim else over
    return wrap(kernels.any(input.array, over, keepdim))


def operands(
    name: str, x: Tensor, dim: Dim, keepdim: bool = False, dtype: Any = None, floating: bool = False
) -> tuple[Tensor, tuple[int, ...], bool]:
    """The checked arguments of a reduction: x, converted to ``dtype`` if given, the axes, and whether to keep them.

    Raises:
        TypeError: x is not a Tensor, or not ``floating`` point, or ``dtype`` is not an element type.
        IndexError: x has no such axis.
        ValueError: an axis is named twice.
    """
    if not isinstance(x, Tensor):
        require_tensor(name, x)
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
    if floating:
        require_float(name, x)
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    return x, axes(name, dim, x.array.ndim), keepdim


def axes(name: str, dim: Dim, ndim: int) -> tuple[int, ...]:
    """``dim`` as sorted, non-negative axes; None and () mean all; a 0-d tensor accepts 0 and -1, as in PyTorch.

    Raises:
        TypeError: an entry is not an int.
        IndexError: there is no such axis.
        ValueError: an axis is named twice.
    """
    if dim is None:
        return _ALL[ndim]
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    entries = dim if isinstance(dim, (tuple, list)) else (dim,)
    found = sorted(axis(name, "dim", entry, ndim or 1) for entry in entries)
    if len(set(found)) < len(found):
        raise ValueError(f"{name}: dim={dim} names an axis of a {ndim}-d tensor twice")
    return tuple(found) if found and ndim else _ALL[ndim]


@lru_cache(maxsize=4096)
def left_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of a result over ``axes``."""
    return kept_shape(shape, axes) if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)
