"""Arithmetic, powers and roots of every element.

Two operands are broadcast by NumPy's rules. Where the gradient is simplest in terms of the result, it takes y and not
x. (NumPy makes a scalar of a result without axes: asarray keeps it an array.)
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

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


@ieee
def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y"""
    return np.asarray(x + y)


@ieee
def sub(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y"""
    return np.asarray(x - y)


@ieee
def mul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x y"""
    return np.asarray(x * y)


@ieee
def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y"""
    return np.asarray(x / y)


@ieee
def mul_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y and gy = g x, those that are wanted, in the shape of g."""
    gx = np.asarray(g * y, g.dtype) if want_x else None
    return gx, np.asarray(g * x, g.dtype) if want_y else None


@ieee
def div_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g / y and gy = -g x / y^2, those that are wanted, in the shape of g."""
    gx = np.asarray(g / y, g.dtype) if want_x else None
    return gx, np.asarray(-(g / y) * (x / y), g.dtype) if want_y else None


@ieee
def neg(x: np.ndarray) -> np.ndarray:
    """-x"""
    return np.asarray(-x)


@ieee
def scale(x: np.ndarray, factor: float) -> np.ndarray:
    """factor x"""
    return np.asarray(x * factor, x.dtype)


@ieee
def power(x: np.ndarray, exponent: float) -> np.ndarray:
    """x ** exponent"""
    return np.asarray(x**exponent, x.dtype)


@ieee
def pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x ** y"""
    return np.asarray(np.power(x, y))


@ieee
def zeros(x: np.ndarray) -> np.ndarray:
    """0 for every element."""
    return np.asarray(np.zeros_like(x))


@ieee
def sqrt(x: np.ndarray) -> np.ndarray:
    """The square root of x."""
    return np.asarray(np.sqrt(x))


@ieee
def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)"""
    return np.asarray(1 / np.sqrt(x), x.dtype)


@ieee
def rsqrt_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = -g y^3 / 2, with y = rsqrt(x)"""
    return np.asarray(g * y * y * y * -0.5, g.dtype)


@ieee
def reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / x"""
    return np.asarray(1 / x)


@ieee
def reciprocal_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = -g y^2, with y = 1 / x"""
    return np.asarray(-g * y * y)


@ieee
def scaled_mul(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """factor x y, of one shape"""
    return np.asarray(x * y * factor, x.dtype)


@ieee
def scaled_div(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """factor x / y, of one shape"""
    return np.asarray(x / y * factor, x.dtype)


@ieee
def addcmul(x: np.ndarray, y: np.ndarray, z: np.ndarray, value: float) -> np.ndarray:
    """x + value y z"""
    return np.asarray(x + y * z * value, x.dtype)


@ieee
def addcdiv(x: np.ndarray, y: np.ndarray, z: np.ndarray, value: float) -> np.ndarray:
    """x + value y / z"""
    return np.asarray(x + y / z * value, x.dtype)


@ieee
def lerp(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x + weight (y - x), from the nearer end"""
    return np.asarray(np.where(np.abs(weight) < 0.5, x + weight * (y - x), y - (y - x) * (1 - weight)), x.dtype)


@ieee
def lerp_number(x: np.ndarray, y: np.ndarray, weight: float) -> np.ndarray:
    """As ``lerp`` of one shape, with one weight for all."""
    return np.asarray(lerp(x, y, np.array(weight, x.dtype)), x.dtype)


@ieee
def hypot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sqrt(x^2 + y^2)"""
    return np.asarray(np.hypot(x, y))


@ieee
def hypot_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g x / hypot(x, y) and gy = g y / hypot(x, y), those that are wanted, in the shape of g."""
    gx = np.asarray(g * (x / np.hypot(x, y)), g.dtype) if want_x else None
    return gx, np.asarray(g * (y / np.hypot(x, y)), g.dtype) if want_y else None
