"""Primitives: the functions that formulas are made of, besides arithmetic and comparisons.

Each is defined here for NumPy arrays. Tensors and the registers of compiled kernels implement the same names, so that
one formula runs on all three.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

Operand = Any  # an array, a Tensor or a register, or a comparison of two of them as a condition
Truth = Any  # a condition: a boolean array, a boolean Tensor or a mask
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
            dispatch = getattr(type(operand), "__primitive__", None)
            if dispatch is not None:
                return dispatch(name, operands)
        return on_arrays(*operands)

    call.kernel = name  # type: ignore[attr-defined]
    PRIMITIVES[name] = call
    return call


def _of_numpy(name: str, function: np.ufunc, doc: str) -> Callable[..., Any]:
    """Return a primitive that is a NumPy function of this name on arrays."""

    def of_one(x: Operand) -> Any:
        return function(x)

    def of_two(x: Operand, y: Operand) -> Any:
        return function(x, y)

    on_arrays: Callable[..., Any] = of_one if function.nin == 1 else of_two
    on_arrays.__name__, on_arrays.__qualname__, on_arrays.__doc__ = name, name, doc
    return primitive(on_arrays)


absolute: Final = _of_numpy("absolute", np.abs, "|x|")
sqrt: Final = _of_numpy("sqrt", np.sqrt, "The square root; NaN below 0.")
floor: Final = _of_numpy("floor", np.floor, "The largest integer that is not above x.")
ceil: Final = _of_numpy("ceil", np.ceil, "The smallest integer that is not below x.")
trunc: Final = _of_numpy("trunc", np.trunc, "x rounded towards 0.")
nearest: Final = _of_numpy("nearest", np.rint, "x rounded to the nearest integer, halves to even.")
exp: Final = _of_numpy("exp", np.exp, "e**x")
exp_negative: Final = _of_numpy("exp_negative", np.exp, "e**x for x <= 0, faster than ``exp``.")
exp2: Final = _of_numpy("exp2", np.exp2, "2**x")
expm1: Final = _of_numpy("expm1", np.expm1, "e**x - 1, accurate near 0")
log: Final = _of_numpy("log", np.log, "The natural logarithm: -inf at 0, NaN below.")
log2: Final = _of_numpy("log2", np.log2, "The logarithm to the base 2.")
log10: Final = _of_numpy("log10", np.log10, "The logarithm to the base 10.")
log1p: Final = _of_numpy("log1p", np.log1p, "log(1 + x), accurate near 0")
tanh: Final = _of_numpy("tanh", np.tanh, "(exp(x) - exp(-x)) / (exp(x) + exp(-x))")
sin: Final = _of_numpy("sin", np.sin, "The sine of x.")
cos: Final = _of_numpy("cos", np.cos, "The cosine of x.")
tan: Final = _of_numpy("tan", np.tan, "The tangent of x.")
asin: Final = _of_numpy("asin", np.arcsin, "The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1 and 1.")
acos: Final = _of_numpy("acos", np.arccos, "The angle from 0 to pi whose cosine is x; NaN beyond -1 and 1.")
atan: Final = _of_numpy("atan", np.arctan, "The angle from -pi/2 to pi/2 whose tangent is x.")
sinh: Final = _of_numpy("sinh", np.sinh, "(exp(x) - exp(-x)) / 2")
cosh: Final = _of_numpy("cosh", np.cosh, "(exp(x) + exp(-x)) / 2")
asinh: Final = _of_numpy("asinh", np.arcsinh, "log(x + sqrt(x**2 + 1))")
acosh: Final = _of_numpy("acosh", np.arccosh, "log(x + sqrt(x**2 - 1)); NaN below 1")
atanh: Final = _of_numpy("atanh", np.arctanh, "log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1")
pow: Final = _of_numpy("pow", np.power, "x**y; NaN for a negative x and a y that is not an integer")
fmod: Final = _of_numpy("fmod", np.fmod, "x - y trunc(x / y), exactly: the remainder with the sign of x")
hypot: Final = _of_numpy("hypot", np.hypot, "sqrt(x**2 + y**2), without overflow between")
atan2: Final = _of_numpy("atan2", np.arctan2, "The angle from -pi to pi of the point with abscissa y and ordinate x.")


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Apply a function of a Python float to every element; for functions that NumPy lacks."""
    return array_like([function(value) for value in np.ravel(x).tolist()], x.dtype, x).reshape(x.shape)


def array_like(values: Any, dtype: Any, *operands: Any) -> Any:
    """Return values as an array of the library of the first operand that is an array; else as a NumPy array."""
    like = next((each for each in operands if hasattr(each, "__array_function__")), None)
    return np.asarray(values, dtype) if like is None else np.asarray(values, dtype, like=like)


@primitive
def sign(x: Operand) -> Any:
    """1 where x > 0, -1 where x < 0, 0 elsewhere, also at NaN"""
    return array_like(x > 0, x.dtype, x) - array_like(x < 0, x.dtype, x)


@primitive
def where(condition: Truth, x: Operand, y: Operand) -> Any:
    """x where the condition holds, y elsewhere; one of them may be a number."""
    dtype = np.result_type(*[value.dtype for value in (x, y) if hasattr(value, "dtype")])
    return np.where(condition, array_like(x, dtype, x, y, condition), array_like(y, dtype, y, x, condition))


@primitive
def full_like(x: Operand, number: float) -> Any:
    """An array of x's shape, filled with the number"""
    return np.full_like(x, number)


@primitive
def sigmoid(x: Operand) -> Any:
    """1 / (1 + exp(-x)), which for negative x is exp(x) / (1 + exp(x))

    Each sign has the form whose exponential is at most 1 and cannot overflow.
    """
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, np.ones_like(e), e) / (1 + e)


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
