"""Kernels of transcendental functions of two operands, and of their gradients."""

from __future__ import annotations

from typing import Any

from ..compiler import helper
from ..simd import absolute, both, full_like, select
from . import exponential, math, powers, trigonometric
from .loops import pair, two_broadcast


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


atan2, atan2_grad = two_broadcast(trigonometric.atan2), pair(_atan2_y, _atan2_x)
pow_grad = pair(_pow_x, _pow_y)
logaddexp, logaddexp_grad = two_broadcast(_logaddexp), pair(_logaddexp_x, _logaddexp_y)
xlogy, xlogy_grad = two_broadcast(_xlogy), pair(_xlogy_x, _xlogy_y)
