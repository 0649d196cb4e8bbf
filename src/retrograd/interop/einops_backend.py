"""einops backend for Tensors; einops finds it through the subclasses of its backend base class.

Source: https://github.com/arogozhnikov/einops, einops/_backends.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from ..engine.tensor import Tensor
from ..ops.creation import arange
from ..ops.product.einsum import einsum
from ..ops.shape.join import cat, stack

__all__: list[str] = []


class RetrogradBackend(AbstractBackend):  # type: ignore[misc]
    """The backend that einops uses to compute on Tensors."""

    framework_name = "retrograd"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return Tensor(x, requires_grad=x.dtype.kind == "f")

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.array

    def arange(self, start: int, stop: int) -> Tensor:
        return arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
        axes = tuple(axes)
        if operation in ("min", "max"):
            return getattr(x, f"a{operation}")(axes)
        if operation in ("any", "all", "prod"):  # over one axis at a time
            for axis in sorted(axes, reverse=True):
                x = getattr(x, operation)(axis)
            return x
        return getattr(x, operation)(axes)

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        for position in pos2len:
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(axis, -1) for axis in range(n_axes)])

    def tile(self, x: Tensor, repeats: Any) -> Tensor:
        return x.repeat(repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return cat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.kind == "f"

    def layers(self) -> Any:
        from . import einops

        return einops

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)
