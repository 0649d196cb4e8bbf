"""Copies, casts, strided layouts, triangles and diagonals, and the indices of sparse tensors."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from .kernel import INT64, along, declare

Layout = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, stride, start


def _triangle_indices(rows: int, columns: int, offset: int, lower: bool) -> Spec:
    below = [min(max(row + offset + (1 if lower else 0), 0), columns) for row in range(rows)]
    return Spec((2, sum(below) if lower else rows * columns - sum(below)), INT64)


def _count(shape: tuple[int, ...], end: int) -> int:
    """The number of elements on a diagonal."""
    return len(range(0, end, sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])))


class Memory:
    """Copies, casts, strided layouts, triangles and diagonals, and the indices of sparse tensors."""

    # ---- copies

    @declare(lambda y, x: None, writes="y")
    def copy(self, y: Array, x: Array) -> None:
        """y[...] = x."""

    @declare(lambda y, x: None, changes="y")
    def accumulate(self, y: Array, x: Array) -> None:
        """y[...] += x."""

    @declare(lambda x: x)
    def duplicate(self, x: Array) -> Array:
        """A copy of x, with its order of axes in memory."""

    @declare(lambda x, shape: x._replace(shape=shape))
    def reshaped(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A copy of x in another shape, the elements in C order."""

    @declare(lambda x, dtype: x._replace(dtype=dtype))
    def cast(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """x in another type."""

    @declare(lambda arrays, axis: along(arrays[0], axis, sum([each.shape[axis] for each in arrays])))
    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays one after the other along an axis."""

    @declare(lambda g, shape, index: g._replace(shape=shape))
    def pad_slice(self, g: Array, shape: tuple[int, ...], index: Any) -> Array:
        """Zeros, with g at ``[index]``: ints, slices, None and Ellipsis."""

    @declare(lambda y, x, operation: None, changes="y")
    def arithmetic(self, y: Array, x: Array | float, operation: str) -> None:
        """y = y + x, y - x, y x or y / x in place."""

    @declare(lambda y, number: None, writes="y")
    def fill(self, y: Array, number: Array) -> None:
        """y[...] = number, which has no axes."""

    @declare(lambda y, x: None, writes="y")
    def assign(self, y: Array, x: Array) -> None:
        """y[...] = x, in y's type; they may share memory."""

    @declare(lambda x, source, target, added, shared: x._replace(shape=target[0]))
    def rearranged(self, x: Array, source: Layout, target: Layout, added: bool, shared: Layout | None) -> Array:
        """The elements of x written to one strided layout and read from another."""

    @declare(lambda g, shape, offset, first, second: g._replace(shape=shape))
    def diagonal_fill(self, g: Array, shape: tuple[int, ...], offset: int, first: int, second: int) -> Array:
        """Zeros, with g on a diagonal of two axes."""

    @declare(lambda shape, end: (Spec((_count(shape, end),), INT64),) * len(shape))
    def diagonal_places(self, shape: tuple[int, ...], end: int) -> tuple[Array, ...]:
        """The indices of the elements on the diagonal, along each axis."""

    @declare(lambda x, diagonal, lower: x)
    def triangle(self, x: Array, diagonal: int, lower: bool) -> Array:
        """The lower or upper triangles of matrices, 0 elsewhere."""

    @declare(_triangle_indices)
    def triangle_indices(self, rows: int, columns: int, offset: int, lower: bool) -> Array:
        """The indices of the lower or upper triangle of a matrix."""

    # ---- sparse tensors

    @declare(lambda rows, count: Spec((count + 1,), INT64))
    def row_starts(self, rows: Array, count: int) -> Array:
        """The first entry of each row, for entries sorted by rows."""

    @declare(lambda places, shape: Spec(places.shape[1:], INT64))
    def flat_places(self, places: Array, shape: tuple[int, ...]) -> Array:
        """Positions in the elements of an array, from indices along its axes."""

    @declare(None, host="there are as many as elements that are not 0")
    def nonzero_places(self, x: Array, axes: int) -> Array:
        """The indices along the first axes of the parts that are not 0."""

    @declare(None, host="there are as many as different places")
    def coalesced_places(self, places: Array, flat: Array) -> tuple[Array, Array]:
        """The distinct positions, sorted, and the index of each position among them."""

    @declare(lambda x, places, count: x._replace(shape=(count, *x.shape[1:])))
    def line_sums(self, x: Array, places: Array, count: int) -> Array:
        """The sum of the integer slices of x at each position."""

    @declare(None, host="there are as many as the counts add up to")
    def repeated_indices(self, counts: Array, extent: int) -> Array:
        """0, 1, ..., each repeated by its count."""
