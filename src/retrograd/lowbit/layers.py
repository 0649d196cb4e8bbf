"""Linear, Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d with quantized weights and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .. import nn
from ..arrays import all_true, from_host, full, ones
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..nn.convolution import Activation
from ..nn.utils.per_sample_rules import refuse_per_sample
from ..ops.convolution.plan import exact_convolution
from ..ops.pointwise.arithmetic import addcmul
from ..ops.product.matmul import linear
from .base import LowBit, check_quantizer, with_quantizers
from .quantizer import Axes, Quantizer, Window, is_sign

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Linear",
    "Quantize",
]

Option = Quantizer | None


class _LinearOrConvolution(LowBit):
    """Base of the linear and convolution layers. A quantizer's factor multiplies the output before the bias."""

    if TYPE_CHECKING:
        bias: Any

    def _summed(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor:
        """The layer's operator."""
        raise NotImplementedError

    def _forward(self, input: Tensor, *size: Any) -> Tensor:
        x, factor = self._input(input, self._window(*size))
        b, parts = self._bias(), self._signs_and_scale()
        if parts is not None:
            return self._of_signs(x, parts, factor, b, *size)
        w = self.quantized()
        if factor is None:
            return self._summed(x, w, b, *size)
        return self._scaled(self._summed(x, w, None, *size), factor, b)

    def _of_signs(
        self, x: Tensor, parts: tuple[Tensor, Tensor | None], factor: Tensor | None, b: Tensor | None, *size: Any
    ) -> Tensor:
        """Exact sums of signs, then the scale, the factor and the bias, each rounded once, as in a packed layer."""
        signs, scale = parts
        with exact_convolution():
            y = self._summed(x, signs, None, *size)
        if scale is not None:
            y = y * self._per_channel(scale.reshape(-1))
        if factor is not None:
            y = self._scaled(y, factor, None)
        return y if b is None else y + self._per_channel(b)

    def _per_channel(self, b: Tensor) -> Tensor:
        """Reshape one number per output channel to broadcast with the output."""
        return b

    def _window(self, *size: Any) -> Window:
        """Return the Window of the layer, from which a quantizer computes a factor of the output."""
        return _NoWindow()

    def _scaled(self, y: Tensor, factor: Tensor, b: Tensor | None) -> Tensor:
        """y factor + b"""
        return y * factor if b is None else addcmul(b, y, factor)

    def _signs_and_scale(self) -> tuple[Tensor, Tensor | None] | None:
        """Return the signs and the scale of the weights in eval mode, if inputs and weights are signs; else None.

        The sums are then exact integers, as in a packed layer.
        """
        quantizer, of_input = self.weight_quantizer, self.activation_quantizer
        if self.training or quantizer is None or of_input is None or not is_sign(of_input, self._own("activation")):
            return None
        weight = self.__dict__.get("weight")
        if weight is None:
            return None
        view, axes = self._filters(weight)
        parts = quantizer.signs(view, axes) or self._signs_of_levels(view, axes)
        return parts if parts is None or view is weight else (parts[0].reshape(weight.array.shape), parts[1])

    def _signs_of_levels(self, view: Tensor, axes: Axes) -> tuple[Tensor, Tensor] | None:
        """Split a weight whose quantizer declares levels -1 and 1 but no ``signs``; None for other levels."""
        quantizer: Any = self.weight_quantizer
        own = self._own("weight")
        levels = quantizer.weight_levels(view.array, axes, own)
        if levels is None or (levels.low, levels.high, levels.stride) != (-1, 1, 2):
            return None
        scale = wrap(from_host(levels.step, view.array.dtype))
        signs = quantizer.weight(view, axes, own, False) / scale
        are_signs = kernels.eq(kernels.abs(signs.array), ones((), signs.array.dtype, like=signs.array))
        return (signs, scale.reshape(-1)) if all_true(are_signs, "whether all levels are signs") else None


class _NoWindow:
    """The window of a layer that reads all features."""

    def split_groups(self, x: Tensor) -> tuple[Tensor, int]:
        return x, x.array.ndim - 1

    def average(self, sizes: Tensor) -> Tensor:
        return sizes


@with_quantizers
class Linear(_LinearOrConvolution, nn.Linear):
    """``nn.Linear`` with a quantized weight and input; the float weight stays the parameter.

    weight, activation: quantizers of the weight and of the input; None leaves it float.

    Raises:
        TypeError: weight or activation is not a quantizer for that role.
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


class _Convolution(_LinearOrConvolution):
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
        def _convolved(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any, groups: int = 0) -> Tensor: ...

    def __init__(
        self,
        *args: Any,
        weight: Option = None,
        activation: Option = None,
        output_activation: Activation = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, activation=output_activation, **options)  # type: ignore[call-arg]
        self._quantize(weight, activation)

    def _summed(self, x: Tensor, w: Tensor, b: Tensor | None, *size: Any) -> Tensor:
        return self._convolved(x, w, b, *size)

    def _per_channel(self, b: Tensor) -> Tensor:
        return b.reshape(-1, *(1,) * self.ndim)

    def _window(self, *size: Any) -> Window:
        return _ConvWindow(self, size)

    def _scaled(self, y: Tensor, factor: Tensor, b: Tensor | None) -> Tensor:
        """factor: (N, groups, *O)"""
        grouped, axis = _ConvWindow(self, ()).split_groups(y)
        if grouped is not y:
            factor = factor.unsqueeze(axis)
        if b is not None:
            b = b.reshape(*grouped.array.shape[axis - (grouped is not y) : axis + 1], *(1,) * self.ndim)
        result = super()._scaled(grouped, factor, b)
        return result if grouped is y else result.reshape(*y.array.shape)


class _ConvWindow:
    """The window of a convolution. Averages include padded elements, with their values.

    size: (output_size,) for a transposed convolution, else ().
    """

    def __init__(self, layer: _Convolution, size: tuple[Any, ...]) -> None:
        self._layer, self._size = layer, size

    def split_groups(self, x: Tensor) -> tuple[Tensor, int]:
        layer, shape = self._layer, x.array.shape
        axis, groups = len(shape) - layer.ndim - 1, layer.groups
        if axis not in (0, 1):
            raise ValueError(
                f"{type(layer).__name__}: input.shape={shape} has {len(shape)} axes, needs {layer.ndim + 2}, or "
                f"{layer.ndim + 1} without a batch"
            )
        if groups == 1 or shape[axis] % groups:  # the operator refuses such channels
            return x, axis
        return x.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]), axis + 1

    def average(self, sizes: Tensor) -> Tensor:
        """Average by one depthwise convolution whose channels, which kernels iterate over, are samples and groups.

        A recorded call keeps the batch axis, because an exported model may have a variable batch size.
        """
        layer, extents = self._layer, sizes.array.shape[-self._layer.ndim :]
        count = sizes.array.size // prod(extents)
        channels = count if count and thread.mode.watch is None else layer.groups
        images = sizes.reshape(count // channels, channels, *extents)
        share = (prod(layer.stride) if layer.transposed else 1) / prod(layer.kernel_size)
        box = wrap(full((channels, 1, *layer.kernel_size), share, sizes.array.dtype, like=sizes.array))
        factor = layer._convolved(images, box, None, *self._size, groups=channels)
        lead = sizes.array.shape[: -layer.ndim]
        lead = lead if layer.groups == 1 else lead[:-1]  # without the axis of a group's channels
        return factor.reshape(*lead, *factor.array.shape[2:])


class _Conv(_Convolution):
    """``nn.Conv{n}d`` with a quantized weight and input; the float weight stays the parameter.

    weight, activation: quantizers of the weight and of the input; None leaves it float.
    output_activation: ``activation`` of nn.Conv{n}d, a function applied to y, or its name.

    Raises:
        TypeError: weight or activation is not a quantizer for that role.
        And as nn.Conv{n}d.
    """

    def forward(self, input: Tensor) -> Tensor:
        y = self._forward(input)
        return y if self.activation is None else self._activated(y)


class _ConvTranspose(_Convolution):
    """``nn.ConvTranspose{n}d`` with a quantized weight and input; the float weight stays the parameter.

    weight, activation: quantizers of the weight and of the input; None leaves it float. A filter is the weights
        of one output channel.
    output_activation: ``activation`` of nn.ConvTranspose{n}d, a function applied to y, or its name.

    Raises:
        TypeError: weight or activation is not a quantizer for that role.
        And as nn.ConvTranspose{n}d.
    """

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        y = self._forward(input, output_size)
        return y if self.activation is None else self._activated(y)

    def _filters(self, weight: Tensor) -> tuple[Tensor, Axes]:
        ndim, groups = weight.array.ndim, self.groups
        if groups == 1:
            return weight, (0, *range(2, ndim))
        shape = weight.array.shape
        return weight.reshape(groups, shape[0] // groups, *shape[1:]), (1, *range(3, ndim + 1))


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
    """A module that quantizes activations between layers or after a sum.

    Raises:
        TypeError: activation is not an activation quantizer.
    """

    def __init__(self, activation: Quantizer) -> None:
        super().__init__()
        check_quantizer("Quantize", "activation", activation, "for_activations")
        self._quantize(None, activation)

    def _weight_names(self) -> list[str]:
        return []

    def forward(self, input: Tensor) -> Tensor:
        x, factor = self._input(input, _NoWindow())
        if factor is not None:
            raise ValueError("Quantize: the factor of XNOR belongs to a layer with weights; use Sign() here")
        return x


refuse_per_sample(
    _LinearOrConvolution,
    "is a low-bit layer, whose parameters have no per-sample gradients; freeze them: requires_grad_(False)",
)
