"""Tests and logic of elements of any type: truth values. Operands broadcast.

The comparisons themselves are formulas.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "at_zero",
    "clamp_masks",
    "isclose",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "signbit",
    "unit_step",
]


def logical_and(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical AND: True where x and y are both nonzero."""
    return np.asarray(np.logical_and(x, y), like=x)


def logical_or(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical OR: True where x, y or both are nonzero."""
    return np.asarray(np.logical_or(x, y), like=x)


def logical_xor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical XOR: True where exactly one of x and y is nonzero."""
    return np.asarray(np.logical_xor(x, y), like=x)


def logical_not(x: np.ndarray) -> np.ndarray:
    """Logical NOT: True where x is 0."""
    return np.asarray(np.logical_not(x), like=x)


def at_zero(x: np.ndarray) -> np.ndarray:
    """1 where x is 0, else 0, in x's type"""
    return np.asarray(x == 0, x.dtype, like=x)


def unit_step(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mask x == 0, and the unit step in x's type: 1 where x > 0, else 0."""
    return np.asarray(x == 0, like=x), np.asarray(x > 0, x.dtype, like=x)


def signbit(x: np.ndarray) -> np.ndarray:
    """True where the sign bit of x is set, as it is for x < 0 and for -0.0."""
    return np.asarray(np.signbit(x) if x.dtype.kind == "f" else x < 0, like=x)


def isclose(x: np.ndarray, y: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """True where |x - y| <= atol + rtol |y|; equal infinities are close, and NaN is close to NaN if ``equal_nan``."""
    with np.errstate(over="ignore"):  # a tolerance beyond the type's range
        return np.asarray(np.isclose(x, y, rtol, atol, equal_nan), like=x)


def clamp_masks(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three masks: low <= x <= high (x is kept), x < low < high (low is taken), x > high or low > high (high is)."""
    inside, below = (x >= low) & (x <= high), (low < high) & (x < low)
    return np.asarray(inside, like=x), np.asarray(below, like=x), np.asarray((x > high) | (low > high), like=x)
