"""Selection of slices by a vector of indices and of elements by a mask: read, replace, add."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import broadcast_to, zeros
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import (
    as_element,
    as_index,
    copy_for_backward,
    is_number,
    kind_of,
    require_factor,
    require_tensor,
)
from ..dtypes.dtype import cast
from ..shape.broadcasting import broadcast_shape, expand, sum_to
from ..shape.shape import apply_to_0d, axis, reshape
from ..sparse_products import Matrix, SparseProduct
from .indexing import Places, Put, get, in_range

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
    """v where the mask is True, x elsewhere."""

    @staticmethod
    def forward(x: Tensor, v: Tensor, mask: np.ndarray) -> Tensor:
        if x.array.dtype.char in "fd":
            return wrap(kernels.where(mask, v.array, x.array))
        return wrap(kernels.masked_fill(x.array, v.array, mask))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, v, mask = inputs
        ctx.save_for_backward(mask)
        ctx.input_shape, ctx.value_shape = x.array.shape, v.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        zero = wrap(zeros((), g.array.dtype, like=g.array))
        gx = sum_to(MaskedFill.apply(g, zero, mask), ctx.input_shape) if ctx.needs_input_grad[0] else None
        gv = None
        if ctx.needs_input_grad[1]:
            others = exact("eq")(mask, zeros((), mask.dtype, like=mask))
            gv = sum_to(MaskedFill.apply(g, zero, others), ctx.value_shape)
        return gx, gv, None


@operator(records=SparseProduct, methods="index_select", dtypes="bihf")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Select the slices ``index`` (a vector of int64) of input along ``dim``.

    Raises:
        TypeError: ``index`` is not int64.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: ``index`` is not a vector.
    """
    if interpreters and (seen := interpreted(index_select, locals())) is not None:
        return seen
    require_tensor("index_select", input)
    indices, position = _vector("index_select", input, dim, index)
    if not input.array.ndim:
        if indices.size != 1:
            raise ValueError(
                f"index_select: index.shape={index.array.shape}, but a 0-d input has only one element to select"
            )
        return apply_to_0d(index_select, input, dim, index)
    return SparseProduct.apply(input, Matrix(indices, input.array.shape[position]), position)


@operator(records=Put, methods="index_add", in_place=True, dtypes="hf")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Copy input with alpha * source[k] added to slice index[k] along ``dim``; slices may repeat.

    Raises:
        TypeError: ``index`` is not int64, the types of input and source differ, or alpha is not an integer but
            they are.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shape of ``source`` does not fit.
    """
    if interpreters and (seen := interpreted(index_add, locals())) is not None:
        return seen
    require_tensor("index_add", input)
    if not input.array.ndim:
        return apply_to_0d(index_add, input, dim, index, source, alpha=alpha)
    indices, position = _vector("index_add", input, dim, index)
    source = _slices("index_add", input, indices, position, source)
    if alpha != 1:
        require_factor("index_add", "alpha", alpha, input.array.dtype)
    return Put.apply(input, source if alpha == 1 else source * alpha, _at(indices, position), True)


@operator(records=Put, methods="index_copy", in_place=True, dtypes="bihf")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Copy input with slice index[k] along ``dim`` replaced by source[k]; for a repeated slice, the last one is used.

    Raises: as ``index_add``.
    """
    if interpreters and (seen := interpreted(index_copy, locals())) is not None:
        return seen
    require_tensor("index_copy", input)
    if not input.array.ndim:
        return apply_to_0d(index_copy, input, dim, index, source)
    indices, position = _vector("index_copy", input, dim, index)
    source = _slices("index_copy", input, indices, position, source)
    return Put.apply(input, source, _at(indices, position), False)


@operator(records=Put, methods="index_fill", in_place=True, dtypes="bihf")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Copy input with the slices ``index``, which may be negative, along ``dim`` filled with the number ``value``.

    Raises:
        TypeError: ``index`` is not int64, or ``value`` is not a number.
        IndexError: input has no such axis, or an index is out of range.
        ValueError: ``value`` has more than one element.
    """
    if interpreters and (seen := interpreted(index_fill, locals())) is not None:
        return seen
    require_tensor("index_fill", input)
    if not input.array.ndim:
        return apply_to_0d(index_fill, input, dim, index, value)
    indices, position = _vector("index_fill", input, dim, index, negative=True)
    places = _at(indices, position)
    return Put.apply(input, _number("index_fill", input, value), places, False)


@operator(methods="take", dtypes="bihf")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Select elements of input by flat indices in C order; negative ones count from the end.

    index: int64 of any shape, which is the shape of the result.

    Raises:
        TypeError: ``index`` is not int64.
        IndexError: an index is out of range.
    """
    if interpreters and (seen := interpreted(take, locals())) is not None:
        return seen
    require_tensor("take", input)
    index = as_index("take", index, "index")
    size = input.array.size
    flat = in_range("take", "index", index.array, size, f"input.shape={input.array.shape} with {size} elements")
    return get(input.reshape(size), Places(None, (0,), (flat,)))


