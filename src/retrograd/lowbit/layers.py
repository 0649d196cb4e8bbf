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
from ..ops.pointwise.elementwise import addcmul
from ..ops.product.matmul import linear
from .base import LowBit, check_quantizer, with_quantizers
from .functions import mean_size
from .quantizer import Axes, Quantizer

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

    def _box(self, x: Tensor, *size: Any) -> Tensor:
        """The mean of |x| over the window of each output and over its input channels."""
        raise NotImplementedError

    def _forward(self, input: Tensor, *size: Any) -> Tensor:
        x, factor = self._input(input, lambda x: self._box(x, *size))
        w, b = self.quantized(), self._bias()
        if factor is None:
            return self._summed(x, w, b, *size)
        return self._scaled(self._summed(x, w, None, *size), factor, b)

    def _scaled(self, y: Tensor, factor: Tensor, b: Tensor | None) -> Tensor:
        """y factor + b"""
        return y * factor if b is None else addcmul(b, y, factor)


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

    def _box(self, x: Tensor, *size: Any) -> Tensor:
        return mean_size(x, (x.array.ndim - 1,))


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

    def _box(self, x: Tensor, *size: Any) -> Tensor:
        """(N, groups, *O); what padding adds counts with its value."""
        apart, axis = self._apart(x)
        sizes = mean_size(apart, (axis,))
        if apart is not x:
            sizes = sizes.squeeze(axis)
        weight = (prod(self.stride) if self.transposed else 1) / prod(self.kernel_size)
        box = np.full((self.groups, 1, *self.kernel_size), weight, x.array.dtype)
        return self._convolved(sizes, wrap(box), None, *size)

    def _scaled(self, y: Tensor, factor: Tensor, b: Tensor | None) -> Tensor:
        apart, axis = self._apart(y)
        if apart is not y:
            factor = factor.unsqueeze(axis)
        if b is not None:
            b = b.reshape(*apart.array.shape[axis - (apart is not y) : axis + 1], *(1,) * self.ndim)
        result = super()._scaled(apart, factor, b)
        return result if apart is y else result.reshape(*y.array.shape)

    def _apart(self, x: Tensor) -> tuple[Tensor, int]:
        """x with its groups, if there are several, on an axis of their own, and the axis of a group's channels."""
        shape, axis = x.array.shape, x.array.ndim - self.ndim - 1
        if self.groups == 1:
            return x, axis
        return x.reshape(*shape[:axis], self.groups, -1, *shape[axis + 1 :]), axis + 1


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
