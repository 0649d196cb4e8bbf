"""Copies of a tensor with some of its elements replaced: slices, diagonals, flat places; and reductions into slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import ones
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_flag, as_index, as_int, require_tensor
from ..pointwise.piecewise import where
from ..shape.diagonal import DiagonalFill, diagonal
from ..shape.shape import axis, of_line, reshape
from .gather import scatter_reduce
from .indexing import Put, fitting, places_of

__all__ = ["diagonal_scatter", "index_reduce", "put", "select_scatter", "slice_scatter"]


@operator(records=Put, methods="select_scatter", dtypes="bihf")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with src as its slice ``index`` along ``dim``.

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
    """A copy of input with src as its slices start, start + step, ... before ``end`` along ``dim``.

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
    """A copy of input with src as ``diagonal(input, offset, dim1, dim2)``.

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
    wanted = diagonal(input, offset, dim1, dim2).array.shape
    if src.array.shape != wanted or src.array.dtype != input.array.dtype:
        raise ValueError(
            f"diagonal_scatter: src is {src.array.dtype} of shape {src.array.shape}, the diagonal is "
            f"{input.array.dtype} of shape {wanted}"
        )
    call = shape, offset, dim1 % len(shape), dim2 % len(shape)
    on = DiagonalFill.apply(wrap(ones(wanted, np.bool_, like=src.array)), *call)
    return where(on, DiagonalFill.apply(src, *call), input)


@operator(records=Put, methods="put", in_place=True, dtypes="bihf")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with source at the flat indices ``index`` (C order), or added there with ``accumulate``.

    Raises:
        TypeError: ``index`` does not hold integers, or the types differ.
        IndexError: an index is out of range.
        ValueError: source has another number of elements than ``index``.
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
    line, values = reshape(input, input.array.size), reshape(source, source.array.size)
    changed = Put.apply(line, fitting("put", line, places, values), places, accumulate)
    return reshape(changed, input.array.shape)


@operator(methods="index_reduce", in_place=True, dtypes="bihf")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of input with the slices source[k] along ``dim`` reduced into slice index[k].

    reduce: "prod", "mean", "amax" or "amin". include_self: what input has there counts, too

    Raises:
        TypeError: ``index`` does not hold integers, or the types differ.
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
        found: Tensor = of_line(index_reduce, input, *of_one, include_self=include_self)
        return found
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce: reduce={reduce!r} must be 'prod', 'mean', 'amax' or 'amin'")
    shape = source.array.shape
    wanted = (*input.array.shape[:position], index.array.size, *input.array.shape[position + 1 :])
    if index.array.ndim > 1 or shape != wanted:
        raise ValueError(f"index_reduce: source.shape={shape} must be {wanted}; index.shape={index.array.shape}")
    places = reshape(index, (-1,) + (1,) * (len(shape) - 1 - position)).expand(shape)
    include = as_flag("index_reduce", "include_self", include_self)
    return scatter_reduce(input, position, places, source, reduce, include_self=include)


def _axis(name: str, x: Any, dim: int) -> int:
    require_tensor(name, x)
    return axis(name, "dim", dim, x.array.ndim)


def _replaced(name: str, x: Tensor, src: Any, index: tuple[Any, ...]) -> Tensor:
    require_tensor(name, src, "src")
    places = places_of(name, x.array.shape, index)
    wanted = places.selected(x.array.shape)
    if src.array.shape != wanted:
        raise ValueError(f"{name}: src.shape={src.array.shape} must be {wanted}, the shape of what it replaces")
    return Put.apply(x, fitting(name, x, places, src), places, False)
