"""Shape operators: reshape, permute, squeeze and similar, and contiguous copies.

The backward of each is its inverse or its transpose. Results are views where NumPy can make one. Strides are never
forced to C order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import index as exact_int
from typing import Any, Final

import numpy as np

from ...arrays import empty, empty_like, overlap
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels, listeners
from ..argument_checks import TOO_LONG as TOO_LONG
from ..argument_checks import require_tensor

__all__ = [
    "clone",
    "contiguous",
    "flatten",
    "is_contiguous",
    "movedim",
    "moveaxis",
    "numel",
    "permute",
    "ravel",
    "reshape",
    "reshape_as",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unflatten",
    "unsqueeze",
]


Sizes = int | tuple[int, ...] | list[int]
_LARGE = 65536  # elements


class Reshape(View):
    """x in another shape, with the elements in C order."""

    @staticmethod
    def forward(x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return wrap(reshaped(x.array, shape))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.input_shape = inputs[0].array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Reshape.apply(g, ctx.input_shape), None


class Permute(View):
    """Axis ``dims[i]`` of x becomes axis i."""

    @staticmethod
    def forward(x: Tensor, dims: tuple[int, ...]) -> Tensor:
        return wrap(x.array.transpose(dims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dims = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Permute.apply(g, _inverse(ctx.dims)), None


@lru_cache(maxsize=4096)
def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes ``dims``."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


class Clone(Function):
    """A copy of x: order "K" keeps x's strides, "C" makes the last axis the fastest."""

    moves = True

    @staticmethod
    def forward(x: Tensor, order: Any) -> Tensor:
        y = empty_like(x.array, order=order)
        kernels.copy(y, x.array)
        return wrap(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return g, None


@operator(methods="reshape", dtypes="bihf")
def reshape(input: Tensor, *extents: Sizes, shape: Sizes | None = None) -> Tensor:
    """input in another shape; one extent may be -1, to be computed from the others.

    shape: the extents, by name.

    Raises:
        ValueError: the number of elements differs.
    """
    if interpreters and (seen := interpreted(reshape, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("reshape", input)
    target = sizes("reshape", "shape", extents, shape)
    try:
        return Reshape.apply(input, target)
    except ValueError:
        raise ValueError(
            f"reshape: {input.array.size} elements of input.shape={input.array.shape} do not fit shape={target}; "
            f"the products must be equal (one extent may be -1)"
        ) from None


@operator(methods="flatten", dtypes="bihf")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` (both included) of input as one axis, in C order.

    Raises:
        IndexError: input has no such axis.
        ValueError: ``start_dim`` is after ``end_dim``.
    """
    if interpreters and (seen := interpreted(flatten, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("flatten", input)
    if type(start_dim) is not int or type(end_dim) is not int:
        start_dim, end_dim = whole("flatten", "start_dim", start_dim), whole("flatten", "end_dim", end_dim)
    return in_shape(input, _flattened(input.array.shape, start_dim, end_dim))


@lru_cache(maxsize=4096)
def _flattened(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...]:
    """Return the shape of ``flatten``."""
    ndim = len(shape) or 1
    start, end = axis("flatten", "start_dim", start_dim, ndim), axis("flatten", "end_dim", end_dim, ndim)
    if not shape:
        return (1,)
    if start > end:
        raise ValueError(f"flatten: start_dim={start_dim} is after end_dim={end_dim} in input.shape={shape}")
    # not -1, which is undefined for an empty tensor
    return shape[:start] + (math.prod(shape[start : end + 1]),) + shape[end + 1 :]


@operator(methods="permute", dtypes="bihf")
def permute(input: Tensor, *order: Sizes, dims: Sizes | None = None) -> Tensor:
    """A view of input with axis ``order[i]`` as axis i.

    dims: the order, by name.

    Raises:
        ValueError: ``order`` is not a permutation of input's axes.
    """
    if interpreters and (seen := interpreted(permute, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("permute", input)
    return Permute.apply(input, _permutation(input.array.shape, sizes("permute", "dims", order, dims)))


@lru_cache(maxsize=4096)
def _permutation(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of ``permute``, counted from the front."""
    ndim = len(shape)
    normal = tuple([d + ndim if d < 0 else d for d in dims])
    if sorted(normal) != [*range(ndim)]:
        raise ValueError(f"permute: dims={dims} must name each of the {ndim} axes of input.shape={shape} once")
    return normal


@operator(methods="transpose swapdims", dtypes="bihf")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view of input with axes ``dim0`` and ``dim1`` swapped.

    Raises:
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(transpose, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("transpose", input)
    if type(dim0) is not int or type(dim1) is not int:
        dim0, dim1 = whole("transpose", "dim0", dim0), whole("transpose", "dim1", dim1)
    return Permute.apply(input, _transposition(input.array.ndim, dim0, dim1))


@lru_cache(maxsize=4096)
def _transposition(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    """Return the axes of ``transpose``."""
    a, b = axis("transpose", "dim0", dim0, ndim or 1), axis("transpose", "dim1", dim1, ndim or 1)
    dims = [*range(ndim)]
    if ndim:
        dims[a], dims[b] = b, a
    return tuple(dims)


@operator(methods="squeeze", dtypes="bihf")
def squeeze(input: Tensor, dim: Sizes | None = None) -> Tensor:
    """input without its axes of extent 1, or without those among ``dim``.

    Raises:
        IndexError: input has no axis ``dim``.
        ValueError: ``dim`` names an axis twice.
    """
    if interpreters and (seen := interpreted(squeeze, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("squeeze", input)
    shape = input.array.shape
    if dim is None or type(dim) is int:
        return Reshape.apply(input, _squeezed(shape, dim))
    named = axes("squeeze", "dim", dim, len(shape) or 1)
    return Reshape.apply(input, tuple(n for i, n in enumerate(shape) if n != 1 or i not in named))


@lru_cache(maxsize=4096)
def _squeezed(shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    """Return the shape of ``squeeze``."""
    named = range(len(shape)) if dim is None else (axis("squeeze", "dim", dim, len(shape) or 1),)
    return tuple(n for i, n in enumerate(shape) if n != 1 or i not in named)


@operator(methods="unsqueeze", dtypes="bihf")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """input with a new axis of extent 1 at position ``dim``.

    Raises:
        IndexError: the result has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(unsqueeze, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("unsqueeze", input)
    if type(dim) is not int:
        dim = whole("unsqueeze", "dim", dim)
    return in_shape(input, _unsqueezed(input.array.shape, dim))


@lru_cache(maxsize=4096)
def _unsqueezed(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """Return the shape of ``unsqueeze``."""
    position = axis("unsqueeze", "dim", dim, len(shape) + 1)
    return shape[:position] + (1,) + shape[position:]


@operator(dtypes="bihf")
def clone(input: Tensor) -> Tensor:
    """A copy of input; gradients flow back to input."""
    if interpreters and (seen := interpreted(clone, locals())) is not None:
        return seen
    require_tensor("clone", input)
    return Clone.apply(input, "K")


@operator(dtypes="bihf")
def contiguous(input: Tensor) -> Tensor:
    """input itself if it is C-contiguous, else a C-contiguous copy.

    No operator needs this: all accept any strides, and images are channels-last in memory for speed.
    """
    if interpreters and (seen := interpreted(contiguous, locals())) is not None:
        return seen
    require_tensor("contiguous", input)
    return input if input.array.flags.c_contiguous else Clone.apply(input, "C")


def is_contiguous(input: Tensor) -> bool:
    """Return whether input is C-contiguous."""
    require_tensor("is_contiguous", input)
    return bool(input.array.flags.c_contiguous)


def numel(input: Tensor) -> int:
    """The number of elements."""
    require_tensor("numel", input)
    return input.array.size


@operator(methods="ravel", dtypes="bihf")
def ravel(input: Tensor) -> Tensor:
    """input with one axis, in C order: a view if input is C-contiguous, else a copy."""
    if interpreters and (seen := interpreted(ravel, locals())) is not None:
        return seen
    require_tensor("ravel", input)
    return reshape(contiguous(input), input.array.size)


def in_shape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return ``reshape(x, shape)`` for a shape of as many elements."""
    if interpreters:
        return reshape(x, shape)
    return x if x.array.shape == shape else Reshape.apply(x, shape)


def copy_if_shared(y: Tensor, x: Tensor) -> Tensor:
    """Return y, copied if it shares memory with x, for operators that must not return a view."""
    return Clone.apply(y, "K") if overlap(y.array, x.array) else y


@operator(methods="reshape_as", dtypes="bihf")
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """input in the shape of ``other``.

    Raises:
        ValueError: the number of elements differs.
    """
    if interpreters and (seen := interpreted(reshape_as, locals())) is not None:
        return seen
    require_tensor("reshape_as", input)
    require_tensor("reshape_as", other, "other")
    return reshape(input, other.array.shape)


@operator(methods="unflatten", dtypes="bihf")
def unflatten(input: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """Axis ``dim`` of input as several axes of extents ``sizes``, one of which may be -1; the inverse of ``flatten``.

    Raises:
        IndexError: input has no such axis.
        TypeError: a size is not an int.
        ValueError: the product of ``sizes`` is not the extent of the axis.
    """
    if interpreters and (seen := interpreted(unflatten, locals())) is not None:
        return seen
    require_tensor("unflatten", input)
    shape = input.array.shape
    position = axis("unflatten", "dim", dim, len(shape))
    target = _extents("unflatten", "sizes", (sizes,))
    rest = math.prod(n for n in target if n != -1)
    if target.count(-1) == 1 and rest > 0 and shape[position] % rest == 0:
        target = tuple(shape[position] // rest if n == -1 else n for n in target)
    if not target or min(target) < 0 or math.prod(target) != shape[position]:
        raise ValueError(
            f"unflatten: sizes={sizes} do not multiply to {shape[position]}, the extent of axis dim={dim} of "
            f"input.shape={shape} (one of them may be -1)"
        )
    return reshape(input, shape[:position] + target + shape[position + 1 :])


@operator(methods="movedim moveaxis", dtypes="bihf")
def movedim(input: Tensor, source: Sizes, destination: Sizes) -> Tensor:
    """Axes ``source`` of input moved to positions ``destination``, as a view. The other axes keep their order.

    Raises:
        IndexError: input has no such axis.
        ValueError: an axis is named twice, or the numbers of axes differ.
    """
    if interpreters and (seen := interpreted(movedim, locals())) is not None:
        return seen
    require_tensor("movedim", input)
    ndim = input.array.ndim
    counted = ndim or 1
    old, new = axes("movedim", "source", source, counted), axes("movedim", "destination", destination, counted)
    if len(old) != len(new):
        raise ValueError(f"movedim: source={source} and destination={destination} must have the same number of axes")
    rest = iter(i for i in range(ndim) if i not in old)
    places = dict(zip(new, old, strict=True))
    return Permute.apply(input, tuple(places[i] if i in places else next(rest) for i in range(ndim)))


@operator(methods="swapaxes", dtypes="bihf")
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Alias of ``transpose``."""
    if interpreters and (seen := interpreted(swapaxes, locals())) is not None:
        return seen
    return transpose(input, axis0, axis1)


@operator(methods="t", dtypes="bihf")
def t(input: Tensor) -> Tensor:
    """The transposed matrix; a vector or a number is returned unchanged.

    Raises:
        ValueError: input has more than two axes.
    """
    if interpreters and (seen := interpreted(t, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("t", input)
    if input.array.ndim > 2:
        raise ValueError(
            f"t: input has {input.array.ndim} axes, at most 2 are allowed; input.shape={input.array.shape}; "
            f"transpose(input, -2, -1) swaps the last two axes"
        )
    return transpose(input, 0, 1) if input.array.ndim == 2 else input


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return x in another shape, as a view where possible. Large copies use all threads."""
    if (x.size < _LARGE and not listeners) or x.flags.c_contiguous or shape == x.shape:  # listeners must see the copy
        return x.reshape(shape)
    known = math.prod(n for n in shape if n != -1)
    target = tuple(x.size // (known or 1) if n == -1 else n for n in shape)
    if math.prod(target) != x.size or can_view(x.shape, x.strides, target):
        return x.reshape(shape)
    return kernels.reshaped(x, target)


def empty_as(x: np.ndarray, shape: Sequence[int], axes: Sequence[int] | None = None) -> np.ndarray:
    """Return a new array with the axes in the same memory order as in x (or in its ``axes``, if given).

    In that order, an axis with stride 0 directly precedes its right neighbor.
    """
    strides = x.strides if axes is None else [x.strides[a] for a in axes]
    order = sorted((a for a, stride in enumerate(strides) if stride), key=lambda a: -abs(strides[a]))
    for a in range(len(shape) - 1, -1, -1):
        if not strides[a]:
            order.insert(order.index(a + 1) if a + 1 < len(shape) else len(order), a)
    back = sorted(range(len(order)), key=order.__getitem__)
    return empty(tuple([shape[a] for a in order]), x.dtype, like=x).transpose(back)


@lru_cache(maxsize=4096)
def can_view(shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether an array with these strides can be viewed in the shape ``target``, which has as many elements."""
    old = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    new = [extent for extent in target if extent != 1]
    i = j = 0
    while i < len(old):  # the shortest runs of axes with equal products
        have, want = old[i][0], new[j]
        while have != want:
            if have < want:
                i += 1
                have *= old[i][0]
                if old[i - 1][1] != old[i][0] * old[i][1]:
                    return False
            else:
                j += 1
                want *= new[j]
        i, j = i + 1, j + 1
    return True


def sizes(name: str, label: str, given: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """Return the ints of a call f(2, 3), f((2, 3)) or f(label=(2, 3)); TypeError for others, or if given twice."""
    if named is not None:
        if given:
            raise TypeError(f"{name}: {label}={named!r} is also given by position: {given}; give it once")
        given = (named,)
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    for value in given:
        if type(value) is not int:
            break
    else:  # the usual case
        return given
    try:
        return tuple(map(exact_int, given))
    except TypeError:
        raise TypeError(f"{name}: {label}={given} must consist of ints") from None


def axis(name: str, argument: str, dim: int, ndim: int) -> int:
    """Return ``dim``, which may be negative, counted from the front; TypeError or IndexError if it is not an axis."""
    if type(dim) is int and -ndim <= dim < ndim:  # the usual case
        return dim % ndim
    position = whole(name, argument, dim)
    if -ndim <= position < ndim:
        return position % ndim
    allowed = f"{ndim} axes allow {-ndim} to {ndim - 1}" if ndim else "the tensor has no axis"
    raise IndexError(f"{name}: {argument}={dim} is out of range; {allowed}")


def whole(name: str, argument: str, dim: Any) -> int:
    """Return an argument as an int; TypeError if it is not one."""
    try:
        return exact_int(dim)
    except TypeError:
        raise TypeError(f"{name}: {argument}={dim!r} must be an int") from None


_extents = sizes  # for unflatten, which has a parameter named sizes


def apply_to_0d(function: Callable[..., Any], x: Tensor, *args: Any, **options: Any) -> Any:
    """Apply ``function`` to a 0-d x, reshaped to a vector of one element, and return 0-d results."""
    found = function(reshape(x, 1), *args, **options)
    return reshape(found, ()) if isinstance(found, Tensor) else type(found)(*(reshape(y, ()) for y in found))


def axes(name: str, argument: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """Return ``dim``, one or several ints, counted from the front; raises as ``axis``, or ValueError on repeats."""
    found = tuple(axis(name, argument, d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: {argument}={dim} names an axis twice")
    return found


moveaxis: Final = movedim
swapdims: Final = transpose
