"""Slices along an axis by a vector of indices, and elements by a mask: picked, replaced, added to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape, expand, sum_to
from .dtype import as_element, cast, is_number, require_tensor
from .indexing import Places, Put, get, in_range
from .private import private
from .shape import axis, of_line, reshape
from .sparse import Matrix, SparseProduct

__all__ = [
    "index_add",
    "index_copy",
    "index_fill",
    "index_select",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "take",
]


class MaskedFill(Function):
    """x, with v where the mask is True."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, v: Tensor, mask: np.ndarray) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.input_shape, ctx.value_shape = x.data.shape, v.data.shape
        if x.data.shape != mask.shape:
            return wrap(np.where(mask, v.data, x.data))
        y = x.data.copy(order="K")
        np.copyto(y, v.data, where=mask)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        zero = wrap(np.zeros((), g.data.dtype))
        gx = sum_to(MaskedFill.apply(g, zero, mask), ctx.input_shape) if ctx.needs_input_grad[0] else None
        gv = sum_to(MaskedFill.apply(g, zero, np.asarray(~mask)), ctx.value_shape) if ctx.needs_input_grad[1] else None
        return gx, gv, None


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices ``index`` (a vector of int64) of input along ``dim``.

    Raises:
        TypeError: ``index`` holds no int64.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: ``index`` is no vector.
    """
    require_tensor("index_select", input)
    indices, position = _vector("index_select", input, dim, index)
    if not input.data.ndim:
        if indices.size != 1:
            raise ValueError(f"index_select: index.shape={index.data.shape}, of a number one can be selected")
        return of_line(index_select, input, dim, index)
    return SparseProduct.apply(input, Matrix(indices, input.data.shape[position]), position)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """A copy of input with alpha * source[k] added to slice index[k] along ``dim``; a slice may be named repeatedly.

    Raises:
        TypeError: ``index`` holds no int64, or the types of input and source differ.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shape of ``source`` does not fit.
    """
    require_tensor("index_add", input)
    if not input.data.ndim:
        return of_line(index_add, input, dim, index, source, alpha=alpha)
    indices, position = _vector("index_add", input, dim, index)
    source = _slices("index_add", input, indices, position, source)
    return Put.apply(input, source if alpha == 1 else source * alpha, _at(indices, position), True)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of input with source[k] in place of slice index[k] along ``dim``; of several for one, the last stays.

    Raises:
        TypeError: ``index`` holds no int64, or the types of input and source differ.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shape of ``source`` does not fit.
    """
    require_tensor("index_copy", input)
    if not input.data.ndim:
        return of_line(index_copy, input, dim, index, source)
    indices, position = _vector("index_copy", input, dim, index)
    source = _slices("index_copy", input, indices, position, source)
    return Put.apply(input, source, _at(indices, position), False)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of input with the number ``value`` in the slices ``index`` along ``dim``; negative ones are allowed.

    Raises:
        TypeError: ``index`` holds no int64, or ``value`` is no number.
        IndexError: input has no such axis, or an index is out of range.
        ValueError: ``value`` has more than one element.
    """
    require_tensor("index_fill", input)
    if not input.data.ndim:
        return of_line(index_fill, input, dim, index, value)
    indices, position = _vector("index_fill", input, dim, index, negative=True)
    places = _at(indices, position)
    return Put.apply(input, _number("index_fill", input, value), places, False)


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of input at the places ``index`` in its C order; negative ones count from the end.

    index: int64 of any shape, which is that of the result.

    Raises:
        TypeError: ``index`` holds no int64.
        IndexError: an index is out of range.
    """
    require_tensor("take", input)
    _require_int64("take", index)
    size = input.data.size
    flat = in_range("take", "index", index.data, size, f"input.shape={input.data.shape} with {size} elements")
    return get(input.reshape(size), Places(None, (0,), (flat,)))


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """input with the number ``value`` where ``mask`` is True; the two are broadcast.

    Raises:
        TypeError: ``mask`` holds no truth values, or ``value`` is no number.
        ValueError: the shapes do not broadcast, or ``value`` has more than one element.
    """
    require_tensor("masked_fill", input)
    shape = _require_mask("masked_fill", input, mask)
    number = _number("masked_fill", input, value)
    own = private(mask.data, input.requires_grad or number.requires_grad)
    return MaskedFill.apply(input, number, np.broadcast_to(own, shape))


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of input where ``mask`` is True, in C order, as a vector; the two are broadcast.

    Raises:
        TypeError: ``mask`` holds no truth values.
        ValueError: the shapes do not broadcast.
    """
    require_tensor("masked_select", input)
    shape = _require_mask("masked_select", input, mask)
    return expand(input, shape)[expand(mask, shape)]


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input in which the places where ``mask`` is True hold the first elements of ``source``, in C order.

    Raises:
        TypeError: ``mask`` holds no truth values, or the types of input and source differ.
        ValueError: the shapes do not broadcast, or ``source`` has too few elements.
    """
    require_tensor("masked_scatter", input)
    shape = _require_mask("masked_scatter", input, mask)
    _require_type("masked_scatter", input, source)
    count = int(np.count_nonzero(np.broadcast_to(mask.data, shape)))
    if source.data.size < count:
        raise ValueError(f"masked_scatter: source has {source.data.size} elements, the mask is True in {count}")
    if not shape:
        return source.reshape(-1)[0] if count else input.clone()
    places = Places(None, tuple(range(len(shape))), np.broadcast_to(mask.data, shape).nonzero())
    return Put.apply(expand(input, shape), source.reshape(source.data.size)[:count], places, False)


