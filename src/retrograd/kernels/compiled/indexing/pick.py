"""Elements of each line along an axis read or written by index; the k largest and the k-th of each line."""

from __future__ import annotations

from math import prod

import numpy as np

from ..machine.launch import kernel
from ..memory.arrays import CHUNK, Shape, memory_axes, transposition

__all__ = ["kth", "pick", "place", "topk"]

_PICK, _PLACE = kernel("indexing.pick.pick"), kernel("indexing.pick.place")
_LARGEST, _SMALLEST = kernel("indexing.pick.largest"), kernel("indexing.pick.smallest")
_KTH = kernel("indexing.pick.kth")
_FEW = 64  # beyond this, sorting is faster


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
