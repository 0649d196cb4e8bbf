"""Piecewise formulas: comparisons, signs, rounding, limits, extremes, and the cubic interpolation kernel.

Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
"""

from __future__ import annotations

from typing import Any

from .primitive import Operand, Truth, absolute, nearest, sign, trunc, where
from .registry import formula, gradients, same_grad

# ---- Comparisons and tests: boolean results, which have no gradient -------------------------------------------------

_INFINITY = float("inf")


@formula
def eq(x: Operand, y: Operand) -> Truth:
    """x == y"""
    return x == y


@formula
def ne(x: Operand, y: Operand) -> Truth:
    """x != y"""
    return x != y


@formula
def lt(x: Operand, y: Operand) -> Truth:
    """x < y"""
    return x < y


@formula
def le(x: Operand, y: Operand) -> Truth:
    """x <= y"""
    return x <= y


@formula
def isnan(x: Operand) -> Truth:
    """True where x is NaN."""
    return x != x


@formula
def isinf(x: Operand) -> Truth:
    """True where x is inf or -inf."""
    return absolute(x) == _INFINITY


@formula
def isfinite(x: Operand) -> Truth:
    """True where x is finite: neither NaN nor infinite."""
    return absolute(x) < _INFINITY


# ---- Piecewise functions --------------------------------------------------------------------------------------------


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
    """x rounded to the nearest integer, halves to even"""
    return nearest(x)


@formula
def round_places(x: Operand, factor: float) -> Operand:
    """x rounded to n decimal places; factor is 10**n"""
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
    """min(max(x, low), high); NaN propagates"""
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


# ---- Keys' kernel of cubic interpolation, on Tensors and on arrays --------------------------------------------------


def keys_near(t: Any, a: float) -> Any:
    """The weight at a distance 0 <= t <= 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def keys_far(t: Any, a: float) -> Any:
    """The weight at a distance 1 <= t < 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
