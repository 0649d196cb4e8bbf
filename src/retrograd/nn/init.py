"""PyTorch's functions for initial values of weights, drawn from retrograd's own generator.

All of them write into the tensor's existing memory and return the tensor. Values are drawn in the order of the logical
shape: they depend neither on the memory layout nor, except for rounding, on the dtype.
"""

from __future__ import annotations

import math
import warnings
from typing import TypeVar

import numpy as np

from ..absent import attach_to_module
from ..engine.tensor import Tensor
from ..ops.random import random

__all__ = [
    "calculate_gain", "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

attach_to_module(__name__)
AnyTensor = TypeVar("AnyTensor", bound=Tensor)

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 3.0 / 4.0}
_LINEAR = ("linear", *(f"conv{kind}{ndim}d" for kind in ("", "_transpose") for ndim in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that preserves a signal's variance through nonlinearity.

        linear and conv*: 1, sigmoid: 1, tanh: 5/3, relu: sqrt(2), selu: 3/4
        leaky_relu: sqrt(2 / (1 + param**2)) with param the negative slope, 0.01 by default

    Source: He et al. 2015 (arXiv:1502.01852); selu and tanh as in PyTorch.

    Raises:
        ValueError: nonlinearity is not one of these, or param is not a number.
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"calculate_gain: negative slope param={param!r} is not a number")
        return math.sqrt(2.0 / (1.0 + param**2))
    known = ", ".join((*_LINEAR, *_GAINS, "leaky_relu"))
    raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity!r}; use one of {known}")


def uniform_(
    tensor: AnyTensor, a: float = 0.0, b: float = 1.0, generator: np.random.Generator | None = None
) -> AnyTensor:
    """Fill with draws from U(a, b).

    Raises:
        ValueError: a > b.
        TypeError: tensor is not a floating-point Tensor.
    """
    if a > b:
        raise ValueError(f"uniform_: a={a} must be at most b={b}; values are drawn from [a, b)")
    _check(tensor)
    tensor.array[...] = (generator or random.default_generator).uniform(a, b, tensor.array.shape)
    return tensor


def normal_(
    tensor: AnyTensor, mean: float = 0.0, std: float = 1.0, generator: np.random.Generator | None = None
) -> AnyTensor:
    """Fill with draws from N(mean, std**2).

    Raises:
        ValueError: std < 0.
        TypeError: tensor is not a floating-point Tensor.
    """
    if std < 0:
        raise ValueError(f"normal_: std={std} must be at least 0")
    _check(tensor)
    tensor.array[...] = (generator or random.default_generator).normal(mean, std, tensor.array.shape)
    return tensor


def constant_(tensor: AnyTensor, val: float) -> AnyTensor:
    """Fill with val.

    Raises:
        TypeError: tensor is not a floating-point Tensor.
    """
    _check(tensor)
    tensor.array[...] = val
    return tensor


def ones_(tensor: AnyTensor) -> AnyTensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: AnyTensor) -> AnyTensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: AnyTensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> AnyTensor:
    """Fill with draws from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, equation 16.

    Raises:
        ValueError: tensor has fewer than 2 dimensions.
        TypeError: tensor is not a floating-point Tensor.
    """
    fan_in, fan_out = fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: AnyTensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> AnyTensor:
    """Fill with draws from N(0, std**2), std = gain * sqrt(2 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010.

    Raises: as ``xavier_uniform_``.
    """
    fan_in, fan_out = fans(tensor)
    std = gain * math.sqrt(2.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: AnyTensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> AnyTensor:  # fmt: skip
    """Fill with draws from U(-bound, bound), bound = calculate_gain(nonlinearity, a) * sqrt(3 / fan).

    fan is fan_in or fan_out, depending on mode. Source: He et al. 2015 (arXiv:1502.01852).

    Raises:
        ValueError: unknown mode or nonlinearity, or tensor has fewer than 2 dimensions.
        TypeError: tensor is not a floating-point Tensor.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: AnyTensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> AnyTensor:  # fmt: skip
    """Fill with draws from N(0, std**2), std = calculate_gain(nonlinearity, a) / sqrt(fan).

    fan is fan_in or fan_out, depending on mode. Source: He et al. 2015 (arXiv:1502.01852).

    Raises: as ``kaiming_uniform_``.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (A, B, *R): B and A times the number of taps.

    Raises:
        ValueError: tensor has fewer than 2 dimensions.
    """
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(
            f"fan_in and fan_out need a tensor of at least 2 dimensions, got shape {shape}; "
            "use uniform_ or normal_ for a vector"
        )
    taps = math.prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


_calculate_fan_in_and_fan_out = fans  # PyTorch's name, which scripts call


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode={mode!r} must be 'fan_in' or 'fan_out'")
    gain = calculate_gain(nonlinearity, a)
    fan_in, fan_out = fans(tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    if tensor.array.size == 0:
        warnings.warn(f"a tensor of shape {tensor.array.shape} has no elements to initialise", stacklevel=3)
    return gain / math.sqrt(fan) if fan else 0.0


def _check(tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"tensor must be a Tensor, got {type(tensor).__name__}")
    if tensor.array.dtype.kind != "f":
        raise TypeError(f"tensor must be float32 or float64, got {tensor.array.dtype}")
