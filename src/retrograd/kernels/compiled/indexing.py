"""Indexing: elements by index, top-k, selected rows, and sparse-dense products."""

from __future__ import annotations

from math import prod

import numpy as np

from .machine.launch import kernel
from .machine.prepared import prepared
from .machine.scratch import per_thread
from .memory.layout import CHUNK, Shape, around, dense, memory_axes, transposition

__all__ = ["csr_product", "csr_product_pair", "gather", "kth", "lines", "pick", "place", "topk"]


# ---- Elements of each line along an axis read or written by index ---------------------------------------------------

_PICK, _PLACE = kernel("indexing.pick"), kernel("indexing.place")
_LARGEST, _SMALLEST = kernel("indexing.largest"), kernel("indexing.smallest")
_KTH = kernel("indexing.kth")
_FEW = 64  # beyond this, sorting is faster


@prepared
def pick(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    order = memory_axes(x.shape, x.strides)
    axis = order.index(axis)  # C order from here on
    x, indices = (np.ascontiguousarray(each.transpose(order), like=each) for each in (x, indices))
    y = np.empty(indices.shape, x.dtype, like=x)
    if y.size:
        outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        per_task = CHUNK // (indices.shape[axis] * inner) or 1
        _PICK[x.dtype.char](
            -(-outer // per_task), x, indices, y, outer, x.shape[axis], indices.shape[axis], inner, per_task
        )
    return y.transpose(transposition(order) or range(y.ndim))


@prepared
def gather(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    corner = x[tuple([slice(None) if a == axis else slice(n) for a, n in enumerate(indices.shape)])]
    if x.dtype.char not in "fd":
        return np.take_along_axis(corner, indices, axis)
    return pick(np.ascontiguousarray(corner, like=x), indices, axis)  # a result in C order


@prepared
def place(g: np.ndarray, indices: np.ndarray, axis: int, extent: int, order: Shape) -> np.ndarray:
    axis = order.index(axis)  # C order from here on
    g, indices = (np.ascontiguousarray(each.transpose(order), like=each) for each in (g, indices))
    y = np.empty((*g.shape[:axis], extent, *g.shape[axis + 1 :]), g.dtype, like=g)
    if y.size:
        outer, inner = prod(g.shape[:axis]), prod(g.shape[axis + 1 :])
        width = min(inner, max(64, CHUNK // extent))
        per_task = CHUNK // (extent * width) or 1
        tasks = -(-outer // per_task) * -(-inner // width)
        _PLACE[g.dtype.char](tasks, g, indices, y, outer, extent, g.shape[axis], inner, width, per_task)
    return y.transpose(transposition(order) or range(y.ndim))


def topk(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    length = x.shape[axis]
    x = np.ascontiguousarray(np.moveaxis(x, axis, -1), like=x)
    shape = (*x.shape[:-1], k)
    if not prod(shape):
        return np.empty((*shape[:axis], k, *shape[axis:-1]), np.int64, like=x)
    if k > _FEW:
        if largest:
            order = length - 1 - np.flip(np.argsort(x[..., ::-1], -1, kind="stable"), -1)
        else:
            order = np.argsort(x, -1, kind="stable")
        indices = order[..., :k].astype(np.int64)
    else:
        values, indices = np.empty(shape, x.dtype, like=x), np.empty(shape, np.int64, like=x)
        rows, per_task = x.size // length, CHUNK // length or 1
        (_LARGEST if largest else _SMALLEST)[x.dtype.char](
            -(-rows // per_task), x, values, indices, rows, length, k, per_task
        )
    return np.moveaxis(indices, -1, axis)


def kth(x: np.ndarray, k: int, axis: int) -> np.ndarray:
    length = x.shape[axis]
    lines = np.ascontiguousarray(np.moveaxis(x, axis, -1), like=x)
    indices = np.empty((*lines.shape[:-1], 1), np.int64, like=lines)
    if indices.size:
        per_task = CHUNK // length or 1
        _KTH[x.dtype.char](-(-indices.size // per_task), lines, indices, indices.size, length, k, per_task)
    return np.moveaxis(indices, -1, axis)


# ---- Lines of an array along one axis -------------------------------------------------------------------------------
# Selected, or weighted and summed by a sparse matrix: resampling, the gradient of selected rows and bags of embeddings
# are such products.

_LINES, _PRODUCT, _PAIR = (kernel(f"indexing.{name}") for name in ("lines", "csr_product", "csr_product_pair"))
Csr = tuple[np.ndarray, np.ndarray, np.ndarray]


@prepared
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


@prepared
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


@prepared
def csr_product_pair(x: np.ndarray, axis: int, matrix: Csr, next_matrix: Csr) -> np.ndarray:
    x = dense(x)
    order = memory_axes(x.shape, x.strides)
    neighbors = order.index(axis + 1) == order.index(axis) + 1
    if not (neighbors and x.size and matrix[1].size and next_matrix[1].size):
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
