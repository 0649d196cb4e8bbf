"""Layer, root-mean-square, group and instance normalisation: every sample has separate statistics.

Without positions (layer norm: a sample is a row) rows are normalised one by one, from the cache. With them, statistics
are computed per channel of each sample, in C order or channels-last, and merged into those of groups.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ..memory.arrays import Shape, is_dense, like, memory_axes, transposition
from ..memory.channels_last import channels_last, is_channels_last
from ..reduction.reduction import sum
from .planes import normalise_planes, normalise_planes_grad
from .row_norm import Three, normalise_rows, normalise_rows_grad

__all__ = ["group_norm", "group_norm_grad", "layer_norm", "layer_norm_grad"]


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centred: bool) -> Three:
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous:  # already rows
        return normalise_rows(x, _flat(weight, (0,)), _flat(bias, (0,)), 1, eps, centred)
    outer = x.shape[: -weight.ndim]
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order), like=x)
    rows = seen.reshape(prod(outer), weight.size)
    y, mean, inverse = normalise_rows(rows, _flat(weight, own), _flat(bias, own), 1, eps, centred)
    return y.reshape(seen.shape).transpose(back), mean.reshape(outer), inverse.reshape(outer)


def layer_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray, centred: bool, affine: bool
) -> Three:
    if weight.ndim == 1 and x.ndim == 2 and x.flags.c_contiguous and g.flags.c_contiguous:
        return normalise_rows_grad(g, x, _flat(weight, (0,)), mean, inverse, 1, centred, affine)
    order, back, own = _orders(x.shape, x.strides, x.itemsize, weight.ndim)
    seen = np.ascontiguousarray(x.transpose(order), like=x)
    shape = prod(x.shape[: -weight.ndim]), weight.size
    rows, g = seen.reshape(shape), np.ascontiguousarray(g.transpose(order), like=g).reshape(shape)
    gx, gweight, gbias = normalise_rows_grad(g, rows, _flat(weight, own), mean, inverse, 1, centred, affine)
    extents = tuple(weight.shape[axis] for axis in own)
    gweight, gbias = (row.reshape(extents).transpose(transposition(own) or own) for row in (gweight, gbias))
    return gx.reshape(seen.shape).transpose(back), gweight, gbias


def group_norm(x: np.ndarray, groups: int, weight: np.ndarray, bias: np.ndarray, eps: float) -> Three:
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        rows = np.ascontiguousarray(x, like=x).reshape(N * groups, C * positions // groups)
        y, mean, inverse = normalise_rows(rows, _flat(weight, (0,)), _flat(bias, (0,)), groups, eps, True)
        return y.reshape(x.shape), mean.reshape(N, groups), inverse.reshape(N, groups)
    x = x if (last := _last(x)) else np.ascontiguousarray(x, like=x)
    y, found = normalise_planes(x, N, C, groups, last, weight, bias, eps)
    return y, found[0], found[2]


def group_norm_grad(
    g: np.ndarray, x: np.ndarray, groups: int, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> Three:
    N, C = x.shape[:2]
    positions = prod(x.shape[2:])
    if positions == 1 or not x.size:
        shape = N * groups, C * positions // groups
        g, rows = np.ascontiguousarray(g, like=g).reshape(shape), np.ascontiguousarray(x, like=x).reshape(shape)
        gx, gweight, gbias = normalise_rows_grad(g, rows, _flat(weight, (0,)), mean, inverse, groups, True, True)
        return gx.reshape(x.shape), gweight, gbias
    x = x if (last := _last(x)) else np.ascontiguousarray(x, like=x)
    g = like(channels_last(g) if last else g, x)
    gx, sums = normalise_planes_grad(g, x, N, C, groups, last, weight, mean, inverse)
    gbias, gweight = sum(sums, (1,), False)
    return gx, gweight, gbias


@lru_cache(maxsize=4096)
def _orders(shape: Shape, strides: Shape, size: int, count: int) -> tuple[Shape, Shape, Shape]:
    """The order of axes in which x becomes rows, its inverse, and the order of the last ``count`` axes among them.

    Rows may be in any memory order, provided that each is contiguous.
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
    return np.ascontiguousarray(weight.transpose(order), like=weight).reshape(-1)


def _last(x: np.ndarray) -> bool:
    return is_channels_last(x.shape, x.strides, x.itemsize)
