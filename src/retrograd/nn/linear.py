"""Linear layers and the layers that only pass on what they get."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.matmul import linear
from ..ops.shape import flatten
from . import init
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["Flatten", "Identity", "Linear"]


class Linear(Module):
    """y = x @ weight.T + bias.

    x (..., Ci) -> y (..., Co); weight (Co, Ci), bias (Co,); Ci in_features, Co out_features.

    Raises:
        ValueError: in_features is negative or out_features is, or the last axis of x is not in_features long.
        TypeError: x has another dtype than the weight.
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


class Flatten(Module):
    """Joins the axes start_dim to end_dim: x (N, C, H, W) -> (N, C*H*W) by default.

    Raises:
        IndexError: x has no such axis.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """y = x. Takes any arguments, as PyTorch's, so that it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
