"""Exponential, logarithmic, trigonometric, hyperbolic, and error functions, and the normal log-density.

Most of these functions are primitives; this file defines their gradients. A gradient takes the input x or the result y,
whichever is cheaper.
"""

from __future__ import annotations

from .primitive import Operand, absolute, cos, cosh, exp_negative, log, log1p, sigmoid, sin, sinh, sqrt, where
from .registry import formula, gradients

# ---- Gradients of exponentials, logarithms, trigonometric and hyperbolic functions and the error function -----------

_LN2, _LN10 = 0.6931471805599453, 2.302585092994046
_INVERSE_ROOT = 0.3989422804014327  # 1 / sqrt(2 pi)
_ERF = 1.1283791670955126  # 2 / sqrt(pi)
_PI = 3.141592653589793
_FAR = 1e9  # from here on, x**2 + 1 is x**2 in float64
_NAN, _INFINITY = float("nan"), float("inf")


@formula
def exp_grad(g: Operand, y: Operand) -> Operand:
    """g y with y = exp(x)"""
    return g * y


@formula
def exp2_grad(g: Operand, y: Operand) -> Operand:
    """g y ln 2 with y = 2**x"""
    return g * y * _LN2


@formula
def expm1_grad(g: Operand, y: Operand) -> Operand:
    """g (y + 1) with y = expm1(x)"""
    return g * (y + 1.0)


@formula
def log_grad(g: Operand, x: Operand) -> Operand:
    """g / x"""
    return g / x


@formula
def log2_grad(g: Operand, x: Operand) -> Operand:
    """g / (x ln 2)"""
    return g / x * (1.0 / _LN2)


@formula
def log10_grad(g: Operand, x: Operand) -> Operand:
    """g / (x ln 10)"""
    return g / x * (1.0 / _LN10)


@formula
def log1p_grad(g: Operand, x: Operand) -> Operand:
    """g / (1 + x)"""
    return g / (x + 1.0)


@formula
def sigmoid_grad(g: Operand, y: Operand) -> Operand:
    """g y (1 - y) with y = sigmoid(x)"""
    return g * y * (1.0 - y)


@formula
def logit(x: Operand, low: float, high: float) -> Operand:
    """log(z / (1 - z)) with z = x clamped to [low, high]"""
    z = where(x < low, low, where(x > high, high, x))
    return log(z / (1.0 - z))


@formula
def logit_grad(g: Operand, x: Operand, low: float, high: float) -> Operand:
    """g / (x (1 - x)), 0 where x is not between low and high, NaN where the logit is"""
    z = where(x < low, 0.5, where(x > high, 0.5, x))  # where the gradient is 0, its derivatives are 0, too
    d = z * (1.0 - z)
    gx = where(d < 0.0, _NAN, g / d)
    return where(x < low, 0.0, where(x > high, 0.0, gx))


@formula
def tanh_grad(g: Operand, y: Operand) -> Operand:
    """g (1 - y**2) with y = tanh(x)"""
    return g * (1.0 - y * y)


@formula
def sin_grad(g: Operand, x: Operand) -> Operand:
    """g cos(x)"""
    return g * cos(x)


@formula
def cos_grad(g: Operand, x: Operand) -> Operand:
    """-g sin(x)"""
    return -g * sin(x)


@formula
def tan_grad(g: Operand, y: Operand) -> Operand:
    """g (1 + y**2) with y = tan(x)"""
    return g * (1.0 + y * y)


@formula
def asin_grad(g: Operand, x: Operand) -> Operand:
    """g / sqrt(1 - x**2)"""
    return g / sqrt(1.0 - x * x)


@formula
def acos_grad(g: Operand, x: Operand) -> Operand:
    """-g / sqrt(1 - x**2)"""
    return -g / sqrt(1.0 - x * x)


@formula
def atan_grad(g: Operand, x: Operand) -> Operand:
    """g / (1 + x**2)"""
    return g / (x * x + 1.0)


@formula
def sinh_grad(g: Operand, x: Operand) -> Operand:
    """g cosh(x)"""
    return g * cosh(x)


@formula
def cosh_grad(g: Operand, x: Operand) -> Operand:
    """g sinh(x)"""
    return g * sinh(x)


@formula
def asinh_grad(g: Operand, x: Operand) -> Operand:
    """g / sqrt(x**2 + 1), which is g / |x| where x**2 may overflow"""
    far = absolute(x) > _FAR
    z = where(far, 1.0, x)
    return g / where(far, absolute(x), sqrt(z * z + 1.0))


@formula
def acosh_grad(g: Operand, x: Operand) -> Operand:
    """g / sqrt(x**2 - 1), which is g / x where x**2 may overflow"""
    far = x > _FAR
    z = where(far, 2.0, x)
    return g / where(far, x, sqrt(z * z - 1.0))


@formula
def atanh_grad(g: Operand, x: Operand) -> Operand:
    """g / (1 - x**2)"""
    return g / (1.0 - x * x)


