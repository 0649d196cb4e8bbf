"""Quantizer: base class of weight and activation quantizers, with option checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..arrays import empty_like, from_host
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..nn.parameter import Parameter
from ..ops.random.random import default_generator

__all__ = ["Levels", "Quantizer"]

Own = Mapping[str, Any]  # the tensors that a layer keeps for a quantizer, by their names
Axes = tuple[int, ...]
LEAST = 1e-8  # limit of learned steps and ranges, which stay positive


class Window(Protocol):
    """The operations of a layer from which a quantizer computes a factor of the output."""

    def apart(self, x: Tensor) -> tuple[Tensor, int]:
        """x with its groups, if there are several, on a separate axis, and the axis of a group's channels."""

    def average(self, sizes: Tensor) -> Tensor:
        """The mean over the window of each output of sizes, x reduced to one channel."""


class Levels(NamedTuple):
    """Quantized numbers: step times an integer from low, low + stride, ..., high.

    step: a number, or an array that the weights broadcast with.
    is_nearest: the integer is x / step rounded, of two the even one, and limited.
    """

    step: Any
    low: int
    high: int
    stride: int = 1
    is_nearest: bool = False


class Quantizer:
    """A quantizer's options: frozen, comparable, printable, and shareable between layers.

    The layer keeps what a quantizer learns or observes, under names that begin with that of the quantized tensor:
    ``weight_step``, ``activation_alpha``. A custom quantizer is a frozen dataclass with some of these methods.

    for_weights, for_activations: what it can quantize.
    limits: the range in which the optimizer keeps the float weights, or None.
    replaces_weight: ``own_of_weight`` takes the place of the float weight, which is no longer a parameter.
    """

    for_weights: ClassVar[bool] = False
    for_activations: ClassVar[bool] = False
    replaces_weight: ClassVar[bool] = False

    @property
    def limits(self) -> tuple[float, float] | None:
        return None

    def own_of_weight(self, w: np.ndarray) -> dict[str, Tensor]:
        """The tensors that a layer keeps for its weight w: parameters, and buffers, which are plain Tensors."""
        return {}

    def own_of_activation(self, dtype: np.dtype) -> dict[str, Tensor]:
        """The tensors that a layer keeps for its input."""
        return {}

    def weight(self, w: Tensor | None, axes: Axes, own: Own, training: bool) -> Tensor:
        """The quantized weight; w is None if the quantizer replaces it.

        axes: the axes of a filter: all except that of the output channels.
        """
        raise NotImplementedError

    def activation(self, x: Tensor, own: Own) -> Tensor:
        """The quantized input x of a layer."""
        raise NotImplementedError

    def observe(self, x: np.ndarray, own: Own) -> None:
        """Look at an input, in training and in ``calibrate``, before it is quantized."""

    def is_ready(self, own: Own) -> bool:
        """Whether ``observe`` has seen enough."""
        return True

    def activation_and_factor(self, x: Tensor, own: Own, window: Window) -> tuple[Tensor, Tensor | None]:
        """``activation``, and the factor of the layer's output before the bias is added, or None."""
        return self.activation(x, own), None

    def factor(self, x: Tensor, window: Window) -> Tensor | None:
        """The factor of the layer's output, without the activation."""
        return None

    def bias(self, b: Tensor) -> Tensor:
        """The bias that belongs to activations of this quantizer."""
        return b

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, Tensor | None] | None:
        """The signs and the scale of weights that are their product, or None.

        The ``axes`` have extent 1 in the scale; None means 1.
        """
        return None

    def weight_levels(self, w: np.ndarray | None, axes: Axes, own: Own) -> Levels | None:
        """The levels of the quantized weight w; None if they are not evenly spaced."""
        return None

    def activation_levels(self, own: Own) -> Levels | None:
        """The levels of a quantized input; None if they are not evenly spaced."""
        return None

    def __repr__(self) -> str:
        """The bits, and the options that differ from the defaults."""
        words = []
        for field in fields(self):  # type: ignore[arg-type]  # every quantizer is a dataclass
            value = getattr(self, field.name)
            if field.default is MISSING or field.name == "bits" or value != field.default:
                words.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


def check_int(quantizer: Quantizer, argument: str, low: int, high: int) -> None:
    """Raise a ValueError unless the option is an int from low to high."""
    value = getattr(quantizer, argument)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{type(quantizer).__name__}: {argument}={value!r} must be an int from {low} to {high}")


def check_word(quantizer: Quantizer, argument: str, *words: str) -> None:
    """Raise a ValueError unless the option is one of these words."""
    value = getattr(quantizer, argument)
    if value not in words:
        raise ValueError(
            f"{type(quantizer).__name__}: {argument}={value!r} must be one of {', '.join(map(repr, words))}"
        )


def check_flag(quantizer: Quantizer, argument: str) -> None:
    """Raise a ValueError unless the option is True or False."""
    value = getattr(quantizer, argument)
    if not isinstance(value, bool):
        raise ValueError(f"{type(quantizer).__name__}: {argument}={value!r} must be True or False")


def draws_like(x: Tensor) -> Tensor:
    """Uniform random numbers in [0, 1) in the shape of x, from the generator that ``manual_seed`` seeds."""
    numbers, dtype = empty_like(x.array), x.array.dtype
    kernels.copy(numbers, from_host(default_generator.random(x.array.shape, dtype), dtype, like=x.array))
    return wrap(numbers)


def scalar(value: float, like: Tensor) -> Tensor:
    """Return a number as a Tensor with the dtype of another Tensor."""
    return wrap(from_host(value, like.array.dtype))


def parameter_of(value: Any, dtype: np.dtype, low: float, high: float = np.inf) -> Parameter:
    """A Parameter that the optimizer keeps from low to high."""
    parameter = Parameter(from_host(value, dtype))
    parameter.limits = low, high
    return parameter


def is_sign(quantizer: Quantizer, own: Own) -> bool:
    """Whether an activation quantizer returns only -1 and 1."""
    return quantizer.is_ready(own) and quantizer.activation_levels(own) == Levels(1.0, -1, 1, stride=2)
