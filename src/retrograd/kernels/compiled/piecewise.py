"""Kernels of remainders, comparisons and choice."""

from __future__ import annotations

from typing import Any

from ..compiler import helper
from ..simd import absolute, all_lanes, by_lane, copy_sign, fma, nearest, select, truncate
from .loops import choose, one_to_truth, three, two_broadcast, two_to_truth
from .math import number

where = choose


# ------------------------------------------------------------------------------------------------- remainders
# x - q y is exact for the integer q towards 0 of x / y, and for its neighbour, which rounding may have given instead

_many = number(2.0**23, 2.0**52)
_any_fmod = by_lane("fmod")


@helper
def _fmod(x: Any, y: Any) -> Any:
    quotient = x / y
    if not all_lanes(absolute(quotient) < _many(x)):
        return _any_fmod(x, y)
    r = fma(-truncate(quotient), y, x)
    wrong = select(x < 0.0, -r, r) < 0.0
    r = select(wrong, r + select(x < 0.0, -absolute(y), absolute(y)), r)
    return copy_sign(select(absolute(y) == float("inf"), x, r), x)


@helper
def _remainder(x: Any, y: Any) -> Any:
    r = _fmod(x, y)
    return select(select(y < 0.0, -r, r) < 0.0, r + y, r)


@helper
def _floor_divide(x: Any, y: Any) -> Any:
    """The integer (x - fmod) / y, rounded, and one less where ``remainder`` is one y more than fmod."""
    quotient = x / y
    r = _fmod(x, y)
    z = nearest((x - r) / y)
    z = select(select(y < 0.0, -r, r) < 0.0, z - 1.0, z)
    z = select(z == 0.0, copy_sign(z, quotient), z)
    return select(y == 0.0, quotient, z)


@helper
def _fmod_y(g: Any, x: Any, y: Any, p: float) -> Any:
    return -g * truncate(x / y)


@helper
def _remainder_y(g: Any, x: Any, y: Any, p: float) -> Any:
    return -g * _floor_divide(x, y)


# -------------------------------------------------------------------------------------------------- true or false


@helper
def _lt(x: Any, y: Any) -> Any:
    return x < y


@helper
def _le(x: Any, y: Any) -> Any:
    return x <= y


@helper
def _eq(x: Any, y: Any) -> Any:
    return x == y


@helper
def _ne(x: Any, y: Any) -> Any:
    return x != y


@helper
def _isnan(x: Any) -> Any:
    return x != x


@helper
def _isinf(x: Any) -> Any:
    return absolute(x) == float("inf")


@helper
def _isfinite(x: Any) -> Any:
    return absolute(x) < float("inf")


fmod, remainder, floor_divide = two_broadcast(_fmod), two_broadcast(_remainder), two_broadcast(_floor_divide)
fmod_grad, remainder_grad = three(_fmod_y), three(_remainder_y)
lt, le, eq, ne = two_to_truth(_lt), two_to_truth(_le), two_to_truth(_eq), two_to_truth(_ne)
isnan, isinf, isfinite = one_to_truth(_isnan), one_to_truth(_isinf), one_to_truth(_isfinite)
