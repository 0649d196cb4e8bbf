"""Reductions over axes: sum, mean, product, all and any, and extremes with their indices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import all_finite, all_true, ones_like
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, copy_for_backward, require_float, require_tensor
from ..dtypes.dtype import DTypeLike, as_dtype, cast, int64
from ..index.pick import Place, memory_order
from ..pointwise.piecewise import maximum, minimum
from ..shape.broadcasting import Sum, expand_axes, kept_shape
from ..shape.shape import Permute, Reshape, apply_to_0d, axis, reshaped
from .scan import prefix_products

__all__ = [
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "prod",
    "sum",
]


# ---- Sum, mean, product and similar reductions over all or some axes ------------------------------------------------

_ALL = [tuple(range(ndim)) for ndim in range(65)]  # indexed by the number of axes, of which NumPy allows 64
Dim = int | tuple[int, ...] | list[int] | None


class Mean(Function):
    """Mean over ``axes`` (sorted, non-negative); NaN over no elements."""

    gradient = "x: g / count, repeated over the axes of the mean"

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return wrap(kernels.mean(x.array, axes, keepdims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.axes, ctx.keepdims = inputs
        ctx.input_shape = x.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        shape, axes = ctx.input_shape, ctx.axes
        count = math.prod([shape[i] for i in axes])
        return expand_axes(g, shape, axes, ctx.keepdims, 1.0 / count if count else math.nan), None, None


class Prod(Function):
    """Product over ``axes`` (sorted, non-negative); the gradient is also correct at zeros."""

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
        # for each element, the product of all elements before and after it in its row
        kept = tuple(i for i in range(len(shape)) if i not in axes)
        order = (*kept, *axes)
        rows = Reshape.apply(Permute.apply(x, order), (*(shape[i] for i in kept), math.prod([shape[i] for i in axes])))
        others = prefix_products(rows, len(kept), False) * prefix_products(rows, len(kept), True)
        others = Reshape.apply(others, tuple(shape[i] for i in order))
        others = Permute.apply(others, tuple(sorted(range(len(order)), key=order.__getitem__)))
        return Reshape.apply(g, kept_shape(shape, axes)) * others, None, None


class NanToZero(Function):
    """x, or 0 where x is NaN"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(kernels.eq(x.array, x.array))
        return wrap(kernels.nan_to_num(x.array, 0.0, math.inf, -math.inf))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return (g * wrap(kernels.cast(kept, g.array.dtype)),)


@operator(records=Sum, methods="sum", dtypes="bihf")
def sum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Sum of input over ``dim`` (all axes if None); integers and booleans sum to int64.

    dtype: convert input first; with bool the result is whether any element is nonzero.

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
def mean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Mean of input over ``dim`` (all axes if None); NaN over no elements.

    dtype: convert input first.

    Raises:
        TypeError: input contains integers or booleans.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    if interpreters and (seen := interpreted(mean, locals())) is not None:
        return seen
    return Mean.apply(*operands("mean", input, dim, keepdim, dtype, floating=True))


