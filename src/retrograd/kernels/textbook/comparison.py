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
    """Where both are not 0."""
    return np.asarray(np.logical_and(x, y), like=x)


def logical_or(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where at least one is not 0."""
    return np.asarray(np.logical_or(x, y), like=x)


def logical_xor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where exactly one is not 0."""
    return np.asarray(np.logical_xor(x, y), like=x)


def logical_not(x: np.ndarray) -> np.ndarray:
    """Where x is 0."""
    return np.asarray(np.logical_not(x), like=x)


def at_zero(x: np.ndarray) -> np.ndarray:
    """1 where x is 0, else 0, in x's type"""
    return np.asarray(x == 0, x.dtype, like=x)


def unit_step(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where x is 0; and 1 where x is above 0, else 0, in x's type."""
    return np.asarray(x == 0, like=x), np.asarray(x > 0, x.dtype, like=x)


def signbit(x: np.ndarray) -> np.ndarray:
    """Where x has the sign bit: it is below 0, or -0.0."""
    return np.asarray(np.signbit(x) if x.dtype.kind == "f" else x < 0, like=x)


def isclose(x: np.ndarray, y: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """Where |x - y| <= atol + rtol |y|; infinities are close to themselves, and NaN to NaN if ``equal_nan``."""
    with np.errstate(over="ignore"):  # a tolerance beyond the type's range
        return np.asarray(np.isclose(x, y, rtol, atol, equal_nan), like=x)


def clamp_masks(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where min(max(x, low), high) is x, where it is low and not x, and where it is high and not x."""
    inside, below = (x >= low) & (x <= high), (low < high) & (x < low)
    return np.asarray(inside, like=x), np.asarray(below, like=x), np.asarray((x > high) | (low > high), like=x)
