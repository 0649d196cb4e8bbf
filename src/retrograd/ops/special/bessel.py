"""Modified Bessel functions of the first kind, of orders 0 and 1.

Source: NIST Digital Library of Mathematical Functions, 10.25.2 (series) and 10.40.1 (asymptotic expansion).
"""

from __future__ import annotations

import math

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..pointwise.piecewise import where
from .made import Special, applied

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


class I0(Special):
    """The modified Bessel function of order 0."""

    value = staticmethod(_i0)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return i1(x)


class I1(Special):
    """The modified Bessel function of order 1."""

    value = staticmethod(_i1)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return i0(x) - _quotient(x, y, 0.5)


class Gap(Special):
    """i0e(x) - i1e(|x|), without cancellation"""

    value = staticmethod(_gap)
    slope = staticmethod(_gap_slope)


class I0e(Special):
    """exp(-|x|) i0(x)"""

    value = staticmethod(_i0e)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return -x.sign() * Gap.apply(x)


class I1e(Special):
    """exp(-|x|) i1(x)"""

    value = staticmethod(_i1e)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return Gap.apply(x) - _quotient(x, y, 0.5)


@operator(records=I0, methods="i0", in_place=True, dtypes="bif")
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(i0, locals())) is not None:
        return seen
    return applied(I0, "i0", input)


@operator(records=I0e, dtypes="bif")
def i0e(input: Tensor) -> Tensor:
    """exp(-|input|) i0(input), without overflow

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(i0e, locals())) is not None:
        return seen
    return applied(I0e, "i0e", input)


@operator(records=I1, dtypes="bif")
def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(i1, locals())) is not None:
        return seen
    return applied(I1, "i1", input)


@operator(records=I1e, dtypes="bif")
def i1e(input: Tensor) -> Tensor:
    """exp(-|input|) i1(input), without overflow

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(i1e, locals())) is not None:
        return seen
    return applied(I1e, "i1e", input)
