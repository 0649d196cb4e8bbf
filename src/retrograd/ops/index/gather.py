"""Gather and scatter operators, including replacement and reduction of elements and slices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import broadcast_to, extremes, full, ones, within
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_element, as_flag, as_index, as_int, is_number, kind_of, require_tensor
from ..pointwise.piecewise import where
from ..shape.diagonal import DiagonalFill, diagonal
from ..shape.shape import apply_to_0d, axis, reshape
from .indexing import GetItem, Places, Put, fitting, in_range, places_of

__all__ = [
    "diagonal_scatter",
    "gather",
    "index_reduce",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select_scatter",
    "slice_scatter",
    "take_along_dim",
]


# ---- Gather and scatter: elements read or written by index along an axis ---------------------------------------------

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


class Gather(Function):
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; other extents may be smaller than x's."""

    @staticmethod
    def forward(x: Tensor, indices: np.ndarray, axis: int) -> Tensor:
        return wrap(kernels.gather(x.array, indices, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, indices, ctx.axis = inputs
        ctx.save_for_backward(indices)
        ctx.input_shape = x.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Scatter.apply(g, indices, ctx.axis, ctx.input_shape), None, None


class Scatter(Function):
    """Zeros of ``shape`` with g added at the indices: the transpose of Gather."""

    @staticmethod
    def forward(g: Tensor, indices: np.ndarray, axis: int, shape: tuple[int, ...]) -> Tensor:
        return wrap(kernels.scatter_add(g.array, indices, axis, shape))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, indices, ctx.axis, _ = inputs
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Gather.apply(v, indices, ctx.axis), None, None, None


class Extreme(Function):
    """The largest (sign 1) or smallest (-1) of x and the elements of src scattered there; ties share the gradient."""

    gradient = "x: g / count where it is the extreme; src: g / count, gathered from where src was scattered"

    @staticmethod
    def forward(ctx: Any, x: Tensor, src: Tensor, indices: np.ndarray, axis: int, sign: int, include: bool) -> Tensor:
        y, from_x, from_src, count = kernels.scatter_extreme(x.array, src.array, indices, axis, sign, include)
        ctx.save_for_backward(from_x, from_src, count, indices)
        ctx.axis = axis
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        from_x, from_src, count, indices = ctx.saved_tensors
        share = g / wrap(count)
        gx = share * wrap(kernels.cast(from_x, count.dtype)) if ctx.needs_input_grad[0] else None
        gs = None
        if ctx.needs_input_grad[1]:
            gs = Gather.apply(share, indices, ctx.axis) * wrap(kernels.cast(from_src, count.dtype))
        return gx, gs, None, None, None, None


@operator(records=Gather, methods="gather", dtypes="bihf")
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Gather elements: y[i, j, k] = input[i, index[i, j, k], k] for ``dim`` = 1, and so on; y has index's shape.

    index: int64, with as many axes as input, and no longer than input in axes other than ``dim``.

    Raises:
        TypeError: ``index`` is not an int64 Tensor.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shape of ``index`` does not fit, or ``sparse_grad``, which is not supported, is True.
    """
    if interpreters and (seen := interpreted(gather, locals())) is not None:
        return seen
    require_tensor("gather", input)
    if sparse_grad is not False and as_flag("gather", "sparse_grad", sparse_grad):
        raise ValueError("gather: sparse_grad=True is not supported; leave it out")
    indices, position = _checked("gather", input, dim, index)
    y = Gather.apply(_at_least_1d(input), indices, position)
    return reshape(y, index.array.shape)


@operator(methods="take_along_dim", dtypes="bihf")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with the other axes broadcast; without ``dim``, on the flattened tensors.

    With ``dim``, negative indices count from the end.

    Raises:
        TypeError: ``indices`` is not an int64 Tensor.
        IndexError: input has no such axis, or an index is not in [-extent, extent).
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(take_along_dim, locals())) is not None:
        return seen
    require_tensor("take_along_dim", input)
    if dim is None:
        return gather(input.ravel(), 0, as_index("take_along_dim", indices, "indices").ravel())
    position = axis("take_along_dim", "dim", dim, input.array.ndim)
    indices = as_index("take_along_dim", indices, "indices")
    sx, si = input.array.shape, indices.array.shape
    if len(sx) != len(si) or any(
        a != position and m != n and 1 not in (m, n) for a, (m, n) in enumerate(zip(sx, si, strict=True))
    ):
        raise ValueError(
            f"take_along_dim: indices.shape={si} and input.shape={sx} must be equal or 1 in all axes but dim={dim}"
        )
    full = [max(m, n) if 0 not in (m, n) else 0 for m, n in zip(sx, si, strict=True)]
    x = input.expand([sx[a] if a == position else n for a, n in enumerate(full)])
    places = indices.array
    if not within(places, 0, sx[position] - 1, "whether indices count from the end"):
        places = kernels.normalize_index(places, sx[position])
    wide = broadcast_to(places, [si[a] if a == position else n for a, n in enumerate(full)])
    return gather(x, position, wrap(wide))


@operator(records=Put, methods="scatter", in_place=True, dtypes="bihf")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float | None = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Scatter into a copy of input: y[i, index[i, j, k], k] = src[i, j, k] for ``dim`` = 1, and so on for other axes.

    index: int64, with as many axes as input, no longer than src, and no longer than input in axes other than ``dim``
    src: a Tensor of input's type, or a number. If an index repeats, only the last value is used and has a gradient
    value: a number in place of src
    reduce: "add" or "multiply": combine with the existing element instead of replacing it

    Raises:
        TypeError: ``index`` does not contain integers, ``src`` is not of input's type, or not exactly one of src and
            value is given.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shapes do not fit, or ``reduce`` is unknown.
    """
    if interpreters and (seen := interpreted(scatter, locals())) is not None:
        return seen
    require_tensor("scatter", input)
    if (src is None) == (value is None):
        raise TypeError(f"scatter: src={src!r} and value={value!r}: give exactly one")
    if src is None:
        src = value.item() if isinstance(value, Tensor) else value
    if reduce not in (None, "add", "multiply"):
        raise ValueError(f'scatter: reduce={reduce!r} must be "add" or "multiply"; scatter_reduce has more')
    if not input.array.ndim:
        return apply_to_0d(scatter, input, dim, index, src, reduce=reduce)
    indices, position = _checked("scatter", input, dim, index)
    values = _source("scatter", input, indices, src)
    if reduce == "multiply":
        return _product(input, values, indices, position)
    return _put(input, values, indices, position, reduce == "add")


@operator(records=Put, methods="scatter_add", in_place=True, dtypes="bihf")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Scatter with addition into a copy of input: y[i, index[i, j, k], k] += src[i, j, k] for ``dim`` = 1.

    See ``scatter``.

    Raises:
        TypeError: ``index`` is not an int64 Tensor, or ``src`` is not of input's type.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(scatter_add, locals())) is not None:
        return seen
    require_tensor("scatter_add", input)
    if not input.array.ndim:
        return apply_to_0d(scatter_add, input, dim, index, src)
    indices, position = _checked("scatter_add", input, dim, index)
    return _put(input, _source("scatter_add", input, indices, src), indices, position, True)


@operator(records=(Extreme, Put), methods="scatter_reduce", in_place=True, dtypes="bihf")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Scatter with reduction into a copy of input: each element is reduced with its values in ``src``; see ``scatter``.

    reduce: "sum", "prod", "mean", "amax" or "amin"; ties share the gradient
    include_self: include input's element in the reduction; otherwise it remains only where ``src`` has no value

    Raises:
        TypeError: ``index`` is not an int64 Tensor, or ``src`` is not of input's type.
        IndexError: input has no such axis, or an index is not in [0, extent).
        ValueError: the shapes do not fit, or ``reduce`` is unknown.
    """
    if interpreters and (seen := interpreted(scatter_reduce, locals())) is not None:
        return seen
    require_tensor("scatter_reduce", input)
    include_self = as_flag("scatter_reduce", "include_self", include_self)
    if reduce not in _REDUCTIONS:
        raise ValueError(f"scatter_reduce: reduce={reduce!r} must be one of {', '.join(_REDUCTIONS)}")
    if not input.array.ndim:
        return apply_to_0d(scatter_reduce, input, dim, index, src, reduce, include_self=include_self)
    indices, position = _checked("scatter_reduce", input, dim, index)
    values = _source("scatter_reduce", input, indices, src)
    if reduce in ("amax", "amin"):
        return Extreme.apply(input, values, indices, position, 1 if reduce == "amax" else -1, include_self)
    if not include_self:
        neutral = full((), 1 if reduce == "prod" else 0, input.array.dtype, like=input.array)
        input = Put.apply(input, wrap(neutral), _places(indices, position), False)
    if reduce == "prod":
        return _product(input, values, indices, position)
    y = _put(input, values, indices, position, True)
    if reduce == "sum":
        return y
    dtype = input.array.dtype
    count = kernels.scatter_count(indices, position, input.array.shape, include_self)
    if dtype.kind != "f":
        return wrap(kernels.floor_mean(y.array, count))
    return y / wrap(kernels.cast(count, dtype))


def _put(x: Tensor, values: Tensor, indices: np.ndarray, position: int, accumulate: bool) -> Tensor:
    return Put.apply(x, values, _places(indices, position), accumulate)


def _product(x: Tensor, values: Tensor, indices: np.ndarray, position: int) -> Tensor:
    """Multiply x by the values at each index: the first values of all indices in one step, then the second, ..."""
    flat, turn = kernels.scatter_turns(indices, position, x.array.shape)
    last = extremes(turn, "how often an index repeats")[1] if turn.size else -1
    unit = wrap(ones(x.array.size, x.array.dtype, like=x.array))
    single, y = values.reshape(values.array.size), x
    for k in range(last + 1):
        (chosen,) = kernels.nonzero(exact("eq")(turn, full((), k, np.int64, like=turn)))
        at = Places(None, (0,), (kernels.take(flat, chosen, 0),))
        factor = Put.apply(unit, single[wrap(chosen)], at, False)
        y = y * factor.reshape(x.array.shape)
    return y if y is not x else x.clone()


def _places(indices: np.ndarray, position: int) -> Places:
    return Places(None, tuple(range(indices.ndim)), kernels.coordinates(indices, position))


def _at_least_1d(x: Tensor) -> Tensor:
    """Return x, or a vector of one element if x is 0-d."""
    return x if x.array.ndim else reshape(x, 1)


def _checked(name: str, x: Tensor, dim: int, index: Any) -> tuple[np.ndarray, int]:
    """Return the indices and the axis, counted from the front; 0-d tensors count as vectors of one element."""
    index = as_index(name, index, "index")
    sx, si = x.array.shape or (1,), index.array.shape or (1,)
    position = axis(name, "dim", dim, len(sx))
    if index.array.size == 0 and len(si) != len(sx):
        si = (0,) * len(sx)
    if not _covers(sx, si, position):
        raise ValueError(
            f"{name}: index.shape={index.array.shape} must have as many axes as input.shape={x.array.shape} and be no "
            f"longer, except in dim={dim}"
        )
    where = f"axis dim={dim} of input.shape={x.array.shape}"
    indices = in_range(name, "index", index.array, sx[position], where, negative=False)
    return indices.reshape(si), position


@lru_cache(maxsize=4096)
def _covers(shape: tuple[int, ...], indices: tuple[int, ...], position: int) -> bool:
    """Return whether indices of a shape have as many axes as a tensor, and are no longer but along one axis."""
    return len(indices) == len(shape) and not any(
        n > m and a != position for a, (m, n) in enumerate(zip(shape, indices, strict=True))
    )


def _source(name: str, x: Tensor, indices: np.ndarray, src: Any) -> Tensor:
    """Return the values for each index: src cropped to the shape of the indices."""
    if is_number(src):
        return wrap(full(indices.shape, as_element(name, "src", src, x.array.dtype), like=x.array))
    if not isinstance(src, Tensor) or src.array.dtype != x.array.dtype:
        raise TypeError(f"{name}: src is {kind_of(src)}, needs a Tensor of input's type, {x.array.dtype}")
    src = _at_least_1d(src)
    have, need = src.array.shape, indices.shape
    if have == need:
        return src
    if not indices.size:
        return reshape(GetItem.apply(reshape(src, src.array.size), (slice(0, 0),)), need)
    if len(have) != len(need) or any(n > m for m, n in zip(have, need, strict=True)):
        raise ValueError(f"{name}: index.shape={need} must have as many axes as src.shape={have} and be no longer")
    return GetItem.apply(src, tuple(map(slice, need)))


# ---- Copies of a tensor with some of its elements replaced ----------------------------------------------------------


@operator(records=Put, methods="select_scatter", dtypes="bihf")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Copy input with its slice ``index`` along ``dim`` replaced by src.

    Raises:
        TypeError: input or src is not a Tensor, or their types do not fit.
        IndexError: input has no such axis or slice.
        ValueError: src does not have the slice's shape.
    """
    if interpreters and (seen := interpreted(select_scatter, locals())) is not None:
        return seen
    position = _axis("select_scatter", input, dim)
    number = as_int("select_scatter", "index", index)
    return _replaced("select_scatter", input, src, (slice(None),) * position + (number,))


@operator(records=Put, methods="slice_scatter", dtypes="bihf")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Copy input with the slices start, start + step, ... before ``end`` along ``dim`` replaced by src.

    Raises:
        TypeError: input or src is not a Tensor, or their types do not fit.
        IndexError: input has no such axis.
        ValueError: src does not have the slices' shape, or step is below 1.
    """
    if interpreters and (seen := interpreted(slice_scatter, locals())) is not None:
        return seen
    position = _axis("slice_scatter", input, dim)
    if as_int("slice_scatter", "step", step) < 1:
        raise ValueError(f"slice_scatter: step={step} must be at least 1")
    return _replaced("slice_scatter", input, src, (slice(None),) * position + (slice(start, end, step),))


@operator(records=DiagonalFill, methods="diagonal_scatter", dtypes="bihf")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Copy input with ``diagonal(input, offset, dim1, dim2)`` replaced by src.

    Raises:
        TypeError: input or src is not a Tensor, or their types differ.
        IndexError: input has no such axis.
        ValueError: src does not have the diagonal's shape, or the axes are the same.
    """
    if interpreters and (seen := interpreted(diagonal_scatter, locals())) is not None:
        return seen
    require_tensor("diagonal_scatter", input)
    require_tensor("diagonal_scatter", src, "src")
    shape = input.array.shape
    expected = diagonal(input, offset, dim1, dim2).array.shape
    if src.array.shape != expected or src.array.dtype != input.array.dtype:
        raise ValueError(
            f"diagonal_scatter: src is {src.array.dtype} of shape {src.array.shape}, the diagonal is "
            f"{input.array.dtype} of shape {expected}"
        )
    call = shape, offset, dim1 % len(shape), dim2 % len(shape)
    on = DiagonalFill.apply(wrap(ones(expected, np.bool_, like=src.array)), *call)
    return where(on, DiagonalFill.apply(src, *call), input)


@operator(records=Put, methods="put", in_place=True, dtypes="bihf")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Copy input with source written to the flat indices ``index`` (C order), or added there with ``accumulate``.

    Raises:
        TypeError: ``index`` does not contain integers, or the types differ.
        IndexError: an index is out of range.
        ValueError: source and ``index`` differ in their number of elements.
    """
    if interpreters and (seen := interpreted(put, locals())) is not None:
        return seen
    require_tensor("put", input)
    index = as_index("put", index, "index")
    require_tensor("put", source, "source")
    accumulate = as_flag("put", "accumulate", accumulate)
    if source.array.size != index.array.size:
        raise ValueError(f"put: source has {source.array.size} elements, index {index.array.size}; they must be equal")
    places = places_of("put", (input.array.size,), (reshape(index, index.array.size),))
    flat, values = reshape(input, input.array.size), reshape(source, source.array.size)
    changed = Put.apply(flat, fitting("put", flat, places, values), places, accumulate)
    return reshape(changed, input.array.shape)


@operator(methods="index_reduce", in_place=True, dtypes="bihf")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Copy input with the slices source[k] along ``dim`` reduced into slice index[k].

    reduce: "prod", "mean", "amax" or "amin". include_self: include the elements of input in the reduction

    Raises:
        TypeError: ``index`` does not contain integers, or the types differ.
        IndexError: input has no such axis, or an index is out of range.
        ValueError: ``reduce`` is unknown, or the shapes do not fit.
    """
    if interpreters and (seen := interpreted(index_reduce, locals())) is not None:
        return seen
    require_tensor("index_reduce", input)
    position = axis("index_reduce", "dim", dim, max(input.array.ndim, 1))
    index = as_index("index_reduce", index, "index")
    require_tensor("index_reduce", source, "source")
    if not input.array.ndim and source.array.size == index.array.size:  # as a vector of one element
        of_one = 0, reshape(index, -1), reshape(source, -1), reduce
        found: Tensor = apply_to_0d(index_reduce, input, *of_one, include_self=include_self)
        return found
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce: reduce={reduce!r} must be 'prod', 'mean', 'amax' or 'amin'")
    shape = source.array.shape
    expected = (*input.array.shape[:position], index.array.size, *input.array.shape[position + 1 :])
    if index.array.ndim > 1 or shape != expected:
        raise ValueError(f"index_reduce: source.shape={shape} must be {expected}; index.shape={index.array.shape}")
    places = reshape(index, (-1,) + (1,) * (len(shape) - 1 - position)).expand(shape)
    include = as_flag("index_reduce", "include_self", include_self)
    return scatter_reduce(input, position, places, source, reduce, include_self=include)


def _axis(name: str, x: Any, dim: int) -> int:
    require_tensor(name, x)
    return axis(name, "dim", dim, x.array.ndim)


def _replaced(name: str, x: Tensor, src: Any, index: tuple[Any, ...]) -> Tensor:
    require_tensor(name, src, "src")
    places = places_of(name, x.array.shape, index)
    expected = places.selected(x.array.shape)
    if src.array.shape != expected:
        raise ValueError(f"{name}: src.shape={src.array.shape} must be {expected}, the shape of the replaced part")
    return Put.apply(x, fitting(name, x, places, src), places, False)
