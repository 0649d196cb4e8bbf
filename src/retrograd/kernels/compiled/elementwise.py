"""Kernels of element-wise arithmetic."""

from __future__ import annotations

from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import absolute, ahead, full, full_like, lanes, select, store, store_first
from . import powers
from .loops import one_and_number, three, two, two_and_numbers, two_broadcast


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
def _power(x: Any, exponent: float) -> Any:
    return powers.pow(x, full_like(x, exponent))


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


add, add_broadcast = two(_add), two_broadcast(_add)
sub, sub_broadcast = two(_sub), two_broadcast(_sub)
mul, mul_broadcast = two(_mul), two_broadcast(_mul)
div, div_broadcast = two(_div), two_broadcast(_div)
scale, power = one_and_number(_mul), one_and_number(_power)
scaled_mul, scaled_div = two_and_numbers(_scaled_mul), two_and_numbers(_scaled_div)
addcmul, addcdiv = three(_addcmul), three(_addcdiv)
lerp, lerp_number = three(_lerp_three), two_and_numbers(_lerp_numbers)


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
