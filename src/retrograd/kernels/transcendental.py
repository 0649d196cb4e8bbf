"""Exponentials, logarithms, trigonometric and hyperbolic functions, erf, and their gradients."""

from __future__ import annotations

import numpy as np

from .launch import kernel
from .maps import both_gradients, broadcast, map_one, map_one_numbers, map_two, map_two_numbers

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

_EXP, _EXP2, _EXPM1 = kernel("transcendental.exp"), kernel("transcendental.exp2"), kernel("transcendental.expm1")
_EXPM1_GRAD, _LOG = kernel("transcendental.expm1_grad"), kernel("transcendental.log")
_LOG2, _LOG10, _LOG1P = kernel("transcendental.log2"), kernel("transcendental.log10"), kernel("transcendental.log1p")
_LOG1P_GRAD, _SIGMOID = kernel("transcendental.log1p_grad"), kernel("transcendental.sigmoid")
_SIGMOID_GRAD, _TANH = kernel("transcendental.sigmoid_grad"), kernel("transcendental.tanh")
_TANH_GRAD, _SIN = kernel("transcendental.tanh_grad"), kernel("transcendental.sin")
_SIN_GRAD, _COS = kernel("transcendental.sin_grad"), kernel("transcendental.cos")
_COS_GRAD, _TAN = kernel("transcendental.cos_grad"), kernel("transcendental.tan")
_TAN_GRAD, _ASIN = kernel("transcendental.tan_grad"), kernel("transcendental.asin")
_ACOS, _ATAN, _SINH = kernel("transcendental.acos"), kernel("transcendental.atan"), kernel("transcendental.sinh")
_SINH_GRAD, _COSH = kernel("transcendental.sinh_grad"), kernel("transcendental.cosh")
_COSH_GRAD, _ASINH = kernel("transcendental.cosh_grad"), kernel("transcendental.asinh")
_ACOSH, _ATANH = kernel("transcendental.acosh"), kernel("transcendental.atanh")
_OVER_QUADRATIC, _OVER_ROOT = kernel("transcendental.over_quadratic"), kernel("transcendental.over_root")
_ERF, _ERFC, _GAUSSIAN = kernel("transcendental.erf"), kernel("transcendental.erfc"), kernel("transcendental.gaussian")
_LOGIT, _LOGIT_GRAD = kernel("transcendental.logit"), kernel("transcendental.logit_grad")
_ATAN2, _ATAN2_GRAD = kernel("transcendental.atan2"), kernel("transcendental.atan2_grad")
_POW_GRAD, _LOGADDEXP = kernel("transcendental.pow_grad"), kernel("transcendental.logaddexp")
_LOGADDEXP_GRAD, _XLOGY = kernel("transcendental.logaddexp_grad"), kernel("transcendental.xlogy")
_XLOGY_GRAD = kernel("transcendental.xlogy_grad")


def exp(x: np.ndarray) -> np.ndarray:
    """e ** x"""
    return map_one(_EXP, x)


def exp2(x: np.ndarray) -> np.ndarray:
    """2 ** x"""
    return map_one(_EXP2, x)


def expm1(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1"""
    return map_one(_EXPM1, x)


def expm1_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (y + 1), with y = expm1(x)"""
    return map_two(_EXPM1_GRAD, g, y)


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm: log(0) = -inf, and NaN below."""
    return map_one(_LOG, x)


def log2(x: np.ndarray) -> np.ndarray:
    """The logarithm to the base 2."""
    return map_one(_LOG2, x)


def log10(x: np.ndarray) -> np.ndarray:
    """The logarithm to the base 10."""
    return map_one(_LOG10, x)


def log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x)"""
    return map_one(_LOG1P, x)


def log1p_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g / (1 + x)"""
    return map_two(_LOG1P_GRAD, g, x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))"""
    return map_one(_SIGMOID, x)


def sigmoid_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g y (1 - y), with y = sigmoid(x)"""
    return map_two(_SIGMOID_GRAD, g, y)


def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent: (exp(x) - exp(-x)) / (exp(x) + exp(-x))"""
    return map_one(_TANH, x)


def tanh_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 - y^2), with y = tanh(x)"""
    return map_two(_TANH_GRAD, g, y)


def sin(x: np.ndarray) -> np.ndarray:
    """The sine of x."""
    return map_one(_SIN, x)


def sin_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g cos(x)"""
    return map_two(_SIN_GRAD, g, x)


