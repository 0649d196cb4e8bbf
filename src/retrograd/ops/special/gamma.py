"""The gamma function's logarithm and its derivatives, and the incomplete gamma functions.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_count, as_float, as_int, require_tensor
from ..dtypes.promotion import floats, promote
from ..shape.broadcasting import broadcast_shape, sum_to
from .made import Special, applied, each

__all__ = ["digamma", "igamma", "igammac", "lgamma", "mvlgamma"]

# B(2j) / (2j)!, for the Euler-Maclaurin formula
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
_FAR = 12.0  # from here on, the asymptotic expansions have the precision of float64
_STEPS = 2000  # of series and continued fractions, which end when nothing changes any more
_LARGE = 1e4  # from here on, the incomplete gamma functions have a uniform expansion
# its coefficients near x = a, in powers of eta
_UNIFORM = (
    (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600),
    (-1 / 540, -1 / 288, 1 / 378, -77 / 77760),
    (25 / 6048, -139 / 51840, 1 / 1296),
)


def _hurwitz(s: Any, a: np.ndarray) -> np.ndarray:
    """The sum of (a + k)**-s over k from 0 on, for s > 1 and a > 0: by the first terms and Euler-Maclaurin."""
    total = np.zeros(np.broadcast_shapes(np.shape(s), a.shape))
    near = a < _FAR
    while near.any():
        total = total + np.where(near, a**-s, 0)
        a = np.where(near, a + 1, a)
        near = a < _FAR
    total = total + a ** (1 - s) / (s - 1) + a**-s / 2
    term = s * a ** (-s - 1)
    for j, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * j) * term
        term = term * (s + 2 * j - 1) * (s + 2 * j) / a**2
    return total


def digamma_of(x: np.ndarray) -> np.ndarray:
    """The derivative of the logarithm of the gamma function."""
    below = x <= 0
    whole = below & (x == np.floor(x))
    a = np.where(below, 1 - x, x)
    total = np.zeros_like(a)
    near = a < _FAR
    while near.any():
        total -= np.where(near, 1 / a, 0)
        a = np.where(near, a + 1, a)
        near = a < _FAR
    total += np.log(a) - 0.5 / a
    power = np.ones_like(a)
    for j, number in enumerate(_BERNOULLI, 1):
        power = power / a**2
        total -= number / (2 * j) * power
    reflected = total - np.pi / np.tan(np.pi * (x - np.round(x)))
    found = np.where(below, reflected, total)
    found = np.where(np.isposinf(x), np.inf, found)
    return np.where(whole, np.where(x == 0, -np.copysign(np.inf, x), np.nan), found)


def _cotangent(n: int, x: np.ndarray) -> np.ndarray:
    """The n-th derivative of cot(pi x), a polynomial in cot(pi x)."""
    polynomial = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-np.pi, 0, -np.pi])
    found: np.ndarray = polynomial(1 / np.tan(np.pi * (x - np.round(x))))
    return found


def _polygamma(x: np.ndarray, n: int) -> np.ndarray:
    """The derivative of order n of the digamma function."""
    if n == 0:
        return digamma_of(x)
    below = x <= 0
    factorial = math.factorial(n) if n < 171 else math.inf
    positive = (-1) ** (n + 1) * factorial * _hurwitz(n + 1.0, np.where(below, 1 - x, x))
    if not below.any():
        return positive
    found = np.where(below, (-1) ** n * positive - np.pi * _cotangent(n, x), positive)
    at_pole = np.where(np.isneginf(x), np.nan, (-1) ** (n + 1) * np.inf)
    return np.where(below & (x == np.floor(x)), at_pole, found)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    """log |gamma(x)|; inf at 0 and the negative integers"""
    return each(math.lgamma, x)


class LogGamma(Special):
    """log |gamma(x)|; inf at 0 and the negative integers"""

    value = staticmethod(_log_gamma)

    @staticmethod
    def slope(x: Tensor, y: Tensor) -> Any:
        return digamma(x)


class Polygamma(Special):
    """The derivative of order n of the digamma function."""

    value = staticmethod(_polygamma)

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
    """The multivariate lgamma: p (p - 1) / 4 log(pi) + the sum over j < p of lgamma(input - j / 2)

    Raises:
        TypeError: input is not a Tensor, or p is not an int.
        ValueError: p is below 1.
    """
    if interpreters and (seen := interpreted(mvlgamma, locals())) is not None:
        return seen
    p = as_count("mvlgamma", "p", p, 1, 2**31)
    x = as_float("mvlgamma", input)
    shifts = wrap(np.arange(p, dtype=x.array.dtype) / -2)
    return lgamma(x.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


class GammaDensity(Function):
    """x**(a - 1) exp(-x) / gamma(a), the derivative of igamma to x; it has no gradient to a."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        b, z = np.broadcast_arrays(a.array.astype(np.float64), x.array.astype(np.float64))
        with np.errstate(all="ignore"):
            y = wrap(np.asarray(_density(b, z)).astype(x.array.dtype))
        ctx.save_for_backward(a, x)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        return None, sum_to(g * GammaDensity.apply(a, x) * ((a - 1) / x - 1), x.array.shape)


