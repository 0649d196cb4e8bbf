# mypy: ignore-errors
"""x ** y of two registers, within 1 or 2 units in the last place.

exp(y log(x)), where log(x) and the product are sums of two numbers: the last digits of y log(x) become the leading
ones of the result. Infinities, NaN and denormals go through the C library; their neighbors in a register do not, so
that an element has the same bits in any company.
"""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper
from ..machine.simd import (
    absolute,
    all_lanes,
    bits_of,
    both,
    by_lane,
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
from .elementary_jit import (
    above,
    below,
    exp_tail,
    highest,
    ln2_high,
    ln2_low,
    lowest,
    mantissa_bits,
    number,
    root_half,
    round_bits,
    rounding,
    smallest_bits,
    usual_bits,
)
from .polynomial_jit import polynomial

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