@formula
def erf_grad(g: Operand, x: Operand) -> Operand:
    """g 2 / sqrt(pi) exp(-x**2)"""
    return g * exp_negative(-(x * x)) * _ERF


@formula
def erfc_grad(g: Operand, x: Operand) -> Operand:
    """-g 2 / sqrt(pi) exp(-x**2)"""
    return g * exp_negative(-(x * x)) * -_ERF


def normal_cdf_grad(g: Operand, x: Operand) -> Operand:
    """g exp(-x**2 / 2) / sqrt(2 pi)"""
    return g * exp_negative(x * x * -0.5) * _INVERSE_ROOT


def _squared_radius(x: Operand, y: Operand) -> Operand:
    """x**2 + y**2, and 1 at the origin, where the angle is undefined"""
    d = x * x + y * y
    return where(d == 0.0, 1.0, d)


def atan2_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y / (x**2 + y**2), 0 at the origin"""
    return g * (y / _squared_radius(x, y))


def atan2_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """-g x / (x**2 + y**2), 0 at the origin"""
    return g * (-x / _squared_radius(x, y))


@formula
def logaddexp(x: Operand, y: Operand) -> Operand:
    """log(exp(x) + exp(y)), without overflow"""
    z = where(y > x, y, x) + log1p(exp_negative(-absolute(x - y)))
    return where((x == y) & (absolute(x) == _INFINITY), x, z)


def logaddexp_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g sigmoid(x - y)"""
    return g * sigmoid(x - y)


def logaddexp_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g sigmoid(y - x)"""
    return g * sigmoid(y - x)


@formula
def logaddexp2(x: Operand, y: Operand) -> Operand:
    """log2(2**x + 2**y), without overflow"""
    z = where(y > x, y, x) + log1p(exp_negative(absolute(x - y) * -_LN2)) * (1.0 / _LN2)
    return where((x == y) & (absolute(x) == _INFINITY), x, z)


def logaddexp2_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g sigmoid((x - y) ln 2)"""
    return g * sigmoid((x - y) * _LN2)


def logaddexp2_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g sigmoid((y - x) ln 2)"""
    return g * sigmoid((y - x) * _LN2)


@formula
def sinc(x: Operand) -> Operand:
    """sin(pi x) / (pi x), and 1 at 0"""
    z = where(x == 0.0, 1.0, x * _PI)
    return where(x == 0.0, 1.0, sin(z) / z)


@formula
def sinc_grad(g: Operand, x: Operand) -> Operand:
    """g (cos(pi x) - sin(pi x) / (pi x)) / x, and near 0 its series, which does not cancel"""
    near = absolute(x) < 0.05
    z = where(near, 1.0, x)
    r = z * _PI
    far = (cos(r) - sin(r) / r) / z
    t = x * x * (_PI * _PI)
    series = x * (_PI * _PI) * (-1.0 / 3.0 + t * (1.0 / 30.0 + t * (-1.0 / 840.0 + t * (1.0 / 45360.0))))
    return g * where(near, series, far)


@formula
def xlogy(x: Operand, y: Operand) -> Operand:
    """x log(y), and 0 where x is 0 and y is not NaN"""
    return x * log(where((x == 0.0) & (y == y), 1.0, y))


def xlogy_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g log(y), 0 where x is 0 and y <= 0"""
    zero = (x == 0.0) & (y <= 0.0)
    return where(zero, 0.0, g * log(where(zero, 1.0, y)))


def xlogy_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x / y"""
    return g * (x / y)


gradients("exp_negative", exp_grad)
gradients("normal_cdf", normal_cdf_grad)
gradients("atan2", atan2_grad_x, atan2_grad_y)
gradients("logaddexp", logaddexp_grad_x, logaddexp_grad_y)
gradients("logaddexp2", logaddexp2_grad_x, logaddexp2_grad_y)
gradients("xlogy", xlogy_grad_x, xlogy_grad_y)


# ---- Logarithms of densities ----------------------------------------------------------------------------------------

_HALF_LOG_TAU = 0.9189385332046727  # log(2 pi) / 2


@formula
def normal_log_density(x: Operand, mean: Operand, scale: Operand) -> Operand:
    """-((x - mean) / scale)**2 / 2 - log(scale) - log(2 pi) / 2"""
    z = (x - mean) / scale
    return z * z * -0.5 - log(scale) - _HALF_LOG_TAU


def normal_log_density_grad_x(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """-g (x - mean) / scale**2"""
    return g * ((mean - x) / scale / scale)


def normal_log_density_grad_mean(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """g (x - mean) / scale**2"""
    return g * ((x - mean) / scale / scale)


def normal_log_density_grad_scale(g: Operand, x: Operand, mean: Operand, scale: Operand) -> Operand:
    """g (((x - mean) / scale)**2 - 1) / scale"""
    z = (x - mean) / scale
    return g * ((z * z - 1.0) / scale)


gradients("normal_log_density", normal_log_density_grad_x, normal_log_density_grad_mean, normal_log_density_grad_scale)
