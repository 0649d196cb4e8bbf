"""Diagonals and triangles of the matrices in two axes of a tensor."""

from __future__ import annotations

from typing import Any

from ... import arrays
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels
from ..argument_checks import as_count, as_int, require_tensor
from .shape import axis, clone, reshape

__all__ = ["diag", "diag_embed", "diagflat", "diagonal", "trace", "tril", "triu"]


class Diagonal(View):
    """The diagonal ``offset`` of the matrices in axes a and b, as the last axis of a view."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, offset: int, a: int, b: int) -> Tensor:
        ctx.input_shape, ctx.where = x.array.shape, (offset, a, b)
        y = arrays.diagonal(x.array, offset, a, b)
        y.flags.writeable = x.array.flags.writeable  # NumPy's view is read-only
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return DiagonalFill.apply(g, ctx.input_shape, *ctx.where), None, None, None


class DiagonalFill(Function):
    """Zeros of ``shape`` with g on a diagonal: the transpose of Diagonal."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, shape: tuple[int, ...], offset: int, a: int, b: int) -> Tensor:
        ctx.where = offset, a, b
        return wrap(kernels.diagonal_fill(g.array, shape, offset, a, b))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return Diagonal.apply(v, *ctx.where), None, None, None, None


class Triangle(Function):
    """The lower (or upper) triangles of matrices up to a diagonal, 0 elsewhere."""

    @staticmethod
    def forward(x: Tensor, diagonal: int, lower: bool) -> Tensor:
        return wrap(kernels.triangle(x.array, diagonal, lower))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.diagonal, ctx.lower = inputs

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Triangle.apply(g, ctx.diagonal, ctx.lower), None, None


@operator(records=Triangle, methods="tril", in_place=True, dtypes="bihf")
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles of input (..., M, N), with 0 above the ``diagonal`` (0: the main one, 1: the one above it).

    Raises:
        TypeError: ``diagonal`` is not an int.
        ValueError: input has fewer than two axes.
    """
    if interpreters and (seen := interpreted(tril, locals())) is not None:
        return seen
    require_tensor("tril", input)
    return Triangle.apply(input, _diagonal("tril", input, diagonal), True)


@operator(records=Triangle, methods="triu", in_place=True, dtypes="bihf")
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles of input (..., M, N), with 0 below the ``diagonal`` (0: the main one, 1: the one above it).

    Raises: as ``tril``.
    """
    if interpreters and (seen := interpreted(triu, locals())) is not None:
        return seen
    require_tensor("triu", input)
    return Triangle.apply(input, _diagonal("triu", input, diagonal), False)


@operator(methods="diagonal", dtypes="bihf")
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of the matrices in axes ``dim1`` and ``dim2``, as the last axis of a view.

    offset: 0 for the main diagonal, positive above it, negative below.

    Raises:
        TypeError: ``offset`` is not an int.
        IndexError: input has no such axis.
        ValueError: the axes are the same.
    """
    if interpreters and (seen := interpreted(diagonal, locals())) is not None:
        return seen
    require_tensor("diagonal", input)
    ndim = input.array.ndim
    a, b = axis("diagonal", "dim1", dim1, ndim), axis("diagonal", "dim2", dim2, ndim)
    if a == b:
        raise ValueError(f"diagonal: dim1={dim1} and dim2={dim2} are the same axis of input.shape={input.array.shape}")
    shape = input.array.shape
    return Diagonal.apply(input, nearest_offset("diagonal", "offset", offset, shape[a], shape[b]), a, b)


@operator(records=DiagonalFill, methods="diag_embed", dtypes="bihf")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices in axes ``dim1`` and ``dim2`` of the result, with input's last axis on their diagonal ``offset``.

    Raises:
        TypeError: ``offset`` is not an int.
        IndexError: the result has no such axis.
        ValueError: the axes are the same, or input has no axis.
    """
    if interpreters and (seen := interpreted(diag_embed, locals())) is not None:
        return seen
    require_tensor("diag_embed", input)
    shape = input.array.shape
    if not shape:
        raise ValueError("diag_embed: input has no axis, needs at least 1")
    a, b = axis("diag_embed", "dim1", dim1, len(shape) + 1), axis("diag_embed", "dim2", dim2, len(shape) + 1)
    if a == b:
        raise ValueError(f"diag_embed: dim1={dim1} and dim2={dim2} are the same axis")
    offset = as_int("diag_embed", "offset", offset)
    rest, extent = iter(shape[:-1]), shape[-1] + abs(offset)
    full = tuple(extent if i in (a, b) else next(rest) for i in range(len(shape) + 1))
    return DiagonalFill.apply(input, full, offset, a, b)


@operator(methods="diag", dtypes="bihf")
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    Raises:
        TypeError: ``diagonal`` is not an int.
        ValueError: input is neither a matrix nor a vector.
    """
    if interpreters and (seen := interpreted(diag, locals())) is not None:
        return seen
    require_tensor("diag", input)
    if input.array.ndim == 1:
        return diag_embed(input, diagonal)
    if input.array.ndim != 2:
        raise ValueError(f"diag: input.shape={input.array.shape}, needs a vector or a matrix; see diagonal, diag_embed")
    return clone(Diagonal.apply(input, nearest_offset("diag", "diagonal", diagonal, *input.array.shape), 0, 1))


@operator(methods="diagflat", dtypes="bihf")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of input on its diagonal ``offset``.

    Raises:
        TypeError: ``offset`` is not an int.
    """
    if interpreters and (seen := interpreted(diagflat, locals())) is not None:
        return seen
    require_tensor("diagflat", input)
    return diag_embed(reshape(input, input.array.size), offset)


@operator(methods="trace", dtypes="bihf")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Raises:
        ValueError: input is not a matrix.
    """
    if interpreters and (seen := interpreted(trace, locals())) is not None:
        return seen
    require_tensor("trace", input)
    if input.array.ndim != 2:
        raise ValueError(f"trace: input.shape={input.array.shape}, needs a matrix")
    return Diagonal.apply(input, 0, 0, 1).sum()


def nearest_offset(name: str, argument: str, offset: Any, rows: int, columns: int) -> int:
    """Clip ``offset`` to one position outside the matrix, because very large offsets are not safe in NumPy."""
    found = as_int(name, argument, offset)
    rows, columns = as_count(name, "row", rows, 0), as_count(name, "col", columns, 0)
    return found if -rows <= found <= columns else -rows if found < 0 else columns


def _diagonal(name: str, x: Tensor, diagonal: Any) -> int:
    """Check and return the offset of a diagonal of x (..., M, N)."""
    shape = x.array.shape
    if len(shape) < 2:
        raise ValueError(f"{name}: input.shape={shape} has fewer than 2 axes")
    return nearest_offset(name, "diagonal", diagonal, shape[-2], shape[-1])
