"""Lines of an array along one of its axes: picked; or weighted and summed, a sparse matrix times the array.

Resampling, the gradient of picked rows and bags of embeddings are such products.
"""

from __future__ import annotations

import numpy as np

from .arrays import CHUNK, around, dense, memory_axes, transposition
from .launch import kernel

__all__ = ["csr_product", "lines"]

_LINES, _PRODUCT = kernel("sparse.lines"), kernel("sparse.csr_product")


def lines(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """y[..., r, ...] = x[..., indices[r], ...] along ``axis``; indices (R,) int64"""
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    outer, extent, inner = around(x.shape, x.strides, axis)
    back = transposition(order)
    y = np.empty([indices.size if a == axis else x.shape[a] for a in order], x.dtype)
    if y.size:
        total, per_task = outer * indices.size, CHUNK // inner or 1
        _LINES[x.dtype.char](
            -(-total // per_task), x, np.ascontiguousarray(indices), y, indices.size, extent, inner, total, per_task
        )
    return y.transpose(back) if back else y


def csr_product(x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """y[..., r, ...] = sum over k in [starts[r], starts[r+1]) of weights[k] x[..., indices[k], ...] along ``axis``

    The matrix has compressed rows (CSR): starts (R+1,) and indices (K,) of int64, weights (K,) of x's type.
    """
    rows = starts.size - 1
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    outer, extent, inner = around(x.shape, x.strides, axis)
    back = transposition(order)
    y = np.empty([rows if a == axis else x.shape[a] for a in order], x.dtype)
    total = outer * rows
    if y.size:
        if not indices.size:
            y[...] = 0
        else:
            per_task = CHUNK // inner or 1
            _PRODUCT[x.dtype.char](
                -(-total // per_task),
                x,
                *map(np.ascontiguousarray, (weights, starts, indices)),
                y,
                rows,
                extent,
                inner,
                total,
                per_task,
            )
    return y.transpose(back) if back else y
