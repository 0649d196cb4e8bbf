# mypy: ignore-errors
"""expm1, exp2, log1p, the hyperbolic functions and their inverses of a register, within 3 units in the last place."""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper
from ..machine.simd import (
    absolute,
    all_lanes,
    bits_of,
    both,
    copy_sign,
    float_from_bits,
    fma,
    full_like,
    select,
    shift_left,
)
from ..machine.simd import sqrt as square_root
from .elementary_jit import (
    above,
    below,
    biased,
    exp_of_any,
    exp_tail,
    ln2_high,
    ln2_low,
    log,
    mantissa_bits,
    number,
    rounding,
    usual,
)


@helper
def _expm1_usual(x: Any) -> Any:
    shifted = x * 1.4426950408889634 + biased(x)
    n = shifted - biased(x)
    r = (x - n * ln2_high(x)) - n * ln2_low(x)
    power = float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    return copy_sign(fma(r + exp_tail(r), power, power - 1.0), x)


@helper
def expm1(x: Any) -> Any:
    """exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), accurate for small x"""
    if all_lanes(absolute(x) < usual(x)):
        return _expm1_usual(x)
    large = x > 60.0
    y = _expm1_usual(select(large, 0.0, select(x < -60.0, -60.0, x)))
    return select(large, exp_of_any(x), y)


_lowest_power = number(-151.0, -1076.0)
_highest_power = number(129.0, 1025.0)


@helper
def exp2(x: Any) -> Any:
    x = select(x < _lowest_power(x), _lowest_power(x), select(x > _highest_power(x), _highest_power(x), x))
    n = (x + rounding(x)) - rounding(x)
    r = (x - n) * 0.6931471805599453
    negative = x < 0.0
    # as in exp: 2^n in two factors
    shifted = n + select(negative, full_like(x, above(x)), below(x))
    y = (r + exp_tail(r) + 1.0) * float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    return y * select(negative, full_like(x, 2.0**-64), 2.0**64)


@helper
def log1p(x: Any) -> Any:
    """log(u) + (x - (u - 1)) / u with u = 1 + x: the second term is the rounding error of u."""
    u = x + 1.0
    lost = select(both(u > 0.0, u < float("inf")), (x - (u - 1.0)) / u, 0.0)
    return copy_sign(log(u) + lost, x)


# --------------------------------------------------------------------------------------------------- sinh, cosh
# h = exp(|x|) / 16 and u = (exp(|x|) - 1) / 16: no overflow before the result overflows

_top = number(90.0, 712.0)  # both overflow from here on
_sixteenth = number(1.5 * 2**23 + 127 - 4, 1.5 * 2**52 + 1023 - 4)
_linear = number(2.0**-13, 2.0**-28)  # sinh(x) = x up to here


@helper
def _hyperbolic(x: Any, odd: int) -> Any:
    a = absolute(x)
    a = select(a > _top(x), _top(x), a)
    shifted = a * 1.4426950408889634 + _sixteenth(x)
    n = shifted - _sixteenth(x)
    r = (a - n * ln2_high(x)) - n * ln2_low(x)
    power = float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    rest = r + exp_tail(r)
    h = fma(rest, power, power)
    if odd == 0:
        return h * 8.0 + 0.03125 / h
    u = fma(rest, power, power - 0.0625)
    y = u * 8.0 + u * 0.5 / h
    return copy_sign(select(a < _linear(x), a, y), x)


@helper
def sinh(x: Any) -> Any:
    return _hyperbolic(x, 1)


@helper
def cosh(x: Any) -> Any:
    return _hyperbolic(x, 0)


# -------------------------------------------------------------------------------------------- asinh, acosh, atanh

_large = number(2.0**30, 2.0**60)  # the 1 under the root is negligible long before, and the square does not overflow
_ln2 = number(0.6931471824645996, 0.6931471805599453)


@helper
def asinh(x: Any) -> Any:
    """log(a + sqrt(a^2 + 1)) as log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2 a) for large a = |x|"""
    a = absolute(x)
    large = a > _large(x)
    b = select(large, 1.0, a)
    s = b * b
    z = select(large, a, b + s / (square_root(s + 1.0) + 1.0))
    return copy_sign(log1p(z) + select(large, full_like(x, _ln2(x)), 0.0), x)


@helper
def acosh(x: Any) -> Any:
    """log(x + sqrt(x^2 - 1)) as log1p(t + sqrt(t^2 + 2 t)) with t = x - 1; log(2 x) for large x"""
    large = x > _large(x)
    t = select(large, 1.0, x) - 1.0
    z = select(large, x, t + square_root(t * (t + 2.0)))
    y = log1p(z) + select(large, full_like(x, _ln2(x)), 0.0)
    return select(x < 1.0, float("nan"), y)


@helper
def atanh(x: Any) -> Any:
    """log((1 + a) / (1 - a)) / 2 as log1p(2 a / (1 - a)) / 2 with a = |x|"""
    a = absolute(x)
    return copy_sign(log1p((a + a) / (1.0 - a)) * 0.5, x)
