"""Joining tensors: cat, stack, meshgrid and blocks, with the splits that are their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement, pairwise
from itertools import combinations as _combinations
from typing import Any

import numpy as np

from ...arrays import empty, from_host, zeros
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Size, Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels
from ..argument_checks import TOO_LONG, as_flag, as_int, require_tensor
from ..dtypes.dtype import cast, int64
from ..dtypes.promotion import promoted_type
from .broadcasting import broadcast_shape, expand
from .shape import Reshape, axis, empty_as, reshape, sizes, whole

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cat",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "dstack",
    "hstack",
    "meshgrid",
    "row_stack",
    "stack",
    "vstack",
]


# ---- Joining and splitting, each the gradient of the other ----------------------------------------------------------

_LARGE = 4096  # elements per tensor, below which NumPy joins faster
_FEW = 64  # pieces, for which indices are kept


class Cat(Function):
    """Tensors concatenated along ``axis``."""

    @staticmethod
    def forward(axis: int, *tensors: Tensor) -> Tensor:
        return wrap(_joined([t.array for t in tensors], axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        axis = ctx.axis = inputs[0]
        ctx.extents = tuple([t.array.shape[axis] for t in inputs[1:]])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        pieces = Split.apply(g, ctx.extents, ctx.axis)
        return None, *[piece if want else None for piece, want in zip(pieces, ctx.needs_input_grad[1:], strict=True)]


class Split(View):
    """x split along ``axis`` into pieces of given extents, as views."""

    @staticmethod
    def forward(x: Tensor, extents: tuple[int, ...], axis: int) -> tuple[Tensor, ...]:
        array = x.array
        indices = _pieces(extents, axis) if len(extents) <= _FEW else _pieces.__wrapped__(extents, axis)
        return tuple([wrap(array[index]) for index in indices])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.axis = inputs[2]

    @staticmethod
    def backward(ctx: Any, *pieces: Tensor) -> tuple[Tensor | None, ...]:
        return Cat.apply(ctx.axis, *pieces), None, None


class Stack(Function):
    """Tensors of one shape along a new axis."""

    gradient = "each piece: its slice of g"

    @staticmethod
    def forward(axis: int, *tensors: Tensor) -> Tensor:
        new = (*(slice(None),) * axis, None)
        return wrap(_joined([t.array[new] for t in tensors], axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.axis = inputs[0]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        pieces = Unbind.apply(g, ctx.axis)
        return None, *[piece if want else None for piece, want in zip(pieces, ctx.needs_input_grad[1:], strict=True)]


class Unbind(View):
    """The slices of x along ``axis``, without that axis, as views."""

    @staticmethod
    def forward(x: Tensor, axis: int) -> tuple[Tensor, ...]:
        before: Any = (slice(None),) * axis
        array = x.array
        return tuple([wrap(array[(*before, i, ...)]) for i in range(array.shape[axis])])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.axis = inputs[1]

    @staticmethod
    def backward(ctx: Any, *pieces: Tensor) -> tuple[Tensor | None, ...]:
        return Stack.apply(ctx.axis, *pieces), None


@lru_cache(maxsize=4096)
def _pieces(extents: tuple[int, ...], axis: int) -> tuple[tuple[slice, ...], ...]:
    """Return the indices of the pieces of ``Split``."""
    ends, before = accumulate(extents, initial=0), (slice(None),) * axis
    return tuple([(*before, slice(a, b)) for a, b in pairwise(ends)])


@operator(dtypes="bihf")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors concatenated along axis ``dim``; all other extents must be equal. Types promote as in arithmetic.

    A tensor of shape (0,) fits any shape and adds nothing.

    Raises:
        TypeError: ``tensors`` is not a sequence of Tensors.
        IndexError: the tensors have no such axis.
        ValueError: ``tensors`` is empty, or the extents differ.
    """
    if interpreters and (seen := interpreted(cat, locals())) is not None:
        return seen
    return joined_along("cat", tensors, dim)


@operator(dtypes="bihf")
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Alias of ``cat``."""
    if interpreters and (seen := interpreted(concat, locals())) is not None:
        return seen
    return joined_along("concat", tensors, dim)


@operator(dtypes="bihf")
def concatenate(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Alias of ``cat``."""
    if interpreters and (seen := interpreted(concatenate, locals())) is not None:
        return seen
    return joined_along("concatenate", tensors, dim)


@operator(records=Stack, dtypes="bihf")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis ``dim``.

    Raises:
        TypeError: ``tensors`` is not a sequence of Tensors.
        IndexError: the result has no such axis.
        ValueError: ``tensors`` is empty, or the shapes differ.
    """
    if interpreters and (seen := interpreted(stack, locals())) is not None:
        return seen
    many = as_tensors("stack", tensors)
    shape = many[0].array.shape
    for i, t in enumerate(many):
        if t.array.shape != shape:
            raise ValueError(f"stack: tensors[{i}].shape={t.array.shape}, tensors[0].shape={shape}; they must be equal")
    position = axis("stack", "dim", dim, len(shape) + 1)
    return Stack.apply(position, *_of_one_type(many))


@operator(dtypes="bihf")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: ``cat`` along axis 1, or along axis 0 for vectors; raises as ``cat``."""
    if interpreters and (seen := interpreted(hstack, locals())) is not None:
        return seen
    many = [with_axes(t, 1) for t in as_tensors("hstack", tensors)]
    return joined_along("hstack", many, 0 if many[0].array.ndim == 1 else 1)


