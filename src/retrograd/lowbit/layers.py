"""Linear, Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d with quantised weights and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nn
from ..engine.tensor import Tensor, wrap
from ..nn.folded_activation import Activation
from ..nn.utils.per_sample_rules import Call, register_per_sample_rule
from ..ops.convolution.plan import exact_convolution
from ..ops.product.matmul import linear
from ..ops.reduce.reduction import mean
from .base import LowBit, check_quantizer, with_quantizers
from .quantizer import Axes, Quantizer, is_sign

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear", "Quantize",
]  # fmt: skip

Option = Quantizer | None


class _Summing(LowBit):
    """Base of the layers that sum products: their quantised output, before the bias, is multiplied by a factor."""

    if TYPE_CHECKING:
        bias: Any

    def _summed(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor:
        """The layer's operator."""
        raise NotImplementedError

    def _box(self, a: Tensor, *size: Any) -> Tensor:
        """The mean of a, the sizes of the inputs, over the window of each output and over its input channels."""
        raise NotImplementedError

    def _forward(self, input: Tensor, *size: Any) -> Tensor:
        x, factor = self._input(input, lambda a: self._box(a, *size))
        b, parts = self._bias(), self._parts()
        if factor is None and parts is None:
            return self._summed(x, self.quantized(), b, *size)
        if parts is None:
            y = self._summed(x, self.quantized(), None, *size)
        else:
            with exact_convolution():
                y = self._summed(x, parts[0], None, *size)
            if parts[1] is not None:
                y = y * self._per_channel(parts[1].reshape(-1))
        y = y if factor is None else self._scaled(y, factor)
        return y if b is None else y + self._per_channel(b)

    def _parts(self) -> tuple[Tensor, Tensor | None] | None:
        """In eval mode, where inputs and weights are signs: the signs and the scale of the weights, apart.

        Their sums are then integers, and exact: those of a packed layer.
        """
        quantizer, of_input = self.weight_quantizer, self.activation_quantizer
        if self.training or quantizer is None or of_input is None or not is_sign(of_input, self._own("activation")):
            return None
        weight = self.__dict__.get("weight")
        if weight is None:
            return None
        view, axes = self._filters(weight)
        parts = quantizer.signs(view, axes)
        return parts if parts is None or view is weight else (parts[0].reshape(weight.array.shape), parts[1])

    def _scaled(self, y: Tensor, factor: Tensor) -> Tensor:
        return y * factor

    def _per_channel(self, b: Tensor) -> Tensor:
        return b


