"""Powers and roots, and their gradients."""

from __future__ import annotations

from .primitive import Operand, full_like, hypot, log, pow, sqrt, where
from .table import formula, gradients


@formula
def sqrt_grad(g: Operand, y: Operand) -> Operand:
    """g / (2 y) with y = sqrt(x)"""
    return g / y * 0.5


@formula
def rsqrt(x: Operand) -> Operand:
    """1 / sqrt(x)"""
    return 1.0 / sqrt(x)


@formula
def rsqrt_grad(g: Operand, y: Operand) -> Operand:
    """-g y**3 / 2 with y = rsqrt(x)"""
    return g * y * (y * y * -0.5)


@formula
def reciprocal(x: Operand) -> Operand:
    """1 / x"""
    return 1.0 / x


@formula
def reciprocal_grad(g: Operand, y: Operand) -> Operand:
    """-g y**2 with y = 1 / x"""
    return -g * y * y


@formula
def power(x: Operand, exponent: float) -> Operand:
    """x**exponent"""
    if exponent == 2.0:
        return x * x
    if exponent == 1.0:
        return x * 1.0
    if exponent == 0.5:
        return sqrt(x)
    if exponent == 3.0:
        return x * x * x
    if exponent == -1.0:
        return 1.0 / x
    return pow(x, exponent)


@formula
def power_grad(g: Operand, x: Operand, exponent: float) -> Operand:
    """g exponent x**(exponent - 1), 0 where the exponent is 0"""
    if exponent == 0.0:  # 0 / 0 would be NaN
        return full_like(g, 0.0)
    if exponent == 2.0:
        return g * (x * 2.0)
    return g * (pow(x, exponent - 1.0) * exponent)


@formula
def power_of_number(x: Operand, base: float, logarithm: float) -> Operand:
    """base**x for a positive base, whose logarithm the gradient uses"""
    return pow(full_like(x, base), x)


@formula
def power_of_number_grad(g: Operand, y: Operand, base: float, logarithm: float) -> Operand:
    """g y log(base) with y = base**x"""
    return g * y * logarithm


def pow_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y x**(y - 1), 0 where y is 0"""
    return where(y == 0.0, 0.0, g * (y * pow(x, where(y == 0.0, 1.0, y) - 1.0)))


def pow_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x**y log(x), 0 where x is 0 and y is not negative"""
    zero = (x == 0.0) & (y >= 0.0)
    return where(zero, 0.0, g * (pow(x, y) * log(where(zero, 1.0, x))))


def hypot_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x / hypot(x, y)"""
    return g * (x / hypot(x, y))


def hypot_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y / hypot(x, y)"""
    return g * (y / hypot(x, y))


gradients("pow", pow_grad_x, pow_grad_y)
gradients("hypot", hypot_grad_x, hypot_grad_y)