@operator(records=Prod, methods="prod", dtypes="bihf")
def prod(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Product of input over ``dim`` (all axes if None); 1 over no elements; integers multiply to int64.

    The gradient of an element is the product of the others, even where either is 0.

    dtype: convert input first; with bool the result is whether all elements are nonzero.

    Raises: as ``sum``.
    """
    if interpreters and (seen := interpreted(prod, locals())) is not None:
        return seen
    input, over, keepdim = operands("prod", input, dim, keepdim, dtype)
    if input.array.dtype.kind == "f":
        return Prod.apply(input, over, keepdim)
    return wrap(kernels.integer_prod(input.array, over, keepdim, _wide(input, dtype)))


def _wide(x: Tensor, dtype: Any) -> Any:
    """Return the type for reducing integers: ``dtype`` if given. In bool, a sum is ``any`` and a product ``all``."""
    return int64 if dtype is None else x.array.dtype


@operator(records=(Sum, NanToZero), methods="nansum", dtypes="bihf")
def nansum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """``sum`` with NaN counted as 0; the gradient of a NaN is 0.

    Raises: as ``sum``.
    """
    if interpreters and (seen := interpreted(nansum, locals())) is not None:
        return seen
    input, over, keepdim = operands("nansum", input, dim, keepdim, dtype)
    if input.array.dtype.kind == "f":
        return Sum.apply(NanToZero.apply(input), over, keepdim)
    return sum(input, dim, keepdim, dtype=dtype)


@operator(records=(Sum, NanToZero), methods="nanmean")
def nanmean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Mean of the elements over ``dim`` that are not NaN, or NaN if all are.

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
    """The number of nonzero elements over ``dim`` (all axes if None), NaN included; int64, no gradient.

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
    """Return whether all elements of input over ``dim`` (all axes if None) are nonzero; ``dim=()`` tests each one.

    Raises: as ``count_nonzero``.
    """
    if interpreters and (seen := interpreted(all, locals())) is not None:
        return seen
    input, over, keepdim = operands("all", input, dim, keepdim)
    over = () if isinstance(dim, (tuple, list)) and not dim else over
    return wrap(kernels.all(input.array, over, keepdim))


@operator(methods="any", dtypes="bihf")
def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Return whether any element of input over ``dim`` (all axes if None) is nonzero; ``dim=()`` tests each one.

    Raises: as ``count_nonzero``.
    """
    if interpreters and (seen := interpreted(any, locals())) is not None:
        return seen
    input, over, keepdim = operands("any", input, dim, keepdim)
    over = () if isinstance(dim, (tuple, list)) and not dim else over
    return wrap(kernels.any(input.array, over, keepdim))


def operands(
    name: str, x: Tensor, dim: Dim, keepdim: bool = False, dtype: DTypeLike = None, floating: bool = False
) -> tuple[Tensor, tuple[int, ...], bool]:
    """Return a reduction's checked arguments: x (converted to ``dtype`` if given), the axes, whether to keep them.

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
    """Return ``dim`` as sorted, non-negative axes. None and () mean all. A 0-d tensor accepts 0 and -1 as in PyTorch.

    Raises:
        TypeError: an entry is not an int.
        IndexError: the tensor has no such axis.
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
    """Return the shape of a reduction over ``axes``."""
    return kept_shape(shape, axes) if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)


# ---- Largest and smallest elements and their indices (NaN counts as both) -------------------------------------------


class Extremes(NamedTuple):
    """The result of ``max(x, dim)`` and ``min(x, dim)``: the elements and their first indices (int64)."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The result of ``aminmax``."""

    min: Tensor
    max: Tensor


class Amax(Function):
    """The largest (smallest) element over ``axes``; the gradient is shared evenly among ties."""

    gradient = "x: g, shared evenly among the elements that are the extreme"

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...], keepdims: bool, smallest: bool) -> Tensor:
        return wrap((kernels.amin if smallest else kernels.amax)(x.array, axes, keepdims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output.array)
        ctx.axes = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        y = y.reshape(kept_shape(x.array.shape, ctx.axes))
        chosen = kernels.ties(ones_like(y), x.array, y)
        fraction = kernels.reciprocal(kernels.sum(chosen, ctx.axes, True))
        return Reshape.apply(g, y.shape) * wrap(fraction) * wrap(chosen), None, None, None


class ExtremeAlong(Function):
    """The largest (smallest) element along ``axis`` and its first index, which gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, smallest: bool) -> tuple[Tensor, Tensor]:
        values, indices = (kernels.min if smallest else kernels.max)(x.array, axis)
        ctx.axis, ctx.input_shape, ctx.memory = axis, x.array.shape, memory_order(x.array)
        ctx.save_for_backward(copy_for_backward(indices, True in ctx.needs_input_grad))
        positions = wrap(indices)
        ctx.mark_non_differentiable(positions)
        ctx.set_materialize_grads(False)
        return wrap(values), positions

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        shape, along = ctx.input_shape, ctx.axis
        left = kept_shape(shape, (along,))
        return Place.apply(Reshape.apply(g, left), indices.reshape(left), along, shape, ctx.memory), None, None


@operator(records=(Amax, ExtremeAlong), methods="max", dtypes="bihf")
def max(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element of input, or (values, indices) along axis ``dim``. NaN counts as the largest.

    other: return ``maximum(input, other)`` instead. A Tensor passed as ``dim`` is ``other``.

    The gradient of ``max(input)`` is shared evenly among ties. That of ``max(input, dim)`` goes to the returned
    index, which is the first one.

    Raises:
        TypeError: input or ``other`` is not a Tensor, or ``other`` is given together with ``dim`` or ``keepdim``.
        ValueError: there is no element to choose from.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(max, locals())) is not None:
        return seen
    if other is not None or isinstance(dim, Tensor):
        return maximum(input, _other("max", dim, keepdim, other))
    return _extreme("max", input, dim, keepdim, False)


@operator(records=(Amax, ExtremeAlong), methods="min", dtypes="bihf")
def min(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element of input, (values, indices) along axis ``dim``, or ``minimum(input, other)``; see ``max``.

    Raises: as ``max``.
    """
    if interpreters and (seen := interpreted(min, locals())) is not None:
        return seen
    if other is not None or isinstance(dim, Tensor):
        return minimum(input, _other("min", dim, keepdim, other))
    return _extreme("min", input, dim, keepdim, True)


@operator(records=Amax, methods="amax", dtypes="bihf")
def amax(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element of input over ``dim`` (all axes if None); ties share the gradient evenly.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: there is no element to choose from, or an axis is named twice.
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(amax, locals())) is not None:
        return seen
    return _over("amax", input, dim, keepdim, False)


@operator(records=Amax, methods="amin", dtypes="bihf")
def amin(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element of input over ``dim`` (all axes if None); ties share the gradient evenly.

    Raises: as ``amax``.
    """
    if interpreters and (seen := interpreted(amin, locals())) is not None:
        return seen
    return _over("amin", input, dim, keepdim, True)


@operator(records=Amax, methods="aminmax", dtypes="bihf")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """(min, max): ``amin`` and ``amax`` along one axis, or of all elements.

    Raises:
        TypeError: input is not a Tensor.
        ValueError: there is no element to choose from.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(aminmax, locals())) is not None:
        return seen
    return MinMax(_over("aminmax", input, dim, keepdim, True), _over("aminmax", input, dim, keepdim, False))


@operator(methods="argmax", dtypes="bihf")
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element along ``dim``, or among all elements in C order; int64, no gradient.

    Raises: as ``aminmax``.
    """
    if interpreters and (seen := interpreted(argmax, locals())) is not None:
        return seen
    return _place("argmax", input, dim, keepdim, False)


@operator(methods="argmin", dtypes="bihf")
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element along ``dim``, or among all elements in C order; int64, no gradient.

    Raises: as ``aminmax``.
    """
    if interpreters and (seen := interpreted(argmin, locals())) is not None:
        return seen
    return _place("argmin", input, dim, keepdim, True)


def _other(name: str, dim: Any, keepdim: bool, other: Any) -> Tensor:
    """Return the second operand of maximum or minimum, given as ``dim`` or ``other``."""
    if as_flag(name, "keepdim", keepdim) or (dim is not None and other is not None):
        raise TypeError(f"{name}: two tensors do not allow dim or keepdim; reduce the result in a second call")
    operand = dim if other is None else other
    require_tensor(name, operand, "other")
    return operand


def _extreme(name: str, x: Tensor, dim: int | None, keepdim: bool, smallest: bool) -> Any:
    require_tensor(name, x)
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    if dim is None:
        if keepdim:
            raise ValueError(f"{name}: keepdim=True needs dim; {'amin' if smallest else 'amax'} keeps all axes")
        return _over(name, x, None, False, smallest)
    if not x.array.ndim:
        return apply_to_0d(min if smallest else max, x, dim)
    along = axis(name, "dim", dim, x.array.ndim)
    _nonempty(name, x, (along,), dim)
    if x.array.dtype.kind == "f":
        values, indices = ExtremeAlong.apply(x, along, smallest)
    else:
        values = wrap((kernels.integer_amin if smallest else kernels.integer_amax)(x.array, (along,), False))
        indices = wrap((kernels.argmin if smallest else kernels.argmax)(x.array, along, False))
    if keepdim:
        shape = kept_shape(x.array.shape, (along,))
        return Extremes(Reshape.apply(values, shape), wrap(indices.array.reshape(shape)))
    return Extremes(values, indices)


def _over(name: str, x: Tensor, dim: Dim, keepdim: bool, smallest: bool) -> Tensor:
    x, over, keepdim = operands(name, x, dim, keepdim)
    _nonempty(name, x, over, dim)
    if x.array.dtype.kind == "f":
        return Amax.apply(x, over, keepdim, smallest)
    return wrap((kernels.integer_amin if smallest else kernels.integer_amax)(x.array, over, keepdim))


def _place(name: str, x: Tensor, dim: int | None, keepdim: bool, smallest: bool) -> Tensor:
    require_tensor(name, x)
    if keepdim is not False:
        keepdim = as_flag(name, "keepdim", keepdim)
    if dim is not None and not x.array.ndim:
        return apply_to_0d(argmin if smallest else argmax, x, dim)
    along = None if dim is None else axis(name, "dim", dim, x.array.ndim)
    _nonempty(name, x, tuple(range(x.array.ndim)) if along is None else (along,), dim)
    if x.array.dtype.kind == "f":
        if along is None:
            return wrap(_first_of_all(x.array, smallest).reshape((1,) * x.array.ndim if keepdim else ()))
        _, indices = (kernels.min if smallest else kernels.max)(x.array, along)
        return wrap(indices.reshape(left_shape(x.array.shape, (along,), keepdim)))
    return wrap((kernels.argmin if smallest else kernels.argmax)(x.array, along, keepdim))


def _first_of_all(x: np.ndarray, smallest: bool) -> np.ndarray:
    """Return the index in C order of the first extreme."""
    find = kernels.min if smallest else kernels.max
    if x.flags.c_contiguous:
        return find(x.reshape(-1), 0)[1]
    order = memory_order(x)
    flat = reshaped(x.transpose(order), (-1,))  # in memory order; C order decides among ties
    value, first = find(flat, 0)
    return kernels.first_equal(flat, value, first, x.shape, order)


def _nonempty(name: str, x: Tensor, over: tuple[int, ...], dim: Any) -> None:
    shape = x.array.shape
    if 0 in shape and (dim is None or 0 in [shape[i] for i in over]):
        where = "" if dim is None else f" along dim={dim}"
        raise ValueError(f"{name}: input.shape={shape} has no element to choose from{where}")
