"""The gamma function's logarithm and its derivatives, and the incomplete gamma functions.

Source of the formulas: NIST Digital Library of Mathematical Functions, chapters 5, 8 and 25.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_count, as_float, as_int, require_tensor
from ..dtypes.promotion import floats
from ..shape.broadcasting import broadcast_shape, sum_to
from .made import applied, each, special

__all__ = ["digamma", "igamma", "igammac", "lgamma", "mvlgamma"]

# B(2j) / (2j)!, for the Euler-Maclaurin formula
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
_FAR = 12.0  # from here on, the asymptotic expansions have the precision of float64
_STEPS = 2000  # of series and continued fractions, which end when nothing changes any more


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
    return np.where(below & (x == np.floor(x)), np.inf, found)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    """log |gamma(x)|; inf at 0 and the negative integers"""
    return each(math.lgamma, x)


LogGamma = special("LogGamma", _log_gamma, lambda x, y: digamma(x))
Polygamma = special("Polygamma", _polygamma, lambda x, y, n: polygamma(n + 1, x))


def lgamma(input: Tensor) -> Tensor:
    """log |gamma(input)|; inf at 0 and the negative integers

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(LogGamma, "lgamma", input)


def digamma(input: Tensor) -> Tensor:
    """The derivative of ``lgamma``; NaN at the negative integers.

    Raises:
        TypeError: input is not a Tensor.
    """
    return applied(Polygamma, "digamma", input, 0)


def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order n of ``digamma``.

    Raises:
        TypeError: input is not a Tensor, or n is not an int.
        ValueError: n is negative.
    """
    n = as_int("polygamma", "n", n)
    if n < 0:
        raise ValueError(f"polygamma: n={n} must be at least 0")
    return applied(Polygamma, "polygamma", input, n)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The multivariate lgamma: p (p - 1) / 4 log(pi) + the sum over j < p of lgamma(input - j / 2)

    Raises:
        TypeError: input is not a Tensor, or p is not an int.
        ValueError: p is below 1.
    """
    p = as_count("mvlgamma", "p", p, 1, 2**31)
    x = as_float("mvlgamma", input)
    shifts = wrap(np.arange(p, dtype=x.array.dtype) / -2)
    return lgamma(x.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


class IncompleteGamma(Function):
    """The regularised lower, or upper, incomplete gamma function of a and x; it has no gradient to a."""

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
        slope = ((a - 1) * x.log() - x - lgamma(a)).exp()
        return None, sum_to(g * (-slope if ctx.upper else slope), x.array.shape), None


def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The integral of t**(input - 1) exp(-t) from 0 to other, divided by gamma(input); shapes broadcast.

    It has a gradient to other.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    return _of_both("igamma", input, other, False)


def igammac(input: Tensor, other: Tensor) -> Tensor:
    """1 - igamma(input, other), accurate where that is small; it has a gradient to other.

    Raises: as ``igamma``.
    """
    return _of_both("igammac", input, other, True)


def zeta(input: Tensor, other: Tensor) -> Tensor:
    """The Hurwitz zeta function, the sum of (other + k)**-input over k from 0 on; without a gradient.

    inf for input 1; NaN for input below 1 and for other not above 0.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    x, q = floats("zeta", input=input, other=other)
    broadcast_shape("zeta", x.array.shape, q.array.shape)
    s, a = np.broadcast_arrays(x.array.astype(np.float64), q.array.astype(np.float64))
    possible = (s > 1) & (a > 0)
    with np.errstate(all="ignore"):
        found = _hurwitz(np.where(possible, s, 2), np.where(possible, a, 1))
    found = np.where(possible, found, np.where(s == 1, np.inf, np.nan))
    return wrap(np.asarray(found).astype(x.array.dtype))


def _of_both(name: str, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    require_tensor(name, a)
    require_tensor(name, x, "other")
    a, x = floats(name, input=a, other=x)
    broadcast_shape(name, a.array.shape, x.array.shape)
    return IncompleteGamma.apply(a, x, upper)


def _incomplete(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """By the series of the lower function where x < a + 1, else by the continued fraction of the upper one."""
    possible = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    b, z = np.where(possible, a, 1), np.where(possible, x, 1)
    low = z < b + 1
    factor = np.exp(b * np.log(z) - z - each(math.lgamma, b))
    lower = factor * _series(b, np.where(low, z, 0.5))
    higher = factor * _fraction(b, np.where(low, b + 2, z))
    y = np.where(low, 1 - lower, higher) if upper else np.where(low, lower, 1 - higher)
    ends = np.where(x == 0, 0.0, np.where(np.isposinf(x), 1.0, np.nan))  # of the lower one, for a > 0
    ends = np.where(a > 0, ends, np.where((a == 0) & (x > 0), 1.0, np.nan))
    ends = np.where(np.isposinf(a) & (x >= 0), np.where(np.isposinf(x), np.nan, 0.0), ends)
    return np.where(possible, y, 1 - ends if upper else ends)


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
