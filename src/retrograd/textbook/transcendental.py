"""Exponentials, logarithms, trigonometric and hyperbolic functions, erf, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .ieee import ieee

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atan2_grad",
    "atanh",
    "cos",
    "cos_grad",
    "cosh",
    "cosh_grad",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "expm1_grad",
    "gaussian",
    "log",
    "log10",
    "log1p",
    "log1p_grad",
    "log2",
    "logaddexp",
    "logaddexp_grad",
    "logit",
    "logit_grad",
    "over_quadratic",
    "over_root",
    "pow_grad",
    "sigmoid",
    "sigmoid_grad",
    "sin",
    "sin_grad",
    "sinh",
    "sinh_grad",
    "tan",
    "tan_grad",
    "tanh",
    "tanh_grad",
    "xlogy",
    "xlogy_grad",
]


@ieee
def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Python's function of every element: NumPy has none."""
    return np.array([function(value) for value in x.ravel().tolist()]).reshape(x.shape)


@ieee
def exp(x: np.ndarray) -> np.ndarray:
    """e ** x"""
    return np.asarray(np.exp(x))


@ieee
def exp2(x: np.ndarray) -> np.ndarray:
    """2 ** x"""
    return np.asarray(np.exp2(x))


@ieee
def expm1(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1"""
    return np.asarray(np.expm1(x))


@ieee
def expm1_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (y + 1), with y = expm1(x)"""
    return np.asarray(g * (y + 1))


@ieee
def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm: log(0) = -inf, and NaN below."""
    return np.asarray(np.log(x))


@ieee
def log2(x: np.ndarray) -> np.ndarray:
    """The logarithm to the base 2."""
    return np.asarray(np.log2(x))


@ieee
def log10(x: np.ndarray) -> np.ndarray:
    """The logarithm to the base 10."""
    return np.asarray(np.log10(x))


@ieee
def log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x)"""
    return np.asarray(np.log1p(x))


@ieee
def log1p_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g / (1 + x)"""
    return np.asarray(g / (x + 1))


@ieee
def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), which for negative x is exp(x) / (1 + exp(x))

    Each sign has the form whose exponential is at most 1 and cannot overflow.
    """
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, e) / (1 + e), x.dtype)


@ieee
def sigmoid_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g y (1 - y), with y = sigmoid(x)"""
    return np.asarray(g * y * (1 - y))


@ieee
def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent: (exp(x) - exp(-x)) / (exp(x) + exp(-x))"""
    return np.asarray(np.tanh(x))


@ieee
def tanh_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 - y^2), with y = tanh(x)"""
    return np.asarray(g * (1 - y * y))


@ieee
def sin(x: np.ndarray) -> np.ndarray:
    """The sine of x."""
    return np.asarray(np.sin(x))


@ieee
def sin_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g cos(x)"""
    return np.asarray(g * np.cos(x))


@ieee
def cos(x: np.ndarray) -> np.ndarray:
    """The cosine of x."""
    return np.asarray(np.cos(x))


@ieee
def cos_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = -g sin(x)"""
    return np.asarray(-g * np.sin(x))


@ieee
def tan(x: np.ndarray) -> np.ndarray:
    """The tangent of x."""
    return np.asarray(np.tan(x))


@ieee
def tan_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 + y^2), with y = tan(x)"""
    return np.asarray(g * (1 + y * y))


@ieee
def asin(x: np.ndarray) -> np.ndarray:
    """The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1 and 1."""
    return np.asarray(np.arcsin(x))


@ieee
def acos(x: np.ndarray) -> np.ndarray:
    """The angle from 0 to pi whose cosine is x; NaN beyond -1 and 1."""
    return np.asarray(np.arccos(x))


@ieee
def atan(x: np.ndarray) -> np.ndarray:
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return np.asarray(np.arctan(x))


@ieee
def sinh(x: np.ndarray) -> np.ndarray:
    """(exp(x) - exp(-x)) / 2"""
    return np.asarray(np.sinh(x))


@ieee
def sinh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g cosh(x)"""
    return np.asarray(g * np.cosh(x))


@ieee
def cosh(x: np.ndarray) -> np.ndarray:
    """(exp(x) + exp(-x)) / 2"""
    return np.asarray(np.cosh(x))


@ieee
def cosh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g sinh(x)"""
    return np.asarray(g * np.sinh(x))


