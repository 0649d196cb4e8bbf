"""Rows selected from a batch of sequences, and put back: the operators of packing and padding.

No row is selected twice, so each is the gradient of the other, and no sum is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels

__all__: list[str] = []


class PickRows(Function):
    """y[k] = x[rows[k]]; x (R, \\*I), rows (K,), all different -> y (K, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(x.array)
        return wrap(_lines(x.array, rows))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PlaceRows.apply(g, rows, ctx.count, 0.0), None


class PlaceRows(Function):
    """y[rows[k]] = x[k], the other rows ``filling``; x (K, \\*I), rows (K,), all different -> y (count, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray, count: int, filling: float) -> Tensor:
        ctx.save_for_backward(rows)
        source = np.full(count, -1)
        source[rows] = np.arange(len(rows))
        return wrap(_lines(x.array, source, filling))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PickRows.apply(g, rows), None, None, None


def _lines(x: np.ndarray, indices: np.ndarray, filling: float = 0.0) -> np.ndarray:
    """x[indices], and ``filling`` where the index is -1; the kernels take only floating-point numbers."""
    if x.dtype.char in "fd":
        return kernels.lines(x, indices, 0, filling)
    y = np.full((len(indices), *x.shape[1:]), filling, x.dtype)
    used = indices >= 0
    y[used] = x[indices[used]]
    return y
