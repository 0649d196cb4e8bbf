"""Activations with weights, or of pairs of elements, and their gradients."""

from __future__ import annotations

import numpy as np

from ..formulas.primitive import sigmoid
from .ieee import ieee

__all__ = [
    "glu",
    "glu_grad",
    "prelu",
    "prelu_grad",
    "prelu_terms",
]


def _along_channels(weight: np.ndarray, ndim: int) -> np.ndarray:
    """weight (C,) with as many axes as it takes to be broadcast along axis 1 (axis 0 of a vector)."""
    return weight.reshape(-1, *(1,) * (ndim - 2)) if ndim > 1 else weight if ndim else weight.reshape(())


@ieee
def prelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x where x > 0, weight x elsewhere; weight (C,) belongs to axis 1 (to axis 0 of a vector), (1,) to all."""
    return np.asarray(np.where(x > 0, x, x * _along_channels(weight, x.ndim)))


@ieee
def prelu_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, weight g elsewhere"""
    return np.asarray(np.where(x > 0, g, g * _along_channels(weight, x.ndim)))


@ieee
def prelu_terms(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What the gradient of the weight is a sum of: 0 where x > 0, g x elsewhere."""
    return np.asarray(np.where(x > 0, 0, g * x), x.dtype)


@ieee
def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    a, b = np.split(x, 2, axis)
    return np.asarray(a * sigmoid(b))


@ieee
def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    a, b = np.split(x, 2, axis)
    s = sigmoid(b)
    return np.concatenate((g * s, g * a * s * (1 - s)), axis)
