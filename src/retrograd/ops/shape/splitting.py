"""Splitting a tensor along an axis, into views."""

from __future__ import annotations

import operator
from typing import Any

from ...engine.tensor import Tensor
from ..dtype import require_tensor
from .join import Split, Unbind
from .shape import axis

__all__ = ["chunk", "split", "tensor_split", "unbind"]

_MOST_PIECES = 2**20  # if empty: a typo must not exhaust memory


def split(input: Tensor, split_size_or_sections: int | list[int] | tuple[int, ...], dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` into pieces of this extent (the last one may be smaller) or of these extents: views.

    Raises:
        TypeError: a size is not an int.
        IndexError: input has no such axis.
        ValueError: a size is negative (or 0 for a longer axis), or the sizes do not add up to the extent.
    """
    require_tensor("split", input)
    return _split("split", "split_size_or_sections", input, split_size_or_sections, dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` into at most ``chunks`` pieces of equal extent (the last one may be smaller): views.

    Raises:
        IndexError: input has no such axis.
        ValueError: ``chunks`` is not positive, or above 2**20 where the axis is empty.
    """
    require_tensor("chunk", input)
    position = axis("chunk", "dim", dim, input.array.ndim)
    if chunks < 1:
        raise ValueError(f"chunk: chunks={chunks} must be at least 1")
    extent = input.array.shape[position]
    if extent == 0:
        if chunks > _MOST_PIECES:
            raise ValueError(f"chunk: chunks={chunks} empty pieces are too many; at most {_MOST_PIECES}")
        return Split.apply(input, [0] * chunks, position)
    return _split("chunk", "chunks", input, -(-extent // chunks), position)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """input split along ``dim`` before these indices, or into this many pieces of almost equal extents: views.

    Raises:
        IndexError: input has no such axis.
        ValueError: the number of pieces is not positive, or above both 2**20 and the extent.
    """
    require_tensor("tensor_split", input)
    position = axis("tensor_split", "dim", dim, input.array.ndim)
    extent = input.array.shape[position]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        clipped = [slice(None, operator.index(i)).indices(extent)[1] for i in indices_or_sections]
        starts, ends = [0, *clipped], [*clipped, extent]
        if starts != sorted(starts):  # pieces that overlap or are empty
            before = (slice(None),) * position
            return tuple(input[(*before, slice(a, max(a, b)))] for a, b in zip(starts, ends, strict=True))
        return Split.apply(input, [b - a for a, b in zip(starts, ends, strict=True)], position)
    count = operator.index(indices_or_sections)
    if count < 1:
        raise ValueError(f"tensor_split: indices_or_sections={count} must be at least 1")
    if count > max(extent, _MOST_PIECES):
        raise ValueError(f"tensor_split: indices_or_sections={count} must be at most {max(extent, _MOST_PIECES)}")
    return Split.apply(input, [extent // count + (i < extent % count) for i in range(count)], position)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of input along ``dim``, without that axis: views.

    Raises:
        IndexError: input has no such axis.
    """
    require_tensor("unbind", input)
    shape = input.array.shape
    position = axis("unbind", "dim", dim, len(shape))
    return Unbind.apply(input, position) if shape[position] else ()


def _split(name: str, label: str, x: Tensor, size: Any, dim: int) -> tuple[Tensor, ...]:
    position = axis(name, "dim", dim, x.array.ndim)
    extent = x.array.shape[position]
    if isinstance(size, (tuple, list)):
        extents = [operator.index(n) for n in size]
        if min(extents, default=0) < 0 or sum(extents) != extent:
            raise ValueError(
                f"{name}: {label}={list(size)} must be at least 0 each and add up to {extent}, the extent of axis "
                f"dim={dim} of input.shape={x.array.shape}"
            )
        return Split.apply(x, extents, position) if extents else ()
    try:
        each = operator.index(size)
    except TypeError:
        raise TypeError(f"{name}: {label}={size!r} must be an int or a list of ints") from None
    if each < 0 or (each == 0 and extent):
        raise ValueError(f"{name}: {label}={each} must be at least 1")
    if extent == 0:
        return Split.apply(x, [0], position)
    return Split.apply(x, [min(each, extent - i) for i in range(0, extent, each)], position)
