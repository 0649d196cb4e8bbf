"""Constraint checks: True where values of random variables, or of their parameters, are allowed."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "all_of_event",
    "is_boolean",
    "is_lower_cholesky",
    "is_multinomial",
    "is_one_hot",
    "is_real",
    "is_simplex",
    "is_symmetric",
    "within_bounds",
]

Bound = np.ndarray | float | None


def all_of_event(mask: np.ndarray, count: int) -> np.ndarray:
    """Logical AND of a mask over its last ``count`` axes."""
    return np.asarray(mask.all(tuple(range(mask.ndim - count, mask.ndim))), like=mask)


def within_bounds(x: np.ndarray, low: Bound, high: Bound, with_low: bool, with_high: bool, whole: bool) -> np.ndarray:
    """True where x is between low and high (one may be None: no bound) and, with ``whole``, a whole number.

    with_low, with_high: whether the bound itself is inside. NaN is never inside.
    """
    inside: np.ndarray | bool = True
    if low is not None:
        inside = x >= low if with_low else x > low
    if high is not None:
        inside = inside & (x <= high if with_high else x < high)
    if whole and x.dtype.kind == "f":
        inside = inside & (np.floor(x) == x)
    return np.asarray(inside, like=x)


def is_real(x: np.ndarray) -> np.ndarray:
    """True where x is not NaN."""
    return np.asarray(x == x, like=x)


def is_boolean(x: np.ndarray) -> np.ndarray:
    """True where x is 0 or 1."""
    return np.asarray((x == 0) | (x == 1), like=x)


@ieee
def is_one_hot(x: np.ndarray) -> np.ndarray:
    """True where a vector (the last axis) is one-hot: a single 1, all other elements 0."""
    return np.asarray(((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), like=x)


@ieee
def is_simplex(x: np.ndarray) -> np.ndarray:
    """True where a vector (the last axis) has no negative elements and its sum is within 1e-6 of 1."""
    return np.asarray((x >= 0).all(-1) & (abs(x.sum(-1) - 1) < 1e-6), like=x)


@ieee
def is_multinomial(x: np.ndarray, most: int) -> np.ndarray:
    """True where a vector (the last axis) has no negative elements and its sum is at most ``most``."""
    return np.asarray((x >= 0).all(-1) & (x.sum(-1) <= most), like=x)


def is_lower_cholesky(x: np.ndarray) -> np.ndarray:
    """True where a matrix (the last two axes) is lower triangular with a positive diagonal."""
    lower = (np.tril(x) == x).all((-2, -1))
    return np.asarray(lower & (np.diagonal(x, 0, -2, -1) > 0).all(-1), like=x)


@ieee
def is_symmetric(x: np.ndarray) -> np.ndarray:
    """True where a square matrix (the last two axes) equals its transpose: tolerance 1e-6 + 1e-5 |transpose|."""
    return np.asarray(np.isclose(x, x.swapaxes(-1, -2), atol=1e-6).all((-2, -1)), like=x)
