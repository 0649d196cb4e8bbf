"""Convolution and transposed convolution layers: one class each for all numbers of axes.

Ci/Co input and output channels, I/R/O extents of input, kernel and output, g groups, d dilation, s stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..engine.tensor import Tensor
from ..geometry import as_pairs, as_tuple
from ..ops.convolution import conv_nd, conv_transpose_nd
from . import init
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Extents = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]


class _Convolution(Module):
    """What both kinds share: the checked arguments, the parameters and their initial values."""

    ndim: ClassVar[int]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents,
        padding: Padding,
        dilation: Extents,
        groups: int,
        bias: bool,
        padding_mode: str,
        dtype: Any,
        transposed: bool,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        for argument, value in (*channels.items(), ("groups", groups)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: {argument}={value!r} must be an int of at least 1")
        for argument, value in channels.items():
            if value % groups:
                raise ValueError(f"{name}: {argument}={value} must be divisible by groups={groups}")
        if padding_mode != "zeros":
            raise ValueError(f"{name}: padding_mode={padding_mode!r} is not supported; use 'zeros'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._extents("kernel_size", kernel_size, 1)
        self.stride = self._extents("stride", stride, 1)
        self.padding = self._padding(padding)
        self.dilation = self._extents("dilation", dilation, 1)
        self.groups = groups
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = empty_weight((first, second // groups, *self.kernel_size), dtype)
        if bias:
            self.bias = Parameter(np.empty(out_channels, as_float_dtype(dtype)))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _extents(self, argument: str, value: Extents, at_least: int) -> tuple[int, ...]:
        return as_tuple(value, self.ndim, f"{type(self).__name__}: {argument}", at_least)

    def _padding(self, padding: Padding) -> Any:
        """One int per axis where low and high are equal, else pairs; words as they are."""
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                name = type(self).__name__
                raise ValueError(f"{name}: padding={padding!r} must be 'same', 'valid' or numbers")
            return padding
        pairs = as_pairs(padding, self.ndim)
        return tuple(low for low, _ in pairs) if all(low == high for low, high in pairs) else pairs

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(fan_in), as PyTorch does."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        words = [str(self.in_channels), str(self.out_channels)]
        words += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        zeros, ones = (0,) * self.ndim, (1,) * self.ndim
        defaults = {"padding": zeros, "dilation": ones, "output_padding": zeros, "groups": 1}
        for argument, default in defaults.items():
            value = getattr(self, argument, default)
            if value != default:
                words.append(f"{argument}={value!r}")
        if self.bias is None:
            words.append("bias=False")
        return ", ".join(words)


class _Conv(_Convolution):
    """y[o] = bias + sum over channels and taps r of x[o*s + r*d - padding] * weight[r].

    x (N, Ci, *I) or (Ci, *I) -> y (N, Co, *O) or (Co, *O)
    weight (Co, Ci/g, *R), bias (Co,), O = (I + padding on both sides - d*(R-1) - 1) // s + 1

    kernel_size, stride, dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis, or "valid" (none), or "same" (O = I / s, rounded up).

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x has another dtype than the weight.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Padding = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation),
            *(groups, bias, padding_mode, dtype),
            transposed=False,
        )
        self._operator = f"conv{self.ndim}d"

    def forward(self, input: Tensor) -> Tensor:
        return conv_nd(
            self._operator,
            self.ndim,
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )


class Conv1d(_Conv):
    __doc__ = f"Convolution over one axis: x (N, Ci, I).\n\n    {_Conv.__doc__}"
    ndim = 1


class Conv2d(_Conv):
    __doc__ = f"Convolution over two axes: x (N, Ci, H, W).\n\n    {_Conv.__doc__}"
    ndim = 2


class Conv3d(_Conv):
    __doc__ = f"Convolution over three axes: x (N, Ci, D, H, W).\n\n    {_Conv.__doc__}"
    ndim = 3


class _ConvTranspose(_Convolution):
    """The gradient of a convolution to its input, as a layer: y[i*s + r*d - padding] += x[i] * weight[r].

    x (N, Ci, *I) or (Ci, *I) -> y (N, Co, *O) or (Co, *O)
    weight (Ci, Co/g, *R), bias (Co,), O = (I-1)*s - padding on both sides + d*(R-1) + output_padding + 1

    kernel_size, stride, output_padding, dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis.

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x has another dtype than the weight.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Padding = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: str = "zeros",
        *,
        dtype: Any = None,
    ) -> None:
        if isinstance(padding, str):
            raise ValueError(f"{type(self).__name__}: padding={padding!r} is for convolutions; give numbers")
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation),
            *(groups, bias, padding_mode, dtype),
            transposed=True,
        )
        self.output_padding = self._extents("output_padding", output_padding, 0)
        for extra, step, spread in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if extra >= max(step, spread):
                raise ValueError(
                    f"{type(self).__name__}: output_padding={output_padding!r} must be smaller than "
                    f"stride={self.stride} or dilation={self.dilation}"
                )
        self._operator = f"conv_transpose{self.ndim}d"

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """output_size: the extents *O wanted (or the whole shape), where stride leaves a choice.

        Raises:
            ValueError: no output_padding leads to output_size; says which sizes are possible.
        """
        output_padding = self.output_padding
        if output_size is not None and input.data.ndim in (self.ndim + 1, self.ndim + 2):
            output_padding = self._output_padding(input.data.shape, output_size)
        return conv_transpose_nd(
            self._operator,
            self.ndim,
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, shape: tuple[int, ...], output_size: Sequence[int]) -> tuple[int, ...]:
        name = type(self).__name__
        wanted = tuple(output_size)
        if len(wanted) == len(shape):
            wanted = wanted[-self.ndim :]
        if len(wanted) != self.ndim:
            raise ValueError(
                f"{name}: output_size={tuple(output_size)} needs {self.ndim} extents, "
                f"or {len(shape)} for the whole shape"
            )
        lows = tuple(
            (size - 1) * step - low - high + spread * (taps - 1) + 1
            for size, step, (low, high), spread, taps in zip(
                *(shape[-self.ndim :], self.stride, as_pairs(self.padding, self.ndim)),
                *(self.dilation, self.kernel_size),
                strict=True,
            )
        )
        extra = tuple(size - low for size, low in zip(wanted, lows, strict=True))
        if any(not 0 <= more < step for more, step in zip(extra, self.stride, strict=True)):
            highs = tuple(low + step - 1 for low, step in zip(lows, self.stride, strict=True))
            raise ValueError(
                f"{name}: output_size={wanted} is impossible; "
                f"for an input of extents {shape[-self.ndim :]} it may be {lows} to {highs}"
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    __doc__ = f"Transposed convolution over one axis: x (N, Ci, I).\n\n    {_ConvTranspose.__doc__}"
    ndim = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = f"Transposed convolution over two axes: x (N, Ci, H, W).\n\n    {_ConvTranspose.__doc__}"
    ndim = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = f"Transposed convolution over three axes: x (N, Ci, D, H, W).\n\n    {_ConvTranspose.__doc__}"
    ndim = 3
