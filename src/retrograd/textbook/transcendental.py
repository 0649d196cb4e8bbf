"""Transcendental functions of two operands, and their gradients."""

from __future__ import annotations

import numpy as np

from ..formulas.primitive import sigmoid
from .ieee import ieee

__all__ = [
    "atan2",
    "atan2_grad",
    "logaddexp",
    "logaddexp_grad",
    "pow_grad",
    "xlogy",
    "xlogy_grad",
]


@ieee
def atan2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The angle of the point with abscissa y and ordinate x, from -pi to pi."""
    return np.asarray(np.arctan2(x, y))


@ieee
def atan2_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y / (x^2 + y^2) and gy = -g x / (x^2 + y^2), those that are wanted, in the shape of g."""
    square = x * x + y * y
    square = np.where(square == 0, 1, square)
    gx = np.asarray(g * (y / square), g.dtype) if want_x else None
    return gx, np.asarray(g * (-x / square), g.dtype) if want_y else None


@ieee
def pow_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y x^(y - 1) and gy = g x^y log(x), those that are wanted, in the shape of g; 0 where y or x is 0."""
    gx = np.asarray(np.where(y == 0, 0, g * (y * np.power(x, y - 1))), g.dtype) if want_x else None
    slope = np.power(x, y) * np.log(x)
    return gx, np.asarray(np.where((x == 0) & (y >= 0), 0, g * slope), g.dtype) if want_y else None


@ieee
def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(exp(x) + exp(y))"""
    return np.asarray(np.logaddexp(x, y))


@ieee
def logaddexp_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g sigmoid(x - y) and gy = g sigmoid(y - x), those that are wanted, in the shape of g."""
    gx = np.asarray(g * sigmoid(x - y), g.dtype) if want_x else None
    return gx, np.asarray(g * sigmoid(y - x), g.dtype) if want_y else None


@ieee
def xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(y), and 0 where x is 0 and y is not NaN"""
    return np.asarray(np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)))


@ieee
def xlogy_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g log(y), 0 where x is 0 and y <= 0, and gy = g x / y, those that are wanted, in the shape of g."""
    gx = np.asarray(np.where((x == 0) & (y <= 0), 0, g * np.log(y)), g.dtype) if want_x else None
    return gx, np.asarray(g * x / y, g.dtype) if want_y else None
