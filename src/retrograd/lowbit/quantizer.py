"""Quantizer: base class of weight and activation quantizers, with option checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from ..arrays import empty_like, from_host, number
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..nn.parameter import Parameter
from ..ops.random.random import default_generator

__all__ = ["Levels", "Quantizer"]

Own = Mapping[str, Any]  # the tensors that a layer keeps for a quantizer, by their names
Axes = tuple[int, ...]
LEAST = 1e-8  # lower limit of learned steps and ranges, which must stay positive


class Window(Protocol):
    """The operations of a layer from which a quantizer computes a factor of the output."""

    def split_groups(self, x: Tensor) -> tuple[Tensor, int]:
        """Return x, with several groups split off into a separate axis, and the index of the channel axis."""

    def average(self, sizes: Tensor) -> Tensor:
        """Return the mean of ``sizes``, x reduced to one channel, over the window of each output."""


class _Levels(NamedTuple):
    step: Any
    low: int
    high: int
    stride: int = 1
    is_nearest: bool = False


class Levels(_Levels):
    """Quantized numbers: step times an integer from low, low + stride, ..., high.

    step: a number, or an array or Tensor that broadcasts with the weights.
    is_nearest: whether the integer is x / step, rounded with ties to even and clipped to [low, high].
    """

    __slots__ = ()

    def __new__(cls, step: Any, low: int, high: int, stride: int = 1, is_nearest: bool = False) -> Self:
        if isinstance(step, Tensor):
            array = step.array
            step = number(array, "the step of quantized numbers") if array.size == 1 else array
        return super().__new__(cls, step, low, high, stride, is_nearest)


class Quantizer:
    """Base class of quantizers: frozen dataclasses of options that can be compared, printed and shared between layers.

    The layer stores the tensors that a quantizer learns or observes, prefixed with the name of the quantized tensor:
    ``weight_step``, ``activation_alpha``. A custom quantizer is a frozen dataclass with some of these methods.

    for_weights, for_activations: whether it can quantize weights and activations.
    limits: the range to which the optimizer clips the float weights, or None.
    replaces_weight: whether the tensors of ``own_of_weight`` replace the float weight, which is then no parameter.
    """

    for_weights: ClassVar[bool] = False
    for_activations: ClassVar[bool] = False
    replaces_weight: ClassVar[bool] = False

    @property
    def limits(self) -> tuple[float, float] | None:
        return None

    def own_of_weight(self, w: np.ndarray) -> dict[str, Tensor]:
        """Return the tensors that a layer stores for its weight w: Parameters, or plain Tensors as buffers."""
        return {}

    def own_of_activation(self, dtype: np.dtype) -> dict[str, Tensor]:
        """Return the tensors that a layer stores for its input."""
        return {}

    def weight(self, w: Tensor | None, axes: Axes, own: Own, training: bool) -> Tensor:
        """Return the quantized weight; w is None if the quantizer replaces it.

        axes: the axes of a filter: all except that of the output channels.
        """
        raise NotImplementedError

    def activation(self, x: Tensor, own: Own) -> Tensor:
        """Return the quantized input x of a layer."""
        raise NotImplementedError

    def observe(self, x: np.ndarray, own: Own) -> None:
        """Update the layer's tensors from an input before it is quantized, in training and in ``calibrate``."""

    def is_ready(self, own: Own) -> bool:
        """Return whether ``observe`` has seen enough inputs to quantize."""
        return True

    def activation_and_factor(self, x: Tensor, own: Own, window: Window) -> tuple[Tensor, Tensor | None]:
        """Return ``activation``, and the factor by which to multiply the output before the bias is added, or None."""
        return self.activation(x, own), None

    def factor(self, x: Tensor, window: Window) -> Tensor | None:
        """Return only the factor of ``activation_and_factor``."""
        return None

    def bias(self, b: Tensor) -> Tensor:
        """Return the bias, quantized if the quantizer of the activations does so."""
        return b

    def signs(self, w: Tensor, axes: Axes) -> tuple[Tensor, Tensor | None] | None:
        """Return (signs, scale) if the quantized weight is their product, else None.

        The ``axes`` have extent 1 in the scale; a scale of None means 1.
        """
        return None

    def weight_levels(self, w: np.ndarray | None, axes: Axes, own: Own) -> Levels | None:
        """Return the levels of the quantized weight w; None if they are not evenly spaced."""
        return None

    def activation_levels(self, own: Own) -> Levels | None:
        """Return the levels of a quantized input; None if they are not evenly spaced."""
        return None

    def __repr__(self) -> str:
        """The bits, and the options that differ from the defaults."""
        words = []
        options: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        for field in options:
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
    """Return uniform random numbers in [0, 1) with the shape of x, from the generator that ``manual_seed`` seeds."""
    numbers, dtype = empty_like(x.array), x.array.dtype
    kernels.copy(numbers, from_host(default_generator.random(x.array.shape, dtype), dtype, like=x.array))
    return wrap(numbers)


def scalar(value: float, like: Tensor) -> Tensor:
    """Return a number as a Tensor with the dtype of another Tensor."""
    return wrap(from_host(value, like.array.dtype))


def parameter_of(value: Any, dtype: np.dtype, low: float, high: float = np.inf) -> Parameter:
    """Return a Parameter that the optimizer clips to [low, high]."""
    parameter = Parameter(from_host(value, dtype))
    parameter.limits = low, high
    return parameter


def is_sign(quantizer: Quantizer, own: Own) -> bool:
    """Return whether an activation quantizer returns only -1 and 1."""
    return quantizer.is_ready(own) and quantizer.activation_levels(own) == Levels(1.0, -1, 1, stride=2)
