"""Special functions of single elements, computed in float64: gamma, Bessel, error and related functions.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8, 10 and 25.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...formulas.primitive import array_like

__all__ = [
    "bessel_gap",
    "entr",
    "erfinv",
    "gamma_density",
    "hazard",
    "hazard_excess",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "igamma",
    "log_gamma",
    "log_ndtr",
    "ndtri",
    "polygamma",
    "zeta",
]

# B(2j) / (2j)!, for the Euler-Maclaurin formula
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
_FAR = 12.0  # from here on, the asymptotic expansions have the precision of float64
_STEPS = 2000  # of series and continued fractions, which end when nothing changes any more
_LARGE = 1e4  # from here on, the incomplete gamma functions have a uniform expansion
# its coefficients near x = a, in powers of eta
_UNIFORM = (
    (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600),
    (-1 / 540, -1 / 288, 1 / 378, -77 / 77760),
    (25 / 6048, -139 / 51840, 1 / 1296),
)
_FAR_OF_BESSEL = 25.0
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_ROOT = math.sqrt(0.5)
_LOW = -20.0  # below, the asymptotic expansion of the tail has the precision of float64


def _in_float64(count: int) -> Callable[..., Any]:
    """Decorate a function: its first ``count`` arguments become float64, its result gets the dtype of the last one."""

    def declare(function: Any) -> Any:
        @wraps(function)
        def run(*values: Any) -> np.ndarray:
            operands, dtype = [array.astype(np.float64) for array in values[:count]], values[count - 1].dtype
            if count > 1:
                operands = [*np.broadcast_arrays(*operands)]
            with np.errstate(all="ignore"):
                return np.asarray(function(*operands, *values[count:]), dtype, like=operands[0])

        return run

    return declare


def each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Apply a function of a Python float to every element; inf where it raises ValueError or OverflowError."""
    numbers = x.ravel().tolist()
    try:
        found = [*map(function, numbers)]
    except (ValueError, OverflowError):  # at least one element has no value
        found = [_or_infinite(function, number) for number in numbers]
    return array_like(found, np.float64, x).reshape(x.shape)


def _or_infinite(function: Callable[[float], float], number: float) -> float:
    try:
        return function(number)
    except (ValueError, OverflowError):
        return math.inf


def _hurwitz(s: Any, a: np.ndarray) -> np.ndarray:
    """The sum of (a + k)**-s over k from 0 on, for s > 1 and a > 0: by the first terms and Euler-Maclaurin."""
    total = np.zeros(np.broadcast_shapes(np.shape(s), a.shape), like=a)
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


def _digamma(x: np.ndarray) -> np.ndarray:
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


@_in_float64(1)
def polygamma(x: np.ndarray, n: int) -> np.ndarray:
    """The derivative of order n of the digamma function."""
    if n == 0:
        return _digamma(x)
    below = x <= 0
    factorial = math.factorial(n) if n < 171 else math.inf
    positive = (-1) ** (n + 1) * factorial * _hurwitz(n + 1.0, np.where(below, 1 - x, x))
    if not below.any():
        return positive
    found = np.where(below, (-1) ** n * positive - np.pi * _cotangent(n, x), positive)
    at_pole = np.where(np.isneginf(x), np.nan, (-1) ** (n + 1) * np.inf)
    return np.where(below & (x == np.floor(x)), at_pole, found)


@_in_float64(1)
def log_gamma(x: np.ndarray) -> np.ndarray:
    """log |gamma(x)|; inf at 0 and the negative integers"""
    return each(math.lgamma, x)


