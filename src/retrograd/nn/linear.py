"""Linear layers, and layers that only reshape or pass on their input."""

from __future__ import annotations

import math
from typing import Any

from ..arrays import empty
from ..engine.tensor import Tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.shape.shape import flatten, sizes, unflatten
from . import functional, init
from .arguments import check_ints
from .layer import Described, layer
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Linear(Module):
    """y = x @ weight.T + bias.

    x (..., Ci) -> y (..., Co); weight (Co, Ci), bias (Co,); Ci in_features, Co out_features.

    Raises:
        ValueError: in_features or out_features is negative, or the last axis of input is not in_features long.
        TypeError: input and weight have different dtypes.
    """

    in_features: int
    out_features: int

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__()
        check_ints("Linear", 0, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty_weight((out_features, in_features), dtype)
        self.register_parameter("bias", Parameter(empty(out_features, as_float_dtype(dtype))) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(in_features), as PyTorch does."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        features = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{features}, bias={self.bias is not None}"


class Bilinear(Described, Module):
    """A layer with the parameters weight and bias: I in1_features, J in2_features, Co out_features.

    {functional.bilinear}
    """

    in1_features: int
    in2_features: int
    out_features: int

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        check_ints("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        kind = as_float_dtype(dtype)
        self.weight = Parameter(empty((out_features, in1_features, in2_features), kind))
        self.register_parameter("bias", Parameter(empty(out_features, kind)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(in1_features), as PyTorch does."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        features = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{features}, out_features={self.out_features}, bias={self.bias is not None}"


@layer
class Flatten(Module):
    """Merges the axes start_dim to end_dim: x (N, C, H, W) -> (N, C*H*W) by default.

    Raises:
        IndexError: input has no such axis.
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)


class Unflatten(Module):
    """Splits axis dim into axes of the extents unflattened_size, one of which may be -1.

    Raises:
        IndexError: input has no such axis.
        ValueError: the product of the extents differs from that of axis dim.
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim={dim!r} must be an int; named axes are not supported")
        self.dim = dim
        self.unflattened_size: tuple[int, ...] = sizes("Unflatten", "unflattened_size", (unflattened_size,))

    def forward(self, input: Tensor) -> Tensor:
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """y = x. Accepts any arguments, like PyTorch's Identity, so it can replace any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
