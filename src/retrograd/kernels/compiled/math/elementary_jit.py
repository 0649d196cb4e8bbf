# mypy: ignore-errors
"""exp, the logarithms, tanh and sigmoid of a register, within 2 units in the last place (tanh 2.01 without FMA).

Infinities, NaN, zeros and denormals, also as results, are as in NumPy. The polynomials are minimax fits (Remez), for
log in float64 fdlibm's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
    quotient,
    select,
    shift_left,
    shift_right,
    within,
)
from .polynomial_jit import polynomial


def by_type(single: Callable[[Any], Any], double: Callable[[Any], Any]) -> Any:
    """One name for the float32 and the float64 version of a function."""

    def function(x: Any) -> Any:
        raise NotImplementedError("runs in compiled code only")

    return helper(function, lambda x: single if x.dtype == types.float32 else double)


def number(single: float, double: float) -> Any:
    """A constant that depends on the element type: ``constant(x)`` is a float64."""

    @intrinsic
    def constant(typing: Any, x: Any) -> Any:
        value = single if x.dtype == types.float32 else double
        return types.float64(x), lambda context, builder, signature, args: ir.DoubleType()(value)

    return constant


def integer(single: int, double: int) -> Any:
    """As ``number`` for an int64."""

    @intrinsic
    def constant(typing: Any, x: Any) -> Any:
        value = single if x.dtype == types.float32 else double
        return types.int64(x), lambda context, builder, signature, args: ir.IntType(64)(value)

    return constant


mantissa_bits = integer(23, 52)
# adding this number (1.5 * 2^mantissa) rounds to an integer, which is left in the low bits
rounding = number(1.5 * 2**23, 1.5 * 2**52)
round_bits = integer(0x4B400000, 0x4338000000000000)

# ------------------------------------------------------------------------------------------------------------ exp
# x = n ln2 + r with |r| <= ln2 / 2;  exp(x) = 2^n exp(r).  ln2 is the sum of two numbers, the first so short that n
# times it is exact. The rounding constant contains the exponent bias: the low bits, shifted, are the number 2^n. They
# are 2^(n + 64) for negative x and 2^(n - 64) otherwise, with a second factor for the rest: so 2^n is in range, and a
# denormal result is rounded once. Where the result is 0, another number is used, because underflow is slow.

lowest = number(-104.0, -746.0)  # its exponential rounds to 0
highest = number(89.0, 710.0)  # its exponential overflows
usual = number(87.0, 708.0)  # up to here, with either sign, the exponential and 2^n are normal numbers
ln2_high = number(0.693145751953125, 6.93147180369123816490e-01)
ln2_low = number(1.42860682030941723212e-6, 1.90821492927058770002e-10)
biased = number(1.5 * 2**23 + 127, 1.5 * 2**52 + 1023)
above = number(1.5 * 2**23 + 127 + 64, 1.5 * 2**52 + 1023 + 64)
below = number(1.5 * 2**23 + 127 - 64, 1.5 * 2**52 + 1023 - 64)


def _exp_tail32(x: Any) -> Any:
    s = x * x
    p = (x * 0.0083687451075831495882 + 0.041668390785419337461) + s * 0.0013814540082130407936
    p = (x * 0.16666520399056998446 + 0.49999993432120265227) + s * p
    return s * p


def _exp_tail64(x: Any) -> Any:
    s = x * x
    p = (x * 2.5000016284515510263e-8 + 2.7630306276375313954e-7) * s
    p = (p + (x * 2.7557586811595866242e-6 + 0.000024801492949561433739)) * s
    p = (p + (x * 0.00019841269505765626196 + 0.001388888894376003116)) * s
    p = (p + (x * 0.0083333333334949807675 + 0.041666666666529728006)) * s
    p = p + (x * 0.16666666666666411503 + 0.50000000000000106688)
    return s * p


# exp(x) - 1 - x for |x| <= ln2 / 2
exp_tail = by_type(_exp_tail32, _exp_tail64)


@helper
def exp_of_any(x: Any) -> Any:
    nothing = x < lowest(x)
    x = select(nothing, 0.0, select(x > highest(x), highest(x), x))
    negative = x < 0.0
    constant = select(negative, full_like(x, above(x)), below(x))
    shifted = x * 1.4426950408889634 + constant
    n = shifted - constant
    r = (x - n * ln2_high(x)) - n * ln2_low(x)
    y = (r + exp_tail(r) + 1.0) * float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    return select(nothing, 0.0, y * select(negative, full_like(x, 2.0**-64), 2.0**64))


@helper
def exp(x: Any) -> Any:
    if not all_lanes(absolute(x) < usual(x)):
        return exp_of_any(x)
    shifted = x * 1.4426950408889634 + biased(x)  # the same bits with one factor
    n = shifted - biased(x)
    r = (x - n * ln2_high(x)) - n * ln2_low(x)
    return (r + exp_tail(r) + 1.0) * float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))


@helper
def exp_negative(x: Any) -> Any:
    """exp of numbers <= 0: a little less work."""
    nothing = x < lowest(x)
    x = select(nothing, 0.0, x)
    shifted = x * 1.4426950408889634 + above(x)
    n = shifted - above(x)
    r = (x - n * ln2_high(x)) - n * ln2_low(x)
    y = (r + exp_tail(r) + 1.0) * float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    return select(nothing, 0.0, y * 2.0**-64)


# ------------------------------------------------------------------------------------------------------------ log
# x = 2^k m with m in [sqrt(1/2), sqrt(2)) and f = m - 1. In float64, with s = f / (2 + f),
# log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)); in float32 a polynomial of f, which is faster than a division.

smallest = number(2.0**-126, 2.0**-1022)  # normal number
smallest_bits = integer(0x00800000, 0x0010000000000000)
usual_bits = integer(0x7F800000 - 0x00800000, 0x7FF0000000000000 - 0x0010000000000000)  # bit patterns up to infinity
_scale = number(2.0**25, 2.0**54)  # makes a denormal number a normal one
_round_scaled = number(1.5 * 2**23 + 25, 1.5 * 2**52 + 54)
root_half = integer(0x3F3504F3, 0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
log_high = number(6.9313812256e-01, 6.93147180369123816490e-01)
log_low = number(9.0580006145e-06, 1.90821492927058770002e-10)


_log_tail32 = polynomial(
    (
        0.3333333171, -0.2500082101, 0.2000122682, -0.1662335778, 0.1420175816, -0.1316017939, 0.1276158053,
        -0.0763451021,
    ),
    (0.0,),
)  # fmt: skip


def _log_rest32(f: Any) -> Any:
    return f * f * f * _log_tail32(f)


def _log_rest64(f: Any) -> Any:
    s = f / (f + 2.0)
    x = s * s
    p = x * 1.479819860511658591e-01 + 1.531383769920937332e-01
    p = p * x + 1.818357216161805012e-01
    p = p * x + 2.222219843214978396e-01
    p = p * x + 2.857142874366239149e-01
    p = p * x + 3.999999999940941908e-01
    return s * (f * f * 0.5 + (p * x + 6.666666666666735130e-01) * x)


# log(1 + f) - f + f^2 / 2
_log_rest = by_type(_log_rest32, _log_rest64)


def _logarithm(high: Any, low: Any, factor: Any = None, rest: Any = None) -> Any:
    """The logarithm to the base b: high + low is that of 2, factor + rest is 1 / ln(b) (None for base e)."""
    natural = factor is None
    factor, rest = (log_high, log_low) if natural else (factor, rest)  # not used, but typed

    @helper
    def logarithm(x: Any) -> Any:
        plain = all_lanes(within(bits_of(x) - smallest_bits(x), usual_bits(x)))  # positive, normal and finite
        v, shift = x, full_like(x, rounding(x))
        if not plain:
            denormal = x < smallest(x)
            v = select(denormal, x * _scale(x), x)
            shift = select(denormal, _round_scaled(x), shift)
        bits = bits_of(v)
        k = shift_right(bits - root_half(x), mantissa_bits(x))
        n = float_from_bits(k + round_bits(x)) - shift
        f = float_from_bits(bits - shift_left(k, mantissa_bits(x))) - 1.0
        half = f * f * 0.5
        if natural:
            y = _log_rest(f) + n * low(x) - half + f + n * high(x)
        else:
            y = _log_rest(f) - half + f
            y = fma(y, factor(x), y * rest(x) + n * low(x)) + n * high(x)
        if not plain:
            infinity = full_like(x, float("inf"))
            y = select(both(x > 0.0, x < infinity), y, x)  # infinity and NaN are their own logarithms
            y = select(x == 0.0, -infinity, y)
            y = select(x < 0.0, float("nan"), y)
        return y

    return logarithm


log = _logarithm(log_high, log_low)
log2 = _logarithm(
    number(1.0, 1.0),
    number(0.0, 0.0),
    number(1.4426950216293335, 1.4426950408889634),
    number(1.925963033500011e-08, 2.0355273740931033e-17),
)
log10 = _logarithm(
    number(3.0102920532e-01, 3.01029995663611771306e-01),
    number(7.9034151668e-07, 3.69423907715893078616e-13),
    number(0.4342944920063019, 0.4342944819032518),
    number(-1.0103049952192578e-08, 1.098319650216765e-17),
)


# -------------------------------------------------------------------------------------------------- tanh, sigmoid

_compensated = integer(0, 1)  # float64 needs the rounding errors of t and d to stay within 2 units


@helper
def tanh(x: Any) -> Any:
    """t / d with t = exp(-2|x|) - 1, accurate for small x, and d = t + 2; the sign is that of x."""
    z = absolute(x) * -2.0
    z = select(z < -40.0, -40.0, z)  # t is -1 from here on
    shifted = z * 1.4426950408889634 + biased(x)
    n = shifted - biased(x)
    r = (z - n * ln2_high(x)) - n * ln2_low(x)
    power = float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    rest = r + exp_tail(r)  # t = power - 1 + rest * power
    t, d = fma(rest, power, power - 1.0), fma(rest, power, power + 1.0)
    y = t / d
    if _compensated(x):
        lost_t, lost_d = fma(rest, power, power - 1.0 - t), fma(rest, power, power + 1.0 - d)
        y = y + (lost_t - y * lost_d) * (1.5 - d * 0.5)  # 1 / d is nearly 1.5 - d / 2
    return copy_sign(y, x)


@helper
def _sigmoid_of_any(x: Any) -> Any:
    """1 / (1 + u) for positive x and u / (1 + u) for negative x with u = exp(-|x|)."""
    # the last line corrects the rounding of d, between 1 and 2: times 1 / d, nearly 1.5 - d / 2
    u = exp_negative(-absolute(x))
    d = u + 1.0
    y = select(x < 0.0, u, 1.0) / d
    return y - y * ((u - (d - 1.0)) * (1.5 - d * 0.5))


_far = number(16.0, 36.0)  # 1 + 2^n is exact up to here


@helper
def _sigmoid_near(x: Any) -> Any:
    """1 / d with d = 1 + exp(-x), where the mantissa holds both."""
    shifted = x * -1.4426950408889634 + biased(x)
    n = shifted - biased(x)
    r = (-x - n * ln2_high(x)) - n * ln2_low(x)
    power = float_from_bits(shift_left(bits_of(shifted), mantissa_bits(x)))
    rest = r + exp_tail(r)  # d = power + 1 + rest * power
    d = fma(rest, power, power + 1.0)
    y = quotient(full_like(x, 1.0), d)
    if _compensated(x):
        y = y - y * y * fma(rest, power, power + 1.0 - d)
    return y


@helper
def sigmoid(x: Any) -> Any:
    near = absolute(x) < _far(x)
    if all_lanes(near):
        return _sigmoid_near(x)
    return select(near, _sigmoid_near(x), _sigmoid_of_any(x))  # independent of the other lanes