class IncompleteGamma(Function):
    """The regularised lower, or upper, incomplete gamma function of a and x; it has no gradient to a."""

    gradient = "x: g x**(a - 1) exp(-x) / gamma(a), and its negative for the upper one"

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        b, z = np.broadcast_arrays(a.array.astype(np.float64), x.array.astype(np.float64))
        with np.errstate(all="ignore"):
            y = _incomplete(b, z, upper)
        ctx.save_for_backward(a, x)
        ctx.upper = upper
        return wrap(np.asarray(y).astype(x.array.dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, x = ctx.saved_tensors
        name = "igammac" if ctx.upper else "igamma"
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(f"{name}: there is no gradient to input; use input.detach()")
        slope = GammaDensity.apply(a, x)
        return None, sum_to(g * (-slope if ctx.upper else slope), x.array.shape), None


@operator(records=IncompleteGamma, methods="igamma", in_place=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The integral of t**(input - 1) exp(-t) from 0 to other, divided by gamma(input); shapes broadcast.

    It has a gradient to other.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(igamma, locals())) is not None:
        return seen
    return _of_both("igamma", input, other, False)


@operator(records=IncompleteGamma, methods="igammac", in_place=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """1 - igamma(input, other), accurate where that is small; it has a gradient to other.

    Raises: as ``igamma``.
    """
    if interpreters and (seen := interpreted(igammac, locals())) is not None:
        return seen
    return _of_both("igammac", input, other, True)


class Zeta(Function):
    """The sum of (q + k)**-s over k from 0 on; the gradient to q is -s zeta(s + 1, q), and there is none to s."""

    gradient = "q: -g s zeta(s + 1, q)"

    @staticmethod
    def forward(ctx: Any, s: Tensor, q: Tensor) -> Tensor:
        power, start = np.broadcast_arrays(s.array.astype(np.float64), q.array.astype(np.float64))
        possible = (power > 1) & (start > 0)
        with np.errstate(all="ignore"):
            found = _hurwitz(np.where(possible, power, 2), np.where(possible, start, 1))
            reflected = (power > 1) & (start < 0) & (power == np.floor(power)) & (start != np.floor(start))
            reflected &= np.isfinite(power) & np.isfinite(start)
            if reflected.any():
                found = np.where(reflected, _hurwitz_of_negative(np.where(reflected, power, 2),
                                                                 np.where(reflected, start, -0.5)), found)  # fmt: skip
                possible = possible | reflected
        pole = (power == 1) | ((power > 1) & (start <= 0) & (start == np.floor(start)))
        found = np.where(possible, found, np.where(pole, np.inf, np.nan))
        ctx.save_for_backward(s, q)
        return wrap(np.asarray(found).astype(s.array.dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        s, q = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            raise NotImplementedError("zeta: there is no gradient to input; use input.detach()")
        return None, sum_to(g * -s * Zeta.apply(s + 1, q), q.array.shape)


@operator(records=Zeta, dtypes="bif")
def zeta(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The Hurwitz zeta function, the sum of (other + k)**-input over k from 0 on; one operand may be a number.

    It is inf for input 1 and where other is 0 or a negative integer. It is NaN for input below 1, and where input is
    not an integer and other is negative, since a negative number has no real power there. It has a gradient to other.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both are numbers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(zeta, locals())) is not None:
        return seen
    x, q = promote("zeta", input, other)
    broadcast_shape("zeta", x.array.shape, q.array.shape)
    return Zeta.apply(as_float("zeta", x), as_float("zeta", q))


def _hurwitz_of_negative(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """zeta(s, q) for an integer s > 1 and a negative q that is not an integer.

    The sum over all integers k, with the fractional part f of q, is zeta(s, f) + (-1)**s zeta(s, 1 - f); the terms
    below k = 0 are (-1)**s zeta(s, 1 - q).
    """
    below = np.floor(q)
    sign = 1 - 2 * np.mod(s, 2)
    return _hurwitz(s, q - below) + sign * (_hurwitz(s, below + 1 - q) - _hurwitz(s, 1 - q))


def _of_both(name: str, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    require_tensor(name, a)
    require_tensor(name, x, "other")
    a, x = floats(name, input=a, other=x)
    broadcast_shape(name, a.array.shape, x.array.shape)
    return IncompleteGamma.apply(a, x, upper)


def _incomplete(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """By the series of the lower function where x < a + 1, else by the continued fraction of the upper one."""
    possible = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    large = possible & (a >= _LARGE)
    b, z = np.where(possible & ~large, a, 1), np.where(possible & ~large, x, 1)
    low = z < b + 1
    factor = np.exp(b * np.log(z) - z - each(math.lgamma, b))
    lower = factor * _series(b, np.where(low, z, 0.5))
    higher = factor * _fraction(b, np.where(low, b + 2, z))
    y = np.where(low, 1 - lower, higher) if upper else np.where(low, lower, 1 - higher)
    if upper:
        small = (b < 0.5) & (z < 1)
        y = np.where(small, _upper_of_small(np.where(small, b, 0.25), np.where(small, z, 0.5)), y)
    if large.any():
        y = np.where(large, _uniform(np.where(large, a, _LARGE), np.where(large, x, _LARGE), upper), y)
    ends = np.where(x == 0, 0.0, np.where(np.isposinf(x), 1.0, np.nan))  # of the lower one, for a > 0
    ends = np.where(a > 0, ends, np.where((a == 0) & (x > 0), 1.0, np.nan))
    ends = np.where(np.isposinf(a) & (x >= 0), np.where(np.isposinf(x), np.nan, 0.0), ends)
    return np.where(possible, y, 1 - ends if upper else ends)


def _upper_of_small(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """1 - x**a / gamma(1 + a) (1 + a S) without cancellation; S is the sum of (-x)**n / (n! (a + n)) over n from 1"""
    near = a * (-np.euler_gamma + a * (np.pi**2 / 12 - a * 0.40068563438653143))  # zeta(3) / 3
    power = a * np.log(x) - np.where(a < 1e-4, near, each(math.lgamma, 1 + a))
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 20):
        term = term * -x / n
        total = total + term / (a + n)
    return -np.expm1(power) - np.exp(power) * a * total


def _density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x**(a - 1) exp(-x) / gamma(a), and its limits"""
    possible = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    b, z = np.where(possible, a, 1), np.where(possible, x, 1)
    small = np.where(b < 100, b, 1)
    direct = np.exp((small - 1) * np.log(z) - z - each(math.lgamma, small))
    c = np.where(b < 100, 100, b)
    stirling = 1 / (12 * c) - 1 / (360 * c**3) + 1 / (1260 * c**5)
    around = np.exp(-c * _half_eta_squared(c, z)[0] - stirling) * np.sqrt(c / (2 * np.pi)) / z
    at_zero = np.where(a == 1, 1.0, np.where(a < 1, np.inf, 0.0))
    some = (a >= 0) & (x >= 0) & ~((a == 0) & (x == 0)) & ~(np.isinf(a) & np.isinf(x))
    limits = np.where(some, np.where(x == 0, at_zero, 0.0), np.nan)
    return np.where(possible, np.where(b < 100, direct, around), limits)


def _half_eta_squared(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x / a - 1 - log(x / a) without cancellation, and x / a - 1"""
    change = (x - a) / a
    series = np.zeros_like(change)
    for k in range(15, 1, -1):
        series = -change * series + 1 / k
    half = np.where(abs(change) < 0.05, change**2 * series, change - np.log(x / a))
    return half, change


def _uniform(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """The expansion for large a, uniform in x: an error function and three terms of 1 / a.

    Source: DLMF 8.12; its coefficients are those of N. M. Temme, 1979.
    """
    half, change = _half_eta_squared(a, x)
    eta = np.copysign(np.sqrt(2 * half), change)
    near = abs(eta) < 0.1
    r, s = np.where(near, 1, eta), np.where(near, 1, change)
    powers = [np.polynomial.polynomial.polyval(np.clip(eta, -1, 1), coefficients) for coefficients in _UNIFORM]
    first = np.where(near, powers[0], 1 / s - 1 / r)
    second = np.where(near, powers[1], 1 / r**3 - 1 / s**3 - 1 / s**2 - 1 / (12 * s))
    rest = np.exp(-a * half) / np.sqrt(2 * np.pi * a) * (first + (second + powers[2] / a) / a)
    tail = each(math.erfc, (eta if upper else -eta) * np.sqrt(a / 2)) / 2
    found: np.ndarray = tail + rest if upper else tail - rest
    return found


def _series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """1 / a + x / (a (a + 1)) + x**2 / (a (a + 1) (a + 2)) + ..."""
    term = total = 1 / a
    for n in range(1, _STEPS):
        term = term * x / (a + n)
        following = total + term
        if np.array_equal(following, total):
            break
        total = following
    return total


def _fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by the method of Lentz"""
    b = x + 1 - a
    c, d = np.full_like(b, 1e300), 1 / b
    total = d
    for n in range(1, _STEPS):
        factor = -n * (n - a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        change = c * d
        total = total * change
        if (abs(change - 1) < 1e-16).all():
            break
    return total
