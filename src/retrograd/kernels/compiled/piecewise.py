"""Kernels of what has corners or steps: absolute value, rounding, extrema, remainders, comparisons, choice."""

from __future__ import annotations

from typing import Any

from ..compiler import helper
from ..simd import absolute, all_lanes, both, by_lane, copy_sign, either, fma, full_like, nearest, select, truncate
from ..simd import ceil as upwards
from ..simd import floor as downwards
from .loops import (
    choose,
    one,
    one_and_numbers,
    one_to_truth,
    pair,
    three,
    two,
    two_and_numbers,
    two_broadcast,
    two_to_truth,
)
from .math import number

where = choose


@helper
def _abs(x: Any) -> Any:
    return absolute(x)


@helper
def _abs_grad(g: Any, x: Any) -> Any:
    return select(x > 0.0, g, select(x < 0.0, -g, g * 0.0))  # NaN in g stays


@helper
def _sign(x: Any) -> Any:
    return select(x > 0.0, 1.0, select(x < 0.0, full_like(x, -1.0), 0.0))


@helper
def _ceil(x: Any) -> Any:
    return upwards(x)


@helper
def _floor(x: Any) -> Any:
    return downwards(x)


@helper
def _round(x: Any) -> Any:
    return nearest(x)


@helper
def _trunc(x: Any) -> Any:
    return truncate(x)


@helper
def _frac(x: Any) -> Any:
    return x - truncate(x)


@helper
def _clamp(x: Any, p: float, q: float, r: float) -> Any:
    y = select(x < p, p, x)
    return select(y > q, q, y)


@helper
def _within_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return select(both(x >= p, x <= q), g * r, 0.0)


@helper
def _outside_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return select(both(x >= p, x <= q), 0.0, g)


@helper
def _hardtanh_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return select(either(x <= p, x >= q), 0.0, g)


@helper
def _maximum(x: Any, y: Any) -> Any:
    return select(x != x, x, select(x > y, x, y))


@helper
def _minimum(x: Any, y: Any) -> Any:
    return select(x != x, x, select(x < y, x, y))


@helper
def _fmax(x: Any, y: Any) -> Any:
    return select(either(x >= y, y != y), x, y)


@helper
def _fmin(x: Any, y: Any) -> Any:
    return select(either(x <= y, y != y), x, y)


@helper
def _maximum_x(g: Any, x: Any, y: Any) -> Any:
    return select(x < y, 0.0, select(x == y, g * 0.5, g))


@helper
def _maximum_y(g: Any, x: Any, y: Any) -> Any:
    return select(x > y, 0.0, select(x == y, g * 0.5, g))


@helper
def _fmax_x(g: Any, x: Any, y: Any) -> Any:
    return select(either(x >= y, y != y), g, 0.0)


@helper
def _fmax_y(g: Any, x: Any, y: Any) -> Any:
    return select(either(x >= y, y != y), 0.0, g)


@helper
def _fmin_x(g: Any, x: Any, y: Any) -> Any:
    return select(either(x <= y, y != y), g, 0.0)


@helper
def _fmin_y(g: Any, x: Any, y: Any) -> Any:
    return select(either(x <= y, y != y), 0.0, g)


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


@helper
def _nan_to_num(x: Any, p: float, q: float, r: float) -> Any:
    y = select(x == float("inf"), q, select(x == float("-inf"), r, x))
    return select(x == x, y, p)


abs, abs_grad, sign = one(_abs), two(_abs_grad), one(_sign)
ceil, floor, round, trunc, frac = one(_ceil), one(_floor), one(_round), one(_trunc), one(_frac)
clamp, within_grad = one_and_numbers(_clamp), two_and_numbers(_within_grad)
outside_grad, hardtanh_grad = two_and_numbers(_outside_grad), two_and_numbers(_hardtanh_grad)
nan_to_num = one_and_numbers(_nan_to_num)
maximum, minimum = two(_maximum), two(_minimum)
maximum_broadcast, minimum_broadcast = two_broadcast(_maximum), two_broadcast(_minimum)
fmax, fmin = two_broadcast(_fmax), two_broadcast(_fmin)
maximum_grad, fmax_grad, fmin_grad = pair(_maximum_x, _maximum_y), pair(_fmax_x, _fmax_y), pair(_fmin_x, _fmin_y)
fmod, remainder, floor_divide = two_broadcast(_fmod), two_broadcast(_remainder), two_broadcast(_floor_divide)
fmod_grad, remainder_grad = three(_fmod_y), three(_remainder_y)
lt, le, eq, ne = two_to_truth(_lt), two_to_truth(_le), two_to_truth(_eq), two_to_truth(_ne)
isnan, isinf, isfinite = one_to_truth(_isnan), one_to_truth(_isinf), one_to_truth(_isfinite)
