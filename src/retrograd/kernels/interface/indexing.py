"""Indices: gather and scatter, masks, sorting, search, embeddings, sparse matrices."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from .kernel import INT64, Axes, Pair, Three, along, declare

Csr = tuple[Array, Array, Array]  # starts, indices, weights
# an index with arrays: its basic part, applied first; then axes of that view and the index arrays along them
Places = tuple[tuple[Any, ...] | None, Axes, tuple[Array, ...]]
FLOAT64, BOOL = np.dtype(np.float64), np.dtype(np.bool_)
_BY_VALUE = "how many elements there are depends on their values"


def _selected(places: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what an index selects from an array of this shape."""
    basic, axes, arrays = places
    left = np.broadcast_to(np.int8(0), shape)[() if basic is None else (*basic, ...)].shape
    first, last = axes[0], axes[-1]
    if last - first == len(axes) - 1:
        return (*left[:first], *arrays[0].shape, *left[last + 1 :])
    return (*arrays[0].shape, *[size for axis, size in enumerate(left) if axis not in axes])


def _indices(x: Spec, axis: int) -> Spec:
    """One index along an axis."""
    return along(x, axis, 1)._replace(dtype=INT64)


def _quantiles(x: Spec, q: Spec, axis: int, interpolation: str, skip: bool) -> tuple[Spec, ...]:
    one = along(x, axis, q.shape[0] if q.shape else 1)
    index = one._replace(dtype=INT64)
    return index, index, one._replace(dtype=BOOL), one, along(x, axis, 1) if skip else x._replace(shape=())