@_in_float64(2)
def zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The sum of (q + k)**-s over k from 0 on."""
    possible = (s > 1) & (q > 0)
    found = _hurwitz(np.where(possible, s, 2), np.where(possible, q, 1))
    reflected = (s > 1) & (q < 0) & (s == np.floor(s)) & (q != np.floor(q)) & np.isfinite(s) & np.isfinite(q)
    if reflected.any():
        negative = _hurwitz_of_negative(np.where(reflected, s, 2), np.where(reflected, q, -0.5))
        found = np.where(reflected, negative, found)
    pole = (s == 1) | ((s > 1) & (q <= 0) & (q == np.floor(q)))
    return np.where(possible | reflected, found, np.where(pole, np.inf, np.nan))


def _hurwitz_of_negative(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """zeta(s, q) for an integer s > 1 and a negative q that is not an integer.

    The sum over all integers k, with the fractional part f of q, is zeta(s, f) + (-1)**s zeta(s, 1 - f); the terms
    below k = 0 are (-1)**s zeta(s, 1 - q).
    """
    below = np.floor(q)
    sign = 1 - 2 * np.mod(s, 2)
    return _hurwitz(s, q - below) + sign * (_hurwitz(s, below + 1 - q) - _hurwitz(s, 1 - q))


@_in_float64(2)
def igamma(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """The regularized lower, or upper, incomplete gamma function.

    By the series of the lower function where x < a + 1, else by the continued fraction of the upper one."""
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


@_in_float64(2)
def gamma_density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
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


def _scaled(order: int, x: np.ndarray) -> np.ndarray:
    """exp(-|x|) times the Bessel function of |x|."""
    size = abs(x)
    near, far = np.where(size < _FAR_OF_BESSEL, size, 0), np.where(size < _FAR_OF_BESSEL, _FAR_OF_BESSEL, size)
    quarter = near * near / 4
    term = total = near / 2 if order else np.ones_like(near)
    for k in range(1, 80):
        term = term * quarter / (k * (k + order))
        total = total + term
    low = total * np.exp(-near)
    term = total = np.ones_like(far)
    for k in range(1, 31):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k) / far
        total = total + term
    return np.where(size < _FAR_OF_BESSEL, low, np.where(np.isinf(size), 0, total / np.sqrt(2 * np.pi) / np.sqrt(far)))


@_in_float64(1)
def i0e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) i0(x)"""
    return _scaled(0, x)


@_in_float64(1)
def i1e(x: np.ndarray) -> np.ndarray:
    """exp(-|x|) i1(x)"""
    return np.copysign(_scaled(1, x), x)


@_in_float64(1)
def i0(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 0."""
    return np.where(np.isinf(x), np.inf, _scaled(0, x) * np.exp(abs(x)))


@_in_float64(1)
def i1(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 1."""
    return np.where(np.isinf(x), x, np.copysign(_scaled(1, x), x) * np.exp(abs(x)))


@_in_float64(1)
def bessel_gap(x: np.ndarray) -> np.ndarray:
    """i0e(x) - i1e(|x|), without cancellation"""
    size = abs(x)
    far = np.where(size < _FAR_OF_BESSEL, _FAR_OF_BESSEL, size)
    terms, total = [np.ones_like(far), np.ones_like(far)], np.zeros_like(far)
    for k in range(1, 31):
        terms = [term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k) / far for order, term in enumerate(terms)]
        total = total + (terms[0] - terms[1])
    low = _scaled(0, x) - _scaled(1, x)
    return np.where(size < _FAR_OF_BESSEL, low, np.where(np.isinf(size), 0, total / np.sqrt(2 * np.pi) / np.sqrt(far)))


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


@_in_float64(1)
def erfinv(x: np.ndarray) -> np.ndarray:
    """The inverse of the error function."""
    size = np.where(abs(x) <= 1, abs(x), np.nan)
    return np.copysign(_inverse_erfc(1 - size, size), x)


@_in_float64(1)
def ndtri(x: np.ndarray) -> np.ndarray:
    """The x-quantile of the standard normal distribution."""
    inside = (x >= 0) & (x <= 1)
    p = np.where(inside, x, 0.5)
    low = p <= 0.5
    tail = 2 * np.where(low, p, 1 - p)
    z = _inverse_erfc(tail, 1 - tail) / _ROOT
    return np.where(inside, np.where(low, -z, z), np.nan)


@_in_float64(1)
def log_ndtr(x: np.ndarray) -> np.ndarray:
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


@_in_float64(1)
def hazard(x: np.ndarray) -> np.ndarray:
    """The derivative of log_ndtr: the density of the standard normal distribution over its distribution function"""
    inner = np.where(x < _LOW, 0, x)
    near = np.exp(-0.5 * inner**2 - _HALF_LOG_TAU) / (each(math.erfc, -inner * _ROOT) / 2)
    far = np.where(x < _LOW, x, _LOW)
    return np.where(x < _LOW, -far / (1 + _tail(far)), near)


@_in_float64(1)
def hazard_excess(x: np.ndarray) -> np.ndarray:
    """x + hazard(x), without cancellation far below 0"""
    far = np.where(x < _LOW, x, _LOW)
    tail = _tail(far)
    return np.where(x < _LOW, np.where(np.isinf(far), 0, far * (tail / (1 + tail))), x + hazard(x))


@_in_float64(1)
def entr(x: np.ndarray) -> np.ndarray:
    """-x log(x), 0 at 0 and -inf below"""
    terms = -x * np.log(np.where(x > 0, x, 1))
    return np.where(x < 0, -np.inf, terms)
