"""Tensors with more axes, and tensors put together as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as _combinations
from itertools import combinations_with_replacement
from typing import Any

from ...arrays import empty, from_host, zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Size, Tensor, wrap
from ..arguments.checks import as_flag, as_int, require_tensor
from ..dtypes.dtype import int64
from ..dtypes.promotion import promoted_type
from .broadcasting import broadcast_shape
from .join import as_tensors, cat, joined_along, with_axes
from .shape import reshape, sizes

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "column_stack",
    "combinations",
    "row_stack",
]


@operator(dtypes="bihf")
def atleast_1d(*tensors: Any) -> Any:
    """The tensor with at least 1 axis; of several, or of a sequence, a tuple.

    Raises:
        TypeError: an argument is not a Tensor.
    """
    if interpreters and (seen := interpreted(atleast_1d, locals())) is not None:
        return seen
    return _each("atleast_1d", tensors, 1)


@operator(dtypes="bihf")
def atleast_2d(*tensors: Any) -> Any:
    """The tensor with at least 2 axes, (N,) as (1, N); of several, or of a sequence, a tuple.

    Raises:
        TypeError: an argument is not a Tensor.
    """
    if interpreters and (seen := interpreted(atleast_2d, locals())) is not None:
        return seen
    return _each("atleast_2d", tensors, 2)


@operator(dtypes="bihf")
def atleast_3d(*tensors: Any) -> Any:
    """The tensor with at least 3 axes, (N,) as (1, N, 1), (M, N) as (M, N, 1); of several, or of a sequence, a tuple.

    Raises:
        TypeError: an argument is not a Tensor.
    """
    if interpreters and (seen := interpreted(atleast_3d, locals())) is not None:
        return seen
    return _each("atleast_3d", tensors, 3)


@operator(dtypes="bihf")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side, vectors and numbers as columns; raises as ``cat``."""
    if interpreters and (seen := interpreted(column_stack, locals())) is not None:
        return seen
    many = [
        reshape(each, each.array.size, 1) if each.array.ndim < 2 else each
        for each in as_tensors("column_stack", tensors)
    ]
    return joined_along("column_stack", many, 1)


@operator(dtypes="bihf")
def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """``vstack``; raises as ``cat``."""
    if interpreters and (seen := interpreted(row_stack, locals())) is not None:
        return seen
    return joined_along("row_stack", [with_axes(each, 2) for each in as_tensors("row_stack", tensors)], 0)


@operator(dtypes="bihf")
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrix with these blocks on its diagonal, 0 elsewhere; a vector is a row, a number (1, 1). Types promote.

    Raises:
        TypeError: an argument is not a Tensor.
        ValueError: one has more than 2 axes, or there is none.
    """
    if interpreters and (seen := interpreted(block_diag, locals())) is not None:
        return seen
    many = as_tensors("block_diag", list(tensors))
    for i, each in enumerate(many):
        if each.array.ndim > 2:
            raise ValueError(f"block_diag: tensors[{i}].shape={each.array.shape} has more than 2 axes")
    blocks = [with_axes(each, 2) for each in many]
    dtype = promoted_type(*[each.array for each in blocks])
    columns, before, rows = sum(each.array.shape[1] for each in blocks), 0, []
    for block in blocks:
        height, width = block.array.shape
        sides = [wrap(zeros((height, n), dtype, like=block.array)) for n in (before, columns - before - width)]
        rows.append(cat((sides[0], block, sides[1]), 1))
        before += width
    return cat(rows, 0)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which these broadcast together; an int stands for one axis.

    Raises:
        TypeError: a shape is neither an int nor ints.
        ValueError: they do not broadcast.
    """
    found: tuple[int, ...] = ()
    for shape in shapes:
        found = broadcast_shape("broadcast_shapes", found, sizes("broadcast_shapes", "shapes", (shape,)))
    return Size(found)


@operator(dtypes="bihf")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector (N,), in their order: (K, r); with repetitions if ``with_replacement``.

    Raises:
        TypeError: input is not a Tensor, or r is not an int.
        ValueError: input is not a vector, or r is negative.
    """
    if interpreters and (seen := interpreted(combinations, locals())) is not None:
        return seen
    require_tensor("combinations", input)
    if input.array.ndim != 1:
        raise ValueError(f"combinations: input.shape={input.array.shape} must have one axis")
    if as_int("combinations", "r", r) < 0:
        raise ValueError(f"combinations: r={r} must be at least 0")
    repeated = as_flag("combinations", "with_replacement", with_replacement)
    if not r:
        return wrap(empty(0, input.array.dtype, like=input.array))
    chosen = (combinations_with_replacement if repeated else _combinations)(range(input.array.size), r)
    places = from_host([*chosen], int64, like=input.array).reshape(-1, r)
    return input[wrap(places)]


def _each(name: str, tensors: tuple[Any, ...], ndim: int) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return with_axes(tensors[0], ndim)
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return tuple(with_axes(each, ndim) for each in (as_tensors(name, list(given)) if given else ()))
