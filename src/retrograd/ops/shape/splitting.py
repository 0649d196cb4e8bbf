"""Splitting a tensor along an axis into views."""

from __future__ import annotations

from operator import index as exact_int
from typing import Any, Final

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import as_count, as_counts, as_int, require_tensor
from .join import Split, Unbind
from .shape import axis

__all__ = [
    "chunk",
    "dsplit",
    "hsplit",
    "split",
    "split_with_sizes",
    "tensor_split",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "vsplit",
]

_MOST_PIECES = 2**20  # of an empty axis, so that a typo does not exhaust memory


@operator(methods="split unsafe_split", dtypes="bihf")
def split(input: Tensor, split_size_or_sections: int | list[int] | tuple[int, ...], dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` into views of the given extent (the last one may be smaller) or extents.

    Raises:
        TypeError: a size is not an int.
        IndexError: input has no such axis.
        ValueError: a size is negative (or 0 for a longer axis), or the sizes do not add up to the extent.
    """
    if interpreters and (seen := interpreted(split, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("split", input)
    return _split("split", "split_size_or_sections", input, split_size_or_sections, dim)


@operator(methods="chunk unsafe_chunk", dtypes="bihf")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` into at most ``chunks`` views of equal extent (the last one may be smaller).

    Raises:
        IndexError: input has no such axis.
        ValueError: ``chunks`` is not positive, or above 2**20 where the axis is empty.
    """
    if interpreters and (seen := interpreted(chunk, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("chunk", input)
    shape = input.array.shape
    position = axis("chunk", "dim", dim, len(shape))
    chunks = as_count("chunk", "chunks", chunks)
    extent = shape[position]
    if extent == 0:
        if chunks > _MOST_PIECES:
            raise ValueError(f"chunk: chunks={chunks} empty pieces are too many; at most {_MOST_PIECES}")
        return Split.apply(input, (0,) * chunks, position)
    return Split.apply(input, _even_extents(extent, -(-extent // chunks)), position)


@operator(methods="tensor_split", dtypes="bihf")
def tensor_split(
    input: Tensor, indices_or_sections: int | tuple[int, ...] | list[int] | Tensor, dim: int = 0
) -> tuple[Tensor, ...]:
    """input split along ``dim`` into views, before the given indices or into a number of almost equal pieces.

    Raises:
        IndexError: input has no such axis.
        ValueError: the number of pieces is not positive, or above both 2**20 and the extent.
    """
    if interpreters and (seen := interpreted(tensor_split, locals())) is not None:
        return seen
    require_tensor("tensor_split", input)
    position = axis("tensor_split", "dim", dim, input.array.ndim)
    extent = input.array.shape[position]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.array.ndim > 1:
            raise ValueError(
                f"tensor_split: indices_or_sections has the shape {indices_or_sections.array.shape}, needs a number or "
                "a vector of indices"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        places = as_counts("tensor_split", "indices_or_sections", indices_or_sections).tolist()
        clipped = [slice(None, i).indices(extent)[1] for i in places]
        starts, ends = [0, *clipped], [*clipped, extent]
        if starts != sorted(starts):  # pieces that overlap or are empty
            before = (slice(None),) * position
            return tuple(input[(*before, slice(a, max(a, b)))] for a, b in zip(starts, ends, strict=True))
        return Split.apply(input, tuple([b - a for a, b in zip(starts, ends, strict=True)]), position)
    count = as_int("tensor_split", "indices_or_sections", indices_or_sections)
    if count < 1:
        raise ValueError(f"tensor_split: indices_or_sections={count} must be at least 1")
    if count > max(extent, _MOST_PIECES):
        raise ValueError(f"tensor_split: indices_or_sections={count} must be at most {max(extent, _MOST_PIECES)}")
    return Split.apply(input, tuple([extent // count + (i < extent % count) for i in range(count)]), position)


@operator(methods="hsplit", dtypes="bihf")
def hsplit(input: Tensor, indices_or_sections: int | tuple[int, ...] | list[int] | Tensor) -> tuple[Tensor, ...]:
    """input split into views along axis 1, or axis 0 of a vector; a number of pieces must divide the extent.

    Raises:
        ValueError: input has no axis, or the number of pieces does not divide the extent.
    """
    if interpreters and (seen := interpreted(hsplit, locals())) is not None:
        return seen
    return _even("hsplit", input, indices_or_sections, 0 if getattr(input, "ndim", 1) == 1 else 1, 1)


@operator(methods="vsplit", dtypes="bihf")
def vsplit(input: Tensor, indices_or_sections: int | tuple[int, ...] | list[int] | Tensor) -> tuple[Tensor, ...]:
    """input split into views along axis 0; a number of pieces must divide the extent.

    Raises:
        ValueError: input has fewer than 2 axes, or the number of pieces does not divide the extent.
    """
    if interpreters and (seen := interpreted(vsplit, locals())) is not None:
        return seen
    return _even("vsplit", input, indices_or_sections, 0, 2)


@operator(methods="dsplit", dtypes="bihf")
def dsplit(input: Tensor, indices_or_sections: int | tuple[int, ...] | list[int] | Tensor) -> tuple[Tensor, ...]:
    """input split into views along axis 2; a number of pieces must divide the extent.

    Raises:
        ValueError: input has fewer than 3 axes, or the number of pieces does not divide the extent.
    """
    if interpreters and (seen := interpreted(dsplit, locals())) is not None:
        return seen
    return _even("dsplit", input, indices_or_sections, 2, 3)


@operator(methods="split_with_sizes unsafe_split_with_sizes", dtypes="bihf")
def split_with_sizes(input: Tensor, split_sizes: tuple[int, ...] | list[int], dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` into pieces of the given extents; see ``split``.

    Raises: as ``split``.
    """
    if interpreters and (seen := interpreted(split_with_sizes, locals())) is not None:
        return seen
    require_tensor("split_with_sizes", input)
    sizes = as_counts("split_with_sizes", "split_sizes", split_sizes).tolist()
    return _split("split_with_sizes", "split_sizes", input, sizes, dim)


@operator(methods="unbind", dtypes="bihf")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of input along ``dim``, without that axis, as views.

    Raises:
        IndexError: input has no such axis.
    """
    if interpreters and (seen := interpreted(unbind, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("unbind", input)
    shape = input.array.shape
    position = axis("unbind", "dim", dim, len(shape))
    return Unbind.apply(input, position) if shape[position] else ()


def _even(name: str, x: Tensor, pieces: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    require_tensor(name, x)
    shape = x.array.shape
    if len(shape) < least:
        raise ValueError(f"{name}: input.shape={shape} needs at least {least} axes")
    if not isinstance(pieces, (tuple, list, Tensor)):
        count = as_int(name, "indices_or_sections", pieces)
        if count < 1 or shape[dim] % count:
            raise ValueError(
                f"{name}: indices_or_sections={count} must divide {shape[dim]}, the extent of axis {dim} of "
                f"input.shape={shape}; tensor_split makes uneven pieces"
            )
    return tensor_split(x, pieces, dim)


def _split(name: str, label: str, x: Tensor, size: Any, dim: int) -> tuple[Tensor, ...]:
    position = axis(name, "dim", dim, x.array.ndim)
    extent = x.array.shape[position]
    if isinstance(size, (tuple, list)):
        extents = as_counts(name, label, size).tolist()
        if min(extents, default=0) < 0 or sum(extents) != extent:
            raise ValueError(
                f"{name}: {label}={list(size)} must be at least 0 each and add up to {extent}, the extent of axis "
                f"dim={dim} of input.shape={x.array.shape}"
            )
        return Split.apply(x, (*extents,), position) if extents else ()
    try:
        each = exact_int(size)
    except TypeError:
        raise TypeError(f"{name}: {label}={size!r} must be an int or a list of ints") from None
    if each < 0 or (each == 0 and extent):
        raise ValueError(f"{name}: {label}={each} must be at least 1")
    if extent == 0:
        return Split.apply(x, (0,), position)
    return Split.apply(x, _even_extents(extent, each), position)


def _even_extents(extent: int, each: int) -> tuple[int, ...]:
    """Return the extents of pieces of one extent, but for the last."""
    whole, rest = divmod(extent, each)
    return (each,) * whole + (rest,) if rest else (each,) * whole


unsafe_chunk: Final = chunk
unsafe_split: Final = split
unsafe_split_with_sizes: Final = split_with_sizes
