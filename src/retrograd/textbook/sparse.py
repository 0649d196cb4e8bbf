"""A sparse matrix times an array along one of its axes."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["csr_product", "csr_product_pair"]

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


@ieee
def csr_product(
    x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """y[..., r, ...] = sum over k in [starts[r], starts[r+1]) of weights[k] x[..., indices[k], ...] along ``axis``

    The matrix has compressed rows (CSR): starts (R+1,) and indices (K,) of int64, weights (K,) of x's type.
    """
    lines = np.moveaxis(x, axis, 0)
    factors = weights.reshape(weights.shape + (1,) * (x.ndim - 1))
    y = np.zeros((starts.size - 1, *lines.shape[1:]), x.dtype)
    rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))  # the row of each entry
    np.add.at(y, rows, lines[indices] * factors)
    return np.moveaxis(y, 0, axis)


def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    """The product along ``axis`` with ``matrix`` and along the axis behind it with ``next_matrix``.

    Each matrix is (starts, indices, weights) as in ``csr_product``.
    """
    return csr_product(csr_product(x, axis, *matrix), axis + 1, *next_matrix)
