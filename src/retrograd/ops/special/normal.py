"""Functions of probabilities: the normal distribution's, the inverse error function, terms of entropies."""

from __future__ import annotations

import math

from ...arrays import any_true
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_float
from ..dtypes.promotion import promote
from ..pointwise.piecewise import where
from ..pointwise.transcendental import erfc
from ..shape.broadcasting import broadcast_shape
from .made import Special, applied

__all__ = ["erfinv"]

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_ROOT = math.sqrt(0.5)


class ErfInv(Special):
    """The inverse of the error function."""

    kernel = "erfinv"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return (y * y).exp() * (0.5 * math.sqrt(math.pi))


class NormalQuantile(Special):
    """The x-quantile of the standard normal distribution."""

    kernel = "ndtri"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return (y * y * 0.5 + _HALF_LOG_TAU).exp()


class HazardExcess(Special):
    """x + hazard(x), without cancellation far below 0"""

    kernel = "hazard_excess"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return 1 - Hazard.apply(x) * y


class Hazard(Special):
    """The derivative of log_ndtr: the density of the standard normal distribution over its distribution function"""

    kernel = "hazard"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return -(y * where(y == 0, 0.0, HazardExcess.apply(x)))


class LogNormalCdf(Special):
    """The logarithm of the probability that a standard normal variable is at most x."""

    kernel = "log_ndtr"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Tensor:
        return Hazard.apply(x)


class Entropy(Special):
    """-x log(x), 0 at 0 and -inf below"""

    kernel = "entr"

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
    if not any_true(zero.array, "whether 0 is multiplied by an infinity"):
        return x * y.log1p()
    return where(zero, 0.0, x * where(zero, 0.0, y).log1p())
