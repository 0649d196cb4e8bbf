"""Primitives: the functions that formulas are made of, besides arithmetic and comparisons.

Each is defined here for NumPy arrays. Tensors and the registers of compiled kernels implement the same names, so that
one formula runs on all three.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Operand = Any  # an array, a Tensor or a register, or a comparison of two of them as a condition
Truth = Any  # a condition: an array of truth values, a Tensor of them or a mask
PRIMITIVES: dict[str, Callable[..., Any]] = {}


def primitive(on_arrays: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of arrays a primitive: an operand whose type has a ``__primitive__`` dispatches the call.

    A function made of other primitives needs no implementation on registers. On Tensors it is still an operator, so
    that its own gradient is used, not theirs.
    """
    name = on_arrays.__name__

    @wraps(on_arrays)
    def call(*operands: Operand) -> Any:
        for operand in operands:
            carrier = getattr(type(operand), "__primitive__", None)
            if carrier is not None:
                return carrier(name, operands)
        return on_arrays(*operands)

    call.kernel = name  # type: ignore[attr-defined]
    PRIMITIVES[name] = call
    return call


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Python's function of every element: NumPy has none."""
    x = np.asarray(x)
    return np.array([function(value) for value in x.ravel().tolist()], x.dtype).reshape(x.shape)


@primitive
def absolute(x: Operand) -> Any:
    """|x|"""
    return np.abs(x)


@primitive
def sqrt(x: Operand) -> Any:
    """The square root; NaN below 0."""
    return np.sqrt(x)


@primitive
def floor(x: Operand) -> Any:
    """The largest integer that is not above x."""
    return np.floor(x)


@primitive
def ceil(x: Operand) -> Any:
    """The least integer that is not below x."""
    return np.ceil(x)


@primitive
def trunc(x: Operand) -> Any:
    """x rounded towards 0"""
    return np.trunc(x)


@primitive
def nearest(x: Operand) -> Any:
    """The nearest integer; halves go to the even one."""
    return np.rint(x)


@primitive
def sign(x: Operand) -> Any:
    """1 where x > 0, -1 where x < 0, 0 elsewhere, also at NaN"""
    return np.asarray(x > 0, x.dtype) - np.asarray(x < 0, x.dtype)


@primitive
def where(condition: Truth, x: Operand, y: Operand) -> Any:
    """x where the condition holds, y elsewhere; one of them may be a number."""
    dtype = np.result_type(*[value.dtype for value in (x, y) if isinstance(value, np.ndarray | np.generic)])
    return np.where(condition, np.asarray(x, dtype), np.asarray(y, dtype))


@primitive
def full_like(x: Operand, number: float) -> Any:
    """The number in the shape of x."""
    return np.full_like(x, number)


@primitive
def exp(x: Operand) -> Any:
    """e**x"""
    return np.exp(x)


@primitive
def exp_negative(x: Operand) -> Any:
    """e**x for x <= 0, which is faster."""
    return np.exp(x)


@primitive
def exp2(x: Operand) -> Any:
    """2**x"""
    return np.exp2(x)


@primitive
def expm1(x: Operand) -> Any:
    """e**x - 1, accurate near 0"""
    return np.expm1(x)


@primitive
def log(x: Operand) -> Any:
    """The natural logarithm: -inf at 0, NaN below."""
    return np.log(x)


@primitive
def log2(x: Operand) -> Any:
    """The logarithm to the base 2."""
    return np.log2(x)


@primitive
def log10(x: Operand) -> Any:
    """The logarithm to the base 10."""
    return np.log10(x)


@primitive
def log1p(x: Operand) -> Any:
    """log(1 + x), accurate near 0"""
    return np.log1p(x)


@primitive
def sigmoid(x: Operand) -> Any:
    """1 / (1 + exp(-x)), which for negative x is exp(x) / (1 + exp(x))

    Each sign has the form whose exponential is at most 1 and cannot overflow.
    """
    e = np.exp(-np.abs(x))
    return np.where(np.asarray(x) >= 0, np.ones_like(e), e) / (1 + e)


@primitive
def tanh(x: Operand) -> Any:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))"""
    return np.tanh(x)


@primitive
def sin(x: Operand) -> Any:
    """The sine of x."""
    return np.sin(x)


@primitive
def cos(x: Operand) -> Any:
    """The cosine of x."""
    return np.cos(x)


@primitive
def tan(x: Operand) -> Any:
    """The tangent of x."""
    return np.tan(x)


@primitive
def asin(x: Operand) -> Any:
    """The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1 and 1."""
    return np.arcsin(x)


@primitive
def acos(x: Operand) -> Any:
    """The angle from 0 to pi whose cosine is x; NaN beyond -1 and 1."""
    return np.arccos(x)


@primitive
def atan(x: Operand) -> Any:
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return np.arctan(x)


@primitive
def sinh(x: Operand) -> Any:
    """(exp(x) - exp(-x)) / 2"""
    return np.sinh(x)


@primitive
def cosh(x: Operand) -> Any:
    """(exp(x) + exp(-x)) / 2"""
    return np.cosh(x)


@primitive
def asinh(x: Operand) -> Any:
    """log(x + sqrt(x**2 + 1))"""
    return np.arcsinh(x)


@primitive
def acosh(x: Operand) -> Any:
    """log(x + sqrt(x**2 - 1)); NaN below 1"""
    return np.arccosh(x)


@primitive
def atanh(x: Operand) -> Any:
    """log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1"""
    return np.arctanh(x)


@primitive
def erf(x: Operand) -> Any:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return _each(math.erf, x)


@primitive
def erfc(x: Operand) -> Any:
    """1 - erf(x), accurate for large x"""
    return _each(math.erfc, x)


@primitive
def normal_cdf(x: Operand) -> Any:
    """(1 + erf(x / sqrt(2))) / 2, the probability that a normal variable is at most x; accurate for small results"""
    return _each(lambda value: math.erfc(-value * math.sqrt(0.5)) / 2, x)


@primitive
def pow(x: Operand, y: Operand) -> Any:
    """x**y; NaN for a negative x and a y that is not an integer"""
    return np.power(x, y)


@primitive
def fmod(x: Operand, y: Operand) -> Any:
    """x - y trunc(x / y), exactly: the remainder with the sign of x"""
    return np.fmod(x, y)


@primitive
def hypot(x: Operand, y: Operand) -> Any:
    """sqrt(x**2 + y**2) without intermediate overflow"""
    return np.hypot(x, y)


@primitive
def atan2(x: Operand, y: Operand) -> Any:
    """The angle from -pi to pi of the point with abscissa y and ordinate x."""
    return np.arctan2(x, y)
