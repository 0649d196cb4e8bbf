"""Special functions: gamma, Bessel, zeta, and those of the normal distribution; values are computed in float64.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25; for the Bessel functions
10.25.2 (series) and 10.40.1 (asymptotic expansion).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..arrays import any_true, arange
from ..engine.function import Function
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .argument_checks import as_count, as_float, as_int, require_tensor
from .dtypes.dtype import cast
from .dtypes.promotion import floats, promote_to_float, promoted_type
from .pointwise.exponential import erfc
from .pointwise.piecewise import where
from .pointwise.pointwise import Pointwise
from .shape.broadcasting import broadcast_shape, sum_to

__all__ = ["digamma", "erfinv", "i0", "igamma", "igammac", "lgamma", "mvlgamma"]


# ---- Special functions as operators: a kernel computes the values, other operators the derivative -------------------

Values = Callable[..., np.ndarray]


class Special(Function):
    """An elementwise function y = kernel(x, *numbers) with the gradient g * slope(x, y, *numbers)."""

    kernel: ClassVar[str]  # name of the kernel
    slope: ClassVar[Callable[..., Any]]  # a function of Tensors, composed of differentiable operators

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Tensor:
        y = wrap(getattr(kernels, cls.kernel)(x.array, *numbers))
        ctx.save_for_backward(x, y)
        ctx.numbers = numbers
        return y

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        return (g * cls.slope(x, y, *ctx.numbers), *(None for _ in ctx.numbers))


def applied(function: type[Function], name: str, x: Tensor, *numbers: Any) -> Tensor:
    """Apply the operator to a Tensor; integers and bool become floating point; TypeError for a non-Tensor."""
    return function.apply(as_float(name, x), *numbers)


# ---- Modified Bessel functions of the first kind, of orders 0 and 1 -------------------------------------------------


def _gap_slope(x: Tensor, y: Tensor) -> Tensor:
    """sign(x) (i1e(|x|) / |x| - 2 y)"""
    return _quotient(x, i1e(x), 0.5) * x.sign() - x.sign() * y * 2


def _quotient(x: Tensor, y: Tensor, limit: float) -> Tensor:
    """y / x; the limit where x is 0, and 0 where y is infinite, since the quotient is then negligible."""
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


# ---- The log-gamma function, its derivatives, and the incomplete gamma functions -------------------------------------


class LogGamma(Special):
    """log |gamma(x)|; inf at 0 and the negative integers"""

    kernel = "log_gamma"

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Any:
        return digamma(x)


class Polygamma(Special):
    """The derivative of order n of the digamma function."""

    kernel = "polygamma"

    @staticmethod
    def slope(x: Tensor, y: Tensor, n: int) -> Any:
        return polygamma(n + 1, x)


@operator(records=LogGamma, methods="lgamma", in_place=True, dtypes="bif")
def lgamma(input: Tensor) -> Tensor:
    """log |gamma(input)|; inf at 0 and the negative integers

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(lgamma, locals())) is not None:
        return seen
    return applied(LogGamma, "lgamma", input)


@operator(records=Polygamma, methods="digamma", in_place=True, dtypes="bif")
def digamma(input: Tensor) -> Tensor:
    """The derivative of ``lgamma``; NaN at the negative integers.

    Raises:
        TypeError: input is not a Tensor.
    """
    if interpreters and (seen := interpreted(digamma, locals())) is not None:
        return seen
    return applied(Polygamma, "digamma", input, 0)


