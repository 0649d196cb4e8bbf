"""Maximum pooling over windows at random places, for outputs a fraction of the input in size.

Source: B. Graham, "Fractional max-pooling", 2014.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.tensor import Tensor, wrap
from ...geometry import AdaptiveWindow, as_tuple
from ..arguments.checks import as_truth, is_number, require_float, require_same
from ..convolution.arguments import Extent
from ..random.sampling import rand
from ..shape.shape import Reshape
from .pooling import MaxPoolGather, spatial


def fractional_max_pool_nd(
    name: str, ndim: int, x: Tensor, kernel_size: Extent, output_size: Extent | None,
    output_ratio: float | Sequence[float] | None, return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    """``nn.functional.fractional_max_pool2d`` for ``ndim`` axes; messages begin with ``name``."""
    require_float(name, x)
    return_indices = as_truth(name, "return_indices", return_indices)
    shape = x.array.shape
    size = spatial(name, ndim, shape)
    kernel, output = sizes(name, ndim, size, kernel_size, output_size, output_ratio)
    for axis, (extent, taps, count) in enumerate(zip(size, kernel, output, strict=True)):
        if taps + count - 1 > extent:
            raise ValueError(
                f"{name}: kernel_size={taps} and output_size={count} on axis {axis} need an extent of "
                f"{taps + count - 1}, one position more for each output; input.shape={shape}"
            )
    whole = Reshape.apply(x, (1,) + shape) if len(shape) == ndim + 1 else x
    indices = _largest(whole.array, kernel, output, _samples(name, whole, ndim, samples))
    y = MaxPoolGather.apply(whole, indices, AdaptiveWindow(size, output))  # carries only the sizes
    if whole is not x:
        y, indices = Reshape.apply(y, y.array.shape[1:]), indices[0]
    return (y, wrap(indices.copy())) if return_indices else y


def sizes(
    name: str, ndim: int, size: tuple[int, ...] | None, kernel_size: Any, output_size: Any, output_ratio: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of window and output; without the size of the input, only checked."""
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"pass output_size or output_ratio, one of the two; they are {output_size!r} and {output_ratio!r}"
            )
        if output_size is not None:
            return kernel, as_tuple(output_size, ndim, "output_size", 1)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * ndim
    if len(ratios) != ndim or not all(is_number(ratio) and 0 < ratio < 1 for ratio in ratios):
        raise ValueError(
            f"{name}: output_ratio={output_ratio!r} must be a number between 0 and 1, or {ndim} of them"
        )
    if size is None:
        return kernel, ()
    output = tuple(int(extent * ratio) for extent, ratio in zip(size, ratios, strict=True))
    if min(output) < 1:
        raise ValueError(f"{name}: output_ratio={output_ratio!r} of the extents {size} leaves no output")
    return kernel, output


def _samples(name: str, x: Tensor, ndim: int, given: Tensor | None) -> np.ndarray:
    """A number from 0 to 1 for each image, channel and axis."""
    shape = (*x.array.shape[:2], ndim)
    if given is None:
        return rand(*shape, dtype=x.array.dtype).array
    require_same(name, "input", x, "_random_samples", given)
    if given.array.shape != shape:
        raise ValueError(f"{name}: _random_samples.shape={given.array.shape} must be {shape}: (N, C, {ndim})")
    if not ((given.array >= 0) & (given.array <= 1)).all():
        raise ValueError(f"{name}: _random_samples must lie between 0 and 1")
    return given.array


def _starts(sample: np.ndarray, extent: int, taps: int, count: int) -> np.ndarray:
    """The first position (N, C, O) of each window: steps of the extent over O on average, the last one at the end."""
    places = np.full((*sample.shape, count), extent - taps, np.int64)
    if count > 1:
        step = sample.dtype.type(extent - taps) / sample.dtype.type(count - 1)
        moved = (np.arange(count - 1).astype(sample.dtype) + sample[..., np.newaxis]) * step
        places[..., :-1] = moved.astype(np.int64) - (sample * step).astype(np.int64)[..., np.newaxis]
    return places


def _largest(x: np.ndarray, kernel: tuple[int, ...], output: tuple[int, ...], samples: np.ndarray) -> np.ndarray:
    """The flat position in *I of the largest element of each window (N, C, *O); the first one of equals, or NaN."""
    size = x.shape[2:]
    order = range(len(size)) if len(size) == 3 else (1, 0)  # PyTorch's: of images, the sample of W comes first
    first: Any = 0
    strides = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    for axis, number in enumerate(order):
        starts = _starts(samples[..., number], size[axis], kernel[axis], output[axis]) * strides[axis]
        lead, after = (1,) * axis, (1,) * (len(size) - 1 - axis)
        first = first + starts.reshape(*x.shape[:2], *lead, output[axis], *after)
    planes = x.reshape(*x.shape[:2], math.prod(size))
    best = np.full(x.shape[:2] + output, -np.inf, x.dtype)
    indices = np.broadcast_to(first, best.shape).copy()
    for tap in itertools.product(*map(range, kernel)):
        place = first + sum(r * stride for r, stride in zip(tap, strides, strict=True))
        value = np.take_along_axis(planes, place.reshape(*x.shape[:2], math.prod(output)), 2).reshape(best.shape)
        better = (value > best) | (np.isnan(value) & ~np.isnan(best))
        best, indices = np.where(better, value, best), np.where(better, place, indices)
    return indices
