"""Layer, root-mean-square, group and instance normalisation: every sample has statistics of its own.

Without positions (layer norm: a sample is a row) rows are normalised one by one, from the cache. With them, statistics
are taken per channel of each sample, in C order as well as channels-last, and put together to those of groups.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from .arrays import CHUNK, Shape, is_dense, like, memory_axes, transposition
from .axes import column_numbers, row_numbers
from .launch import kernel
from .layout import channels_last, is_channels_last
from .moments import MOMENTS, SUMS
from .reduction import sum
from .row_norm import Three, normalise_rows, normalise_rows_grad
from .spread import normalise, normalise_grad

__all__ = ["group_norm", "group_norm_grad", "layer_norm", "layer_norm_grad"]

_GROUPS_FORWARD, _GROUPS_BACKWARD = kernel("group_norm.forward"), kernel("group_norm.backward")
_STATISTICS, _COEFFICIENTS = kernel("group_norm.statistics"), kernel("group_norm.coefficients")
_UNITS, _UNIT = 8, 1 << 18  # where a task normalises a whole unit: as many units at least, and elements below as many
_NARROW = 64  # below as many channels several positions are normalised together: ``spread.py``


class _Plan(NamedTuple):
    last: int  # whether channels are neighbours in memory
    units: int  # 0: statistics of all planes first
    numbers: tuple[int, ...]  # for the kernels over units
    tasks: int
    whole: tuple[int, ...]  # for the kernels over all planes
    pieces: int  # numbers in all pieces
    parts: int  # pieces of a channel of a sample
    piece: int  # elements of one; the last may have less
    per_task: int  # groups whose statistics one task puts together


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centred: bool) -> Three:
    """y = (x - mean) inverse weight + bias with inverse = 1 / sqrt(variance + eps), over the last axes of x.

    weight and bias have the extents of these axes. Without ``centred`` the mean is 0: root mean square norm.

    x (M..., L...), weight, bias (L...) -> y like x, mean, inverse (M...)
    """
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous:  # nothing to turn
        return normalise_rows(x, _flat(weight, (0,)), _flat(bias, (0,)), 1, eps, centred)
    outer = x.shape[: -weight.ndim]
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order))
    rows = seen.reshape(prod(outer), weight.size)
    y, mean, inverse = normalise_rows(rows, _flat(weight, own), _flat(bias, own), 1, eps, centred)
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
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous and g.flags.c_contiguous:
        return normalise_rows_grad(g, x, _flat(weight, (0,)), mean, inverse, 1, centred, affine)
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order))
    shape = prod(x.shape[: -weight.ndim]), weight.size
    rows, g = seen.reshape(shape), np.ascontiguousarray(g.transpose(order)).reshape(shape)
    gx, gweight, gbias = normalise_rows_grad(g, rows, _flat(weight, own), mean, inverse, 1, centred, affine)
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
        y, mean, inverse = normalise_rows(rows, _flat(weight, (0,)), _flat(bias, (0,)), groups, eps, True)
        return y.reshape(x.shape), mean.reshape(N, groups), inverse.reshape(N, groups)
    planes, kind = _planes(x), x.dtype.char
    plan = _plan(N, C, positions, groups, planes.strides[2] != x.itemsize, 1)
    mean, inverse = np.empty((2, N, groups), x.dtype)
    pieces, table = np.empty(plan.pieces, x.dtype), np.empty((3, N, C, 1), x.dtype)
    weight, bias = _flat(weight, (0,)), _flat(bias, (0,))
    if plan.units:
        y = np.empty_like(planes)
        _GROUPS_FORWARD[kind](
            plan.units, planes, weight, bias, pieces, mean, inverse, table, y, N, C, groups, *plan.numbers, eps
        )  # fmt: skip
    else:
        MOMENTS[plan.last][kind](plan.tasks, planes, pieces, *plan.whole, 1.0)
        centers, factors, shifts = table
        _STATISTICS[kind](
            -(-N * groups // plan.per_task), pieces, weight, bias, mean, inverse, centers, factors, shifts, N * groups,
            C, groups, positions, plan.parts, plan.piece, plan.last, plan.per_task, eps,
        )  # fmt: skip
        y = normalise(planes, centers, factors, shifts)
    return _from_planes(y, x.shape), mean, inverse


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
        gx, gweight, gbias = normalise_rows_grad(g, rows, _flat(weight, (0,)), mean, inverse, groups, True, True)
        return gx.reshape(x.shape), gweight, gbias
    planes, kind = _planes(x), x.dtype.char
    plan = _plan(N, C, positions, groups, planes.strides[2] != x.itemsize, 2)
    g = like(_planes(channels_last(g) if plan.last else g), planes)
    about = np.repeat(mean, C // groups, 1)
    pieces, sums, table = np.empty(plan.pieces, x.dtype), np.empty((2, N, C), x.dtype), np.empty((4, N, C, 1), x.dtype)
    weight, mean, inverse = _flat(weight, (0,)), np.ascontiguousarray(mean), np.ascontiguousarray(inverse)
    if plan.units:
        gx = np.empty_like(planes)
        _GROUPS_BACKWARD[kind](
            plan.units, g, planes, weight, mean, inverse, about, pieces, sums, table, gx, N, C, groups, *plan.numbers
        )  # fmt: skip
    else:
        SUMS[plan.last][kind](plan.tasks, g, planes, about, pieces, *plan.whole)
        centers, factors, slopes, levels = table
        _COEFFICIENTS[kind](
            -(-N * groups // plan.per_task), pieces, weight, mean, inverse, sums[0], sums[1], centers, factors, slopes,
            levels, N * groups, C, groups, positions, plan.parts, plan.last, plan.per_task,
        )  # fmt: skip
        gx = normalise_grad(g, planes, centers, factors, slopes, levels)
    gbias, gweight = sum(sums, (1,), False)
    return _from_planes(gx, x.shape), gweight, gbias


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


@lru_cache(maxsize=4096)
def _plan(samples: int, channels: int, positions: int, groups: int, last: bool, arrays: int) -> _Plan:
    """How planes become pieces, and whether each unit (``compiled/group_norm.py``) is normalised by one task.

    That takes units of which all ``arrays`` that are read twice fit into a cache, enough of them for all threads, and
    channels that fill registers.
    """
    count, size = (samples, channels) if last else (samples * groups, channels // groups)
    whole: tuple[int, ...]
    if last:
        each, parts, whole = column_numbers(1, positions, channels)
        piece, width = whole[3:]
        tasks = samples * each
    else:
        tasks, parts, whole = row_numbers(samples * channels, positions)
        each, piece, width = 1, positions if parts == 1 else CHUNK, 0
    near = arrays * size * positions < _UNIT and not (last and channels < _NARROW)
    units = count if near and count >= _UNITS else 0
    numbers = positions, parts, piece, each, width, int(last)
    per_task = groups * (CHUNK // (channels * parts) or 1) if last else CHUNK // (channels // groups * parts) or 1
    return _Plan(int(last), units, numbers, tasks, whole, 2 * samples * channels * parts, parts, piece, per_task)
