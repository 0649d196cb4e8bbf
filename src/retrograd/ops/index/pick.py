"""Elements of each line along an axis by distinct indices, and the transpose: for selection by size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels

Shape = tuple[int, ...]


class Pick(Function):
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; no index occurs twice in a line."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, axis: int) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.axis, ctx.input_shape, ctx.memory = axis, x.array.shape, memory_order(x.array)
        return wrap(kernels.pick(x.array, indices, axis))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Place.apply(g, indices, ctx.axis, ctx.input_shape, ctx.memory), None, None


class Place(Function):
    """Zeros of ``shape``, in this memory ``order``, with g at the indices of Pick: its transpose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, indices: np.ndarray, axis: int, shape: Shape, order: Shape) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.axis = axis
        return wrap(kernels.place(g.array, indices, axis, shape[axis], order))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Pick.apply(v, indices, ctx.axis), None, None, None, None


def memory_order(x: np.ndarray) -> Shape:
    """The axes of x from the longest step in memory to the shortest."""
    strides = x.strides
    return tuple(sorted(range(x.ndim), key=lambda axis: -abs(strides[axis])))
