"""The gated linear unit and its gradient."""

from __future__ import annotations

import numpy as np

from ...formulas.activation import gated, gated_grad_x, gated_grad_y
from .ieee import ieee

__all__ = ["glu", "glu_grad"]


@ieee
def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    a, b = np.split(x, 2, axis)
    return gated(a, b)


@ieee
def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    a, b = np.split(x, 2, axis)
    return np.concatenate((gated_grad_x(g, a, b), gated_grad_y(g, a, b)), axis)
