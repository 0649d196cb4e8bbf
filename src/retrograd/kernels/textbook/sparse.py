"""Lines of an array along an axis: selected, or weighted and summed by a sparse matrix."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "coalesced_places",
    "csr_product",
    "csr_product_pair",
    "csr_transpose",
    "flat_places",
    "line_sums",
    "lines",
    "nonzero_places",
    "repeated_indices",
    "row_starts",
]

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def lines(x: np.ndarray, indices: np.ndarray, axis: int, filling: float = 0.0) -> np.ndarray:
    """y[..., r, ...] = x[..., indices[r], ...] along ``axis``; indices (R,) int64, -1 for a line of ``filling``"""
    y = np.full((indices.size, *np.moveaxis(x, axis, 0).shape[1:]), filling, x.dtype, like=x)
    used = indices >= 0
    y[used] = np.moveaxis(x, axis, 0)[indices[used]]
    return np.moveaxis(y, 0, axis)


@ieee
def csr_product(x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """y[..., r, ...] = sum over k in [starts[r], starts[r+1]) of weights[k] x[..., indices[k], ...] along ``axis``

    The matrix has compressed rows (CSR): starts (R+1,) and indices (K,) of int64, weights (K,) of x's type.
    """
    along = np.moveaxis(x, axis, 0)
    factors = weights.reshape(weights.shape + (1,) * (x.ndim - 1))
    y = np.zeros((starts.size - 1, *along.shape[1:]), x.dtype, like=x)
    rows = np.repeat(np.arange(starts.size - 1, like=starts), np.diff(starts))  # the row of each entry
    np.add.at(y, rows, along[indices] * factors)
    return np.moveaxis(y, 0, axis)


def csr_transpose(
    indices: np.ndarray, columns: int, starts: np.ndarray | None, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The transpose of a matrix with compressed rows: its starts, indices and weights.

    Without ``starts`` each row has one entry; without ``weights`` all are 1, and stay None. The entries of a row are in
    the order of the rows they come from.
    """
    narrow = columns <= 1 << 16  # NumPy sorts 16-bit integers in linear time
    order = np.argsort(indices.astype(np.uint16) if narrow else indices, kind="stable")
    row_of = order if starts is None else np.repeat(np.arange(starts.size - 1, like=starts), np.diff(starts))[order]
    return row_starts(indices, columns), row_of, None if weights is None else weights[order]


def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    """The product along ``axis`` with ``matrix`` and along the next axis with ``next_matrix``.

    Each matrix is (starts, indices, weights) as in ``csr_product``.
    """
    return csr_product(csr_product(x, axis, *matrix), axis + 1, *next_matrix)


def row_starts(rows: np.ndarray, count: int) -> np.ndarray:
    """The first entry of each of ``count`` rows, and the number of all (count+1,), for entries sorted by ``rows``"""
    starts = np.zeros(count + 1, np.int64, like=rows)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return starts


def flat_places(places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The positions (K,) of the indices ``places`` (axes, K) in the elements of an array of this shape, row by row"""
    flat = np.zeros(places.shape[1], np.int64, like=places)
    for line, extent in zip(places, shape, strict=True):
        flat = flat * extent + line
    return flat


def nonzero_places(x: np.ndarray, axes: int) -> np.ndarray:
    """The indices (axes, K) along the first ``axes`` axes of the parts of x that hold an element other than 0"""
    some = np.asarray((x != 0).any(tuple(range(axes, x.ndim))), like=x)
    return np.stack(np.nonzero(some)) if axes else np.zeros((0, int(some)), np.int64, like=x)


def coalesced_places(places: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ``places`` (axes, K), sorted by their positions ``flat`` (K,); and which of them each is (K,)"""
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    return places[:, first], which


def line_sums(x: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """``count`` lines along the first axis: those of x, added up at their ``places`` (K,); integers, which wrap"""
    total = np.zeros((count, *x.shape[1:]), x.dtype, like=x)
    np.add.at(total, places, x)
    return total


def repeated_indices(counts: np.ndarray, extent: int) -> np.ndarray:
    """0, 1, ..., extent - 1, each ``counts`` times: one number for all, or one for each"""
    return np.repeat(np.arange(extent, like=counts), counts.reshape(-1))
