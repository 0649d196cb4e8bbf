"""Maximum pooling over windows at random places, for outputs a fraction of the input in size.

Source: B. Graham, "Fractional max-pooling", 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import from_host, within
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...specs.geometry import AdaptiveWindow, as_tuple
from ..arguments.checks import as_truth, is_number, require_float, require_same
from ..convolution.arguments import Extent
from ..random.sampling import rand
from ..shape.shape import Reshape
from .pooling import MaxPoolGather, spatial


def fractional_max_pool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    kernel_size: Extent,
    output_size: Extent | None,
    output_ratio: float | Sequence[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
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
    places = _samples(name, whole, ndim, samples)
    indices = kernels.fractional_max_pool_indices(whole.array, kernel, output, places)
    y = MaxPoolGather.apply(whole, indices, AdaptiveWindow(size, output))  # carries only the sizes
    if whole is not x:
        y, indices = Reshape.apply(y, y.array.shape[1:]), indices[0]
    return (y, wrap(kernels.duplicate(indices))) if return_indices else y


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
        raise ValueError(f"{name}: output_ratio={output_ratio!r} must be a number between 0 and 1, or {ndim} of them")
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
        return from_host(rand(*shape, dtype=x.array.dtype).array, like=x.array)
    require_same(name, "input", x, "_random_samples", given)
    if given.array.shape != shape:
        raise ValueError(f"{name}: _random_samples.shape={given.array.shape} must be {shape}: (N, C, {ndim})")
    if not within(given.array, 0, 1, "whether samples lie between 0 and 1"):
        raise ValueError(f"{name}: _random_samples must lie between 0 and 1")
    return given.array
