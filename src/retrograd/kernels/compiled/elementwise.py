"""Kernels of element-wise arithmetic, powers and roots."""

from __future__ import annotations

from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import absolute, ahead, full, full_like, lanes, select, store, store_first
from ..simd import sqrt as square_root
from . import powers
from .loops import one, one_and_number, pair, three, two, two_and_numbers, two_broadcast


@helper
def _add(x: Any, y: Any) -> Any:
    return x + y


@helper
def _sub(x: Any, y: Any) -> Any:
    return x - y


@helper
def _mul(x: Any, y: Any) -> Any:
    return x * y


@helper
def _div(x: Any, y: Any) -> Any:
    return x / y


@helper
def _mul_x(g: Any, x: Any, y: Any) -> Any:
    return g * y


@helper
def _mul_y(g: Any, x: Any, y: Any) -> Any:
    return g * x


@helper
def _div_x(g: Any, x: Any, y: Any) -> Any:
    return g / y


@helper
def _div_y(g: Any, x: Any, y: Any) -> Any:
    return -(g / y) * (x / y)


@helper
def _sqrt(x: Any) -> Any:
    return square_root(x)


@helper
def _rsqrt(x: Any) -> Any:
    return 1.0 / square_root(x)


@helper
def _rsqrt_grad(g: Any, y: Any) -> Any:
    return g * y * (y * y * -0.5)


@helper
def _reciprocal(x: Any) -> Any:
    return 1.0 / x


@helper
def _reciprocal_grad(g: Any, y: Any) -> Any:
    return -g * y * y


@helper
def _power(x: Any, exponent: float) -> Any:
    return powers.pow(x, full_like(x, exponent))


@helper
def _pow(x: Any, y: Any) -> Any:
    return powers.pow(x, y)


@helper
def _scaled_mul(x: Any, y: Any, p: float, q: float, r: float) -> Any:
    return x * y * p


@helper
def _scaled_div(x: Any, y: Any, p: float, q: float, r: float) -> Any:
    return x / y * p


@helper
def _addcmul(x: Any, y: Any, z: Any, p: float) -> Any:
    return x + y * z * p


@helper
def _addcdiv(x: Any, y: Any, z: Any, p: float) -> Any:
    return x + y / z * p


@helper
def _lerp(x: Any, y: Any, w: Any) -> Any:
    """From the nearer end, so that w = 0 and w = 1 give x and y themselves."""
    d = y - x
    return select(absolute(w) < 0.5, x + d * w, y - d * (1.0 - w))


@helper
def _lerp_numbers(x: Any, y: Any, p: float, q: float, r: float) -> Any:
    return _lerp(x, y, full_like(x, p))


@helper
def _lerp_three(x: Any, y: Any, z: Any, p: float) -> Any:
    return _lerp(x, y, z)


@helper
def _hypot(x: Any, y: Any) -> Any:
    """Scaled by the larger one, whose square might overflow; where one is infinite, so is the result."""
    a, b = absolute(x), absolute(y)
    larger, smaller = select(b > a, b, a), select(b > a, a, b)
    q = select(larger == 0.0, 0.0, smaller / larger)
    z = larger * square_root(q * q + 1.0)
    z = select(x == x, select(y == y, z, y), x)
    return select(larger == float("inf"), larger, select(smaller == float("inf"), smaller, z))


@helper
def _hypot_x(g: Any, x: Any, y: Any) -> Any:
    return g * (x / _hypot(x, y))


@helper
def _hypot_y(g: Any, x: Any, y: Any) -> Any:
    return g * (y / _hypot(x, y))


add, add_broadcast = two(_add), two_broadcast(_add)
sub, sub_broadcast = two(_sub), two_broadcast(_sub)
mul, mul_broadcast, mul_grad = two(_mul), two_broadcast(_mul), pair(_mul_x, _mul_y)
div, div_broadcast, div_grad = two(_div), two_broadcast(_div), pair(_div_x, _div_y)
scale, power, pow = one_and_number(_mul), one_and_number(_power), two_broadcast(_pow)
scaled_mul, scaled_div = two_and_numbers(_scaled_mul), two_and_numbers(_scaled_div)
sqrt, rsqrt, reciprocal = one(_sqrt), one(_rsqrt), one(_reciprocal)
rsqrt_grad, reciprocal_grad = two(_rsqrt_grad), two(_reciprocal_grad)
addcmul, addcdiv = three(_addcmul), three(_addcdiv)
lerp, lerp_number = three(_lerp_three), two_and_numbers(_lerp_numbers)
hypot, hypot_grad = two_broadcast(_hypot), pair(_hypot_x, _hypot_y)


def zeros(task: int, worker: int, y: Array, n: int) -> None:
    """y[i] = 0"""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    nothing = full(y, 0.0)
    while i + lanes(y) <= last:
        ahead(y, i)
        store(y, i, nothing)
        i += lanes(y)
    if i < last:
        store_first(y, i, nothing, last - i)
