"""Piecewise linear activations as layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from typing import Any

from ..arrays import full
from ..engine.tensor import Tensor
from ..ops.arguments.checks import as_count, as_real
from . import functional
from .activation import Activation, InPlace
from .layer import layer
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


class ReLU(InPlace):
    """y = max(x, 0); NaN stays NaN."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(input, self.inplace)


class ReLU6(InPlace):
    """y = min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu6(input, self.inplace)


@layer
class LeakyReLU(Activation):
    """y = x where x > 0, negative_slope * x elsewhere."""

    negative_slope: float = 0.01
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return functional.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Activation):
    """y = x where x > 0, weight * x elsewhere; the learned weight is one number or one per channel (axis 1).

    num_parameters: 1 or the number of channels. init: the initial value.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has the wrong number of channels.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = as_count("PReLU", "num_parameters", num_parameters), init
        number = as_real("PReLU", "init", init)
        self.weight = Parameter(full(self.num_parameters, number, as_float_dtype(dtype)))

    def forward(self, input: Tensor) -> Tensor:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@layer
class RReLU(Activation):
    """{functional.rrelu}"""

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@layer
class Hardtanh(Activation):
    """y = min(max(x, min_val), max_val).

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: min_val is not less than max_val.
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def _set_up(self) -> None:
        if not as_real("Hardtanh", "min_val", self.min_val) < as_real("Hardtanh", "max_val", self.max_val):
            raise ValueError(f"Hardtanh: min_val={self.min_val} must be less than max_val={self.max_val}")

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Hardsigmoid(InPlace):
    """y = min(max(x + 3, 0), 6) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardsigmoid(input, self.inplace)


class Hardswish(InPlace):
    """y = x * min(max(x + 3, 0), 6) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardswish(input, self.inplace)


@layer
class _Shrink(Activation):
    """lambd: half the width of the interval that becomes 0."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """{functional.hardshrink}"""

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """{functional.softshrink}"""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softshrink(input, self.lambd)


@layer
class Threshold(Activation):
    """y = x where x > threshold, value elsewhere."""

    threshold: float
    value: float
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return functional.threshold(input, self.threshold, self.value, self.inplace)