@operator(records=MaskedFill, methods="masked_fill", in_place=True, dtypes="bihf")
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Copy input with the number ``value`` where ``mask`` is True; input and mask are broadcast.

    Raises:
        TypeError: ``mask`` is not bool, or ``value`` is not a number.
        ValueError: the shapes do not broadcast, or ``value`` has more than one element.
    """
    if interpreters and (seen := interpreted(masked_fill, locals())) is not None:
        return seen
    require_tensor("masked_fill", input)
    shape = _require_mask("masked_fill", input, mask)
    number = _number("masked_fill", input, value)
    saved_mask = copy_for_backward(mask.array, input.requires_grad or number.requires_grad)
    return MaskedFill.apply(input, number, saved_mask if saved_mask.shape == shape else broadcast_to(saved_mask, shape))


@operator(methods="masked_select", dtypes="bihf")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Select the elements of input where ``mask`` is True, in C order, as a vector; input and mask are broadcast.

    Raises:
        TypeError: ``mask`` is not bool.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(masked_select, locals())) is not None:
        return seen
    require_tensor("masked_select", input)
    shape = _require_mask("masked_select", input, mask)
    return expand(input, shape)[expand(mask, shape)]


@operator(records=Put, methods="masked_scatter", in_place=True, dtypes="bihf")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Copy input with the first elements of ``source``, in C order, where ``mask`` is True.

    Raises:
        TypeError: ``mask`` is not bool, or the types of input and source differ.
        ValueError: the shapes do not broadcast, or ``source`` has too few elements.
    """
    if interpreters and (seen := interpreted(masked_scatter, locals())) is not None:
        return seen
    require_tensor("masked_scatter", input)
    shape = _require_mask("masked_scatter", input, mask)
    _require_type("masked_scatter", input, source)
    places = kernels.nonzero(broadcast_to(mask.array, shape))
    count = places[0].size
    if source.array.size < count:
        raise ValueError(f"masked_scatter: source has {source.array.size} elements, but the mask is True at {count}")
    if not shape:
        return source.reshape(-1)[0] if count else input.clone()
    values = source.reshape(source.array.size)[:count]
    return Put.apply(expand(input, shape), values, Places(None, tuple(range(len(shape))), places), False)


def _at(indices: np.ndarray, position: int) -> Places:
    return Places(None, (position,), (indices,))


def _vector(name: str, x: Tensor, dim: int, index: Any, negative: bool = False) -> tuple[np.ndarray, int]:
    """Return a vector of indices and the axis, counted from the front."""
    index = as_index(name, index, "index")
    shape = x.array.shape
    position = axis(name, "dim", dim, max(1, len(shape)))
    if index.array.ndim > 1:
        raise ValueError(f"{name}: index.shape={index.array.shape}, needs a vector or a number")
    extent = shape[position] if shape else 1
    indices = index.array.reshape(-1)
    return in_range(name, "index", indices, extent, f"axis dim={dim} of input.shape={shape}", negative), position


def _slices(name: str, x: Tensor, indices: np.ndarray, position: int, source: Any) -> Tensor:
    _require_type(name, x, source)
    shape = x.array.shape
    expected = shape[:position] + (indices.size,) + shape[position + 1 :]
    if expected == (1,) and not source.array.ndim:
        return reshape(source, 1)
    if source.array.shape != expected:
        raise ValueError(
            f"{name}: source.shape={source.array.shape}, but {indices.size} slices of input.shape={shape} along dim="
            f"{position} have shape {expected}"
        )
    return source


def _require_type(name: str, x: Tensor, source: Any) -> None:
    if not isinstance(source, Tensor) or source.array.dtype != x.array.dtype:
        raise TypeError(f"{name}: source is {kind_of(source)}, needs a Tensor of input's type, {x.array.dtype}")


def _require_mask(name: str, x: Tensor, mask: Any) -> tuple[int, ...]:
    """Return the broadcast shape of input and mask."""
    if not isinstance(mask, Tensor) or mask.array.dtype != np.bool_:
        raise TypeError(f"{name}: mask is {kind_of(mask)}, needs a bool Tensor; use mask.bool()")
    return broadcast_shape(name, x.array.shape, mask.array.shape)


def _number(name: str, x: Tensor, value: Tensor | float) -> Tensor:
    """Convert a number to a 0-d Tensor of x's type."""
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise ValueError(f"{name}: value.shape={value.array.shape}, needs a number or a Tensor without axes")
        return cast(value, x.array.dtype)
    if not is_number(value):
        raise TypeError(f"{name}: value is {kind_name(value)}, needs a number or a Tensor without axes")
    return wrap(as_element(name, "value", value, x.array.dtype))
