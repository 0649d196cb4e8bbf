"""The largest and smallest elements and their indices. NaN counts as the largest and as the smallest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import ones_like
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, require_tensor
from ..index.pick import Place, memory_order
from ..memory.private import private
from ..pointwise.piecewise import maximum, minimum
from ..shape.broadcasting import kept_shape
from ..shape.shape import Reshape, axis, of_line, reshaped
from .reduction import Dim, left_shape, operands

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]


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
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, smallest: bool) -> Tensor:
        y = (kernels.amin if smallest else kernels.amax)(x.array, axes, keepdims)
        ctx.save_for_backward(x, y)
        ctx.axes = axes
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        y = y.reshape(kept_shape(x.array.shape, ctx.axes))
        chosen = kernels.ties(ones_like(y), x.array, y)
        share = Reshape.apply(g, y.shape) * wrap(kernels.reciprocal(kernels.sum(chosen, ctx.axes, True)))
        return share * wrap(chosen), None, None, None


class ExtremeAlong(Function):
    """The largest (smallest) element along ``axis`` and its first index, which gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, smallest: bool) -> tuple[Tensor, Tensor]:
        values, indices = (kernels.min if smallest else kernels.max)(x.array, axis)
        ctx.axis, ctx.input_shape, ctx.memory = axis, x.array.shape, memory_order(x.array)
        ctx.save_for_backward(private(indices, any(ctx.needs_input_grad)))
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

    other: ``maximum(input, other)`` instead; a Tensor in the place of ``dim`` is ``other``.

    The gradient of ``max(input)`` is shared evenly among ties; that of ``max(input, dim)`` goes to the index
    returned, the first one.

    Raises:
        TypeError: input or ``other`` is not a Tensor, or there are both ``other`` and ``dim`` or ``keepdim``.
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
    """The smallest element of input, or (values, indices) along axis ``dim``, or ``minimum(input, other)``; as ``max``.

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
    """Index of the first largest element along ``dim``, or among all elements in C order. int64, no gradient.

    Raises: as ``aminmax``.
    """
    if interpreters and (seen := interpreted(argmax, locals())) is not None:
        return seen
    return _place("argmax", input, dim, keepdim, False)


@operator(methods="argmin", dtypes="bihf")
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element along ``dim``, or among all elements in C order. int64, no gradient.

    Raises: as ``aminmax``.
    """
    if interpreters and (seen := interpreted(argmin, locals())) is not None:
        return seen
    return _place("argmin", input, dim, keepdim, True)


def _other(name: str, dim: Any, keepdim: bool, other: Any) -> Tensor:
    """The second operand of maximum or minimum, given as ``dim`` or ``other``."""
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
        return of_line(min if smallest else max, x, dim)
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
        return of_line(argmin if smallest else argmax, x, dim)
    along = None if dim is None else axis(name, "dim", dim, x.array.ndim)
    _nonempty(name, x, tuple(range(x.array.ndim)) if along is None else (along,), dim)
    if x.array.dtype.kind == "f":
        if along is None:
            return wrap(_first_of_all(x.array, smallest).reshape((1,) * x.array.ndim if keepdim else ()))
        _, indices = (kernels.min if smallest else kernels.max)(x.array, along)
        return wrap(indices.reshape(left_shape(x.array.shape, (along,), keepdim)))
    return wrap((kernels.argmin if smallest else kernels.argmax)(x.array, along, keepdim))


def _first_of_all(x: np.ndarray, smallest: bool) -> np.ndarray:
    """Index in C order of the first extreme."""
    find = kernels.min if smallest else kernels.max
    if x.flags.c_contiguous:
        return find(x.reshape(-1), 0)[1]
    order = memory_order(x)
    line = reshaped(x.transpose(order), (-1,))  # in memory order; among ties C order decides
    value, first = find(line, 0)
    return kernels.first_equal(line, value, first, x.shape, order)


def _nonempty(name: str, x: Tensor, over: tuple[int, ...], dim: Any) -> None:
    shape = x.array.shape
    if 0 in shape and (dim is None or 0 in [shape[i] for i in over]):
        where = "" if dim is None else f" along dim={dim}"
        raise ValueError(f"{name}: input.shape={shape} has no element to choose from{where}")