@operator(records=Polygamma, dtypes="bif")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order n of ``digamma``.

    For n from 1, it is inf at 0 and the negative integers if n is odd, and -inf if n is even.

    Raises:
        TypeError: input is not a Tensor, or n is not an int.
        ValueError: n is negative.
    """
    if interpreters and (seen := interpreted(polygamma, locals())) is not None:
        return seen
    n = as_int("polygamma", "n", n)
    if n < 0:
        raise ValueError(f"polygamma: n={n} must be at least 0")
    return applied(Polygamma, "polygamma", input, n)


@operator(methods="mvlgamma", in_place=True, dtypes="bif")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The multivariate ``lgamma``: p (p - 1) / 4 log(pi) + the sum over j < p of lgamma(input - j / 2)

    Raises:
        TypeError: input is not a Tensor, or p is not an int.
        ValueError: p is below 1.
    """
    if interpreters and (seen := interpreted(mvlgamma, locals())) is not None:
        return seen
    p = as_count("mvlgamma", "p", p, 1, 2**31)
    x = as_float("mvlgamma", input)
    shifts = wrap(kernels.scale(arange(p, dtype=x.array.dtype, like=x.array), -0.5))
    return lgamma(x.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


class GammaDensity(Function):
    """x**(a - 1) exp(-x) / gamma(a), the derivative of igamma with respect to x; no gradient with respect to a."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(a, x)
        return wrap(kernels.gamma_density(a.array, x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        return None, sum_to(g * GammaDensity.apply(a, x) * ((a - 1) / x - 1), x.array.shape)


class IncompleteGamma(Function):
    """The regularized lower or upper incomplete gamma function of a and x; no gradient with respect to a."""

    gradient = "x: g x**(a - 1) exp(-x) / gamma(a), and its negative for the upper one"

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.upper = upper
        return wrap(kernels.igamma(a.array, x.array, upper))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        name = "igammac" if ctx.upper else "igamma"
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(
                f"{name}: the gradient with respect to input is not supported; use input.detach()"
            )
        slope = GammaDensity.apply(a, x)
        return None, sum_to(g * (-slope if ctx.upper else slope), x.array.shape), None


@operator(records=IncompleteGamma, methods="igamma", in_place=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The integral of t**(input - 1) exp(-t) from 0 to other, divided by gamma(input); shapes broadcast.

    Only ``other`` has a gradient.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(igamma, locals())) is not None:
        return seen
    return _of_both("igamma", input, other, False)


@operator(records=IncompleteGamma, methods="igammac", in_place=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """1 - igamma(input, other), accurate where that is small; only ``other`` has a gradient.

    Raises: as ``igamma``.
    """
    if interpreters and (seen := interpreted(igammac, locals())) is not None:
        return seen
    return _of_both("igammac", input, other, True)


class Zeta(Function):
    """The sum of (q + k)**-s over k from 0 on; the gradient for q is -s zeta(s + 1, q), and s has none."""

    gradient = "q: -g s zeta(s + 1, q)"

    @staticmethod
    def forward(ctx: Any, s: Tensor, q: Tensor) -> Tensor:
        ctx.save_for_backward(s, q)
        return wrap(kernels.zeta(s.array, q.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        s, q = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            raise NotImplementedError("zeta: the gradient with respect to input is not supported; use input.detach()")
        return None, sum_to(g * -s * Zeta.apply(s + 1, q), q.array.shape)


@operator(records=Zeta, dtypes="bif")
def zeta(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The Hurwitz zeta function, the sum of (other + k)**-input over k from 0 on; one operand may be a number.

    It is inf for input 1 and where other is 0 or a negative integer. It is NaN for input below 1, and where input is
    not an integer and other is negative, since a negative number has no real power there. Only ``other`` has a
    gradient.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both are numbers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(zeta, locals())) is not None:
        return seen
    x, q = promote_to_float("zeta", input, other)
    broadcast_shape("zeta", x.array.shape, q.array.shape)
    return Zeta.apply(x, q)


def _of_both(name: str, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    require_tensor(name, a)
    require_tensor(name, x, "other")
    a, x = floats(name, input=a, other=x)
    broadcast_shape(name, a.array.shape, x.array.shape)
    return IncompleteGamma.apply(a, x, upper)


# ---- Functions of the normal distribution and of entropy -------------------------------------------------------------

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
    x, y = promote_to_float("xlog1py", input, other)
    broadcast_shape("xlog1py", x.array.shape, y.array.shape)
    zero = (x == 0) & ((y <= -1) | (y == math.inf))
    if not any_true(zero.array, "whether 0 is multiplied by an infinity"):
        return x * y.log1p()
    return where(zero, 0.0, x * where(zero, 0.0, y).log1p())


# ---- Log-densities as one operator, for distributions ----------------------------------------------------------------


class NormalLogDensity(Pointwise, formula="normal_log_density"):
    """-((x - mean) / scale)**2 / 2 - log(scale) - log(2 pi) / 2"""


def normal_log_density(value: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """The logarithm of the normal density; the three floating-point operands broadcast."""
    dtype = promoted_type(value.array, mean.array, scale.array)
    return NormalLogDensity.apply(cast(value, dtype), cast(mean, dtype), cast(scale, dtype))
