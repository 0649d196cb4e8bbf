"""Remainders, comparisons and choice."""

from __future__ import annotations

import numpy as np

from .launch import kernel
from .maps import broadcast, choose, compare, map_three, map_to_truth

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

_FMOD, _FMOD_GRAD = kernel("piecewise.fmod"), kernel("piecewise.fmod_grad")
_REMAINDER, _REMAINDER_GRAD = kernel("piecewise.remainder"), kernel("piecewise.remainder_grad")
_FLOOR_DIVIDE, _WHERE = kernel("piecewise.floor_divide"), kernel("piecewise.where")
_LT, _LE, _EQ, _NE = kernel("piecewise.lt"), kernel("piecewise.le"), kernel("piecewise.eq"), kernel("piecewise.ne")
_ISNAN, _ISINF, _ISFINITE = kernel("piecewise.isnan"), kernel("piecewise.isinf"), kernel("piecewise.isfinite")


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


def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y elsewhere; all three are broadcast."""
    return choose(_WHERE, condition, x, y)
