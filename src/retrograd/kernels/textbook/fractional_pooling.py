"""Windows at random places for fractional maximum pooling, and where the largest element of each is.

Source: B. Graham, "Fractional max-pooling", 2014.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["fractional_max_pool_indices"]


@ieee
def fractional_max_pool_indices(
    x: np.ndarray, kernel: tuple[int, ...], output: tuple[int, ...], samples: np.ndarray
) -> np.ndarray:
    """The flat position in *I of the largest element of each window; the first one of equals, or NaN.

    x (N, C, *I), samples (N, C, number of axes) between 0 and 1 -> (N, C, *O) int64
    """
    size = x.shape[2:]
    order = range(len(size)) if len(size) == 3 else (1, 0)  # PyTorch's: of images, the sample of W comes first
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
    """The first position (N, C, O) of each window: steps of the extent over O on average, the last one at the end."""
    places = np.full((*sample.shape, count), extent - taps, np.int64, like=sample)
    if count > 1:
        step = sample.dtype.type(extent - taps) / sample.dtype.type(count - 1)
        moved = (np.arange(count - 1, like=sample).astype(sample.dtype) + sample[..., np.newaxis]) * step
        places[..., :-1] = moved.astype(np.int64) - (sample * step).astype(np.int64)[..., np.newaxis]
    return places