@ieee
def asinh(x: np.ndarray) -> np.ndarray:
    """log(x + sqrt(x^2 + 1))"""
    return np.asarray(np.arcsinh(x))


@ieee
def acosh(x: np.ndarray) -> np.ndarray:
    """log(x + sqrt(x^2 - 1)); NaN below 1"""
    return np.asarray(np.arccosh(x))


@ieee
def atanh(x: np.ndarray) -> np.ndarray:
    """log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1"""
    return np.asarray(np.arctanh(x))


@ieee
def over_quadratic(g: np.ndarray, x: np.ndarray, p: float, q: float) -> np.ndarray:
    """gx = g / (p + q x^2): of atan (p = q = 1) and atanh (q = -1)"""
    return np.asarray(g / (p + q * x * x), x.dtype)


@ieee
def over_root(g: np.ndarray, x: np.ndarray, p: float, q: float, factor: float) -> np.ndarray:
    """gx = factor g / sqrt(p + q x^2): of asin, acos (p = 1, q = -1), asinh (p = q = 1) and acosh (p = -1, q = 1)"""
    return np.asarray(g / np.sqrt(p + q * x * x) * factor, x.dtype)


@ieee
def erf(x: np.ndarray) -> np.ndarray:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return np.asarray(_each(math.erf, x), x.dtype)


@ieee
def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), accurate for large x, too"""
    return np.asarray(_each(math.erfc, x), x.dtype)


@ieee
def gaussian(g: np.ndarray, x: np.ndarray, factor: float) -> np.ndarray:
    """gx = factor g exp(-x^2): of erf (factor 2 / sqrt(pi)) and erfc (its negative)"""
    return np.asarray(g * np.exp(-x * x) * factor, x.dtype)


@ieee
def logit(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """log(z / (1 - z)) with z = x between low and high, one of these beyond"""
    return np.asarray(np.log(np.clip(x, low, high) / (1 - np.clip(x, low, high))), x.dtype)


@ieee
def logit_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = g / (x (1 - x)), 0 where x is not between low and high, NaN where it has no logit"""
    z = x * (1 - x)
    slope = np.where(z < 0, np.nan, 1 / z)
    return np.asarray(g * np.where((x < low) | (x > high), 0, slope), x.dtype)


@ieee
def atan2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The angle of the point with abscissa y and ordinate x, from -pi to pi."""
    return np.asarray(np.arctan2(x, y))


@ieee
def atan2_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y / (x^2 + y^2) and gy = -g x / (x^2 + y^2), those that are wanted, in the shape of g."""
    square = x * x + y * y
    square = np.where(square == 0, 1, square)
    gx = np.asarray(g * (y / square), g.dtype) if want_x else None
    return gx, np.asarray(g * (-x / square), g.dtype) if want_y else None


@ieee
def pow_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y x^(y - 1) and gy = g x^y log(x), those that are wanted, in the shape of g; 0 where y or x is 0."""
    gx = np.asarray(np.where(y == 0, 0, g * (y * np.power(x, y - 1))), g.dtype) if want_x else None
    slope = np.power(x, y) * np.log(x)
    return gx, np.asarray(np.where((x == 0) & (y >= 0), 0, g * slope), g.dtype) if want_y else None


@ieee
def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(exp(x) + exp(y))"""
    return np.asarray(np.logaddexp(x, y))


@ieee
def logaddexp_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g sigmoid(x - y) and gy = g sigmoid(y - x), those that are wanted, in the shape of g."""
    gx = np.asarray(g * sigmoid(x - y), g.dtype) if want_x else None
    return gx, np.asarray(g * sigmoid(y - x), g.dtype) if want_y else None


@ieee
def xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(y), and 0 where x is 0 and y is not NaN"""
    return np.asarray(np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)))


@ieee
def xlogy_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g log(y), 0 where x is 0 and y <= 0, and gy = g x / y, those that are wanted, in the shape of g."""
    gx = np.asarray(np.where((x == 0) & (y <= 0), 0, g * np.log(y)), g.dtype) if want_x else None
    return gx, np.asarray(g * x / y, g.dtype) if want_y else None
