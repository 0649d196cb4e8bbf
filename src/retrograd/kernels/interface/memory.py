"""Copies, types, shapes and indices."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kernel import INT64, Array, Axes, Spec, along, declare

Csr = tuple[Array, Array, Array]  # starts, indices, weights

class Memory:
    """Copies, types, shapes and indices."""

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

    # ---- indices

    @declare(lambda x, indices, axis: x._replace(shape=indices.shape))
    def pick(self, x: Array, indices: Array, axis: int) -> Array:
        """x at indices along an axis, element by element."""

    @declare(lambda g, indices, axis, extent, order: along(g, axis, extent))
    def place(self, g: Array, indices: Array, axis: int, extent: int, order: Axes) -> Array:
        """Zeros, with g at indices along an axis; order is that of the axes in memory."""

    @declare(lambda x, k, axis, largest: along(x, axis, k)._replace(dtype=INT64))
    def topk(self, x: Array, k: int, axis: int, largest: bool) -> Array:
        """The indices of the k largest or smallest elements along an axis, in order."""

    @declare(lambda x, k, axis: along(x, axis, 1)._replace(dtype=INT64))
    def kth(self, x: Array, k: int, axis: int) -> Array:
        """The index of the k-th smallest element along an axis."""

    @declare(lambda x, indices, axis, filling=0.0: along(x, axis, indices.shape[0]))
    def lines(self, x: Array, indices: Array, axis: int, filling: float = 0.0) -> Array:
        """The lines of x at indices along an axis; a filling for the index -1."""

    @declare(lambda x, axis, starts, indices, weights: along(x, axis, starts.shape[0] - 1))
    def csr_product(self, x: Array, axis: int, starts: Array, indices: Array, weights: Array) -> Array:
        """The product of a sparse matrix and x along an axis."""

    @declare(
        lambda x, axis, matrix, next_matrix: along(
            along(x, axis, matrix[0].shape[0] - 1), axis + 1, next_matrix[0].shape[0] - 1
        )
    )
    def csr_product_pair(self, x: Array, axis: int, matrix: Csr, next_matrix: Csr) -> Array:
        """The products of two sparse matrices and x, along an axis and the next one."""

    @declare(
        lambda indices, columns, starts, weights: (
            Spec((columns + 1,), INT64), indices._replace(dtype=INT64), weights
        )
    )
    def csr_transpose(
        self, indices: Array, columns: int, starts: Array | None, weights: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """The transpose of a sparse matrix."""
