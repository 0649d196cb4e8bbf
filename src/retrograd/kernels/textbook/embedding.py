"""Rows of a table by index: bags of them, factors of their gradients, their norms; and classes as rows of 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "bag_max",
    "bag_max_grad",
    "bag_shares",
    "embedding_factors",
    "inverse_rows",
    "long_rows",
    "one_hot",
    "scale_rows",
    "without_padding",
]


def bag_max(x: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest element of each column among rows starts[b] to starts[b+1] of x (K, D), and its row: (bags, D).

    For an empty bag they are 0 and -1.
    """
    bags, columns = starts.size - 1, x.shape[1]
    places = np.full((bags, columns), -1, like=x)
    for b in range(bags):
        if starts[b] < starts[b + 1]:
            places[b] = starts[b] + x[starts[b] : starts[b + 1]].argmax(0)
    y = np.take_along_axis(x, np.maximum(places, 0), 0) if x.size else np.zeros(places.shape, x.dtype, like=x)
    return np.where(places >= 0, y, 0).astype(x.dtype, copy=False), places


def bag_max_grad(g: np.ndarray, places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of ``shape`` with g in the rows that ``bag_max`` found."""
    y = np.zeros(shape, g.dtype, like=g)
    bag, column = (places >= 0).nonzero()
    y[places[bag, column], column] = g[bag, column]
    return y


def bag_shares(starts: np.ndarray, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """For each of ``size`` entries, which is starts[-1], 1 divided by the number of entries of its bag."""
    count = np.diff(starts)
    return np.repeat((1.0 / np.maximum(count, 1)).astype(dtype), count)


def embedding_factors(
    indices: np.ndarray, rows: int, padding: int | None, by_frequency: bool, dtype: np.dtype[Any]
) -> np.ndarray:
    """The factor of the gradient of each row used: 0 for the row ``padding``, else 1.

    by_frequency: instead of 1, 1 divided by the number of uses of the row
    """
    factors = np.ones(indices.size, like=indices)
    if by_frequency:
        factors /= np.bincount(indices, minlength=rows)[indices]
    if padding is not None:
        factors[indices == padding] = 0
    return factors.astype(dtype, copy=False)


def without_padding(indices: np.ndarray, starts: np.ndarray, padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of bags that are not ``padding``, where the bags start among them, and where the entries were."""
    kept = np.flatnonzero(indices != padding)
    return indices[kept], np.searchsorted(kept, starts), kept


@ieee
def long_rows(
    weight: np.ndarray, indices: np.ndarray, max_norm: float, norm_type: float
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct indices of rows whose norm exceeds ``max_norm``, and the factors that scale them down to it."""
    used = np.unique(indices)
    norms = np.linalg.norm(weight[used], norm_type, axis=1)
    large = norms > max_norm
    return used[large], (max_norm / (norms[large] + 1e-7)).astype(weight.dtype)


@ieee
def scale_rows(weight: np.ndarray, rows: np.ndarray, factors: np.ndarray) -> None:
    """weight[rows] *= factors in place; no row occurs twice."""
    weight[rows] = weight[rows] * factors[:, np.newaxis]


def one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    """y[..., c] = 1 where classes[...] = c, else 0 (int64); c < count"""
    return (classes[..., np.newaxis] == np.arange(count, like=classes)).astype(np.int64)


def inverse_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """y[rows[k]] = k, and -1 for each of ``count`` rows that is not among ``rows``, which are all different."""
    y = np.full(count, -1, like=rows)
    y[rows] = np.arange(len(rows), like=rows)
    return y
