"""Linear layers, and layers that only reshape or pass on their input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.matmul import bilinear, linear
from ..ops.shape import flatten, unflatten
from . import init
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

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, dtype: Any = None) -> None:
        super().__init__()
        for argument, value in (("in_features", in_features), ("out_features", out_features)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"Linear: {argument}={value!r} must be an int of at least 0")
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_weight((out_features, in_features), dtype)
        if bias:
            self.bias = Parameter(np.empty(out_features, as_float_dtype(dtype)))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(in_features), as PyTorch does."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        features = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y[..., o] = sum over i and j of x1[..., i] weight[o, i, j] x2[..., j] + bias[o].

    x1 (..., I), x2 (..., J) -> y (..., Co); weight (Co, I, J), bias (Co,); I in1_features, J in2_features, Co
    out_features.

    Raises:
        ValueError: a number of features is below 1, or an input has a different one.
        TypeError: an input and the weights have different dtypes.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, *, dtype: Any = None
    ) -> None:
        super().__init__()
        features = {"in1_features": in1_features, "in2_features": in2_features, "out_features": out_features}
        for argument, value in features.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"Bilinear: {argument}={value!r} must be an int of at least 1")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(np.empty((out_features, in1_features, in2_features), as_float_dtype(dtype)))
        if bias:
            self.bias = Parameter(np.empty(out_features, as_float_dtype(dtype)))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(in1_features), as PyTorch does."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        features = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Merges the axes start_dim to end_dim: x (N, C, H, W) -> (N, C*H*W) by default.

    Raises:
        IndexError: input has no such axis.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


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
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """y = x. Takes any arguments, as PyTorch's does, so it can replace any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
