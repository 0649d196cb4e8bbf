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
def zeros(x: np.ndarray) -> np.ndarray:
    """0 for every element."""
    return np.asarray(np.zeros_like(x))


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


