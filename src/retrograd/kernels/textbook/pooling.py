"""Maximum and average pooling: sliding, adaptive, and fractional windows.

x (N, C, *I)    y, g, indices (N, C, *O)    window position i = o*stride + r*dilation - lo

Padding is never the maximum; in a mean it counts as zero, or not at all. No window consists of padding only. Adaptive
and fractional windows have no padding.

Source: B. Graham, "Fractional max-pooling", 2014 (fractional windows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...specs.convolution_options import AUTO, Options
from ...specs.geometry import AdaptiveWindow, Window
from .convolution import conv_clamp, crop, pad, padded_extents, taps
from .ieee import ieee

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_grad",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_grad",
    "conv_max_pool",
    "fractional_max_pool_indices",
    "max_pool",
    "max_pool_gather",
    "max_pool_grad",
    "max_pool_values",
    "max_unpool",
    "window_counts",
    "window_factors",
]


# ---- Maximum and mean over windows, in any number of dimensions -----------------------------------------------------


@ieee
def max_pool(x: np.ndarray, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """y[n, c, o] = max over r of x[n, c, i], and its index.

    x (N, C, *I)  ->  y (N, C, *O), indices (N, C, *O) int64: the flat position of the maximum in *I

    Ties go to the first tap (row-major); if there is a NaN, the first NaN is the maximum.
    """
    padded = pad(x, window)  # (N, C, *P)
    # (I,) -> (1, 1, *I) -> (1, 1, *P): the flat position of every input, -1 in the padding
    positions = np.arange(prod(window.input), like=x).reshape(1, 1, *window.input)
    positions = pad(positions, window, -1)
    y = np.zeros((*x.shape[:2], *window.output), x.dtype, like=x)
    indices = np.full(y.shape, -1, np.int64, like=y)
    for at in taps(window):
        value, position = padded[at], positions[at]  # (N, C, *O), (1, 1, *O)
        better = (indices == -1) | (value > y) | (np.isnan(value) & ~np.isnan(y))
        better &= position != -1
        y = np.where(better, value, y)
        indices = np.where(better, position, indices)
    return y, indices


def max_pool_values(x: np.ndarray, window: Window) -> np.ndarray:
    """The maxima of ``max_pool`` without their indices: x (N, C, *I)  ->  (N, C, *O)"""
    return max_pool(x, window)[0]


def conv_max_pool(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    pool: Window,
    options: Options = AUTO,
) -> np.ndarray:
    """The maxima of min(max(conv, low), high) over windows of its positions (N, Co, *O)  ->  (N, Co, *P)"""
    return max_pool_values(conv_clamp(x, w, bias, None, low, high, window, options), pool)


@ieee
def max_pool_grad(g: np.ndarray, indices: np.ndarray, window: Window | AdaptiveWindow) -> np.ndarray:
    """gx[n, c, i] = the sum of g[n, c, o] over all o whose maximum was at i.

    g, indices (N, C, *O)  ->  gx (N, C, *I); ``indices`` may point to any place in *I, also outside of the window.
    """
    N, C = g.shape[:2]
    plane = prod(window.input)
    # (N*C,) -> (N, C, 1, ..., 1): the start of the plane of n, c in the flat gx
    starts = plane * np.arange(N * C, like=g).reshape(N, C, *(1,) * window.ndim)
    gx = np.zeros(N * C * plane, g.dtype, like=g)
    # add, not assign: where windows overlap, one input can be the maximum of several
    np.add.at(gx, (starts + indices).ravel(), g.ravel())
    return gx.reshape(N, C, *window.input)  # (N*C*I,) -> (N, C, *I)


def max_pool_gather(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """y[n, c, o] = x[n, c].flat[indices[n, c, o]]: the transpose of max_pool_grad, and its gradient to g.

    x (N, C, *I), indices (N, C, *O)  ->  (N, C, *O)
    """
    N, C = x.shape[:2]
    inputs = x.reshape(N, C, prod(x.shape[2:]))  # (N, C, *I) -> (N, C, I)
    at = indices.reshape(N, C, prod(indices.shape[2:]))  # (N, C, *O) -> (N, C, O)
    return np.take_along_axis(inputs, at, axis=2).reshape(indices.shape)  # (N, C, O) -> (N, C, *O)


def max_unpool(x: np.ndarray, indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """y[n, c].flat[indices[n, c, o]] = x[n, c, o] in the order of o, else 0: x, indices (N,C,*O) -> (N,C,*size)."""
    N, C = x.shape[:2]
    y = np.zeros((N, C, prod(size)), x.dtype, like=x)
    lines = x.reshape(N * C, -1) if x.size else (), indices.reshape(N * C, -1) if x.size else ()
    for plane, (values, places) in zip(y.reshape(-1, prod(size)), zip(*lines, strict=True), strict=False):
        for value, place in zip(values, places, strict=True):
            plane[place] = value  # the last value of a repeated index wins
    return y.reshape(N, C, *size)


@ieee
def avg_pool(x: np.ndarray, window: Window, count_include_pad: bool) -> np.ndarray:
    """y[n, c, o] = (sum over r of x[n, c, i]) / count[o]

    x (N, C, *I)  ->  (N, C, *O)

    count: all taps of the window, or only those inside the input.
    """
    padded = pad(x, window)  # (N, C, *P)
    y = np.zeros((*x.shape[:2], *window.output), x.dtype, like=x)
    for at in taps(window):
        y += padded[at]
    y /= _counts(window, count_include_pad, x).astype(x.dtype)  # (N, C, *O) / (*O)
    return y


@ieee
def avg_pool_grad(g: np.ndarray, window: Window, count_include_pad: bool) -> np.ndarray:
    """gx[n, c, i] = the sum of g[n, c, o] / count[o] over all o, r that read i.

    g (N, C, *O)  ->  gx (N, C, *I)
    """
    share = g / _counts(window, count_include_pad, g).astype(g.dtype)
    padded = np.zeros((*g.shape[:2], *padded_extents(window)), g.dtype, like=g)  # (N, C, *P)
    for at in taps(window):
        padded[at] += share
    return crop(padded, window)


def window_counts(window: Window, padding: tuple[tuple[int, int], ...]) -> np.ndarray:
    """The number of taps of each window inside x and the given padding: (*O) int64; the dilation is 1."""
    count = np.ones((), np.int64)
    for i, r, o, s, (before, _), (low, high) in zip(
        window.input, window.kernel, window.output, window.stride, window.padding, padding, strict=True
    ):
        starts = np.arange(o) * s - before
        count = np.multiply.outer(count, np.minimum(starts + r, i + high) - np.maximum(starts, -low))
    return count


def window_factors(window: Window, padding: tuple[tuple[int, int], ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The number of taps divided by ``window_counts``: (*O) of this type."""
    return np.asarray(window.taps / window_counts(window, padding)).astype(dtype)


