"""Kernels of exponentials, logarithms, trigonometric and hyperbolic functions, erf, and of their gradients."""

from __future__ import annotations

from typing import Any

from ..compiler import helper
from ..simd import absolute, both, full_like, select
from ..simd import sqrt as square_root
from . import error_function, exponential, math, powers, trigonometric
from .loops import one, one_and_numbers, pair, two, two_and_numbers, two_broadcast


@helper
def _sigmoid_grad(g: Any, y: Any) -> Any:
    return g * y * (1.0 - y)


@helper
def _tanh_grad(g: Any, y: Any) -> Any:
    return g * (1.0 - y * y)


@helper
def _tan_grad(g: Any, y: Any) -> Any:
    return g * (1.0 + y * y)


@helper
def _expm1_grad(g: Any, y: Any) -> Any:
    return g * (y + 1.0)


@helper
def _log1p_grad(g: Any, x: Any) -> Any:
    return g / (x + 1.0)


@helper
def _sin_grad(g: Any, x: Any) -> Any:
    return g * trigonometric.cos(x)


@helper
def _cos_grad(g: Any, x: Any) -> Any:
    return -g * trigonometric.sin(x)


@helper
def _sinh_grad(g: Any, x: Any) -> Any:
    return g * exponential.cosh(x)


@helper
def _cosh_grad(g: Any, x: Any) -> Any:
    return g * exponential.sinh(x)


@helper
def _over_quadratic(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return g / (x * x * q + p) * r


@helper
def _over_root(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return g / square_root(x * x * q + p) * r


@helper
def _gaussian(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return g * math.exp_negative(-(x * x)) * p


@helper
def _logit(x: Any, p: float, q: float, r: float) -> Any:
    x = select(x < p, p, select(x > q, q, x))
    return math.log(x / (1.0 - x))


@helper
def _logit_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    d = x * (1.0 - x)
    y = select(d < 0.0, float("nan"), g / d)  # there is no logit below 0 or above 1
    return select(x < p, 0.0, select(x > q, 0.0, y))


@helper
def _square(x: Any, y: Any) -> Any:
    """1 at the origin, where there is no angle to change"""
    d = x * x + y * y
    return select(d == 0.0, 1.0, d)


@helper
def _atan2_y(g: Any, y: Any, x: Any) -> Any:
    return g * (x / _square(x, y))


@helper
def _atan2_x(g: Any, y: Any, x: Any) -> Any:
    return g * (-y / _square(x, y))


@helper
def _pow_x(g: Any, x: Any, y: Any) -> Any:
    return select(y == 0.0, 0.0, g * (y * powers.pow(x, y - 1.0)))


@helper
def _pow_y(g: Any, x: Any, y: Any) -> Any:
    z = select(x == 0.0, 1.0, x)
    slope = g * (powers.pow(x, y) * math.log(z))
    negative = full_like(x, float("-inf")) * g * powers.pow(x, y)
    return select(x == 0.0, select(y >= 0.0, 0.0, negative), slope)


@helper
def _logaddexp(x: Any, y: Any) -> Any:
    d = x - y
    larger = select(y > x, y, x)
    z = larger + exponential.log1p(math.exp_negative(-absolute(d)))
    return select(both(x == y, absolute(x) == float("inf")), x, z)


@helper
def _logaddexp_x(g: Any, x: Any, y: Any) -> Any:
    return g * math.sigmoid(x - y)


@helper
def _logaddexp_y(g: Any, x: Any, y: Any) -> Any:
    return g * math.sigmoid(y - x)


@helper
def _xlogy(x: Any, y: Any) -> Any:
    z = select(both(x == 0.0, y == y), 1.0, y)
    return x * math.log(z)


@helper
def _xlogy_x(g: Any, x: Any, y: Any) -> Any:
    return select(both(x == 0.0, y <= 0.0), 0.0, g * math.log(y))


@helper
def _xlogy_y(g: Any, x: Any, y: Any) -> Any:
    return g * x / y


exp, exp2, expm1 = one(math.exp), one(exponential.exp2), one(exponential.expm1)
log, log2, log10, log1p = one(math.log), one(math.log2), one(math.log10), one(exponential.log1p)
sigmoid, tanh = one(math.sigmoid), one(math.tanh)
sin, cos, tan = one(trigonometric.sin), one(trigonometric.cos), one(trigonometric.tan)
asin, acos, atan = one(trigonometric.asin), one(trigonometric.acos), one(trigonometric.atan)
sinh, cosh = one(exponential.sinh), one(exponential.cosh)
asinh, acosh, atanh = one(exponential.asinh), one(exponential.acosh), one(exponential.atanh)
erf, erfc = one(error_function.erf), one(error_function.erfc)
logit, logit_grad = one_and_numbers(_logit), two_and_numbers(_logit_grad)

sigmoid_grad, tanh_grad, tan_grad = two(_sigmoid_grad), two(_tanh_grad), two(_tan_grad)
expm1_grad, log1p_grad = two(_expm1_grad), two(_log1p_grad)
sin_grad, cos_grad, sinh_grad, cosh_grad = two(_sin_grad), two(_cos_grad), two(_sinh_grad), two(_cosh_grad)
over_quadratic, over_root = two_and_numbers(_over_quadratic), two_and_numbers(_over_root)
gaussian = two_and_numbers(_gaussian)

atan2, atan2_grad = two_broadcast(trigonometric.atan2), pair(_atan2_y, _atan2_x)
pow_grad = pair(_pow_x, _pow_y)
logaddexp, logaddexp_grad = two_broadcast(_logaddexp), pair(_logaddexp_x, _logaddexp_y)
xlogy, xlogy_grad = two_broadcast(_xlogy), pair(_xlogy_x, _xlogy_y)