class Indexing:
    """Indices: gather and scatter, masks, sorting, search, embeddings, sparse matrices."""

    # ---- elements and slices by index

    @declare(lambda x, indices, axis: x._replace(shape=indices.shape))
    def pick(self, x: Array, indices: Array, axis: int) -> Array:
        """x at indices along an axis, element by element."""

    @declare(lambda g, indices, axis, extent, order: along(g, axis, extent))
    def place(self, g: Array, indices: Array, axis: int, extent: int, order: Axes) -> Array:
        """Zeros, with g at indices along an axis; ``order``: the memory order of the axes."""

    @declare(lambda x, k, axis, largest: along(x, axis, k)._replace(dtype=INT64))
    def topk(self, x: Array, k: int, axis: int, largest: bool) -> Array:
        """The indices of the k largest or smallest elements along an axis, in order."""

    @declare(lambda x, k, axis: along(x, axis, 1)._replace(dtype=INT64))
    def kth(self, x: Array, k: int, axis: int) -> Array:
        """The index of the k-th smallest element along an axis."""

    @declare(lambda x, indices, axis, filling=0.0: along(x, axis, indices.shape[0]))
    def lines(self, x: Array, indices: Array, axis: int, filling: float = 0.0) -> Array:
        """The slices of x at indices along an axis; ``filling`` for the index -1."""

    @declare(lambda x, indices, axis: along(x, axis, indices.shape[0]))
    def take(self, x: Array, indices: Array, axis: int) -> Array:
        """The slices of x, of any dtype, at indices along an axis."""

    # ---- sparse matrices

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
        lambda indices, columns, starts, weights: (Spec((columns + 1,), INT64), indices._replace(dtype=INT64), weights)
    )
    def csr_transpose(
        self, indices: Array, columns: int, starts: Array | None, weights: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """The transpose of a sparse matrix."""

    # ---- gather and scatter

    @declare(lambda x, indices, axis: x._replace(shape=indices.shape))
    def gather(self, x: Array, indices: Array, axis: int) -> Array:
        """x at indices along an axis; indices may be shorter along the other axes, and repeat."""

    @declare(lambda g, indices, axis, shape: g._replace(shape=shape))
    def scatter_add(self, g: Array, indices: Array, axis: int, shape: tuple[int, ...]) -> Array:
        """Zeros, with g added at indices along an axis."""

    @declare(lambda x, src, indices, axis, sign, include: (x, x._replace(dtype=BOOL), src._replace(dtype=BOOL), x))
    def scatter_extreme(
        self, x: Array, src: Array, indices: Array, axis: int, sign: int, include: bool
    ) -> tuple[Array, Array, Array, Array]:
        """The extremes of x and src at indices along an axis; masks of the elements equal to them; the tie counts."""

    @declare(lambda indices, axis, shape, include: Spec(shape, INT64))
    def scatter_count(self, indices: Array, axis: int, shape: tuple[int, ...], include: bool) -> Array:
        """How many indices refer to each position, plus 1 with ``include``; at least 1."""

    @declare(lambda total, count: total)
    def floor_mean(self, total: Array, count: Array) -> Array:
        """total / count of integers, rounded down."""

    @declare(lambda indices, axis, shape: (Spec((int(np.prod(indices.shape)),), INT64),) * 2)
    def scatter_turns(self, indices: Array, axis: int, shape: tuple[int, ...]) -> Pair:
        """The flat position of each index along an axis, and how many equal positions are before it."""

    @declare(lambda indices, axis: (indices,) * len(indices.shape))
    def coordinates(self, indices: Array, axis: int) -> tuple[Array, ...]:
        """The index along each axis of what ``gather`` reads."""

    @declare(lambda x, v, places, accumulate: x)
    def put(self, x: Array, v: Array, places: Places, accumulate: bool) -> Array:
        """A copy of x with v at places, or added there."""

    @declare(lambda y, v, places, accumulate: None, changes="y")
    def put_into(self, y: Array, v: Array, places: Places, accumulate: bool) -> None:
        """y[places] = v, or y[places] += v."""

    @declare(lambda places, shape, dtype: Spec(_selected(places, shape), np.dtype(dtype)))
    def last_writes(self, places: Places, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """1 for each value of ``put`` that remains in the result, 0 for those overwritten by a later one."""

    @declare(lambda index, extent: index)
    def normalize_index(self, index: Array, extent: int) -> Array:
        """The indices with negative ones, which count from the end, made nonnegative."""

    @declare(lambda arrays, shape: Spec((int(np.prod(arrays[0].shape)),), INT64))
    def ravel_multi_index(self, arrays: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
        """The flat positions, a vector, of indices along the axes of a shape."""

    @declare(lambda flat, shape: (flat,) * len(shape))
    def unravel_index(self, flat: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """The indices along the axes of a shape for flat positions in it."""

    # ---- masks

    @declare(None, host=_BY_VALUE)
    def nonzero(self, x: Array) -> tuple[Array, ...]:
        """The indices along each axis of the elements that are not 0."""

    @declare(None, host=_BY_VALUE)
    def argwhere(self, x: Array) -> Array:
        """The indices of the elements that are not 0, one row per element."""

    @declare(lambda x, size, fill_value: Spec((size, len(x.shape)), INT64))
    def nonzero_static(self, x: Array, size: int, fill_value: int) -> Array:
        """The first rows of ``argwhere``, padded with rows of ``fill_value``."""

    @declare(lambda x, v, mask: x._replace(shape=mask.shape))
    def masked_fill(self, x: Array, v: Array, mask: Array) -> Array:
        """v where a mask is True, else x; elements of any dtype."""

    # ---- sorting

    @declare(lambda x, axis, descending, stable: x._replace(dtype=INT64))
    def argsort(self, x: Array, axis: int, descending: bool, stable: bool) -> Array:
        """The indices that sort x along an axis."""

    @declare(lambda x, skip: x._replace(shape=(1,) * len(x.shape)))
    def median(self, x: Array, skip: bool) -> Array:
        """The median of all elements."""

    @declare(lambda x, axis, skip: _indices(x, axis))
    def median_index(self, x: Array, axis: int, skip: bool) -> Array:
        """The index of the median along an axis; of the first NaN, unless NaN are skipped."""

    @declare(lambda x, axis: _indices(x, axis))
    def mode(self, x: Array, axis: int) -> Array:
        """The index of the most frequent element along an axis."""

    @declare(_quantiles)
    def quantile_index(
        self, x: Array, q: Array, axis: int, interpolation: str, skip: bool
    ) -> tuple[Array, Array, Array, Array, Array]:
        """The indices of both neighbors of a quantile, whether they differ, the fraction between them, and n - 1."""

    @declare(None, host=_BY_VALUE)
    def unique(self, x: Array, axis: int | None) -> Three:
        """The distinct elements, sorted; the index of each element of x among them; the number of occurrences."""

    @declare(None, host=_BY_VALUE)
    def unique_consecutive(
        self, x: Array, axis: int, inverse: bool, counts: bool
    ) -> tuple[Array, Array | None, Array | None]:
        """x with equal neighbors merged; the index in the result of each element of x; the run lengths."""

    # ---- search and histograms

    @declare(lambda sequence, values, right, dtype: Spec(values.shape, np.dtype(dtype)))
    def searchsorted(self, sequence: Array, values: Array, right: bool, dtype: Any) -> Array:
        """The index of each value in a sorted sequence."""

    @declare(lambda x, y, invert: x._replace(dtype=BOOL))
    def isin(self, x: Array, y: Array, invert: bool) -> Array:
        """True where an element of x occurs in y; with ``invert``, where it does not."""

    @declare(
        lambda x, weights, length: Spec(
            (length,), INT64 if weights is None else weights.dtype if weights.dtype.kind == "f" else FLOAT64
        )
    )
    def bincount(self, x: Array, weights: Array | None, length: int) -> Array:
        """Count each integer below ``length``, or sum its weights."""

    @declare(lambda x, bins, low, high: x._replace(shape=(bins,)))
    def histc(self, x: Array, bins: int, low: float, high: float) -> Array:
        """The number of elements in bins of equal width."""

    @declare(lambda x, edges, weights, density: x._replace(shape=(edges.shape[0] - 1,)))
    def histogram(self, x: Array, edges: Array, weights: Array | None, density: bool) -> Array:
        """The number of elements between neighboring edges."""

    @declare(lambda points, edges, weights, density: points._replace(shape=(*[own.shape[0] - 1 for own in edges],)))
    def histogramdd(self, points: Array, edges: Sequence[Array], weights: Array | None, density: bool) -> Array:
        """The number of points in each bin of a grid."""

    # ---- embeddings

    @declare(
        lambda x, starts: (
            Spec((starts.shape[0] - 1, x.shape[1]), x.dtype),
            Spec((starts.shape[0] - 1, x.shape[1]), INT64),
        )
    )
    def bag_max(self, x: Array, starts: Array) -> Pair:
        """The largest element of each column of each bag of rows, and its row."""

    @declare(lambda g, places, shape: g._replace(shape=shape))
    def bag_max_grad(self, g: Array, places: Array, shape: tuple[int, ...]) -> Array:
        """Zeros, with g where ``bag_max`` found the maxima."""

    @declare(lambda starts, size, dtype: Spec((size,), np.dtype(dtype)))
    def bag_shares(self, starts: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """1 divided by the size of its bag, for each entry."""

    @declare(lambda indices, rows, padding, by_frequency, dtype: Spec(indices.shape, np.dtype(dtype)))
    def embedding_factors(
        self, indices: Array, rows: int, padding: int | None, by_frequency: bool, dtype: np.dtype[Any]
    ) -> Array:
        """The factor of the gradient of each row used: 0 for padding, else 1, or 1 divided by the number of uses."""

    @declare(None, host="how many entries are padding depends on their values")
    def without_padding(self, indices: Array, starts: Array, padding: int) -> Three:
        """The entries of bags that are not padding, where the bags start among them, and their former positions."""

    @declare(None, host="how many rows are too long depends on their values")
    def long_rows(self, weight: Array, indices: Array, max_norm: float, norm_type: float) -> Pair:
        """The distinct indices of rows whose norm exceeds ``max_norm``, and the factors that scale them down to it."""

    @declare(lambda weight, rows, factors: None, changes="weight")
    def scale_rows(self, weight: Array, rows: Array, factors: Array) -> None:
        """weight[rows] *= factors."""

    @declare(lambda classes, count: Spec((*classes.shape, count), INT64))
    def one_hot(self, classes: Array, count: int) -> Array:
        """1 at the class, else 0, along a new last axis."""

    @declare(lambda rows, count: Spec((count,), INT64))
    def inverse_rows(self, rows: Array, count: int) -> Array:
        """The position in ``rows`` of each row number below ``count``, or -1."""
