# mypy: ignore-errors
"""Vectorized expm1, exp2, log1p, hyperbolic functions, and powers."""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper
from ..machine.simd import (
    absolute,
    all_lanes,
    bits_of,
    both,
    by_lane,
    copy_sign,
    either,
    float_from_bits,
    fma,
    full_like,
    nearest,
    opposite,
    select,
    shift_left,
    shift_right,
    sqrt,
    within,
)
from ..machine.simd import sqrt as square_root
from .elementary_jit import (
    above,
    below,
    biased,
    exp_of_any,
    exp_tail,
    highest,
    ln2_high,
    ln2_low,
    log,
    lowest,
    mantissa_bits,
    number,
    polynomial,
    root_half,
    round_bits,
    rounding,
    smallest_bits,
    usual,
    usual_bits,
)

# ---- expm1, exp2, log1p, the hyperbolic functions and their inverses of a register ----------------------------------
# Within 3 units in the last place.


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


# ---- x ** y of two registers, within 1 or 2 units in the last place -------------------------------------------------
# exp(y log(x)), where log(x) and the product are sums of two numbers: the last digits of y log(x) become the leading
# ones of the result. Infinities, NaN and denormals go through the C library; their neighbors in a register do not, so
# that the bits of an element do not depend on them.


_third = number(0.3333333432674408, 0.3333333333333333)
_third_low = number(-9.934107758624577e-09, 1.850371707708594e-17)
# (atanh(s) / s - 1 - s^2 / 3) / s^4 in terms of s^2
_atanh_tail = polynomial(
    (0.200000760941477899, 0.142735661950863545, 0.1170930364439658),
    (
        0.200000000000011278,
        0.142857142850499168,
        0.111111112599342727,
        0.0909089218626896266,
        0.0769337852706635295,
        0.0662841239135572029,
        0.0659812924330153577,
    ),
)


@helper
def _of_positive(x: Any, y: Any) -> Any:
    bits = bits_of(x)
    k = shift_right(bits - root_half(x), mantissa_bits(x))
    n = float_from_bits(k + round_bits(x)) - rounding(x)
    f = float_from_bits(bits - shift_left(k, mantissa_bits(x))) - 1.0
    # s = f / (2 + f) = s + s_low;  log(1 + f) = 2 atanh(s)
    d = f + 2.0
    s = f / d
    s_low = (fma(-s, d, f) - s * (f - (d - 2.0))) / d
    t = s * s
    t_low = fma(s, s, -t) + s * s_low * 2.0
    # atanh(s) / s - 1 = t / 3 + t^2 P(t) = v + v_low
    u = t * _third(x)
    u_low = fma(t, _third(x), -u) + (t * _third_low(x) + t_low * _third(x))
    w = t * t * _atanh_tail(t)
    v = u + w
    v_low = w - (v - u) + u_low
    p = s * v
    p_low = fma(s, v, -p) + (s * v_low + s_low * v)
    # log(x) = n ln2 + 2 s + 2 p = b + b_low
    a = fma(n, ln2_high(x), s * 2.0)
    a_low = s * 2.0 - fma(-n, ln2_high(x), a)
    b = a + p * 2.0
    b_low = p * 2.0 - (b - a) + (a_low + (n * ln2_low(x) + (s_low + p_low) * 2.0))
    # and y log(x) = e + e_low
    e = y * b
    e_low = fma(y, b, -e) + y * b_low
    nothing, overflow = e < lowest(x), e > highest(x)
    e_low = select(either(nothing, overflow), 0.0, e_low)
    e = select(nothing, 0.0, select(overflow, highest(x) + 2.0, e))
    negative = e < 0.0
    constant = select(negative, full_like(x, above(x)), below(x))
    shifted = e * 1.4426950408889634 + constant
    m = shifted - constant
    r = ((e - m * ln2_high(x)) - m * ln2_low(x)) + e_low
    z = (r + exp_tail(r) + 1.0) * float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    return select(nothing, 0.0, z * select(negative, full_like(x, 2.0**-64), 2.0**64))


_any_pow = by_lane("pow")


@helper
def pow(x: Any, y: Any) -> Any:
    a = absolute(x)
    normal = within(bits_of(a) - smallest_bits(x), usual_bits(x))
    usual = both(either(normal, a == 0.0), absolute(y) < float("inf"))
    z = _of_positive(select(a == 0.0, 1.0, a), y)
    if not all_lanes(x > 0.0):
        of_zero = select(y > 0.0, 0.0, select(y < 0.0, full_like(x, float("inf")), 1.0))
        z = select(a == 0.0, of_zero, z)
        whole = nearest(y) == y
        odd = both(whole, opposite(nearest(y * 0.5) * 2.0 == y))
        z = select(both(x < 0.0, opposite(whole)), float("nan"), z)
        z = select(both(bits_of(x) < 0, odd), -z, z)
    return z if all_lanes(usual) else select(usual, z, _any_pow(x, y))


@helper
def hypot(x: Any, y: Any) -> Any:
    """Scaled by the larger one, whose square might overflow; inf if one is infinite."""
    a, b = absolute(x), absolute(y)
    larger, smaller = select(b > a, b, a), select(b > a, a, b)
    q = select(larger == 0.0, 0.0, smaller / larger)
    z = larger * sqrt(q * q + 1.0)
    z = select(x == x, select(y == y, z, y), x)
    return select(larger == float("inf"), larger, select(smaller == float("inf"), smaller, z))
