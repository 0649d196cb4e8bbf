"""Activations with weights, or of pairs of elements, and their gradients."""

from __future__ import annotations

from math import prod

import numpy as np

from .arrays import around, dense, like, memory_axes, tasks, transposition
from .launch import kernel
from .maps import broadcast, map_two

__all__ = [
    "glu",
    "glu_grad",
    "prelu",
    "prelu_grad",
    "prelu_terms",
]

_PRELU, _PRELU_GRAD = kernel("activation.prelu"), kernel("activation.prelu_grad")
_PRELU_TERMS = kernel("activation.prelu_terms")
_GLU, _GLU_GRAD = kernel("activation.glu"), kernel("activation.glu_grad")

_LONG = 256  # weights in a row: enough to fill registers


def _along_channels(weight: np.ndarray, ndim: int) -> np.ndarray:
    """weight (C,) with as many axes as it takes to be broadcast along axis 1 (axis 0 of a vector)."""
    return weight.reshape(-1, *(1,) * (ndim - 2)) if ndim > 1 else weight if ndim else weight.reshape(())


def prelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x where x > 0, weight x elsewhere; weight (C,) belongs to axis 1 (to axis 0 of a vector), (1,) to all."""
    return broadcast(None, _PRELU, x, _along_channels(weight, x.ndim))


def prelu_grad(g: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """gx = g where x > 0, weight g elsewhere"""
    y = np.empty_like(x)
    inner, channels = max(1, x.size), 1
    if weight.size > 1:
        order = memory_axes(y.shape, y.strides)
        place = order.index(min(1, x.ndim - 1))
        inner, channels = prod(x.shape[a] for a in order[place + 1 :]) or 1, weight.size
    weight = np.ascontiguousarray(weight)
    if inner == 1:  # a weight for each element of a row, which is repeated if it is short
        weight = np.tile(weight, _LONG // channels or 1)
        channels = weight.size
    _PRELU_GRAD[x.dtype.char](tasks(x.size), like(g, y), like(x, y), weight, y, x.size, inner, channels)
    return y


def prelu_terms(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What the gradient of the weight is a sum of: 0 where x > 0, g x elsewhere."""
    return map_two(_PRELU_TERMS, g, x)


def glu(x: np.ndarray, axis: int) -> np.ndarray:
    """a sigmoid(b) of the halves a and b of x along the axis"""
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    shape = tuple(n // 2 if a == axis else n for a, n in enumerate(x.shape))
    order = memory_axes(x.shape, x.strides)
    y = np.empty([shape[a] for a in order], x.dtype)
    _GLU[x.dtype.char](tasks(y.size), x, y, y.size, half or 1)
    back = transposition(order)
    return y.transpose(back) if back else y


def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """gx = (g s, g a s (1 - s)) for the halves (a, b) of x, with s = sigmoid(b)"""
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    order = memory_axes(x.shape, x.strides)
    y = np.empty_like(x)
    g = np.ascontiguousarray(g.transpose(order))
    _GLU_GRAD[x.dtype.char](tasks(g.size), g, x, y, g.size, half or 1)
    return y
