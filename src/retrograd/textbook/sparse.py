"""Lines of an array along an axis: selected, or weighted and summed by a sparse matrix."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["csr_product", "csr_product_pair", "csr_transpose", "lines"]

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def lines(x: np.ndarray, indices: np.ndarray, axis: int, filling: float = 0.0) -> np.ndarray:
    """y[..., r, ...] = x[..., indices[r], ...] along ``axis``; indices (R,) int64, -1 for a line of ``filling``"""
    y = np.full((indices.size, *np.moveaxis(x, axis, 0).shape[1:]), filling, x.dtype, like=x)
    used = indices >= 0
    y[used] = np.moveaxis(x, axis, 0)[indices[used]]
    return np.moveaxis(y, 0, axis)


@ieee
def csr_product(
    x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray
) -> np.ndarray:
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
    found = np.zeros(columns + 1, np.int64, like=indices)
    np.cumsum(np.bincount(indices, minlength=columns), out=found[1:])
    return found, row_of, None if weights is None else weights[order]


def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    """The product along ``axis`` with ``matrix`` and along the next axis with ``next_matrix``.

    Each matrix is (starts, indices, weights) as in ``csr_product``.
    """
    return csr_product(csr_product(x, axis, *matrix), axis + 1, *next_matrix)
