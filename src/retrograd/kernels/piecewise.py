"""What has corners or steps: absolute value, rounding, extrema, remainders, comparisons, choice."""

from __future__ import annotations

import numpy as np

from .launch import kernel
from .maps import (
    both_gradients,
    broadcast,
    choose,
    compare,
    map_one,
    map_one_numbers,
    map_three,
    map_to_truth,
    map_two,
    map_two_numbers,
)

__all__ = [
    "abs",
    "abs_grad",
    "ceil",
    "clamp",
    "eq",
    "floor",
    "floor_divide",
    "fmax",
    "fmax_grad",
    "fmin",
    "fmin_grad",
    "fmod",
    "fmod_grad",
    "frac",
    "hardtanh_grad",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "lt",
    "maximum",
    "maximum_grad",
    "minimum",
    "nan_to_num",
    "ne",
    "outside_grad",
    "remainder",
    "remainder_grad",
    "round",
    "sign",
    "trunc",
    "where",
    "within_grad",
]

_ABS, _ABS_GRAD, _SIGN = kernel("piecewise.abs"), kernel("piecewise.abs_grad"), kernel("piecewise.sign")
_CEIL, _FLOOR, _ROUND = kernel("piecewise.ceil"), kernel("piecewise.floor"), kernel("piecewise.round")
_TRUNC, _FRAC, _CLAMP = kernel("piecewise.trunc"), kernel("piecewise.frac"), kernel("piecewise.clamp")
_WITHIN_GRAD, _OUTSIDE_GRAD = kernel("piecewise.within_grad"), kernel("piecewise.outside_grad")
_HARDTANH_GRAD = kernel("piecewise.hardtanh_grad")
_MAXIMUM, _MAXIMUM_BROADCAST = kernel("piecewise.maximum"), kernel("piecewise.maximum_broadcast")
_MINIMUM, _MINIMUM_BROADCAST = kernel("piecewise.minimum"), kernel("piecewise.minimum_broadcast")
_MAXIMUM_GRAD, _FMAX, _FMIN = kernel("piecewise.maximum_grad"), kernel("piecewise.fmax"), kernel("piecewise.fmin")
_FMAX_GRAD, _FMIN_GRAD, _FMOD = kernel("piecewise.fmax_grad"), kernel("piecewise.fmin_grad"), kernel("piecewise.fmod")
_FMOD_GRAD, _REMAINDER = kernel("piecewise.fmod_grad"), kernel("piecewise.remainder")
_REMAINDER_GRAD, _FLOOR_DIVIDE = kernel("piecewise.remainder_grad"), kernel("piecewise.floor_divide")
_LT, _LE, _EQ, _NE = kernel("piecewise.lt"), kernel("piecewise.le"), kernel("piecewise.eq"), kernel("piecewise.ne")
_ISNAN, _ISINF, _ISFINITE = kernel("piecewise.isnan"), kernel("piecewise.isinf"), kernel("piecewise.isfinite")
_NAN_TO_NUM, _WHERE = kernel("piecewise.nan_to_num"), kernel("piecewise.where")


def abs(x: np.ndarray) -> np.ndarray:
    """|x|"""
    return map_one(_ABS, x)


def abs_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, -g where x < 0, 0 elsewhere"""
    return map_two(_ABS_GRAD, g, x)


def sign(x: np.ndarray) -> np.ndarray:
    """1 where x > 0, -1 where x < 0, 0 elsewhere"""
    return map_one(_SIGN, x)


def ceil(x: np.ndarray) -> np.ndarray:
    """The least integer that is not below x."""
    return map_one(_CEIL, x)


def floor(x: np.ndarray) -> np.ndarray:
    """The largest integer that is not above x."""
    return map_one(_FLOOR, x)


def round(x: np.ndarray) -> np.ndarray:
    """The integer next to x; halves go to the even one."""
    return map_one(_ROUND, x)


def trunc(x: np.ndarray) -> np.ndarray:
    """The integer next to x towards 0."""
    return map_one(_TRUNC, x)


def frac(x: np.ndarray) -> np.ndarray:
    """x - trunc(x)"""
    return map_one(_FRAC, x)


def clamp(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """min(max(x, low), high); NaN stays"""
    return map_one_numbers(_CLAMP, x, low, high)


def within_grad(g: np.ndarray, x: np.ndarray, low: float, high: float, factor: float) -> np.ndarray:
    """gx = factor g where low <= x <= high, 0 elsewhere"""
    return map_two_numbers(_WITHIN_GRAD, g, x, low, high, factor)


def outside_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = 0 where low <= x <= high, g elsewhere"""
    return map_two_numbers(_OUTSIDE_GRAD, g, x, low, high)


def hardtanh_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = 0 where x <= low or x >= high, g elsewhere, also at NaN"""
    return map_two_numbers(_HARDTANH_GRAD, g, x, low, high)


def maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one; NaN wins."""
    return broadcast(_MAXIMUM, _MAXIMUM_BROADCAST, x, y)


def minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one; NaN wins."""
    return broadcast(_MINIMUM, _MINIMUM_BROADCAST, x, y)


def maximum_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that is larger, half of it for each of two equal ones, those gradients that are wanted."""
    return both_gradients(_MAXIMUM_GRAD, g, x, y, want_x, want_y)


def fmax(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one; of NaN and a number the number."""
    return broadcast(None, _FMAX, x, y)


def fmin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one; of NaN and a number the number."""
    return broadcast(None, _FMIN, x, y)


def fmax_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that ``fmax`` takes, x of two equal ones, those gradients that are wanted."""
    return both_gradients(_FMAX_GRAD, g, x, y, want_x, want_y)


def fmin_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that ``fmin`` takes, x of two equal ones, those gradients that are wanted."""
    return both_gradients(_FMIN_GRAD, g, x, y, want_x, want_y)


def fmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y trunc(x / y), exactly: the remainder with the sign of x"""
    return broadcast(None, _FMOD, x, y)


def fmod_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gy = -g trunc(x / y)"""
    return map_three(_FMOD_GRAD, g, x, y)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y floor(x / y), exactly: the remainder with the sign of y"""
    return broadcast(None, _REMAINDER, x, y)


def remainder_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gy = -g floor(x / y)"""
    return map_three(_REMAINDER_GRAD, g, x, y)


def floor_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """floor(x / y) for the exact quotient; x / y where y is 0"""
    return broadcast(None, _FLOOR_DIVIDE, x, y)


def lt(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x < y"""
    return compare(_LT, x, y)


def le(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x <= y"""
    return compare(_LE, x, y)


def eq(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x == y"""
    return compare(_EQ, x, y)


def ne(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x != y"""
    return compare(_NE, x, y)


def isnan(x: np.ndarray) -> np.ndarray:
    """Where x is NaN."""
    return map_to_truth(_ISNAN, x)


def isinf(x: np.ndarray) -> np.ndarray:
    """Where x is inf or -inf."""
    return map_to_truth(_ISINF, x)


def isfinite(x: np.ndarray) -> np.ndarray:
    """Where x is neither NaN nor infinite."""
    return map_to_truth(_ISFINITE, x)


def nan_to_num(x: np.ndarray, nan: float, posinf: float, neginf: float) -> np.ndarray:
    """x with these numbers in the places of NaN, inf and -inf"""
    return map_one_numbers(_NAN_TO_NUM, x, nan, posinf, neginf)


def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y elsewhere; all three are broadcast."""
    return choose(_WHERE, condition, x, y)
