"""Smooth activations, softmax and its variants as layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from ..engine.tensor import Tensor
from ..ops.arguments.checks import require_tensor
from . import functional
from .layer import Described, layer
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]


class Activation(Described, Module):
    """Base of layers that take one floating-point Tensor of any shape."""

    _errors = "TypeError: input is not a floating-point Tensor."


@layer
class InPlace(Activation):
    """Base of those whose only option is ``inplace``."""

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
    """A layer along axis dim; None is axis 0 of an input with 0, 1 or 3 axes and axis 1 of others, with a warning."""

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
