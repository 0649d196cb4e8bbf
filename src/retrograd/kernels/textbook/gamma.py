"""The gradient of standard gamma variables to their concentration."""

from __future__ import annotations

from functools import cache

import numpy as np

from .ieee import ieee

__all__ = ["gamma_slope", "gamma_slope_arguments"]

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
    """The integral of (log(x + u) - digamma(a)) (1 + u / x)**(a - 1) exp(-u) over u > 0, by Gauss and Laguerre"""
    nodes, weights = _laguerre()
    b, y = a[..., np.newaxis], x[..., np.newaxis]
    values = (np.log(y + nodes) - digamma[..., np.newaxis]) * (1 + nodes / y) ** (b - 1)
    found: np.ndarray = (values * weights).sum(-1)
    return found


@cache
def _laguerre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.laguerre.laggauss(64)