def cos(x: np.ndarray) -> np.ndarray:
    """The cosine of x."""
    return map_one(_COS, x)


def cos_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = -g sin(x)"""
    return map_two(_COS_GRAD, g, x)


def tan(x: np.ndarray) -> np.ndarray:
    """The tangent of x."""
    return map_one(_TAN, x)


def tan_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 + y^2), with y = tan(x)"""
    return map_two(_TAN_GRAD, g, y)


def asin(x: np.ndarray) -> np.ndarray:
    """The angle from -pi/2 to pi/2 whose sine is x; NaN beyond -1 and 1."""
    return map_one(_ASIN, x)


def acos(x: np.ndarray) -> np.ndarray:
    """The angle from 0 to pi whose cosine is x; NaN beyond -1 and 1."""
    return map_one(_ACOS, x)


def atan(x: np.ndarray) -> np.ndarray:
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return map_one(_ATAN, x)


def sinh(x: np.ndarray) -> np.ndarray:
    """(exp(x) - exp(-x)) / 2"""
    return map_one(_SINH, x)


def sinh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g cosh(x)"""
    return map_two(_SINH_GRAD, g, x)


def cosh(x: np.ndarray) -> np.ndarray:
    """(exp(x) + exp(-x)) / 2"""
    return map_one(_COSH, x)


def cosh_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g sinh(x)"""
    return map_two(_COSH_GRAD, g, x)


def asinh(x: np.ndarray) -> np.ndarray:
    """log(x + sqrt(x^2 + 1))"""
    return map_one(_ASINH, x)


def acosh(x: np.ndarray) -> np.ndarray:
    """log(x + sqrt(x^2 - 1)); NaN below 1"""
    return map_one(_ACOSH, x)


def atanh(x: np.ndarray) -> np.ndarray:
    """log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1"""
    return map_one(_ATANH, x)


def over_quadratic(g: np.ndarray, x: np.ndarray, p: float, q: float) -> np.ndarray:
    """gx = g / (p + q x^2): of atan (p = q = 1) and atanh (q = -1)"""
    return map_two_numbers(_OVER_QUADRATIC, g, x, p, q, 1.0)


def over_root(g: np.ndarray, x: np.ndarray, p: float, q: float, factor: float) -> np.ndarray:
    """gx = factor g / sqrt(p + q x^2): of asin, acos (p = 1, q = -1), asinh (p = q = 1) and acosh (p = -1, q = 1)"""
    return map_two_numbers(_OVER_ROOT, g, x, p, q, factor)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return map_one(_ERF, x)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), accurate for large x, too"""
    return map_one(_ERFC, x)


def gaussian(g: np.ndarray, x: np.ndarray, factor: float) -> np.ndarray:
    """gx = factor g exp(-x^2): of erf (factor 2 / sqrt(pi)) and erfc (its negative)"""
    return map_two_numbers(_GAUSSIAN, g, x, factor)


def logit(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """log(z / (1 - z)) with z = x between low and high, one of these beyond"""
    return map_one_numbers(_LOGIT, x, low, high)


def logit_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = g / (x (1 - x)), 0 where x is not between low and high, NaN where it has no logit"""
    return map_two_numbers(_LOGIT_GRAD, g, x, low, high)


def atan2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The angle of the point with abscissa y and ordinate x, from -pi to pi."""
    return broadcast(None, _ATAN2, x, y)


def atan2_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y / (x^2 + y^2) and gy = -g x / (x^2 + y^2), those that are wanted, in the shape of g; 0 at the origin."""
    return both_gradients(_ATAN2_GRAD, g, x, y, want_x, want_y)


def pow_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y x^(y - 1) and gy = g x^y log(x), those that are wanted, in the shape of g; 0 where y or x is 0."""
    return both_gradients(_POW_GRAD, g, x, y, want_x, want_y)


def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(exp(x) + exp(y))"""
    return broadcast(None, _LOGADDEXP, x, y)


def logaddexp_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g sigmoid(x - y) and gy = g sigmoid(y - x), those that are wanted, in the shape of g."""
    return both_gradients(_LOGADDEXP_GRAD, g, x, y, want_x, want_y)


def xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(y), and 0 where x is 0 and y is not NaN"""
    return broadcast(None, _XLOGY, x, y)


def xlogy_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g log(y), 0 where x is 0 and y <= 0, and gy = g x / y, those that are wanted, in the shape of g."""
    return both_gradients(_XLOGY_GRAD, g, x, y, want_x, want_y)
