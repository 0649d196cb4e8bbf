"""What has corners or steps: absolute value, rounding, extrema, remainders, comparisons, choice."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

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


@ieee
def abs(x: np.ndarray) -> np.ndarray:
    """|x|"""
    return np.asarray(np.abs(x))


@ieee
def abs_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, -g where x < 0, 0 g elsewhere"""
    return np.asarray(np.where(x > 0, g, np.where(x < 0, -g, 0 * g)))


@ieee
def sign(x: np.ndarray) -> np.ndarray:
    """1 where x > 0, -1 where x < 0, 0 elsewhere"""
    return np.asarray(np.where(x > 0, 1, np.where(x < 0, -1, 0)), x.dtype)


@ieee
def ceil(x: np.ndarray) -> np.ndarray:
    """The least integer that is not below x."""
    return np.asarray(np.ceil(x))


@ieee
def floor(x: np.ndarray) -> np.ndarray:
    """The largest integer that is not above x."""
    return np.asarray(np.floor(x))


@ieee
def round(x: np.ndarray) -> np.ndarray:
    """The integer next to x; halves go to the even one."""
    return np.asarray(np.rint(x))


@ieee
def trunc(x: np.ndarray) -> np.ndarray:
    """The integer next to x towards 0."""
    return np.asarray(np.trunc(x))


@ieee
def frac(x: np.ndarray) -> np.ndarray:
    """x - trunc(x)"""
    return np.asarray(x - np.trunc(x))


@ieee
def clamp(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """min(max(x, low), high); NaN stays"""
    return np.asarray(np.minimum(np.maximum(x, low), high), x.dtype)


@ieee
def within_grad(g: np.ndarray, x: np.ndarray, low: float, high: float, factor: float) -> np.ndarray:
    """gx = factor g where low <= x <= high, 0 elsewhere"""
    return np.asarray(np.where((x >= low) & (x <= high), g * factor, 0), x.dtype)


@ieee
def outside_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = 0 where low <= x <= high, g elsewhere"""
    return np.asarray(np.where((x >= low) & (x <= high), 0, g), x.dtype)


@ieee
def hardtanh_grad(g: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """gx = 0 where x <= low or x >= high, g elsewhere, also at NaN"""
    return np.asarray(np.where((x <= low) | (x >= high), 0, g), x.dtype)


@ieee
def maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one; NaN wins."""
    return np.asarray(np.maximum(x, y))


@ieee
def minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one; NaN wins."""
    return np.asarray(np.minimum(x, y))


@ieee
def maximum_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that is larger, half of it for each of two equal ones, those gradients that are wanted."""
    gx = np.asarray(np.where(x < y, 0, np.where(x == y, g / 2, g)), g.dtype) if want_x else None
    return gx, np.asarray(np.where(y < x, 0, np.where(x == y, g / 2, g)), g.dtype) if want_y else None


@ieee
def fmax(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one; of NaN and a number the number."""
    return np.asarray(np.fmax(x, y))


@ieee
def fmin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one; of NaN and a number the number."""
    return np.asarray(np.fmin(x, y))


@ieee
def fmax_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that ``fmax`` takes, x of two equal ones, those gradients that are wanted."""
    gx = np.asarray(np.where((x >= y) | np.isnan(y), g, 0), g.dtype) if want_x else None
    return gx, np.asarray(np.where((x >= y) | np.isnan(y), 0, g), g.dtype) if want_y else None


@ieee
def fmin_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """g for the operand that ``fmin`` takes, x of two equal ones, those gradients that are wanted."""
    gx = np.asarray(np.where((x <= y) | np.isnan(y), g, 0), g.dtype) if want_x else None
    return gx, np.asarray(np.where((x <= y) | np.isnan(y), 0, g), g.dtype) if want_y else None


@ieee
def fmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y trunc(x / y), exactly: the remainder with the sign of x"""
    return np.asarray(np.fmod(x, y))


@ieee
def fmod_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gy = -g trunc(x / y)"""
    return np.asarray(-g * np.trunc(x / y))


@ieee
def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y floor(x / y), exactly: the remainder with the sign of y"""
    return np.asarray(np.fmod(x, y) + np.where(np.fmod(x, y) * np.sign(y) < 0, y, 0))


@ieee
def remainder_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gy = -g floor(x / y)"""
    return np.asarray(-g * floor_divide(x, y))


@ieee
def floor_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """floor(x / y) for the exact quotient; x / y where y is 0"""
    r = np.fmod(x, y)
    z = np.rint((x - r) / y) - np.where(r * np.sign(y) < 0, 1, 0)
    z = np.where(z == 0, np.copysign(z, x / y), z)
    return np.asarray(np.where(y == 0, x / y, z), x.dtype)


@ieee
def lt(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x < y"""
    return np.asarray(x < y)


@ieee
def le(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x <= y"""
    return np.asarray(x <= y)


@ieee
def eq(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x == y"""
    return np.asarray(x == y)


@ieee
def ne(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x != y"""
    return np.asarray(x != y)


@ieee
def isnan(x: np.ndarray) -> np.ndarray:
    """Where x is NaN."""
    return np.asarray(np.isnan(x))


@ieee
def isinf(x: np.ndarray) -> np.ndarray:
    """Where x is inf or -inf."""
    return np.asarray(np.isinf(x))


@ieee
def isfinite(x: np.ndarray) -> np.ndarray:
    """Where x is neither NaN nor infinite."""
    return np.asarray(np.isfinite(x))


@ieee
def nan_to_num(x: np.ndarray, nan: float, posinf: float, neginf: float) -> np.ndarray:
    """x with these numbers in the places of NaN, inf and -inf"""
    return np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf), x.dtype)


@ieee
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y elsewhere; all three are broadcast."""
    return np.asarray(np.where(condition, x, y))
