"""Rows picked from a batch of sequences, and put back: what packing and padding are made of.

No row is picked twice, so that each of the two is the other's gradient, without any sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap

__all__: list[str] = []


class PickRows(Function):
    """y[k] = x[rows[k]]; x (R, \\*I), rows (K,), all different -> y (K, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(x.data)
        return wrap(x.data.take(rows, 0))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PlaceRows.apply(g, rows, ctx.count, 0.0), None


class PlaceRows(Function):
    """y[rows[k]] = x[k], the other rows ``filling``; x (K, \\*I), rows (K,), all different -> y (count, \\*I)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: np.ndarray, count: int, filling: float) -> Tensor:
        ctx.save_for_backward(rows)
        y = np.empty((count, *x.data.shape[1:]), x.data.dtype)
        y[rows] = x.data
        others = np.ones(count, bool)  # each row is written once
        others[rows] = False
        y[others] = filling
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        return PickRows.apply(g, rows), None, None, None
