"""Batch normalisation over channels-last memory: arrays (N, C, ...) are seen as rows of neighbouring channels.

A row is one position, or ``repeat`` positions where there are few channels, so that it fills registers. Statistics are
taken of pieces of some rows first, about each piece's own mean, and then put together: nothing cancels, whatever the
mean. The pieces depend on the shape alone.

Source: T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
1979.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from .arrays import CHUNK, Shape
from .launch import kernel
from .layout import channels_last
from .moments import MOMENTS, SUMS

__all__ = ["batch_norm", "batch_norm_grad", "channel_affine"]

_MOMENTS, _STATISTICS = MOMENTS[1], kernel("normalization.statistics")
_AFFINE = kernel("normalization.affine")
_SUMS, _COEFFICIENTS = SUMS[1], kernel("normalization.coefficients")
_INPUT_GRAD = kernel("normalization.input_grad")
_FORWARD, _BACKWARD = kernel("normalization.forward"), kernel("normalization.backward")

MERGED = 64  # channels whose pieces one task puts together


class _Rows(NamedTuple):
    tasks: int
    rows: int
    width: int  # elements of a row: repeat * C
    per_task: int
    repeat: int


def batch_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, and the mean and biased variance per channel.

    x (N, C, ...), weight (C,), bias (C,) -> y (N, C, ...), mean (C,), variance (C,)
    """
    x = channels_last(x)
    dtype, channels = x.dtype, x.shape[1]
    y, mean, variance = np.empty_like(x), np.empty(channels, dtype), np.empty(channels, dtype)
    tasks, rows, width, per_task, _ = _rows(x.shape)
    if not tasks:
        mean.fill(np.nan)  # of nothing
        variance.fill(np.nan)
        return y, mean, variance
    kind = dtype.char
    pieces, table = np.empty(2 * tasks * width, dtype), np.empty(3 * width, dtype)
    weight, bias = _dense(weight), _dense(bias)
    if tasks == 1:
        _FORWARD[kind](1, x, weight, bias, pieces, mean, variance, table, y, rows, width, channels, eps)
        return y, mean, variance
    _MOMENTS[kind](tasks, x, pieces, rows, width, tasks, per_task, width, 1.0)
    _STATISTICS[kind](
        -(-channels // MERGED), pieces, weight, bias, mean, variance, table,
        tasks, rows, width, per_task, channels, eps,
    )  # fmt: skip
    _AFFINE[kind](tasks, x, table, y, rows, width, per_task)
    return y, mean, variance


def batch_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, variance: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of batch_norm to x, weight and bias; with h = (x - mean) / sqrt(variance + eps):

        gbias = sum g
        gweight = sum g h
        gx = weight / sqrt(variance + eps) * (g - gbias/M - h gweight/M)

    g, x (N, C, ...), weight, mean, variance (C,) -> gx (N, C, ...), gweight (C,), gbias (C,)
    """
    g, x = channels_last(g), channels_last(x)
    dtype, channels = x.dtype, x.shape[1]
    gx, gweight, gbias = np.empty_like(x), np.empty(channels, dtype), np.empty(channels, dtype)
    tasks, rows, width, per_task, repeat = _rows(x.shape)
    if not tasks:
        gweight.fill(0)
        gbias.fill(0)
        return gx, gweight, gbias
    kind = dtype.char
    pieces, table = np.empty(2 * tasks * width, dtype), np.empty(4 * width, dtype)
    weight, variance = _dense(weight), _dense(variance)
    mean = _dense(mean) if repeat == 1 else np.concatenate((mean,) * repeat)
    if tasks == 1:
        _BACKWARD[kind](
            1, g, x, weight, mean, variance, pieces, gweight, gbias, table, gx, rows, width, channels, eps
        )  # fmt: skip
        return gx, gweight, gbias
    _SUMS[kind](tasks, g, x, mean, pieces, rows, width, tasks, per_task, width)
    _COEFFICIENTS[kind](
        -(-channels // MERGED), pieces, weight, mean, variance, gweight, gbias, table,
        tasks, rows, width, channels, eps,
    )  # fmt: skip
    _INPUT_GRAD[kind](tasks, g, x, table, gx, rows, width, per_task)
    return gx, gweight, gbias


def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """y[:, c] = x[:, c] * scale[c] + shift[c]: x (N, C, ...), scale (C,), shift (C,) -> (N, C, ...)."""
    x = channels_last(x)
    y = np.empty_like(x)
    tasks, rows, width, per_task, repeat = _rows(x.shape)
    if tasks:
        table = np.zeros((3, repeat, x.shape[1]), x.dtype)  # a mean of 0, scale, shift
        table[1], table[2] = scale, shift
        _AFFINE[x.dtype.char](tasks, x, table, y, rows, width, per_task)
    return y


def _dense(row: np.ndarray) -> np.ndarray:
    return row if row.strides[0] == row.itemsize else row.copy()


@lru_cache(maxsize=4096)
def _rows(shape: Shape) -> _Rows:
    """How an array (N, C, ...) is seen as rows, and these are cut into tasks."""
    channels, positions = shape[1], shape[0] * prod(shape[2:])
    if channels == 0 or positions == 0:
        return _Rows(0, 0, 0, 1, 1)
    # 16 positions fill whole registers of any type; four registers at a time hide the time that an addition takes
    repeat = gcd(positions, 64 if channels < 4 else 16 if channels < 64 else 1)
    rows, width = positions // repeat, channels * repeat
    per_task = max(1, CHUNK // width)
    return _Rows(-(-rows // per_task), rows, width, per_task, repeat)
