"""Modified Bessel functions of the first kind, of orders 0 and 1.

Source: NIST Digital Library of Mathematical Functions, 10.25.2 (series) and 10.40.1 (asymptotic expansion).
"""

from __future__ import annotations

import math

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..pointwise.piecewise import where
from .made import Special, applied

__all__ = ["i0"]


def _gap_slope(x: Tensor, y: Tensor) -> Tensor:
    """sign(x) (i1e(|x|) / |x| - 2 y)"""
    return _quotient(x, i1e(x), 0.5) * x.sign() - x.sign() * y * 2


def _quotient(x: Tensor, y: Tensor, limit: float) -> Tensor:
    """y / x; the limit where x is 0, and 0 where y is infinite, beside which it does not count."""
    zero, infinite = x == 0, abs(y) == math.inf
    return where(zero, limit, where(infinite, 0.0, y) / where(zero, 1.0, x))


class I0(Special):
    """The modified Bessel function of order 0."""

    kernel = "i0"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return i1(x)


class I1(Special):
    """The modified Bessel function of order 1."""

    kernel = "i1"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return i0(x) - _quotient(x, y, 0.5)


class Gap(Special):
    """i0e(x) - i1e(|x|), without cancellation"""

    kernel = "bessel_gap"
    slope = staticmethod(_gap_slope)


class I0e(Special):
    """exp(-|x|) i0(x)"""

    kernel = "i0e"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return -x.sign() * Gap.apply(x)


class I1e(Special):
    """exp(-|x|) i1(x)"""

    kernel = "i1e"

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
