"""Shape operators: the same numbers under other indices. Each one's backward is its inverse or its transpose.

Results are views of the input's memory where NumPy can make one; strides are never forced to C order.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..engine.views import View

__all__ = ["clone", "flatten", "permute", "reshape", "squeeze", "transpose", "unsqueeze"]


class Reshape(View):
    """The elements of x in C order under another shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.input_shape = x.data.shape
        return wrap(x.data.reshape(shape))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Reshape.apply(g, ctx.input_shape), None


class Permute(View):
    """Axis ``dims[i]`` of x becomes axis i."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...]) -> Tensor:
        ctx.dims = dims
        return wrap(x.data.transpose(dims))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        inverse = tuple(sorted(range(len(ctx.dims)), key=ctx.dims.__getitem__))
        return Permute.apply(g, inverse), None


class Clone(Function):
    """x in memory of its own, with x's strides."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(x.data.copy(order="K"))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return (g,)


class GetItem(View):
    """``x[index]`` for ints, slices, None and Ellipsis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: tuple[Any, ...]) -> Tensor:
        ctx.input_shape, ctx.index = x.data.shape, index
        part = x.data[index]
        return wrap(part if type(part) is np.ndarray else x.data[(*index, ...)])  # one element is a view too

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return PadSlice.apply(g, ctx.input_shape, ctx.index), None


class PadSlice(Function):
    """Zeros of ``shape`` with ``[index]`` filled by g: the transpose of GetItem."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, shape: tuple[int, ...], index: tuple[Any, ...]) -> Tensor:
        ctx.index = index
        y = np.zeros(shape, g.data.dtype)
        y[index] = g.data
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return GetItem.apply(v, ctx.index), None, None


def reshape(input: Tensor, *shape: int | tuple[int, ...]) -> Tensor:
    """input under another shape; one extent may be -1 and follows from the others.

    Raises:
        ValueError: the number of elements differs.
    """
    target = sizes(shape)
    if target == input.data.shape:
        return input
    try:
        return Reshape.apply(input, target)
    except ValueError:
        raise ValueError(
            f"reshape: {input.data.size} elements of input.shape={input.data.shape} do not fit shape={target}; "
            f"the products must be equal (one extent may be -1)"
        ) from None


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` (both included) of input as one axis, in C order.

    Raises:
        IndexError: input has no such axis.
        ValueError: ``start_dim`` lies behind ``end_dim``.
    """
    shape = input.data.shape
    if not shape:
        return reshape(input, 1)
    start, end = axis("flatten", "start_dim", start_dim, len(shape)), axis("flatten", "end_dim", end_dim, len(shape))
    if start > end:
        raise ValueError(f"flatten: start_dim={start_dim} lies behind end_dim={end_dim} in input.shape={shape}")
    if start == end:
        return input
    # the product is spelled out because -1 is undecided for an empty tensor
    product = 1
    for extent in shape[start : end + 1]:
        product *= extent
    return reshape(input, shape[:start] + (product,) + shape[end + 1 :])


def permute(input: Tensor, *dims: int | tuple[int, ...]) -> Tensor:
    """Axis ``dims[i]`` of input as axis i: a view.

    Raises:
        ValueError: ``dims`` is not a permutation of input's axes.
    """
    ndim = input.data.ndim
    wanted = sizes(dims)
    normal = tuple(d + ndim if d < 0 else d for d in wanted)
    if sorted(normal) != list(range(ndim)):
        raise ValueError(
            f"permute: dims={wanted} must name each of the {ndim} axes of input.shape={input.data.shape} once"
        )
    return Permute.apply(input, normal)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Axes ``dim0`` and ``dim1`` of input swapped: a view.

    Raises:
        IndexError: input has no such axis.
    """
    ndim = input.data.ndim
    a, b = axis("transpose", "dim0", dim0, ndim), axis("transpose", "dim1", dim1, ndim)
    dims = list(range(ndim))
    dims[a], dims[b] = b, a
    return Permute.apply(input, tuple(dims))


def squeeze(input: Tensor, dim: int | None = None) -> Tensor:
    """input without its axes of extent 1, or without axis ``dim`` where its extent is 1.

    Raises:
        IndexError: input has no axis ``dim``.
    """
    shape = input.data.shape
    if dim is None:
        return reshape(input, tuple(n for n in shape if n != 1))
    position = axis("squeeze", "dim", dim, len(shape))
    return reshape(input, shape[:position] + shape[position + 1 :]) if shape[position] == 1 else input


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """input with a new axis of extent 1 at position ``dim``.

    Raises:
        IndexError: the result has no axis ``dim``.
    """
    shape = input.data.shape
    position = axis("unsqueeze", "dim", dim, len(shape) + 1)
    return reshape(input, shape[:position] + (1,) + shape[position:])


def clone(input: Tensor) -> Tensor:
    """A copy of input; gradients flow back to input."""
    return Clone.apply(input)


def getitem(input: Tensor, index: Any) -> Tensor:
    """``input[index]``: ints, slices, None, Ellipsis and tuples of them; a view of input's memory.

    Raises:
        TypeError: the index is an array, a list or a truth value.
        IndexError: an int is out of range or there are more indices than axes.
    """
    parts = index if type(index) is tuple else (index,)
    normal = tuple(_index_part(part) for part in parts)
    try:
        return GetItem.apply(input, normal)
    except IndexError as error:
        raise IndexError(f"getitem: input.shape={input.data.shape}: {error}") from None


def iterate(input: Tensor) -> Iterator[Tensor]:
    """The slices of input along its first axis.

    Raises:
        TypeError: input has no axis.
    """
    if not input.data.ndim:
        raise TypeError("iteration over a tensor without axes; input.item() is its value")
    return (GetItem.apply(input, (i,)) for i in range(input.data.shape[0]))


def _index_part(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if not isinstance(part, (bool, np.bool_)) and not getattr(part, "shape", ()):
        try:
            return operator.index(part)  # an int, NumPy's too, or a 0-d int64 Tensor
        except TypeError:
            pass
    raise TypeError(
        f"getitem: an index is an int, a slice, None or ..., got {type(part).__name__}; "
        f"index the array behind a tensor (x.data) to pick elements by lists, arrays or masks"
    )


def sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` mean the same shape.

    Raises:
        TypeError: an extent is not an int.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"shape={shape} must consist of ints") from None


def axis(name: str, argument: str, dim: int, ndim: int) -> int:
    """``dim`` counted from the front; negative values count from the end.

    Raises:
        TypeError: ``dim`` is not an int.
        IndexError: there is no such axis.
    """
    try:
        position = operator.index(dim)
    except TypeError:
        raise TypeError(f"{name}: {argument}={dim!r} must be an int") from None
    if -ndim <= position < ndim:
        return position % ndim
    raise IndexError(f"{name}: {argument}={dim} is out of range; {ndim} axes allow {-ndim} to {ndim - 1}")
