"""Activations as layers."""

from __future__ import annotations

from ..engine.tensor import Tensor
from ..ops.piecewise import relu
from ..ops.softmax import log_softmax, softmax
from ..ops.transcendental import sigmoid
from ..ops.trigonometry import tanh
from .module import Module

__all__ = ["LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Tanh"]


def refuse_inplace(layer: str, inplace: bool) -> None:
    """Raise ValueError if inplace is asked for."""
    if inplace:
        raise ValueError(f"{layer}: inplace=True is not supported; leave it out, the result is the same")


class ReLU(Module):
    """y = max(x, 0); NaN stays NaN.

    Raises:
        ValueError: inplace is True, which is not supported.
        TypeError: x is no floating point Tensor.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        refuse_inplace("ReLU", inplace)

    def forward(self, input: Tensor) -> Tensor:
        return relu(input)


class Sigmoid(Module):
    """y = 1 / (1 + exp(-x)).

    Raises:
        TypeError: x is no floating point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return sigmoid(input)


class Tanh(Module):
    """y = (exp(x) - exp(-x)) / (exp(x) + exp(-x)).

    Raises:
        TypeError: x is no floating point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return tanh(input)


class _AlongAxis(Module):
    """A layer that works along the axis dim; PyTorch's guess for dim=None is not taken over."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(f"{type(self).__name__}: dim={dim!r}; name the axis, for x (N, C) it is dim=1")
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """y = exp(x) / sum(exp(x)) along the axis dim, computed without overflow.

    Raises:
        ValueError: dim is missing.
        IndexError: x has no axis dim.
        TypeError: x is no floating point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return softmax(input, self.dim)


class LogSoftmax(_AlongAxis):
    """y = x - log(sum(exp(x))) along the axis dim, computed without overflow.

    Raises:
        ValueError: dim is missing.
        IndexError: x has no axis dim.
        TypeError: x is no floating point Tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return log_softmax(input, self.dim)
