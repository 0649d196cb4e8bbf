"""Views of a tensor's memory by strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ..arguments.checks import as_int, require_tensor
from .shape import sizes

__all__ = ["as_strided"]

Shape = tuple[int, ...]


class AsStrided(View):
    """Element (i, j, ...) is the element ``offset`` + i stride[0] + j stride[1] + ... of x in C order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: Shape, stride: Shape, offset: int) -> Tensor:
        ctx.call = x.array.shape, size, stride, offset
        return wrap(_viewed(x.array, size, stride, offset))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return StridedSum.apply(g, *ctx.call), None, None, None


class StridedSum(Function):
    """The sums of the elements of g that AsStrided takes from one place: its transpose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, shape: Shape, size: Shape, stride: Shape, offset: int) -> Tensor:
        ctx.call = size, stride, offset
        y = np.zeros(shape, g.array.dtype)
        places = _viewed(np.arange(y.size).reshape(shape), size, stride, offset)
        np.add.at(y.reshape(-1), places, g.array)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return AsStrided.apply(v.contiguous(), *ctx.call), None, None, None, None


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view: element (i, j, ...) is the element storage_offset + i stride[0] + j stride[1] + ... of input.

    input must be contiguous: its elements are counted in C order. Elements may come several times.

    Raises:
        TypeError: input is not a Tensor, or a number is not an int.
        ValueError: input is not contiguous, the lengths differ, a number is negative, or elements lie outside of input.
    """
    require_tensor("as_strided", input)
    shape, steps = sizes("as_strided", "size", (size,)), sizes("as_strided", "stride", (stride,))
    offset = as_int("as_strided", "storage_offset", storage_offset or 0)
    if not input.array.flags.c_contiguous:
        raise ValueError("as_strided: input must be contiguous; call input.contiguous() first")
    if len(shape) != len(steps) or min((*shape, *steps, offset), default=0) < 0:
        raise ValueError(
            f"as_strided: size={shape} and stride={steps} must have one length, and they and "
            f"storage_offset={offset} be at least 0"
        )
    last = offset + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if 0 not in shape and last >= input.array.size:
        raise ValueError(
            f"as_strided: size={shape}, stride={steps}, storage_offset={offset} lead to element {last}, input has "
            f"{input.array.size}"
        )
    return AsStrided.apply(input, shape, steps, offset)


def _viewed(x: np.ndarray, size: Shape, stride: Shape, offset: int) -> np.ndarray:
    line = x.reshape(-1)[offset:] if 0 not in size else x.reshape(-1)[:0]
    steps = tuple(step * x.itemsize for step in stride)
    return np.lib.stride_tricks.as_strided(line, size, steps, writeable=bool(x.flags.writeable))
