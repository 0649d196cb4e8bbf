"""Layer, root-mean-square, group and instance normalisation: every sample has statistics of its own.

Without positions (layer norm: a sample is a row) rows are normalised one by one, from the cache. With them, statistics
are taken per channel of each sample, in C order as well as channels-last, and put together to those of groups.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from .arrays import CHUNK, Shape, is_dense, like, memory_axes, transposition
from .launch import kernel
from .layout import channels_last, is_channels_last
from .moments import MOMENTS, SUMS, pieces_of_columns
from .reduction import sum
from .spread import normalise, normalise_grad

__all__ = ["group_norm", "group_norm_grad", "layer_norm", "layer_norm_grad"]

_FORWARD, _BACKWARD = kernel("row_norm.forward"), kernel("row_norm.backward")
_STATISTICS, _COEFFICIENTS = kernel("group_norm.statistics"), kernel("group_norm.coefficients")
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centred: bool) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over the last axes of x.

    weight and bias have the extents of these axes. Without ``centred`` the mean is 0: root mean square norm.

    x (M..., L...), weight, bias (L...) -> y like x, mean, inverse (M...)
    """
    outer = x.shape[: -weight.ndim]
    if weight.ndim == 1 and x.flags.c_contiguous:  # the usual case, with nothing to turn
        rows = x.reshape(-1, weight.size) if x.size else x.reshape(prod(outer), weight.size)
        y, mean, inverse = _rows(rows, _flat(weight, (0,)), _flat(bias, (0,)), 1, eps, centred)
        return y.reshape(x.shape), mean.reshape(outer), inverse.reshape(outer)
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order))
    rows = seen.reshape(prod(outer), weight.size)
    y, mean, inverse = _rows(rows, _flat(weight, own), _flat(bias, own), 1, eps, centred)
    return y.reshape(seen.shape).transpose(back), mean.reshape(outer), inverse.reshape(outer)


def layer_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray, centred: bool, affine: bool
) -> Three:
    """The gradients of layer_norm to x, weight and bias; with z = (x - mean) inverse and h = g weight:

        gbias = sum g
        gweight = sum g z
        gx = inverse (h - mean(h) - z mean(h z))

    Without ``centred`` there is no mean(h); without ``affine`` gweight and gbias are not computed, but zeros.
    """
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order))
    shape = prod(x.shape[: -weight.ndim]), weight.size
    rows, g = seen.reshape(shape), np.ascontiguousarray(g.transpose(order)).reshape(shape)
    gx, gweight, gbias = _rows_grad(g, rows, _flat(weight, own), mean, inverse, 1, centred, affine)
    extents = tuple(weight.shape[axis] for axis in own)
    gweight, gbias = (row.reshape(extents).transpose(transposition(own) or own) for row in (gweight, gbias))
    return gx.reshape(seen.shape).transpose(back), gweight, gbias


