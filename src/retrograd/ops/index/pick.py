"""Selection of elements or rows by distinct indices, and its transpose, placement.

No element is selected twice, so each operator is the gradient of the other, and no sums are needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels

__all__: list[str] = []


# ---- Elements along an axis, by distinct indices ---------------------------------------------------------------------

Shape = tuple[int, ...]


class Pick(Function):
    """y[..., j, ...] = x[..., indices[..., j, ...], ...] along ``axis``; no index occurs twice along the axis."""

    @staticmethod
    def forward(x: Tensor, indices: np.ndarray, axis: int) -> Tensor:
        return wrap(kernels.pick(x.array, indices, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, indices, ctx.axis = inputs
        ctx.save_for_backward(indices)
        ctx.input_shape, ctx.memory = x.array.shape, memory_order(x.array)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return Place.apply(g, indices, ctx.axis, ctx.input_shape, ctx.memory), None, None


class Place(Function):
    """Zeros of ``shape``, in memory order ``order``, with g at the indices of Pick: its transpose."""

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
    """Return the axes of x from the largest stride to the smallest."""
    strides = x.strides
    return tuple(sorted(range(x.ndim), key=lambda axis: -abs(strides[axis])))


# ---- Rows of a batch of sequences, for packing and padding -----------------------------------------------------------


class PickRows(Function):
    """y[k] = x[rows[k]]; x (R, \\*I), rows (K,), all different -> y (K, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray) -> Tensor:
        rows = from_host(rows, like=x.array)
        ctx.save_for_backward(rows)
        ctx.count = len(x.array)
        return wrap(_rows(x.array, rows))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PlaceRows.apply(g, rows, ctx.count, 0.0), None


class PlaceRows(Function):
    """y[rows[k]] = x[k], the other rows ``filling``; x (K, \\*I), rows (K,), all different -> y (count, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray, count: int, filling: float) -> Tensor:
        rows = from_host(rows, like=x.array)
        ctx.save_for_backward(rows)
        return wrap(_rows(x.array, kernels.inverse_rows(rows, count), filling))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PickRows.apply(g, rows), None, None, None


def _rows(x: np.ndarray, indices: np.ndarray, filling: float = 0.0) -> np.ndarray:
    """x[indices], and ``filling`` where the index is -1; the compiled kernel supports only floating point."""
    found: np.ndarray = (kernels.lines if x.dtype.char in "fd" else exact("lines"))(x, indices, 0, filling)
    return found
