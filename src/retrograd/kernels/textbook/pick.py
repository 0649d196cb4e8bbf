"""Elements of each line along an axis by index, the transpose, and the k largest of each line."""

from __future__ import annotations

import numpy as np

__all__ = ["kth", "pick", "place", "topk"]


def pick(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; indices int64"""
    return np.take_along_axis(x, indices, axis)


def place(g: np.ndarray, indices: np.ndarray, axis: int, extent: int, order: tuple[int, ...]) -> np.ndarray:
    """Zeros, of ``extent`` along ``axis``, with g at the indices; no index occurs twice in a line.

    order: the memory order of the result's axes (C order here)
    """
    y = np.zeros((*g.shape[:axis], extent, *g.shape[axis + 1 :]), g.dtype, like=g)
    np.put_along_axis(y, indices, g, axis)
    return y


def topk(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Indices (int64) of the k largest (or smallest) elements along ``axis``, in order; ties keep theirs.

    NaN is larger than all numbers.
    """
    if largest:  # sort the reversed line and reverse the order, so that ties keep theirs
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, range(k), axis).astype(np.int64, copy=False)


def kth(x: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Index (int64) of the k-th smallest element (from 0) along ``axis``, which gets extent 1.

    NaN is larger than all numbers; ties keep their order.
    """
    return np.take(np.argsort(x, axis, kind="stable"), [k], axis).astype(np.int64, copy=False)
