"""Probability distributions: constraint checks and the gradient of gamma samples."""

from __future__ import annotations

from functools import cache

import numpy as np

from .ieee import ieee

__all__ = [
    "all_of_event",
    "gamma_slope",
    "gamma_slope_arguments",
    "is_boolean",
    "is_lower_cholesky",
    "is_multinomial",
    "is_one_hot",
    "is_real",
    "is_simplex",
    "is_symmetric",
    "within_bounds",
]


# ---- Constraint checks: True where values of random variables, or of their parameters, are allowed ------------------

Bound = np.ndarray | float | None


def all_of_event(mask: np.ndarray, count: int) -> np.ndarray:
    """Logical AND of a mask over its last ``count`` axes."""
    return np.asarray(mask.all(tuple(range(mask.ndim - count, mask.ndim))), like=mask)


def within_bounds(x: np.ndarray, low: Bound, high: Bound, with_low: bool, with_high: bool, whole: bool) -> np.ndarray:
    """True where x is between low and high (one may be None: no bound) and, with ``whole``, an integer.

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


# ---- The gradient of standard gamma variables to their concentration ------------------------------------------------

_LARGE = 1000.0  # from here on, the distribution is nearly that of the cube of a normal variable


def gamma_slope_arguments(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, in a's shape, whose digamma functions ``gamma_slope`` needs: for its series, and for its integral"""
    _, tail, small = _cases(a, x)
    return np.where(small, a, 1.0) + 1, np.where(tail, a, 1.0)


@ieee
def gamma_slope(a: np.ndarray, x: np.ndarray, of_series: np.ndarray, of_integral: np.ndarray) -> np.ndarray:
    """-(dP(a, x) / da) / p(x) of the regularized lower incomplete gamma function P and its derivative p by x.

    a, x: float64, of one shape; then the digamma functions of ``gamma_slope_arguments``.
    """
    large, tail, small = _cases(a, x)
    inside = _by_series(np.where(small, a, 1), np.where(small, x, 1), of_series)
    far = _by_integral(np.where(tail, a, 1), np.where(tail, x, 16), of_integral)
    # E. Wilson, M. Hilferty, 1931: (x / a)**(1/3) is nearly normal, with mean 1 - 1/(9 a) and deviation 1 / (3 sqrt(a))
    b = np.where(large, a, 1)
    root = np.cbrt(np.where(large, x, 1) / b)
    z = (root - 1 + 1 / (9 * b)) * 3 * np.sqrt(b)
    near = root**3 + 3 * b * root**2 * (1 / (9 * b**2) - z / (6 * b**1.5))
    return np.where(large, near, np.where(tail, far, inside))


def _cases(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    large = a > _LARGE
    tail = ~large & (x > 15) & (x > 2 * a)
    return large, tail, ~large & ~tail


def _by_series(a: np.ndarray, x: np.ndarray, digamma: np.ndarray) -> np.ndarray:
    """The sum of x**(n + 1) gamma(a) / gamma(a + n + 1) (digamma(a + n + 1) - log(x)), n from 0 on"""
    term, inner = x / a, digamma - np.log(x)
    total = term * inner
    for n in range(1, 20000):
        term = term * x / (a + n)
        inner = inner + 1 / (a + n)
        total = total + term * inner
        if (term * abs(inner) <= 1e-17 * abs(total)).all():
            break
    return total


def _by_integral(a: np.ndarray, x: np.ndarray, digamma: np.ndarray) -> np.ndarray:
    """The integral of (log(x + u) - digamma(a)) (1 + u / x)**(a - 1) exp(-u) over u > 0 (Gauss-Laguerre)"""
    nodes, weights = _laguerre()
    b, y = a[..., np.newaxis], x[..., np.newaxis]
    values = (np.log(y + nodes) - digamma[..., np.newaxis]) * (1 + nodes / y) ** (b - 1)
    found: np.ndarray = (values * weights).sum(-1)
    return found


@cache
def _laguerre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.laguerre.laggauss(64)
