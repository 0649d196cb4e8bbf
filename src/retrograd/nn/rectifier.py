"""Piecewise linear activations as layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from . import functional
from .activation import inplace_text
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = [
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Softshrink",
    "Threshold",
]


class ReLU(Module):
    """y = max(x, 0); NaN stays NaN.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class ReLU6(Module):
    """y = min(max(x, 0), 6).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class LeakyReLU(Module):
    """y = x where x > 0, negative_slope * x elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + inplace_text(self.inplace, ", ")


class PReLU(Module):
    """y = x where x > 0, weight * x elsewhere; the learned weight is one number or one per channel (axis 1).

    num_parameters: 1 or the number of channels. init: the initial value.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has the wrong number of channels.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(np.full(num_parameters, init, as_float_dtype(dtype)))

    def forward(self, input: Tensor) -> Tensor:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """y = x where x > 0, slope * x elsewhere; slope is drawn from U(lower, upper) in training, their mean otherwise.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: lower exceeds upper.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + inplace_text(self.inplace, ", ")


class Hardtanh(Module):
    """y = min(max(x, min_val), max_val).

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: min_val is not less than max_val.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: min_val={min_val} must be less than max_val={max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + inplace_text(self.inplace, ", ")


class Hardsigmoid(Module):
    """y = min(max(x + 3, 0), 6) / 6.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class Hardswish(Module):
    """y = x * min(max(x + 3, 0), 6) / 6.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class Hardshrink(Module):
    """y = x where |x| > lambd, 0 elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """y = x - lambd above lambd, x + lambd below -lambd, 0 between.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: lambd is negative.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Threshold(Module):
    """y = x where x > threshold, value elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + inplace_text(self.inplace, ", ")