def _counts(window: Window, count_include_pad: bool, like: np.ndarray) -> np.ndarray:
    """(*O): the number of elements of each mean."""
    counted = np.ones(window.input, np.int64, like=like)
    counted = np.pad(counted, window.padding, constant_values=int(count_include_pad))  # (*P)
    counts = np.zeros(window.output, np.int64, like=like)
    for at in taps(window):
        counts += counted[at]
    return counts


# ---- Maximum and mean over windows that divide the input evenly -----------------------------------------------------


def adaptive_max_pool(x: np.ndarray, window: AdaptiveWindow) -> tuple[np.ndarray, np.ndarray]:
    """``max_pool`` over windows that divide the input evenly; the gradient is ``max_pool_grad``."""
    N, C = x.shape[:2]
    y = np.empty((N, C, *window.output), x.dtype, like=x)
    indices = np.empty(y.shape, np.int64, like=y)
    positions = np.arange(x[0, 0].size if x.size else 0, like=x).reshape(window.input if x.size else (0,))
    for o, at in _spans(window) if x.size else ():
        part = x[at].reshape(N, C, -1)  # (N, C, *part) -> (N, C, taps)
        first = part.argmax(2)  # or of the first NaN
        y[o] = np.take_along_axis(part, first[..., None], 2)[..., 0]
        indices[o] = positions[at].ravel()[first]
    return y, indices


