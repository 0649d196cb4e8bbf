"""Lines of an array along one axis: selected, or weighted and summed: a sparse matrix times the array.

Resampling, the gradient of selected rows and bags of embeddings are such products.
"""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel
from ..machine.scratch import per_thread
from ..memory.arrays import CHUNK, around, dense, memory_axes, transposition

__all__ = ["csr_product", "csr_product_pair", "lines"]

_LINES, _PRODUCT, _PAIR = (kernel(f"indexing.sparse.{name}") for name in ("lines", "csr_product", "csr_product_pair"))
Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


def lines(x: np.ndarray, indices: np.ndarray, axis: int, filling: float = 0.0) -> np.ndarray:
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    outer, extent, inner = around(x.shape, x.strides, axis)
    back = transposition(order)
    y = np.empty([indices.size if a == axis else x.shape[a] for a in order], x.dtype, like=x)
    if y.size:
        total, per_task = outer * indices.size, CHUNK // inner or 1
        _LINES[x.dtype.char](
            -(-total // per_task),
            x,
            np.ascontiguousarray(indices, like=indices),
            y,
            indices.size,
            extent,
            inner,
            total,
            per_task,
            filling,
        )
    return y.transpose(back) if back else y


def csr_product(x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    rows = starts.size - 1
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    outer, extent, inner = around(x.shape, x.strides, axis)
    back = transposition(order)
    y = np.empty([rows if a == axis else x.shape[a] for a in order], x.dtype, like=x)
    total = outer * rows
    if y.size:
        if not indices.size:
            y[...] = 0
        else:
            per_task = CHUNK // inner or 1
            _PRODUCT[x.dtype.char](
                -(-total // per_task), x, *_packed(starts, indices, weights), y, rows, extent, inner, total, per_task
            )
    return y.transpose(back) if back else y


def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    neighbours = order.index(axis + 1) == order.index(axis) + 1
    if not (neighbours and x.size and matrix[1].size and next_matrix[1].size):
        return csr_product(csr_product(x, axis + 1, *next_matrix), axis, *matrix)
    rows, columns = matrix[0].size - 1, next_matrix[0].size - 1
    outer, extent, _ = around(x.shape, x.strides, axis)
    _, across, inner = around(x.shape, x.strides, axis + 1)
    y = np.empty([rows if a == axis else columns if a == axis + 1 else x.shape[a] for a in order], x.dtype, like=x)
    per_task = CHUNK // max(1, columns * inner) or 1
    _PAIR[x.dtype.char](
        -(-outer * rows // per_task),
        x,
        *_packed(*matrix),
        *_packed(*next_matrix),
        y,
        per_thread(across * inner, x.dtype.char),
        rows,
        extent,
        columns,
        across,
        inner,
        outer * rows,
        per_task,
    )
    back = transposition(order)
    return y.transpose(back) if back else y


def _packed(starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(array, like=array) for array in (weights, starts, indices)]