def group_norm(x: np.ndarray, groups: int, weight: np.ndarray, bias: np.ndarray, eps: float) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over each group of channels.

    x (N, C, ...), weight, bias (C,) -> y (N, C, ...), mean, inverse (N, groups)
    """
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        rows = np.ascontiguousarray(x).reshape(N * groups, C * positions // groups)
        y, mean, inverse = _rows(rows, _flat(weight, (0,)), _flat(bias, (0,)), groups, eps, True)
        return y.reshape(x.shape), mean.reshape(N, groups), inverse.reshape(N, groups)
    planes = _planes(x)
    pieces, numbers, piece = pieces_of_columns(MOMENTS, (), planes, ())
    mean, inverse = np.empty((2, N, groups), x.dtype)
    centers, factors, shifts = np.empty((3, N, C, 1), x.dtype)
    per_task = _groups_per_task(C // groups * numbers[1])
    _STATISTICS[x.dtype.char](
        -(-N * groups // per_task), pieces, _flat(weight, (0,)), _flat(bias, (0,)), mean, inverse, centers, factors,
        shifts, N * groups, C, groups, numbers[0], numbers[1], piece, *numbers[2:], per_task, eps,
    )  # fmt: skip
    return _from_planes(normalise(planes, centers, factors, shifts), x.shape), mean, inverse


def group_norm_grad(
    g: np.ndarray, x: np.ndarray, groups: int, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> Three:
    """The gradients of group_norm to x, weight and bias; as those of layer_norm, with means over each group.

    g, x (N, C, ...), weight (C,), mean, inverse (N, groups) -> gx (N, C, ...), gweight, gbias (C,)
    """
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        shape = N * groups, C * positions // groups
        g, rows = np.ascontiguousarray(g).reshape(shape), np.ascontiguousarray(x).reshape(shape)
        gx, gweight, gbias = _rows_grad(g, rows, _flat(weight, (0,)), mean, inverse, groups, True, True)
        return gx.reshape(x.shape), gweight, gbias
    planes = _planes(x)
    g = np.moveaxis(g, 1, -1).reshape(N, positions, C).transpose(0, 2, 1) if _last(x) else g.reshape(N, C, positions)
    centers = np.repeat(mean, C // groups, 1)
    g = like(g, planes)
    pieces, numbers, _ = pieces_of_columns(SUMS, (g,), planes, (centers,))
    totals, dots = np.empty((2, N, C), x.dtype)
    centers, factors, slopes, levels = np.empty((4, N, C, 1), x.dtype)
    per_task = _groups_per_task(C // groups * numbers[1])
    _COEFFICIENTS[x.dtype.char](
        -(-N * groups // per_task), pieces, _flat(weight, (0,)), np.ascontiguousarray(mean),
        np.ascontiguousarray(inverse), totals, dots, centers, factors, slopes, levels, N * groups, C, groups, *numbers,
        per_task,
    )  # fmt: skip
    gx = normalise_grad(g, planes, centers, factors, slopes, levels)
    return _from_planes(gx, x.shape), dots.sum(0), totals.sum(0)


def _rows(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, groups: int, eps: float, centred: bool) -> Three:
    """Rows that take turns with ``groups`` parts of weight and bias."""
    rows, length = x.shape
    y, mean, inverse = np.empty_like(x), np.empty(rows, x.dtype), np.empty(rows, x.dtype)
    if x.size:
        tasks, per_task = _tasks(rows, length)
        _FORWARD[x.dtype.char](
            tasks, x, weight, bias, y, mean, inverse, rows, length, groups, per_task, int(centred), eps
        )  # fmt: skip
    else:
        mean.fill(np.nan if centred else 0)  # of nothing
        inverse.fill(np.nan)
    return y, mean, inverse


def _rows_grad(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    groups: int,
    centred: bool,
    affine: bool,
) -> Three:
    rows, length = x.shape
    gx = np.empty_like(x)
    if not x.size:
        return gx, np.zeros_like(weight), np.zeros_like(weight)
    tasks, per_task = _tasks(rows, length)
    pieces = np.empty((tasks, 2, groups * length) if affine else (1, 2, 1), x.dtype)
    mean, inverse = np.ascontiguousarray(mean), np.ascontiguousarray(inverse)
    _BACKWARD[x.dtype.char](
        tasks, g, x, weight, mean, inverse, gx, pieces, rows, length, groups, per_task, int(centred), int(affine)
    )  # fmt: skip
    if not affine:
        return gx, np.zeros_like(weight), np.zeros_like(weight)
    gweight, gbias = pieces[0] if tasks == 1 else sum(pieces, (0,), False)
    return gx, gweight, gbias


def _tasks(rows: int, length: int) -> tuple[int, int]:
    """Tasks and rows per task."""
    per_task = CHUNK // length or 1
    return -(-rows // per_task), per_task


@lru_cache(maxsize=4096)
def _orders(shape: Shape, strides: Shape, size: int, count: int) -> tuple[Shape, Shape, Shape]:
    """The order of axes in which x becomes rows, the way back, and the order of the last ``count`` axes among them.

    Rows may be in any order of memory, if only each is one piece of it.
    """
    outer = len(shape) - count
    order = memory_axes(shape, strides)
    if not is_dense(shape, strides, size) or order[:outer] != tuple(range(outer)):
        order = tuple(range(len(shape)))
    return order, transposition(order) or order, tuple(axis - outer for axis in order[outer:])


def _flat(weight: np.ndarray, order: Shape) -> np.ndarray:
    """The elements of weight with its axes in another order."""
    if len(order) == 1 and weight.flags.c_contiguous:
        return weight
    if len(order) > 1 and order == (*range(1, len(order)), 0) and weight.flags.c_contiguous:
        return channels_last(weight[np.newaxis]).transpose(0, *range(2, weight.ndim + 1), 1).reshape(-1)
    return np.ascontiguousarray(weight.transpose(order)).reshape(-1)


def _last(x: np.ndarray) -> bool:
    return is_channels_last(x.shape, x.strides, x.itemsize)


def _planes(x: np.ndarray) -> np.ndarray:
    """x (N, C, ...) as (N, C, P), in C order or channels-last."""
    N, C = x.shape[:2]
    if _last(x):
        return np.moveaxis(x, 1, -1).reshape(N, -1, C).transpose(0, 2, 1)
    return np.ascontiguousarray(x).reshape(N, C, -1)


def _from_planes(planes: np.ndarray, shape: Shape) -> np.ndarray:
    """The way back to (N, C, ...)."""
    if planes.flags.c_contiguous:
        return planes.reshape(shape)
    return np.moveaxis(planes.transpose(0, 2, 1).reshape(shape[0], *shape[2:], shape[1]), -1, 1)


def _groups_per_task(work: int) -> int:
    return CHUNK // work or 1
