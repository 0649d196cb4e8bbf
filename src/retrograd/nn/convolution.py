"""Convolution and transposed convolution layers: one class each for any number of axes.

Ci/Co input and output channels, I/R/O extents of input, kernel and output, g groups, d dilation, s stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..engine.tensor import Tensor
from ..geometry import PADDING_WORDS, as_pairs, as_tuple
from ..ops.convolution import conv_nd, conv_transpose_nd
from ..ops.convolution_arguments import as_bytes, check_alone, check_choices, check_word, one_name
from . import init
from .folded_activation import Activation, folded
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Extents = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]


class _Convolution(Module):
    """Base of both kinds: argument checks, parameters and their initial values."""

    ndim: ClassVar[int]
    fewest_channels: ClassVar[int] = 1  # a lazy layer starts at 0
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
        activation: Activation,
        algorithm: str,
        workspace: float | None,
        dtype: Any,
        transposed: bool,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        for argument, value in (*channels.items(), ("groups", groups)):
            least = self.fewest_channels if argument == "in_channels" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: {argument}={value!r} must be an int of at least 1")
        for argument, value in channels.items():
            if value % groups:
                raise ValueError(f"{name}: {argument}={value} must be divisible by groups={groups}")
        check_choices(name, padding_mode, algorithm)
        if workspace is not None:
            as_bytes(name, workspace)
        if activation is not None:
            folded(name, activation)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._extents("kernel_size", kernel_size, 1)
        self.stride = self._extents("stride", stride, 1)
        self.padding = self._padding(padding)
        self.dilation = self._extents("dilation", dilation, 1)
        self.groups = groups
        self.padding_mode = padding_mode
        self.activation: Any = activation
        self.algorithm = algorithm
        self.workspace = workspace
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
        """One int per axis if low and high are equal, else pairs; words unchanged."""
        if isinstance(padding, str):
            if padding not in PADDING_WORDS:
                words = ", ".join(map(repr, PADDING_WORDS))
                raise ValueError(f"{type(self).__name__}: padding={padding!r} must be numbers or one of {words}")
            return padding
        pairs = as_pairs(padding, self.ndim)
        return tuple(low for low, _ in pairs) if all(low == high for low, high in pairs) else pairs

    def _activated(self, y: Tensor) -> Tensor:
        return y if self.activation is None else folded(type(self).__name__, self.activation)(y)

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
        defaults = {"padding": zeros, "dilation": ones, "output_padding": zeros, "target_shape": None, "groups": 1}
        for argument, default in defaults.items():
            value = getattr(self, argument, default)
            if value != default:
                words.append(f"{argument}={value}")
        if self.bias is None:
            words.append("bias=False")
        if self.padding_mode != "zeros":
            words.append(f"padding_mode={self.padding_mode}")
        if self.activation is not None and not isinstance(self.activation, Module):  # a module prints as a child
            words.append(f"activation={getattr(self.activation, '__name__', self.activation)}")
        if self.algorithm != "auto":
            words.append(f"algorithm={self.algorithm}")
        if self.workspace is not None:
            words.append(f"workspace={self.workspace}")
        return ", ".join(words)


class _Conv(_Convolution):
    """y[o] = bias + sum over channels and taps r of x[o*s + r*d - padding] * weight[r], then the activation.

    x (N, Ci, *I) or (Ci, *I) -> y (N, Co, *O) or (Co, *O)
    weight (Co, Ci/g, *R), bias (Co,), O = (I + padding on both sides - d*(R-1) - 1) // s + 1

    kernel_size, stride, dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis, or "valid", "same", "same_upper", "same_lower" or "causal".
    padding_mode: "zeros", "reflect", "replicate" or "circular".
    activation: a function applied to y, or its name ("relu", "tanh", "sigmoid", "softplus", "softsign", ...).
    algorithm, workspace: how to compute it, and the limit of temporary memory in MB.
    Padding words, modes and algorithms are those of ``nn.functional.conv2d``.

    Raises:
        ValueError: an argument is out of range, or the shape of input does not fit.
        TypeError: input and weight have different dtypes.
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
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode),
            *(activation, algorithm, workspace, dtype),
            transposed=False,
        )
        self._operator = f"conv{self.ndim}d"

    def forward(self, input: Tensor) -> Tensor:
        y = conv_nd(
            self._operator, self.ndim, input, self.weight, self.bias, self.stride, self.padding, self.dilation,
            self.groups, self.padding_mode, self.algorithm, self.workspace,
        )  # fmt: skip
        return y if self.activation is None else self._activated(y)


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
    """The gradient of a convolution with respect to its input: y[i*s + r*d - padding] += x[i] * weight[r].

    x (N, Ci, *I) or (Ci, *I) -> y (N, Co, *O) or (Co, *O); the activation comes last
    weight (Ci, Co/g, *R), bias (Co,), O = (I-1)*s - padding on both sides + d*(R-1) + output_padding + 1

    kernel_size, stride, output_padding, dilation: an int for all axes or one per axis.
    padding: the same, or a pair (low, high) per axis, or "valid" (none), or "same", "same_upper", "same_lower" or
        "causal" (O = I*s).
    padding_mode: "zeros", "reflect", "replicate" or "circular": how x continues past its ends.
    activation, algorithm, workspace: as in a convolution.
    adj: MXNet's name for output_padding.
    target_shape: MXNet's: the extents *O of every output; padding is chosen to match.
    Padding words and modes are those of ``nn.functional.conv_transpose2d``.

    Raises:
        ValueError: an argument is out of range or contradicts another one, or the shape of input does not fit.
        TypeError: input and weight have different dtypes.
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
        adj: Extents | None = None,
        target_shape: Extents | None = None,
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode),
            *(activation, algorithm, workspace, dtype),
            transposed=True,
        )
        name = type(self).__name__
        try:
            self.output_padding = one_name(output_padding, adj, self.ndim)
            if target_shape is not None:
                check_alone(self.ndim, self.padding, self.output_padding)
            elif isinstance(self.padding, str) and self.padding != "valid":
                check_word(self.padding, self.output_padding)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        self.target_shape = None if target_shape is None else self._extents("target_shape", target_shape, 1)
        for extra, step, spread in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if extra >= max(step, spread):
                raise ValueError(
                    f"{name}: output_padding={self.output_padding} must be smaller than "
                    f"stride={self.stride} or dilation={self.dilation}"
                )
        self._operator = f"conv_transpose{self.ndim}d"

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """output_size: the extents *O (or the whole shape), where stride allows several.

        Raises:
            ValueError: output_size is not possible; the message lists the sizes that are.
        """
        output_padding = self.output_padding if output_size is None else 0
        y = conv_transpose_nd(
            self._operator, self.ndim, input, self.weight, self.bias, self.stride, self.padding, output_padding,
            self.groups, self.dilation, self.padding_mode, output_size, None, self.target_shape, self.algorithm,
            self.workspace,
        )  # fmt: skip
        return y if self.activation is None else self._activated(y)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = f"Transposed convolution over one axis: x (N, Ci, I).\n\n    {_ConvTranspose.__doc__}"
    ndim = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = f"Transposed convolution over two axes: x (N, Ci, H, W).\n\n    {_ConvTranspose.__doc__}"
    ndim = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = f"Transposed convolution over three axes: x (N, Ci, D, H, W).\n\n    {_ConvTranspose.__doc__}"
    ndim = 3
