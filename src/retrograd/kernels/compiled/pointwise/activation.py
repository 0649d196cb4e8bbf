"""The gated linear unit and its gradient."""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..memory.arrays import around, dense, memory_axes, tasks, transposition

__all__ = ["glu", "glu_grad"]

_GLU, _GLU_GRAD = kernel("pointwise.activation.glu"), kernel("pointwise.activation.glu_grad")


def glu(x: np.ndarray, axis: int) -> np.ndarray:
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    shape = tuple(n // 2 if a == axis else n for a, n in enumerate(x.shape))
    order = memory_axes(x.shape, x.strides)
    y = np.empty([shape[a] for a in order], x.dtype, like=x)
    _GLU[x.dtype.char](tasks(y.size), x, y, y.size, half or 1)
    back = transposition(order)
    return y.transpose(back) if back else y


def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    order = memory_axes(x.shape, x.strides)
    y = np.empty_like(x)
    g = np.ascontiguousarray(g.transpose(order), like=g)
    _GLU_GRAD[x.dtype.char](tasks(g.size), g, x, y, g.size, half or 1)
    return y
