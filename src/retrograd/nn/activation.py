"""Smooth activations, softmax and its variants as layers. ``inplace=True`` overwrites the input, as in PyTorch."""

from __future__ import annotations

from ..engine.tensor import Tensor
from . import functional
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


class Sigmoid(Module):
    """y = 1 / (1 + exp(-x)).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.sigmoid(input)


class Tanh(Module):
    """y = (exp(x) - exp(-x)) / (exp(x) + exp(-x)).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanh(input)


class SiLU(Module):
    """y = x * sigmoid(x).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class Mish(Module):
    """y = x * tanh(log(1 + exp(x))).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.mish(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class GELU(Module):
    """y = x * P(X <= x) for a normal X; approximate="tanh" uses the tanh approximation.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: approximate is neither "none" nor "tanh".
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class ELU(Module):
    """y = x where x > 0, alpha * (exp(x) - 1) elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + inplace_text(self.inplace, ", ")


class SELU(Module):
    """y = scale * x where x > 0, scale * alpha * (exp(x) - 1) elsewhere, with alpha = 1.6733 and scale = 1.0507.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return inplace_text(self.inplace)


class CELU(Module):
    """y = x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: alpha is 0.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + inplace_text(self.inplace, ", ")


class Softplus(Module):
    """y = log(1 + exp(beta * x)) / beta, and x where beta * x > threshold.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    """y = log(sigmoid(x)), computed without overflow.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.logsigmoid(input)


class Softsign(Module):
    """y = x / (1 + |x|).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softsign(input)


class Tanhshrink(Module):
    """y = x - tanh(x).

    Raises:
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanhshrink(input)


class GLU(Module):
    """y = a * sigmoid(b), where a and b are the halves of x along the axis dim.

    Raises:
        TypeError: input is not a floating-point Tensor.
        IndexError: input has no axis dim.
        ValueError: the extent of axis dim is odd.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _AlongAxis(Module):
    """A layer along axis dim; unlike PyTorch, dim=None is refused, not guessed."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(f"{type(self).__name__}: dim={dim!r} must be an int; for input (N, C) pass dim=1")
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """y = exp(x) / sum(exp(x)) along the axis dim, computed without overflow.

    Raises:
        ValueError: dim is missing.
        IndexError: input has no axis dim.
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmax(input, self.dim)


class LogSoftmax(_AlongAxis):
    """y = x - log(sum(exp(x))) along the axis dim, computed without overflow.

    Raises:
        ValueError: dim is missing.
        IndexError: input has no axis dim.
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.log_softmax(input, self.dim)


class Softmin(_AlongAxis):
    """y = softmax(-x) along the axis dim.

    Raises:
        ValueError: dim is missing.
        IndexError: input has no axis dim.
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmin(input, self.dim)


class Softmax2d(Module):
    """y = softmax of x (N, C, H, W) or (C, H, W) over the channels, at every pixel.

    Raises:
        ValueError: input has the wrong number of axes.
        TypeError: input is not a floating-point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: input.shape={tuple(input.shape)}, needs (N, C, H, W) or (C, H, W)")
        return functional.softmax(input, -3)


def inplace_text(inplace: bool, before: str = "") -> str:
    """``inplace=True`` for a repr, empty if it is False."""
    return f"{before}inplace=True" if inplace else ""