@operator(dtypes="bihf")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors below each other: ``cat`` along axis 0, with vectors as rows; raises as ``cat``."""
    if interpreters and (seen := interpreted(vstack, locals())) is not None:
        return seen
    return joined_along("vstack", [with_axes(t, 2) for t in as_tensors("vstack", tensors)], 0)


@operator(dtypes="bihf")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors stacked in depth: ``cat`` along axis 2, (N,) as (1, N, 1), (M, N) as (M, N, 1); raises as ``cat``."""
    if interpreters and (seen := interpreted(dstack, locals())) is not None:
        return seen
    return joined_along("dstack", [with_axes(t, 3) for t in as_tensors("dstack", tensors)], 2)


@operator(dtypes="bihf")
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape, as views.

    Raises:
        TypeError: an argument is not a Tensor.
        ValueError: there is no common shape.
    """
    if interpreters and (seen := interpreted(broadcast_tensors, locals())) is not None:
        return seen
    many = as_tensors("broadcast_tensors", tensors)
    shape: tuple[int, ...] = ()
    for t in many:
        shape = broadcast_shape("broadcast_tensors", shape, t.array.shape)
    return tuple(expand(t, shape) for t in many)


@operator(dtypes="bihf")
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Expand vectors of lengths A, B, ... to Tensors (A, B, ...); the i-th repeats vector i along all other axes.

    indexing: "ij", or "xy", which swaps the first two axes of the results.

    Raises:
        TypeError: an argument is not a Tensor.
        ValueError: an argument has several axes, or ``indexing`` is unknown.
    """
    if interpreters and (seen := interpreted(meshgrid, locals())) is not None:
        return seen
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    many = as_tensors("meshgrid", tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing={indexing!r} must be "ij" or "xy"')
    for i, t in enumerate(many):
        if t.array.ndim > 1:
            raise ValueError(f"meshgrid: tensors[{i}].shape={t.array.shape}; each must be a vector or a number")
    shape = tuple(t.array.size for t in many)
    grids = [
        expand(Reshape.apply(t, (1,) * i + (t.array.size,) + (1,) * (len(many) - i - 1)), shape)
        for i, t in enumerate(many)
    ]
    return tuple(g.transpose(0, 1) if indexing == "xy" and len(many) > 1 else g for g in grids)


@operator(dtypes="bihf")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, the last changing fastest: (A*B*..., number of vectors).

    A single vector is returned unchanged.

    Raises:
        TypeError: an argument is not a Tensor.
        ValueError: an argument does not have exactly one axis.
    """
    if interpreters and (seen := interpreted(cartesian_prod, locals())) is not None:
        return seen
    many = as_tensors("cartesian_prod", tensors)
    for i, t in enumerate(many):
        if t.array.ndim != 1:
            raise ValueError(f"cartesian_prod: tensors[{i}].shape={t.array.shape}; each must be a vector")
    return many[0] if len(many) == 1 else stack([reshape(g, -1) for g in meshgrid(*many)], 1)


def _joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """Concatenate the arrays, in the memory order of the first one."""
    if sum([array.size for array in arrays]) < _LARGE * len(arrays):
        return kernels.concatenate(arrays, axis)
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    y = empty_as(arrays[0], shape)
    before, start = (slice(None),) * axis, 0
    for array in arrays:
        end = start + array.shape[axis]
        kernels.copy(y[(*before, slice(start, end))], array)
        start = end
    return y


def joined_along(name: str, tensors: Sequence[Tensor], dim: int) -> Tensor:
    """``cat`` with the name of the caller in messages."""
    many = as_tensors(name, tensors)
    if type(dim) is not int:
        dim = whole(name, "dim", dim)
    position, empty = _joint_axis(name, tuple([t.array.shape for t in many]), dim)
    if empty is not None:
        many = [Reshape.apply(t, empty) if t.array.shape == (0,) else t for t in many]
    return Cat.apply(position, *_of_one_type(many))


@lru_cache(maxsize=4096)
def _joint_axis(name: str, shapes: tuple[tuple[int, ...], ...], dim: int) -> tuple[int, tuple[int, ...] | None]:
    """Return the axis of ``cat``, counted from the front, and what a tensor of shape (0,) is reshaped to, if any."""
    shape, empty = shapes[0], None
    uneven = len({len(each) for each in shapes}) > 1
    if uneven:
        shape = next(each for each in shapes if each != (0,))
    if not shape:
        raise ValueError(f"{name}: tensors[0] has no axis; stack() joins numbers")
    position = axis(name, "dim", dim, len(shape))
    if uneven:
        empty = (*shape[:position], 0, *shape[position + 1 :])
    for i, other in enumerate(shapes):
        if uneven and other == (0,):
            continue
        if len(other) != len(shape) or any(
            m != n and a != position for a, (m, n) in enumerate(zip(shape, other, strict=True))
        ):
            first = empty if uneven and shapes[0] == (0,) else shapes[0]
            raise ValueError(
                f"{name}: tensors[{i}].shape={other}, tensors[0].shape={first}; they may differ in axis dim={dim} only"
            )
    return position, empty


def _of_one_type(many: list[Tensor]) -> list[Tensor]:
    dtype = many[0].array.dtype
    for t in many:
        if t.array.dtype is not dtype:
            break
    else:  # the usual case
        return many
    dtype = promoted_type(*[t.array for t in many])
    return [cast(t, dtype) for t in many]


def as_tensors(name: str, tensors: Any) -> list[Tensor]:
    """Return a sequence of at least one Tensor as a list; TypeError or ValueError otherwise."""
    if isinstance(tensors, (tuple, list)) and tensors:
        for t in tensors:
            if not isinstance(t, Tensor):
                break
        else:
            return [*tensors]
    if isinstance(tensors, (tuple, list)) and not tensors:
        raise ValueError(f"{name}: tensors is empty; give at least one")
    if isinstance(tensors, (tuple, list)):
        place, wrong = next((place, t) for place, t in enumerate(tensors) if not isinstance(t, Tensor))
        raise TypeError(
            f"{name}: tensors[{place}] is {kind_name(wrong)}, but tensors must be a tuple or list of Tensors; make one "
            f"with retrograd.tensor"
        )
    hint = f"; put them into a list: {name}([a, b])" if isinstance(tensors, Tensor) else ""
    raise TypeError(f"{name}: tensors must be a tuple or list of Tensors, got {kind_name(tensors)}{hint}")


def with_axes(t: Tensor, ndim: int) -> Tensor:
    """Return t with at least ``ndim`` axes: (), (N,) and (M, N) become (1, 1, 1), (1, N, 1) and (M, N, 1)."""
    shape = t.array.shape
    if len(shape) >= ndim:
        return t
    if ndim == 1:
        return reshape(t, 1)
    if len(shape) < 2:
        shape = (1, *(shape or (1,)))
    return reshape(t, shape + (1,) * (ndim - len(shape)))


# ---- Added axes, blocks and combinations ----------------------------------------------------------------------------


@operator(dtypes="bihf")
def atleast_1d(*tensors: Any) -> Any:
    """The tensor with at least 1 axis; a tuple for several tensors or a sequence.

    Raises:
        TypeError: an argument is not a Tensor.
    """
    if interpreters and (seen := interpreted(atleast_1d, locals())) is not None:
        return seen
    return _each("atleast_1d", tensors, 1)


@operator(dtypes="bihf")
def atleast_2d(*tensors: Any) -> Any:
    """The tensor with at least 2 axes, (N,) as (1, N); a tuple for several tensors or a sequence.

    Raises:
        TypeError: an argument is not a Tensor.
    """
    if interpreters and (seen := interpreted(atleast_2d, locals())) is not None:
        return seen
    return _each("atleast_2d", tensors, 2)


@operator(dtypes="bihf")
def atleast_3d(*tensors: Any) -> Any:
    """The tensor with at least 3 axes, (N,) as (1, N, 1), (M, N) as (M, N, 1); a tuple for several or a sequence.

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
    """Alias of ``vstack``; raises as ``cat``."""
    if interpreters and (seen := interpreted(row_stack, locals())) is not None:
        return seen
    return joined_along("row_stack", [with_axes(each, 2) for each in as_tensors("row_stack", tensors)], 0)


@operator(dtypes="bihf")
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrix with these blocks on its diagonal, 0 elsewhere; a vector is a row, a number (1, 1). Types promote.

    Raises:
        TypeError: an argument is not a Tensor.
        ValueError: an argument has more than 2 axes, or there are no arguments.
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
    """The common shape to which the given shapes broadcast; an int means a single axis.

    Raises:
        TypeError: a shape is neither an int nor ints.
        ValueError: the shapes do not broadcast.
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
        ValueError: input is not a vector, r is negative, or there are too many choices for any memory.
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
    size = input.array.size
    among = size + r - 1 if repeated and size else size
    fewer = min(r, among - r)  # comb(n, 60) has at least 2**60 choices, and larger numbers take long to compute
    if fewer >= 60 or r * (choices := math.comb(among, r)) > TOO_LONG:
        raise ValueError(f"combinations: the choices of r={r} among {size} elements are too many for any memory")
    empty((choices, r), int64)  # an error here is early: the loop would run until memory ends
    chosen = (combinations_with_replacement if repeated else _combinations)(range(size), r)
    places = from_host([*chosen], int64, like=input.array).reshape(-1, r)
    return input[wrap(places)]


def _each(name: str, tensors: tuple[Any, ...], ndim: int) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return with_axes(tensors[0], ndim)
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return tuple(with_axes(each, ndim) for each in (as_tensors(name, list(given)) if given else ()))