@ieee
def adaptive_avg_pool(x: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    """y[n, c, o] = the mean of x[n, c, i] over the window of o: x (N,C,*I) -> (N,C,*O)."""
    y = np.empty((*x.shape[:2], *window.output), x.dtype, like=x)
    for o, at in _spans(window):
        y[o] = x[at].mean(tuple(range(2, x.ndim)))
    return y


@ieee
def adaptive_avg_pool_grad(g: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    """gx[n, c, i] = sum of g[n, c, o] / (size of the window of o) over all o that read i: g (N,C,*O) -> (N,C,*I)."""
    gx = np.zeros((*g.shape[:2], *window.input), g.dtype, like=g)
    for o, at in _spans(window):
        part = gx[at]
        count = part[0, 0].size if part.size else 1
        part += (g[o] / g.dtype.type(count)).reshape(*g.shape[:2], *(1,) * window.ndim)
    return gx


def _spans(window: AdaptiveWindow) -> Iterator[tuple[Any, Any]]:
    """For every output, its index and that of its window, for the last axes of an array."""
    for at in product(*map(range, window.output)):
        sizes = zip(at, window.input, window.output, strict=True)
        yield (..., *at), (..., *(slice(o * i // n, -(-(o + 1) * i // n)) for o, i, n in sizes))


# ---- Windows at random positions for fractional maximum pooling -----------------------------------------------------


@ieee
def fractional_max_pool_indices(
    x: np.ndarray, kernel: tuple[int, ...], output: tuple[int, ...], samples: np.ndarray
) -> np.ndarray:
    """The flat position in *I of the largest element of each window: the first NaN, else the first of equal elements.

    x (N, C, *I), samples (N, C, number of axes) between 0 and 1 -> (N, C, *O) int64
    """
    size = x.shape[2:]
    order = range(len(size)) if len(size) == 3 else (1, 0)  # as in PyTorch: for images, the sample of W comes first
    first: Any = 0
    strides = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    for axis, number in enumerate(order):
        starts = _starts(samples[..., number], size[axis], kernel[axis], output[axis]) * strides[axis]
        lead, after = (1,) * axis, (1,) * (len(size) - 1 - axis)
        first = first + starts.reshape(*x.shape[:2], *lead, output[axis], *after)
    planes = x.reshape(*x.shape[:2], math.prod(size))
    best = np.full(x.shape[:2] + output, -np.inf, x.dtype, like=x)
    indices = np.broadcast_to(first, best.shape).copy()
    for tap in itertools.product(*map(range, kernel)):
        place = first + sum(r * stride for r, stride in zip(tap, strides, strict=True))
        value = np.take_along_axis(planes, place.reshape(*x.shape[:2], math.prod(output)), 2).reshape(best.shape)
        better = (value > best) | (np.isnan(value) & ~np.isnan(best))
        best, indices = np.where(better, value, best), np.where(better, place, indices)
    return indices


def _starts(sample: np.ndarray, extent: int, taps: int, count: int) -> np.ndarray:
    """The first position (N, C, O) of each window: random steps of equal mean; the last one ends with the axis."""
    places = np.full((*sample.shape, count), extent - taps, np.int64, like=sample)
    if count > 1:
        step = sample.dtype.type(extent - taps) / sample.dtype.type(count - 1)
        moved = (np.arange(count - 1, like=sample).astype(sample.dtype) + sample[..., np.newaxis]) * step
        places[..., :-1] = moved.astype(np.int64) - (sample * step).astype(np.int64)[..., np.newaxis]
    return places
