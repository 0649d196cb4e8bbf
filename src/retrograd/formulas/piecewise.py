"""Piecewise functions: absolute value, rounding, clamping, maximum and minimum; and their gradients."""

from __future__ import annotations

from .primitive import Operand, absolute, nearest, sign, trunc, where
from .table import formula, gradients, same_grad

_INFINITY = float("inf")


@formula
def abs(x: Operand) -> Operand:
    """|x|"""
    return absolute(x)


@formula
def abs_grad(g: Operand, x: Operand) -> Operand:
    """g sign(x)"""
    return g * sign(x)


@formula
def round(x: Operand) -> Operand:
    """The nearest integer; halves go to the even one."""
    return nearest(x)


@formula
def round_places(x: Operand, factor: float) -> Operand:
    """x rounded to decimal places: factor is 10 to their number"""
    return nearest(x * factor) / factor


@formula
def round_tens(x: Operand, factor: float) -> Operand:
    """x rounded to multiples of factor, a power of 10"""
    return nearest(x / factor) * factor


@formula
def frac(x: Operand) -> Operand:
    """x - trunc(x)"""
    return x - trunc(x)


def _has_sign(y: Operand) -> Operand:
    """True where y is below 0, or -0.0"""
    zero = y == 0.0
    return where(zero, 1.0 / where(zero, y, 1.0), y) < 0.0


@formula
def copysign(x: Operand, y: Operand) -> Operand:
    """|x| with the sign of y, also of -0.0"""
    size = absolute(x)
    return where(_has_sign(y), -size, size)


def copysign_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g sign(x) times the sign of y"""
    slope = g * sign(x)
    return where(_has_sign(y), -slope, slope)


def copysign_grad_y(g: Operand) -> Operand:
    """0"""
    return g * 0.0


@formula
def clamp(x: Operand, low: float, high: float) -> Operand:
    """min(max(x, low), high); NaN stays"""
    y = where(x < low, low, x)
    return where(y > high, high, y)


@formula
def clamp_grad(g: Operand, x: Operand, low: float, high: float) -> Operand:
    """g where low <= x <= high, 0 elsewhere"""
    return where((x >= low) & (x <= high), g, 0.0)


@formula
def hardtanh_grad(g: Operand, x: Operand, low: float, high: float) -> Operand:
    """0 where x <= low or x >= high, g elsewhere, also at NaN"""
    return where((x <= low) | (x >= high), 0.0, g)


@formula
def nan_to_num(x: Operand, nan: float, posinf: float, neginf: float) -> Operand:
    """x with NaN, inf and -inf replaced by these numbers"""
    y = where(x == _INFINITY, posinf, where(x == -_INFINITY, neginf, x))
    return where(x == x, y, nan)


@formula
def nan_to_num_grad(g: Operand, x: Operand, nan: float, posinf: float, neginf: float) -> Operand:
    """g where x is finite, 0 elsewhere"""
    return where(absolute(x) < _INFINITY, g, 0.0)


@formula
def maximum(x: Operand, y: Operand) -> Operand:
    """The larger one; NaN wins."""
    return where(x != x, x, where(x > y, x, y))


@formula
def minimum(x: Operand, y: Operand) -> Operand:
    """The smaller one; NaN wins."""
    return where(x != x, x, where(x < y, x, y))


@formula
def fmax(x: Operand, y: Operand) -> Operand:
    """The larger one; numbers win over NaN."""
    return where((x >= y) | (y != y), x, y)


@formula
def fmin(x: Operand, y: Operand) -> Operand:
    """The smaller one; numbers win over NaN."""
    return where((x <= y) | (y != y), x, y)


def larger_grad(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where x is larger, g / 2 for ties"""
    return where(x < y, 0.0, where(x == y, g * 0.5, g))


def smaller_grad(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where x is smaller, g / 2 for ties"""
    return where(x > y, 0.0, where(x == y, g * 0.5, g))


def fmax_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where fmax takes x, also for ties"""
    return where((x >= y) | (y != y), g, 0.0)


def fmax_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where fmax takes y"""
    return where((x >= y) | (y != y), 0.0, g)


def fmin_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where fmin takes x, also for ties"""
    return where((x <= y) | (y != y), g, 0.0)


def fmin_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where fmin takes y"""
    return where((x <= y) | (y != y), 0.0, g)


gradients("absolute", abs_grad)
gradients("frac", same_grad)
gradients("maximum", larger_grad, smaller_grad)
gradients("minimum", smaller_grad, larger_grad)
gradients("fmax", fmax_grad_x, fmax_grad_y)
gradients("fmin", fmin_grad_x, fmin_grad_y)
gradients("copysign", copysign_grad_x, copysign_grad_y)
