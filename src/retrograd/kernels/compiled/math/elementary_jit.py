# mypy: ignore-errors
"""Vectorized exp, log, tanh, sigmoid, erf, and erfc.

Infinities, NaN, zeros and denormals, also as results, are as in NumPy. The polynomials are minimax fits (Remez), for
log in float64 fdlibm's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
    declare,
    float_from_bits,
    fma,
    full_like,
    quotient,
    select,
    shift_left,
    shift_right,
    suffix,
    within,
)

# ---- Polynomials of a register, with coefficients for each element type ---------------------------------------------


def polynomial(single: tuple[float, ...], double: tuple[float, ...]) -> Any:
    """A function: ``function(x)`` is ``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule, each step rounded once."""

    @intrinsic
    def evaluate(typing: Any, x: Any) -> Any:
        coefficients = single if x.dtype == types.float32 else double

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = args[0].type
            fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
            constants = [ir.Constant(vector, [ir.Constant(vector.element, c)] * vector.count) for c in coefficients]
            y = constants[-1]
            for constant in reversed(constants[:-1]):
                y = builder.call(fma, [y, args[0], constant])
            return y

        return x(x), generate

    return evaluate


# ---- exp, the logarithms, tanh and sigmoid of a register ------------------------------------------------------------
# Within 2 units in the last place (tanh 2.01 without FMA).


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


mantissa_bits: Final = integer(23, 52)
# adding this number (1.5 * 2^mantissa) rounds to an integer, which is left in the low bits
rounding: Final = number(1.5 * 2**23, 1.5 * 2**52)
round_bits: Final = integer(0x4B400000, 0x4338000000000000)

# ------------------------------------------------------------------------------------------------------------ exp
# x = n ln2 + r with |r| <= ln2 / 2;  exp(x) = 2^n exp(r).  ln2 is the sum of two numbers, the first so short that n
# times it is exact. The rounding constant contains the exponent bias: the low bits, shifted, are the number 2^n. They
# are 2^(n + 64) for negative x and 2^(n - 64) otherwise, with a second factor for the rest: so 2^n is in range, and a
# denormal result is rounded once. Where the result is 0, another number is used, because underflow is slow.

lowest: Final = number(-104.0, -746.0)  # its exponential rounds to 0
highest: Final = number(89.0, 710.0)  # its exponential overflows
usual: Final = number(87.0, 708.0)  # up to here, with either sign, the exponential and 2^n are normal numbers
ln2_high: Final = number(0.693145751953125, 6.93147180369123816490e-01)
ln2_low: Final = number(1.42860682030941723212e-6, 1.90821492927058770002e-10)
biased: Final = number(1.5 * 2**23 + 127, 1.5 * 2**52 + 1023)
above: Final = number(1.5 * 2**23 + 127 + 64, 1.5 * 2**52 + 1023 + 64)
below: Final = number(1.5 * 2**23 + 127 - 64, 1.5 * 2**52 + 1023 - 64)


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
exp_tail: Final = by_type(_exp_tail32, _exp_tail64)


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
    shifted = x * 1.4426950408889634 + biased(x)  # the same bits as ``exp_of_any``, with one factor
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

smallest: Final = number(2.0**-126, 2.0**-1022)  # normal number
smallest_bits: Final = integer(0x00800000, 0x0010000000000000)
usual_bits: Final = integer(
    0x7F800000 - 0x00800000, 0x7FF0000000000000 - 0x0010000000000000
)  # bit patterns up to infinity
_scale = number(2.0**25, 2.0**54)  # makes a denormal number a normal one
_round_scaled = number(1.5 * 2**23 + 25, 1.5 * 2**52 + 54)
root_half: Final = integer(0x3F3504F3, 0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
log_high: Final = number(6.9313812256e-01, 6.93147180369123816490e-01)
log_low: Final = number(9.0580006145e-06, 1.90821492927058770002e-10)


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


log: Final = _logarithm(log_high, log_low)
log2: Final = _logarithm(
    number(1.0, 1.0),
    number(0.0, 0.0),
    number(1.4426950216293335, 1.4426950408889634),
    number(1.925963033500011e-08, 2.0355273740931033e-17),
)
log10: Final = _logarithm(
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


# ---- erf, erfc and the normal distribution of a register ------------------------------------------------------------
# erf and erfc are within 4 units in the last place.
#
# erfc(a) = exp(-a^2) F(t) / (1 + 2 a), with F a polynomial of t = (a - c) / (a + c).
# Source: M. Shepherd and J. Laframboise, "Chebyshev Approximation of (1 + 2x)exp(x^2)erfc x in 0 <= x < inf", 1981.


# erf(x) / x - 1 in terms of x^2, up to 1
_near = polynomial(
    (0.1283791657, -0.3761262582, 0.1128358515, -0.02685381208, 0.005188327955, -0.0008010195956, 7.853868897e-5),
    (
        0.128379167095512566, -0.376126389031835195, 0.112837916709441847, -0.026866170643111471,
        0.00522397760611858198, -0.000854832592932214787, 0.000120552935771806942, -0.0000149247123081085722,
        1.64471316532949896e-6, -1.62063144272966457e-7, 1.37109834314744991e-8, -7.77947436260785824e-10,
    ),
)  # fmt: skip
# log(erfc(a)) in terms of a - 2 or a - 3, from 1 on
_far_of_erfc = polynomial(
    (-5.364941054, -4.418159358, -0.9237530702, -0.01648727084, 0.00354368374, -0.000712723823, 0.0001855719946),
    (
        -10.7203630419811308, -6.30375368900393521, -0.957394218804049642, -0.00741189178829880834,
        0.00135331049467533205, -0.000245692056484541241, 0.0000430816790444569023, -7.1158717310463979e-6,
        1.06909492347691692e-6, -1.3588631594830756e-7, 1.20759559259578859e-8, 9.18474718648578501e-10,
        -7.83907446419078262e-10, -6.31481964833685605e-11, -1.33009057379461397e-10, 2.74720672176935447e-11,
        2.44457400055486793e-11, 8.59152920986052516e-12, 1.03905921774878649e-12,
    ),
)  # fmt: skip
_middle = number(2.0, 3.0)
_one_from = number(4.0, 6.0)  # erf rounds to 1
_scaled = polynomial(
    (
        1.276978393, -0.09276398024, -0.1660314252, 0.1640553378, -0.05420417796, -0.00805980491, 0.00863095378,
        0.00131306577, -0.001228853071, -0.0003997111214,
    ),
    (
        1.23299511862555251, -0.139621116840562845, 0.0153796521026202741, 0.0680970542547321863,
        -0.101039066036330044, 0.0937328349969552086, -0.0663303658119125366, 0.0371675155601595635,
        -0.0161977340560236064, 0.00503196977444969719, -0.000757773353394775358, -0.000199255595172837678,
        0.000150622258981003742, -0.0000244029168745696167, -0.000011224744558386102, 5.71745117492611948e-6,
        3.01156187290627241e-7, -8.34743483306340519e-7, 6.29890272929025114e-8, 1.15171731985838425e-7,
        -7.88053349945367313e-9, -1.36623087506494711e-8, -1.79881425050827266e-9,
    ),
)  # fmt: skip
_center = number(2.0, 4.0)
_nothing_from = number(10.2, 27.3)  # erfc rounds to 0


@helper
def erf(x: Any) -> Any:
    """x + x P(x^2) up to 1, then 1 - exp(log(erfc(x)))"""
    a = absolute(x)
    s = select(a < 1.0, a * a, 1.0)
    b = select(a > _one_from(x), _one_from(x), select(a < 1.0, 1.0, a))
    far = 1.0 - exp_negative(_far_of_erfc(b - _middle(x)))
    return copy_sign(select(a < 1.0, fma(a, _near(s), a), far), x)


@helper
def erfc(x: Any) -> Any:
    a = absolute(x)
    small = a < 0.5
    z = select(small, x, 0.0)
    a = select(a > _nothing_from(x), _nothing_from(x), a)
    t = (a - _center(x)) / (a + _center(x))
    s = a * a
    lost = fma(a, a, -s)
    e = exp_negative(-s)
    y = fma(e, -lost, e) * (_scaled(t) / (a * 2.0 + 1.0))
    return select(small, 1.0 - fma(z, _near(z * z), z), select(x < 0.0, 2.0 - y, y))


# log(1 - normal(a)) in terms of a, up to 5.66, where 1 - normal(a) is 2^-27
_log_tail = polynomial(
    (
        -0.6931471739, -0.7978850393, -0.3183045087, -0.03635775349, 0.004825321596, -6.433065302e-06, -0.0001916436274,
        5.260681273e-05, -7.575757546e-06, 5.964282778e-07, -2.016384261e-08,
    ),
    (0.0,),
)  # fmt: skip


def _normal32(x: Any) -> Any:
    a = absolute(x)
    far = a > 5.66
    tail = select(far, 0.0, exp_negative(_log_tail(select(far, 5.66, a))))
    return select(x < 0.0, tail, 1.0 - tail)


def _normal64(x: Any) -> Any:
    return erf(x * 0.7071067811865476) * 0.5 + 0.5


# (1 + erf(x / sqrt(2))) / 2, the cumulative normal distribution; within 2^-24 in float32
normal: Final = by_type(_normal32, _normal64)
