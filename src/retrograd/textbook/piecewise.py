"""Remainders, comparisons and choice."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "eq",
    "floor_divide",
    "fmod",
    "fmod_grad",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "lt",
    "ne",
    "remainder",
    "remainder_grad",
    "where",
]


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
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y elsewhere; all three are broadcast."""
    return np.asarray(np.where(condition, x, y))
