"""Modified Bessel functions of the first kind, of orders 0 and 1.

Source: NIST Digital Library of Mathematical Functions, 10.25.2 (series) and 10.40.1 (asymptotic expansion).
"""

from __future__ import annotations

import math

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor
from ..pointwise.piecewise import where
from .made import applied, special

__all__ = ["i0"]

_FAR = 25.0


def _scaled(order: int, x: np.ndarray) -> np.ndarray:
    """exp(-|x|) times the Bessel function of |x|."""
    size = abs(x)
    near, far = np.where(size < _FAR, size, 0), np.where(size < _FAR, _FAR, size)
    quarter = near * near / 4
    term = total = near / 2 if order else np.ones_like(near)
    for k in range(1, 80):
        term = term * quarter / (k * (k + order))
        total = total + term
    low = total * np.exp(-near)
    term = total = np.ones_like(far)
    for k in range(1, 31):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * far)
        total = total + term
    return np.where(size < _FAR, low, np.where(np.isinf(size), 0, total / np.sqrt(2 * np.pi * far)))


def _i0e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) i0(x)"""
    return _scaled(0, x)


def _i1e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) i1(x)"""
    return np.copysign(_scaled(1, x), x)


def _i0(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 0."""
    return np.where(np.isinf(x), np.inf, _scaled(0, x) * np.exp(abs(x)))


def _i1(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 1."""
    return np.where(np.isinf(x), x, np.copysign(_scaled(1, x), x) * np.exp(abs(x)))


def _gap(x: np.ndarray) -> np.ndarray:
    """i0e(x) - i1e(|x|), without cancellation"""
    size = abs(x)
    far = np.where(size < _FAR, _FAR, size)
    terms, total = [np.ones_like(far), np.ones_like(far)], np.zeros_like(far)
    for k in range(1, 31):
        terms = [term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * far) for order, term in enumerate(terms)]
        total = total + (terms[0] - terms[1])
    low = _scaled(0, x) - _scaled(1, x)
    return np.where(size < _FAR, low, np.where(np.isinf(size), 0, total / np.sqrt(2 * np.pi * far)))


def _gap_slope(x: Tensor, y: Tensor) -> Tensor:
    """sign(x) (i1e(|x|) / |x| - 2 y)"""
    return _quotient(x, i1e(x), 0.5) * x.sign() - x.sign() * y * 2


def _quotient(x: Tensor, y: Tensor, limit: float) -> Tensor:
    """y / x; the limit where x is 0, and 0 where y is infinite, beside which it does not count."""
    zero, infinite = x == 0, abs(y) == math.inf
    return where(zero, limit, where(infinite, 0.0, y) / where(zero, 1.0, x))


I0 = special("I0", _i0, lambda x, y: i1(x))
I1 = special("I1", _i1, lambda x, y: i0(x) - _quotient(x, y, 0.5))
Gap: type[Function] = special("Gap", _gap, _gap_slope)
I0e = special("I0e", _i0e, lambda x, y: -x.sign() * Gap.apply(x))
I1e = special("I1e", _i1e, lambda x, y: Gap.apply(x) - _quotient(x, y, 0.5))


def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(I0, "i0", input)


def i0e(input: Tensor) -> Tensor:
    """exp(-|input|) i0(input), without overflow

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(I0e, "i0e", input)


def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(I1, "i1", input)


def i1e(input: Tensor) -> Tensor:
    """exp(-|input|) i1(input), without overflow

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(I1e, "i1e", input)
