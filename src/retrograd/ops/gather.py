"""Elements of each line along an axis, picked by an index array, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap


class Gather(Function):
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: np.ndarray, axis: int) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.axis, ctx.input_shape = axis, x.data.shape
        return wrap(np.take_along_axis(x.data, indices, axis))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Scatter.apply(g, indices, ctx.axis, ctx.input_shape), None, None


class Scatter(Function):
    """Zeros of ``shape`` with g added where Gather picked: its transpose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, indices: np.ndarray, axis: int, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.axis = axis
        y = np.zeros(shape, g.data.dtype)
        if indices.shape[axis] == 1:  # no place is hit twice
            np.put_along_axis(y, indices, g.data, axis)
        else:
            lines = [np.arange(n).reshape((-1,) + (1,) * (y.ndim - 1 - i)) for i, n in enumerate(y.shape)]
            lines[axis] = indices
            np.add.at(y, tuple(lines), g.data)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Gather.apply(v, indices, ctx.axis), None, None, None
