"""Sum, mean and maximum over all axes or some of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import Sum, expand_axes
from .dtype import require_float
from .gather import Scatter
from .kernel_set import kernels
from .shape import Reshape, axis

__all__ = ["argmax", "max", "mean", "sum"]

Dim = int | tuple[int, ...] | list[int] | None


class Maximum(NamedTuple):
    """What ``max(x, dim)`` gives: the largest elements and where along the axis they first occur (int64)."""

    values: Tensor
    indices: Tensor


class Mean(Function):
    """Mean over ``axes`` (sorted, non-negative); NaN over no elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        shape = x.data.shape
        count = math.prod([shape[i] for i in axes])
        ctx.input_shape, ctx.axes, ctx.keepdims = shape, axes, keepdims
        ctx.factor = 1.0 / count if count else math.nan
        return wrap(kernels.scale(kernels.sum(x.data, axes, keepdims), ctx.factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return expand_axes(g * ctx.factor, ctx.input_shape, ctx.axes, ctx.keepdims), None, None


class Max(Function):
    """The largest element of x; its gradient is shared evenly among ties."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values, _ = kernels.max(x.data.ravel(order="K"), 0)  # the order of the elements does not matter
        ties = np.asarray(np.isnan(x.data) if np.isnan(values) else x.data == values)
        ctx.save_for_backward(ties)
        return wrap(values)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (ties,) = ctx.saved_tensors
        share = np.asarray(np.multiply(ties, 1.0 / np.count_nonzero(ties), dtype=g.data.dtype))
        return (g * wrap(share),)


class MaxAlong(Function):
    """The largest element along ``axis`` and where it first occurs; the gradient goes to that place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        values, indices = kernels.max(x.data, axis)
        ctx.axis, ctx.input_shape = axis, x.data.shape
        ctx.save_for_backward(indices)
        positions = wrap(indices)
        ctx.mark_non_differentiable(positions)
        ctx.set_materialize_grads(False)
        return wrap(values), positions

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        shape, along = ctx.input_shape, ctx.axis
        kept = Reshape.apply(g, shape[:along] + (1,) + shape[along + 1 :])
        return Scatter.apply(kept, np.expand_dims(indices, along), along, shape), None


def sum(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Sum of input over ``dim`` (all axes if None); integers and truth values sum to int64.

    Raises:
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    over = axes("sum", dim, input.data.ndim)
    if input.data.dtype.kind == "f":
        return Sum.apply(input, over, keepdim)
    return wrap(np.asarray(input.data.sum(axis=over, keepdims=keepdim, dtype=np.int64)))


def mean(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Mean of input over ``dim`` (all axes if None); NaN over no elements.

    Raises:
        TypeError: input holds integers or truth values.
        IndexError: input has no such axis.
        ValueError: an axis is named twice.
    """
    require_float("mean", input)
    return Mean.apply(input, axes("mean", dim, input.data.ndim), keepdim)


def max(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element of input, or (values, indices) along axis ``dim``. NaN counts as the largest.

    The gradient of ``max(input)`` is shared evenly among ties; that of ``max(input, dim)`` goes to the index
    returned, the first one.

    Raises:
        ValueError: there is no element to choose from.
        IndexError: input has no axis ``dim``.
    """
    if dim is None:
        _nonempty("max", input, None)
        return Max.apply(input) if input.data.dtype.kind == "f" else wrap(np.asarray(input.data.max()))
    along = axis("max", "dim", dim, input.data.ndim)
    _nonempty("max", input, along)
    if input.data.dtype.kind == "f":
        values, indices = MaxAlong.apply(input, along)
    else:
        values, indices = wrap(np.asarray(input.data.max(along))), wrap(np.asarray(input.data.argmax(along)))
    if keepdim:
        shape = input.data.shape[:along] + (1,) + input.data.shape[along + 1 :]
        return Maximum(Reshape.apply(values, shape), wrap(indices.data.reshape(shape)))
    return Maximum(values, indices)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element along ``dim``, or among all elements in C order. int64, no gradient.

    Raises:
        ValueError: there is no element to choose from.
        IndexError: input has no axis ``dim``.
    """
    along = None if dim is None else axis("argmax", "dim", dim, input.data.ndim)
    _nonempty("argmax", input, along)
    return wrap(np.asarray(np.argmax(input.data, along, keepdims=keepdim), np.int64))


def axes(name: str, dim: Dim, ndim: int) -> tuple[int, ...]:
    """``dim`` as sorted, non-negative axes; None and () mean all, as in PyTorch.

    Raises:
        TypeError: an entry is not an int.
        IndexError: there is no such axis.
        ValueError: an axis is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if not isinstance(dim, (tuple, list)):
        return (axis(name, "dim", dim, ndim),)
    found = sorted(axis(name, "dim", entry, ndim) for entry in dim)
    if len(set(found)) < len(found):
        raise ValueError(f"{name}: dim={tuple(dim)} names an axis of a {ndim}-d tensor twice")
    return tuple(found) or tuple(range(ndim))


def _nonempty(name: str, x: Tensor, along: int | None) -> None:
    if (x.data.shape[along] if along is not None else x.data.size) == 0:
        where = "" if along is None else f" along dim={along}"
        raise ValueError(f"{name}: input.shape={x.data.shape} has no element to choose from{where}")
