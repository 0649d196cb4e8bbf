"""Functions of probabilities: the normal distribution's, the inverse error function, terms of entropies."""

from __future__ import annotations

import math

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_float
from ..dtypes.promotion import promote
from ..pointwise.piecewise import where
from ..pointwise.transcendental import erfc
from ..shape.broadcasting import broadcast_shape
from .made import Special, applied, each

__all__ = ["erfinv"]

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_ROOT = math.sqrt(0.5)
_LOW = -20.0  # below, the asymptotic expansion of the tail has the precision of float64


def _inverse_erfc(tail: np.ndarray, body: np.ndarray) -> np.ndarray:
    """z with erfc(z) = tail and erf(z) = body = 1 - tail, from 0 to 1; from an approximation, by Halley's method.

    Source of the approximation: S. Winitzki, "A handy approximation for the error function and its inverse", 2008.
    """
    log = np.log(tail * (2 - tail))
    first = 2 / (np.pi * 0.147) + log / 2
    z = np.sqrt(np.maximum(np.sqrt(first**2 - log / 0.147) - first, 0))
    far = tail < 0.5
    for _ in range(3):
        error = np.where(far, each(math.erfc, z) - tail, body - each(math.erf, z))
        step = error / (-2 / np.sqrt(np.pi) * np.exp(-z * z))
        z = z - step / (1 + z * step)
    return np.where(tail == 0, np.inf, np.where(body == 0, 0, z))


def _erfinv(x: np.ndarray) -> np.ndarray:
    """The inverse of the error function."""
    size = np.where(abs(x) <= 1, abs(x), np.nan)
    return np.copysign(_inverse_erfc(1 - size, size), x)


def _ndtri(x: np.ndarray) -> np.ndarray:
    """The x-quantile of the standard normal distribution."""
    inside = (x >= 0) & (x <= 1)
    p = np.where(inside, x, 0.5)
    low = p <= 0.5
    tail = 2 * np.where(low, p, 1 - p)
    z = _inverse_erfc(tail, 1 - tail) / _ROOT
    return np.where(inside, np.where(low, -z, z), np.nan)


def _log_ndtr(x: np.ndarray) -> np.ndarray:
    """The logarithm of the probability that a standard normal variable is at most x."""
    inner = np.where(x < _LOW, 0, x)
    half = each(math.erfc, abs(inner) * _ROOT) / 2
    near = np.where(inner > 0, np.log1p(-half), np.log(half))
    far = np.where(x < _LOW, x, _LOW)
    return np.where(x < _LOW, -0.5 * far**2 - _HALF_LOG_TAU - np.log(-far) + np.log1p(_tail(far)), near)


def _tail(far: np.ndarray) -> np.ndarray:
    """The asymptotic series of Mills' ratio minus its first term, 1."""
    term, total = np.ones_like(far), np.zeros_like(far)
    for k in range(1, 10):
        term = term * (1 - 2 * k) / far**2
        total = total + term
    return total


def _hazard(x: np.ndarray) -> np.ndarray:
    """The derivative of log_ndtr: the density of the standard normal distribution over its distribution function"""
    inner = np.where(x < _LOW, 0, x)
    near = np.exp(-0.5 * inner**2 - _HALF_LOG_TAU) / (each(math.erfc, -inner * _ROOT) / 2)
    far = np.where(x < _LOW, x, _LOW)
    return np.where(x < _LOW, -far / (1 + _tail(far)), near)


def _hazard_excess(x: np.ndarray) -> np.ndarray:
    """x + hazard(x), without cancellation far below 0"""
    far = np.where(x < _LOW, x, _LOW)
    tail = _tail(far)
    return np.where(x < _LOW, np.where(np.isinf(far), 0, far * (tail / (1 + tail))), x + _hazard(x))


def _entr(x: np.ndarray) -> np.ndarray:
    """-x log(x), 0 at 0 and -inf below"""
    terms = -x * np.log(np.where(x > 0, x, 1))
    return np.where(x < 0, -np.inf, terms)


class ErfInv(Special):
    """The inverse of the error function."""

    value = staticmethod(_erfinv)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return (y * y).exp() * (0.5 * math.sqrt(math.pi))


class NormalQuantile(Special):
    """The x-quantile of the standard normal distribution."""

    value = staticmethod(_ndtri)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return (y * y * 0.5 + _HALF_LOG_TAU).exp()


class HazardExcess(Special):
    """x + hazard(x), without cancellation far below 0"""

    value = staticmethod(_hazard_excess)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return 1 - Hazard.apply(x) * y


class Hazard(Special):
    """The derivative of log_ndtr: the density of the standard normal distribution over its distribution function"""

    value = staticmethod(_hazard)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return -(y * where(y == 0, 0.0, HazardExcess.apply(x)))


class LogNormalCdf(Special):
    """The logarithm of the probability that a standard normal variable is at most x."""

    value = staticmethod(_log_ndtr)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return Hazard.apply(x)


class Entropy(Special):
    """-x log(x), 0 at 0 and -inf below"""

    value = staticmethod(_entr)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return -(x.log() + 1)


@operator(records=ErfInv, methods="erfinv", in_place=True, dtypes="bif")
def erfinv(input: Tensor) -> Tensor:
    """The inverse of ``erf``: inf at 1, -inf at -1, NaN beyond.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(erfinv, locals())) is not None:
        return seen
    return applied(ErfInv, "erfinv", input)


@operator(dtypes="bif")
def ndtr(input: Tensor) -> Tensor:
    """The probability that a standard normal variable is at most input.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(ndtr, locals())) is not None:
        return seen
    return erfc(as_float("ndtr", input) * -_ROOT) * 0.5


@operator(records=NormalQuantile, dtypes="bif")
def ndtri(input: Tensor) -> Tensor:
    """The inverse of ``ndtr``, the quantile of the standard normal distribution; NaN outside [0, 1].

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(ndtri, locals())) is not None:
        return seen
    return applied(NormalQuantile, "ndtri", input)


@operator(records=LogNormalCdf, dtypes="bif")
def log_ndtr(input: Tensor) -> Tensor:
    """log(ndtr(input)), accurate for small probabilities

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(log_ndtr, locals())) is not None:
        return seen
    return applied(LogNormalCdf, "log_ndtr", input)


@operator(records=Entropy, dtypes="bif")
def entr(input: Tensor) -> Tensor:
    """-input log(input), the term of an entropy: 0 at 0, -inf below

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(entr, locals())) is not None:
        return seen
    return applied(Entropy, "entr", input)


@operator(dtypes="bif")
def xlog1py(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input log1p(other), and 0 where input is 0 and other is not NaN; shapes broadcast.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(xlog1py, locals())) is not None:
        return seen
    x, y = promote("xlog1py", input, other)
    broadcast_shape("xlog1py", x.array.shape, y.array.shape)
    x, y = as_float("xlog1py", x), as_float("xlog1py", y)
    zero = (x == 0) & ((y <= -1) | (y == math.inf))
    if not zero.array.any():
        return x * y.log1p()
    return where(zero, 0.0, x * where(zero, 0.0, y).log1p())
