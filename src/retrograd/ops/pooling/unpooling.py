"""The partial inverse of maximum pooling: every element goes back to its index, zeros elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...arrays import to_host, within
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...specs.geometry import AdaptiveWindow, as_tuple
from ..arguments.checks import as_index, require_float
from ..convolution.arguments import Extent, freeze
from ..memory.private import private
from ..shape.shape import Reshape
from .pooling import MaxPoolGather, spatial


class MaxUnpool(Function):
    """Zeros (N, C, *O) with x (N, C, *I) at flat indices into *O; if an index repeats, the last element counts.

    Each of them gets the gradient g at this index, as in PyTorch.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, size: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.window = AdaptiveWindow(size, x.array.shape[2:])  # carries only the sizes
        return wrap(kernels.max_unpool(x.array, indices, size))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return MaxPoolGather.apply(g, indices, ctx.window), None, None


@operator
def max_unpool_nd(
    name: str,
    ndim: int,
    x: Tensor,
    indices: Tensor,
    kernel_size: Extent,
    stride: Extent | None,
    padding: Extent,
    output_size: Sequence[int] | None,
) -> Tensor:
    """``nn.functional.max_unpool2d`` for ``ndim`` axes; messages begin with ``name``."""
    if interpreters and (seen := interpreted(max_unpool_nd, locals())) is not None:
        return seen
    require_float(name, x)
    indices = as_index(name, indices, "indices")
    shape = x.array.shape
    pooled = spatial(name, ndim, shape)
    if indices.array.shape != shape:
        raise ValueError(f"{name}: indices.shape={indices.array.shape} must be input.shape={shape}")
    size = _size(name, ndim, pooled, freeze(kernel_size), freeze(stride), freeze(padding), output_size)
    places = private(indices.array)
    if not within(places, 0, prod(size) - 1, "whether indices are in range"):
        found = to_host(places, "the indices of a message")
        raise ValueError(
            f"{name}: indices lie between {found.min()} and {found.max()}, the output {size} has indices 0 to "
            f"{prod(size) - 1}; give the output_size that was pooled"
        )
    if len(shape) == ndim + 2:
        return MaxUnpool.apply(x, places, size)
    y = MaxUnpool.apply(Reshape.apply(x, (1,) + shape), places[None], size)
    return Reshape.apply(y, y.array.shape[1:])


def _size(
    name: str,
    ndim: int,
    pooled: tuple[int, ...],
    kernel_size: Extent,
    stride: Extent | None,
    padding: Extent,
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    try:
        kernel = as_tuple(kernel_size, ndim, "kernel_size", 1)
        steps = kernel if stride is None else as_tuple(stride, ndim, "stride", 1)
        pads = as_tuple(padding, ndim, "padding", 0)
        if output_size is not None:
            wanted = tuple(output_size)
            wanted = as_tuple(wanted[2:] if len(wanted) == ndim + 2 else wanted, ndim, "output_size", 1)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from None
    usual = tuple((o - 1) * s + r - 2 * p for o, s, r, p in zip(pooled, steps, kernel, pads, strict=True))
    if output_size is None:
        if min(usual) < 1:
            raise ValueError(f"{name}: the output would have extents {usual}; take a smaller padding")
        return usual
    for axis, (want, have, step) in enumerate(zip(wanted, usual, steps, strict=True)):
        if not have - step < want < have + step:
            raise ValueError(
                f"{name}: output_size={tuple(output_size)} must lie between {have - step} and {have + step} (both "
                f"excluded) on axis {axis}: (O - 1)*stride + kernel_size - 2*padding = {have}, give or take a stride"
            )
    return wanted
