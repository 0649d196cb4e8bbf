# mypy: ignore-errors
"""sin, cos, tan and their inverses of a register, within 3 units in the last place.

The polynomials are minimax fits (Remez). Arguments of sin, cos and tan beyond ``_moderate`` go through the C library.
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
    copy_sign,
    fma,
    full_like,
    select,
    shift_left,
    sqrt,
)
from .elementary_jit import integer, number, polynomial, rounding

# ------------------------------------------------------------------------------------------------------ sin, cos, tan
# x = n pi/2 + r with |r| barely above pi/4. pi/2 is the sum of three numbers; x - n times the first is exact, so that
# r keeps all its digits near a multiple of pi/2. The low bits of ``shifted`` are n: the quadrant.

_moderate = number(2.0**17, 2.0**30)
_half_pi = number(1.5707963705062866, 1.5707963267948966)
_half_pi_low = number(-4.371138828673793e-08, 6.123233995736766e-17)
# rounded down, so that each is positive: 0 times any of them, subtracted from -0, leaves -0
_turn = number(1.570796251296997, 1.5707963267948966)
_turn_low = number(7.549789415861596e-08, 6.123233995736765e-17)
_turn_rest = number(5.390302953474238e-15, 1.082856673921914e-32)
_top = integer(31, 63)  # the sign bit

_sin_tail = polynomial(
    (-0.166666512, 0.008331949453, -0.0001948724235),
    (
        -0.166666666666666075,
        0.00833333333331635081,
        -0.000198412698249962283,
        2.75573120410424094e-6,
        -2.50505029639258527e-8,
        1.58822187856305121e-10,
    ),
)
_cos_tail = polynomial(
    (0.04166663965, -0.001388702908, 2.44010878e-5),
    (
        0.0416666666666665446,
        -0.00138888888888648054,
        0.0000248015872837838908,
        -2.75573127411430215e-7,
        2.08755089930660279e-9,
        -1.13487954591563276e-11,
    ),
)


@helper
def _shifted(x: Any) -> Any:
    return x * 0.6366197723675814 + rounding(x)


@helper
def _remainder(x: Any, n: Any) -> Any:
    r = fma(n, -_turn(x), x)
    r = fma(n, -_turn_low(x), r)
    return fma(n, -_turn_rest(x), r)


@helper
def _small_sin(r: Any, s: Any) -> Any:
    return copy_sign(fma(r * s, _sin_tail(s), r), r)


@helper
def _small_cos(s: Any) -> Any:
    return fma(s * s, _cos_tail(s), 1.0 - s * 0.5)


@helper
def _sine(x: Any, quarter: int) -> Any:
    """sin(x + quarter pi/2)"""
    shifted = _shifted(x)
    r = _remainder(x, shifted - rounding(x))
    s = r * r
    quadrant = bits_of(shifted) + quarter
    y = select(shift_left(quadrant, _top(x)) < 0, _small_cos(s), _small_sin(r, s))
    return select(shift_left(quadrant, _top(x) - 1) < 0, -y, y)


_any_sin, _any_cos, _any_tan = by_lane("sin"), by_lane("cos"), by_lane("tan")


@helper
def sin(x: Any) -> Any:
    usual, y = absolute(x) < _moderate(x), _sine(x, 0)
    return y if all_lanes(usual) else select(usual, y, _any_sin(x))


@helper
def cos(x: Any) -> Any:
    usual, y = absolute(x) < _moderate(x), _sine(x, 1)
    return y if all_lanes(usual) else select(usual, y, _any_cos(x))


@helper
def tan(x: Any) -> Any:
    usual = absolute(x) < _moderate(x)
    shifted = _shifted(x)
    r = _remainder(x, shifted - rounding(x))
    s = r * r
    a, b = _small_sin(r, s), _small_cos(s)
    odd = shift_left(bits_of(shifted), _top(x)) < 0
    y = select(odd, -b, a) / select(odd, a, b)
    return y if all_lanes(usual) else select(usual, y, _any_tan(x))


# ---------------------------------------------------------------------------------------------------------- asin, acos
# asin(x) = x + x^3 P(x^2) up to 1/2, then pi/2 - 2 asin(sqrt((1 - x) / 2))

_asin_tail = polynomial(
    (0.1666675393, 0.07495241773, 0.04547709813, 0.02414760486, 0.04221856101),
    (
        0.166666666666667624, 0.0749999999997026059, 0.0446428571751220609, 0.0303819426835622445,
        0.0223722156617576128, 0.017351600066565868, 0.0139809617506970728, 0.0113977735340291622,
        0.0107865429513084876, 0.00368298871714441562, 0.0217636307262801149, -0.0210774810107228305,
        0.0326770091673401812,
    ),
)  # fmt: skip


@helper
def _asin_part(a: Any) -> Any:
    """asin(a) up to 1/2, above it asin(sqrt((1 - a) / 2))"""
    z = select(a > 0.5, 0.5 - a * 0.5, a * a)
    s = select(a > 0.5, sqrt(z), a)
    return fma(s * z, _asin_tail(z), s)


@helper
def asin(x: Any) -> Any:
    a = absolute(x)
    t = _asin_part(a)
    return copy_sign(select(a > 0.5, _half_pi(x) - (t * 2.0 - _half_pi_low(x)), t), x)


@helper
def acos(x: Any) -> Any:
    a = absolute(x)
    t = _asin_part(a)
    near = _half_pi(x) - (copy_sign(t, x) - _half_pi_low(x))
    far = select(x < 0.0, _half_pi(x) * 2.0 - (t * 2.0 - _half_pi_low(x) * 2.0), t * 2.0)
    return select(a > 0.5, far, near)


# --------------------------------------------------------------------------------------------------------- atan, atan2
# atan(a) = atan(q) + pi/4 or pi/2, with |q| <= tan(pi/8)

_atan_tail = polynomial(
    (-0.333333155, 0.1999848922, -0.1424384431, 0.1059596683, -0.06083360412),
    (
        -0.333333333333331991, 0.199999999999540691, -0.142857142802470596, 0.111111107860591402,
        -0.0909089783402378784, 0.0769206159135280648, -0.0666311983664522254, 0.0584800475586178779,
        -0.0503982603509057651, 0.0380778092090412589, -0.0179217018979547839,
    ),
)  # fmt: skip


@helper
def atan(x: Any) -> Any:
    a = absolute(x)
    far, middle = a > 2.414213562373095, a > 0.41421356237309503
    q = select(far, -1.0, select(middle, a - 1.0, a)) / select(far, a, select(middle, a + 1.0, 1.0))
    s = q * q
    turn = select(far, 1.0, select(middle, full_like(x, 0.5), 0.0))
    t = fma(q * s, _atan_tail(s), fma(turn, _half_pi_low(x), q))
    return copy_sign(fma(turn, _half_pi(x), t), x)


@helper
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), signs of zeros included."""
    a, b = absolute(x), absolute(y)
    steep = b > a
    larger, smaller = select(steep, b, a), select(steep, a, b)
    q = smaller / larger
    q = select(smaller == larger, 1.0, q)  # also inf / inf
    q = select(larger == 0.0, 0.0, q)
    q = select(both(x == x, y == y), q, x + y)
    middle = q > 0.41421356237309503
    p = select(middle, (q - 1.0) / (q + 1.0), q)
    s = p * p
    eighth = select(middle, full_like(x, 0.5), 0.0)
    t = fma(p * s, _atan_tail(s), fma(eighth, _half_pi_low(x), p))
    t = fma(eighth, _half_pi(x), t)
    t = select(steep, _half_pi(x) - (t - _half_pi_low(x)), t)
    left = bits_of(x) < 0
    t = select(left, _half_pi(x) * 2.0 - (t - _half_pi_low(x) * 2.0), t)
    return copy_sign(t, y)
