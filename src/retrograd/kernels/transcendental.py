"""Transcendental functions of two operands, and their gradients."""

from __future__ import annotations

import numpy as np

from .launch import kernel
from .maps import both_gradients, broadcast

__all__ = [
    "atan2",
    "atan2_grad",
    "logaddexp",
    "logaddexp_grad",
    "pow_grad",
    "xlogy",
    "xlogy_grad",
]

_ATAN2, _ATAN2_GRAD = kernel("transcendental.atan2"), kernel("transcendental.atan2_grad")
_LOGADDEXP, _LOGADDEXP_GRAD = kernel("transcendental.logaddexp"), kernel("transcendental.logaddexp_grad")
_XLOGY, _XLOGY_GRAD = kernel("transcendental.xlogy"), kernel("transcendental.xlogy_grad")
_POW_GRAD = kernel("transcendental.pow_grad")


def atan2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The angle of the point with abscissa y and ordinate x, from -pi to pi."""
    return broadcast(None, _ATAN2, x, y)


def atan2_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y / (x^2 + y^2) and gy = -g x / (x^2 + y^2), those that are wanted, in the shape of g; 0 at the origin."""
    return both_gradients(_ATAN2_GRAD, g, x, y, want_x, want_y)


def pow_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g y x^(y - 1) and gy = g x^y log(x), those that are wanted, in the shape of g; 0 where y or x is 0."""
    return both_gradients(_POW_GRAD, g, x, y, want_x, want_y)


def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(exp(x) + exp(y))"""
    return broadcast(None, _LOGADDEXP, x, y)


def logaddexp_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g sigmoid(x - y) and gy = g sigmoid(y - x), those that are wanted, in the shape of g."""
    return both_gradients(_LOGADDEXP_GRAD, g, x, y, want_x, want_y)


def xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(y), and 0 where x is 0 and y is not NaN"""
    return broadcast(None, _XLOGY, x, y)


def xlogy_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """gx = g log(y), 0 where x is 0 and y <= 0, and gy = g x / y, those that are wanted, in the shape of g."""
    return both_gradients(_XLOGY_GRAD, g, x, y, want_x, want_y)