def _at(indices: np.ndarray, position: int) -> Places:
    return Places(None, (position,), (indices,))


def _vector(
    name: str, x: Tensor, dim: int, index: Any, negative: bool = False
) -> tuple[np.ndarray, int]:
    """A vector of indices and the axis, counted from the front."""
    _require_int64(name, index)
    shape = x.data.shape
    position = axis(name, "dim", dim, max(1, len(shape)))
    if index.data.ndim > 1:
        raise ValueError(f"{name}: index.shape={index.data.shape}, needs a vector or a number")
    extent = shape[position] if shape else 1
    indices = np.atleast_1d(np.ascontiguousarray(index.data))
    return in_range(name, "index", indices, extent, f"axis dim={dim} of input.shape={shape}", negative), position


def _slices(name: str, x: Tensor, indices: np.ndarray, position: int, source: Any) -> Tensor:
    _require_type(name, x, source)
    shape = x.data.shape
    wanted = shape[:position] + (indices.size,) + shape[position + 1 :]
    if wanted == (1,) and not source.data.ndim:
        return reshape(source, 1)
    if source.data.shape != wanted:
        raise ValueError(
            f"{name}: source.shape={source.data.shape}, {indices.size} slices of input.shape={shape} along dim="
            f"{position} have {wanted}"
        )
    return source


def _require_type(name: str, x: Tensor, source: Any) -> None:
    if not isinstance(source, Tensor) or source.data.dtype != x.data.dtype:
        what = source.data.dtype if isinstance(source, Tensor) else type(source).__name__
        raise TypeError(f"{name}: source is {what}, needs a Tensor of input's type, {x.data.dtype}")


def _require_int64(name: str, index: Any) -> None:
    if not isinstance(index, Tensor) or index.data.dtype != np.int64:
        what = index.data.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"{name}: index is {what}, needs an int64 Tensor")


def _require_mask(name: str, x: Tensor, mask: Any) -> tuple[int, ...]:
    """The common shape of input and mask."""
    if not isinstance(mask, Tensor) or mask.data.dtype != np.bool_:
        what = mask.data.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name}: mask is {what}, needs a bool Tensor; compare, or convert it with mask.bool()")
    return broadcast_shape(name, x.data.shape, mask.data.shape)


def _number(name: str, x: Tensor, value: Any) -> Tensor:
    """A number as a Tensor without axes, of x's type."""
    if isinstance(value, Tensor):
        if value.data.ndim:
            raise ValueError(f"{name}: value.shape={value.data.shape}, needs a number or a Tensor without axes")
        return cast(value, x.data.dtype)
    if not is_number(value):
        raise TypeError(f"{name}: value is {type(value).__name__}, needs a number or a Tensor without axes")
    return wrap(as_element(name, "value", value, x.data.dtype))
