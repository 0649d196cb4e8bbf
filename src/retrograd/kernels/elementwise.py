"""Arithmetic, powers and roots of every element."""

from __future__ import annotations

import numpy as np

from .arrays import tasks
from .launch import kernel
from .maps import broadcast, map_one_number, map_three, map_two_numbers
from .pointwise import KERNELS

__all__ = [
    "add",
    "addcdiv",
    "addcmul",
    "div",
    "lerp",
    "lerp_number",
    "mul",
    "neg",
    "power",
    "scale",
    "scaled_div",
    "scaled_mul",
    "sub",
    "zeros",
]

_ADD, _ADD_BROADCAST = kernel("elementwise.add"), kernel("elementwise.add_broadcast")
_SUB, _SUB_BROADCAST = kernel("elementwise.sub"), kernel("elementwise.sub_broadcast")
_MUL, _MUL_BROADCAST = kernel("elementwise.mul"), kernel("elementwise.mul_broadcast")
_DIV, _DIV_BROADCAST = kernel("elementwise.div"), kernel("elementwise.div_broadcast")
_SCALE, _POWER, _ZEROS = kernel("elementwise.scale"), kernel("elementwise.power"), kernel("elementwise.zeros")
_SCALED_MUL, _SCALED_DIV = kernel("elementwise.scaled_mul"), kernel("elementwise.scaled_div")
_ADDCMUL, _ADDCDIV, _LERP = kernel("elementwise.addcmul"), kernel("elementwise.addcdiv"), kernel("elementwise.lerp")
_LERP_NUMBER = kernel("elementwise.lerp_number")
_SQRT, _RECIPROCAL = KERNELS["sqrt"], KERNELS["reciprocal"]


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y"""
    return broadcast(_ADD, _ADD_BROADCAST, x, y)


def sub(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y"""
    return broadcast(_SUB, _SUB_BROADCAST, x, y)


def mul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x y"""
    return broadcast(_MUL, _MUL_BROADCAST, x, y)


def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y"""
    return broadcast(_DIV, _DIV_BROADCAST, x, y)


def neg(x: np.ndarray) -> np.ndarray:
    """-x"""
    return scale(x, -1.0)


def scale(x: np.ndarray, factor: float) -> np.ndarray:
    """factor x"""
    return map_one_number(_SCALE, x, factor)


def power(x: np.ndarray, exponent: float) -> np.ndarray:
    """x ** exponent"""
    if exponent == 2:
        return mul(x, x)
    if exponent == 1:
        return x.copy(order="K")
    if exponent == 0.5:
        return _SQRT(x)
    if exponent == 3:
        return mul(mul(x, x), x)
    if exponent == -1:
        return _RECIPROCAL(x)
    return map_one_number(_POWER, x, exponent)


def zeros(x: np.ndarray) -> np.ndarray:
    """0 for every element."""
    y = np.empty_like(x)
    _ZEROS[y.dtype.char](tasks(y.size), y, y.size)
    return y


def scaled_mul(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """factor x y, of one shape"""
    return map_two_numbers(_SCALED_MUL, x, y, factor)


def scaled_div(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """factor x / y, of one shape"""
    return map_two_numbers(_SCALED_DIV, x, y, factor)


def addcmul(x: np.ndarray, y: np.ndarray, z: np.ndarray, value: float) -> np.ndarray:
    """x + value y z"""
    return map_three(_ADDCMUL, x, y, z, value)


def addcdiv(x: np.ndarray, y: np.ndarray, z: np.ndarray, value: float) -> np.ndarray:
    """x + value y / z"""
    return map_three(_ADDCDIV, x, y, z, value)


def lerp(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x + weight (y - x), from the nearer end"""
    return map_three(_LERP, x, y, weight)


def lerp_number(x: np.ndarray, y: np.ndarray, weight: float) -> np.ndarray:
    """As ``lerp`` of one shape, with one weight for all."""
    return map_two_numbers(_LERP_NUMBER, x, y, weight)