@with_quantizers
class Linear(_Summing, nn.Linear):
    """``nn.Linear`` with a quantised weight and input; its float weight is the parameter of that layer.

    weight, activation: quantisers of the weight and of the input; None leaves it float.

    Raises:
        TypeError: weight or activation is no quantiser for it.
        And as nn.Linear.

    >>> from retrograd import lowbit
    >>> lowbit.Linear(784, 10, weight=lowbit.BWN(), activation=lowbit.Sign())
    Linear(in_features=784, out_features=10, bias=True, weight=BWN(), activation=Sign())
    """

    def __init__(self, *args: Any, weight: Option = None, activation: Option = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._quantize(weight, activation)

    def forward(self, input: Tensor) -> Tensor:
        return self._forward(input)

    def _summed(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor:
        return linear(x, w, b)

    def _box(self, a: Tensor, *size: Any) -> Tensor:
        return mean(a, -1, True)


class _Convolution(_Summing):
    """Base of all convolutions."""

    if TYPE_CHECKING:
        ndim: int
        groups: int
        in_channels: int
        out_channels: int
        kernel_size: tuple[int, ...]
        stride: tuple[int, ...]
        activation: Any
        transposed: bool

        def _activated(self, y: Tensor) -> Tensor: ...
        def _convolved(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor: ...

    def __init__(
        self, *args: Any, weight: Option = None, activation: Option = None, output_activation: Activation = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, activation=output_activation, **options)  # type: ignore[call-arg]
        self._quantize(weight, activation)

    def _summed(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor:
        return self._convolved(x, w, b, *size)

    def _box(self, a: Tensor, *size: Any) -> Tensor:
        """(N, groups, *O); what padding adds counts with its value."""
        shape, groups = a.array.shape, self.groups
        channels = len(shape) - self.ndim - 1
        if groups > 1:
            a = mean(a.reshape(*shape[:channels], groups, -1, *shape[channels + 1 :]), channels + 1)
        else:
            a = mean(a, channels, True)
        weight = (prod(self.stride) if self.transposed else 1) / prod(self.kernel_size)
        return self._convolved(a, wrap(np.full((groups, 1, *self.kernel_size), weight, a.array.dtype)), None, *size)

    def _scaled(self, y: Tensor, factor: Tensor) -> Tensor:
        if self.groups == 1:
            return y * factor
        shape = y.array.shape
        channels = len(shape) - self.ndim - 1
        apart = *shape[:channels], self.groups, -1, *shape[channels + 1 :]
        return (y.reshape(*apart) * factor.unsqueeze(channels + 1)).reshape(*shape)

    def _per_channel(self, b: Tensor) -> Tensor:
        return b.reshape(-1, *(1,) * self.ndim)


class _Conv(_Convolution):
    """``nn.Conv{n}d`` with a quantised weight and input; its float weight is the parameter of that layer.

    weight, activation: quantisers of the weight and of the input; None leaves it float.
    output_activation: ``activation`` of nn.Conv{n}d, a function applied to y, or its name.

    Raises:
        TypeError: weight or activation is no quantiser for it.
        And as nn.Conv{n}d.
    """

    def forward(self, input: Tensor) -> Tensor:
        y = self._forward(input)
        return y if self.activation is None else self._activated(y)


class _ConvTranspose(_Convolution):
    """``nn.ConvTranspose{n}d`` with a quantised weight and input; its float weight is the parameter of that layer.

    weight, activation: quantisers of the weight and of the input; None leaves it float. A filter is what makes one
        output channel.
    output_activation: ``activation`` of nn.ConvTranspose{n}d, a function applied to y, or its name.

    Raises:
        TypeError: weight or activation is no quantiser for it.
        And as nn.ConvTranspose{n}d.
    """

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        y = self._forward(input, output_size)
        return y if self.activation is None else self._activated(y)

    def _filters(self, weight: Tensor) -> tuple[Tensor, Axes]:
        ndim, groups = weight.array.ndim, self.groups
        if groups == 1:
            return weight, (0, *range(2, ndim))
        return weight.reshape(groups, -1, *weight.array.shape[1:]), (1, *range(3, ndim + 1))


# fmt: off
@with_quantizers
class Conv1d(_Conv, nn.Conv1d, ndim=1): ...
@with_quantizers
class Conv2d(_Conv, nn.Conv2d, ndim=2): ...
@with_quantizers
class Conv3d(_Conv, nn.Conv3d, ndim=3): ...
@with_quantizers
class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d, ndim=1): ...
@with_quantizers
class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d, ndim=2): ...
@with_quantizers
class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d, ndim=3): ...
# fmt: on


class Quantize(LowBit):
    """The quantiser of activations at a place of its own: between layers, or after a sum.

    Raises:
        TypeError: activation is no quantiser of activations.
    """

    def __init__(self, activation: Quantizer) -> None:
        super().__init__()
        check_quantizer("Quantize", "activation", activation, "for_activations")
        self._quantize(None, activation)

    def _weight_names(self) -> list[str]:
        return []

    def forward(self, input: Tensor) -> Tensor:
        x, _ = self._input(input, _no_window)
        return x


def _no_window(a: Tensor) -> Tensor:
    raise ValueError("Quantize: the factor of XNOR belongs to a layer with weights; use Sign() here")


def _refuse(call: Call) -> None:
    raise ValueError(
        f"per_sample_gradients: {call.layer.describe()} is a low-bit layer, whose parameters have no gradient for each "
        "sample; freeze them: requires_grad_(False)"
    )


register_per_sample_rule(_Summing, lambda call, g: {}, _refuse)
