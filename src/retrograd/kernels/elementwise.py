"""Arithmetic, powers and roots of every element."""

from __future__ import annotations

import numpy as np

from .arrays import tasks
from .launch import kernel
from .maps import both_gradients, broadcast, map_one, map_one_number, map_three, map_two, map_two_numbers

__all__ = [
    "add",
    "addcdiv",
    "addcmul",
    "div",
    "div_grad",
    "hypot",
    "hypot_grad",
    "lerp",
    "lerp_number",
    "mul",
    "mul_grad",
    "neg",
    "pow",
    "power",
    "reciprocal",
    "reciprocal_grad",
    "rsqrt",
    "rsqrt_grad",
    "scale",
    "scaled_div",
    "scaled_mul",
    "sqrt",
    "sub",
    "zeros",
]

_ADD, _ADD_BROADCAST, _SUB = kernel("elementwise.add"), kernel("elementwise.add_broadcast"), kernel("elementwise.sub")
_SUB_BROADCAST, _MUL = kernel("elementwise.sub_broadcast"), kernel("elementwise.mul")
_MUL_BROADCAST, _DIV = kernel("elementwise.mul_broadcast"), kernel("elementwise.div")
_DIV_BROADCAST, _MUL_GRAD = kernel("elementwise.div_broadcast"), kernel("elementwise.mul_grad")
_DIV_GRAD, _SCALE, _POWER = kernel("elementwise.div_grad"), kernel("elementwise.scale"), kernel("elementwise.power")
_POW, _ZEROS, _SQRT = kernel("elementwise.pow"), kernel("elementwise.zeros"), kernel("elementwise.sqrt")
_RSQRT, _RSQRT_GRAD = kernel("elementwise.rsqrt"), kernel("elementwise.rsqrt_grad")
_RECIPROCAL, _RECIPROCAL_GRAD = kernel("elementwise.reciprocal"), kernel("elementwise.reciprocal_grad")
_SCALED_MUL, _SCALED_DIV = kernel("elementwise.scaled_mul"), kernel("elementwise.scaled_div")
_ADDCMUL, _ADDCDIV, _LERP = kernel("elementwise.addcmul"), kernel("elementwise.addcdiv"), kernel("elementwise.lerp")
_LERP_NUMBER, _HYPOT = kernel("elementwise.lerp_number"), kernel("elementwise.hypot")
_HYPOT_GRAD = kernel("elementwise.hypot_grad")


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


def mul_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y and gy = g x, those that are wanted, in the shape of g."""
    return both_gradients(_MUL_GRAD, g, x, y, want_x, want_y)


def div_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g / y and gy = -g x / y^2, those that are wanted, in the shape of g."""
    return both_gradients(_DIV_GRAD, g, x, y, want_x, want_y)


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
        return sqrt(x)
    if exponent == 3:
        return mul(mul(x, x), x)
    if exponent == -1:
        return reciprocal(x)
    return map_one_number(_POWER, x, exponent)


def pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x ** y"""
    return broadcast(None, _POW, x, y)


def zeros(x: np.ndarray) -> np.ndarray:
    """0 for every element."""
    y = np.empty_like(x)
    _ZEROS[y.dtype.char](tasks(y.size), y, y.size)
    return y


def sqrt(x: np.ndarray) -> np.ndarray:
    """The square root of x."""
    return map_one(_SQRT, x)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)"""
    return map_one(_RSQRT, x)


def rsqrt_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = -g y^3 / 2, with y = rsqrt(x)"""
    return map_two(_RSQRT_GRAD, g, y)


def reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / x"""
    return map_one(_RECIPROCAL, x)


def reciprocal_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = -g y^2, with y = 1 / x"""
    return map_two(_RECIPROCAL_GRAD, g, y)


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


def hypot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sqrt(x^2 + y^2)"""
    return broadcast(None, _HYPOT, x, y)


def hypot_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g x / hypot(x, y) and gy = g y / hypot(x, y), those that are wanted, in the shape of g."""
    return both_gradients(_HYPOT_GRAD, g, x, y, want_x, want_y)
