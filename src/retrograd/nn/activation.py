"""Activation layers: smooth, piecewise linear, gated, and softmax."""

from __future__ import annotations

from ..arrays import full
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_count, as_real, require_tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from . import functional
from .layer import Described, layer
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


# ---- Smooth activations, softmax and its variants. `inplace=True` overwrites the input, as in PyTorch ---------------


class Activation(Described, Module):
    """Base of layers that take one floating-point Tensor of any shape."""

    _errors = "TypeError: input is not a floating-point Tensor."


@layer
class InPlace(Activation):
    """Base of activation layers whose only option is ``inplace``."""

    inplace: bool = False

    _errors = Activation._errors


class Sigmoid(Activation):
    """y = 1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.sigmoid(input)


class Tanh(Activation):
    """y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanh(input)


class SiLU(InPlace):
    """y = x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.silu(input, self.inplace)


class Mish(InPlace):
    """y = x * tanh(log(1 + exp(x)))."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.mish(input, self.inplace)


@layer
class GELU(Activation):
    """{functional.gelu}"""

    approximate: str = "none"

    def forward(self, input: Tensor) -> Tensor:
        return functional.gelu(input, self.approximate)


@layer
class ELU(Activation):
    """y = x where x > 0, alpha * (exp(x) - 1) elsewhere."""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return functional.elu(input, self.alpha, self.inplace)


class SELU(InPlace):
    """y = scale * x where x > 0, scale * alpha * (exp(x) - 1) elsewhere, with alpha = 1.6733 and scale = 1.0507."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.selu(input, self.inplace)


@layer
class CELU(Activation):
    """{functional.celu}"""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return functional.celu(input, self.alpha, self.inplace)


@layer
class Softplus(Activation):
    """y = log(1 + exp(beta * x)) / beta, and x where beta * x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0

    def forward(self, input: Tensor) -> Tensor:
        return functional.softplus(input, self.beta, self.threshold)


class LogSigmoid(Activation):
    """y = log(sigmoid(x)), computed without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.logsigmoid(input)


class Softsign(Activation):
    """y = x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softsign(input)


class Tanhshrink(Activation):
    """y = x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanhshrink(input)


@layer
class GLU(Activation):
    """{functional.glu}"""

    dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return functional.glu(input, self.dim)


class _AlongAxis(Described, Module):
    """Base of layers that work along axis ``dim``.

    None means axis 0 of an input with 0, 1 or 3 axes and axis 1 of others, with a warning.
    """

    _errors = """ValueError: dim is not an int.
        IndexError: input has no axis dim.
        TypeError: input is not a floating-point Tensor."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise ValueError(f"{type(self).__name__}: dim={dim!r} must be an int; for input (N, C) pass dim=1")
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """y = exp(x) / sum(exp(x)) along the axis dim, computed without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmax(input, self.dim, 5)


class LogSoftmax(_AlongAxis):
    """y = x - log(sum(exp(x))) along the axis dim, computed without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.log_softmax(input, self.dim, 5)


class Softmin(_AlongAxis):
    """y = softmax(-x) along the axis dim."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmin(input, self.dim, 5)


class Softmax2d(Module):
    """y = softmax of x (N, C, H, W) or (C, H, W) over the channels, at every pixel.

    Raises:
        ValueError: input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        require_tensor("Softmax2d", input)
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: input.shape={tuple(input.shape)}, needs (N, C, H, W) or (C, H, W)")
        return functional.softmax(input, -3)


# ---- Piecewise linear activations. `inplace=True` overwrites the input, as in PyTorch -------------------------------


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

    init: float
    num_parameters: int

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = as_count("PReLU", "num_parameters", num_parameters), init
        number = as_real("PReLU", "init", init)
        self.weight: Parameter = Parameter(full(self.num_parameters, number, as_float_dtype(dtype)))

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
    """Base of the shrinkage layers; ``lambd`` is half the width of the interval that becomes 0."""

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
