"""Convolution layers: plain, transposed and deformable, for any number of axes, with an optional fused activation.

Ci/Co input and output channels, I/R/O extents of input, kernel and output, g groups, D deformable groups, d dilation,
s stride.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..arrays import empty
from ..engine.tensor import Tensor
from ..ops.convolution.arguments import as_bytes, check_choices, check_no_output_padding
from ..ops.convolution.convolution import check_target_shape, output_padding_or_adj
from ..ops.convolution.deformable import deform_conv2d
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.index.indexing import GetItem
from ..ops.pointwise.exponential import sigmoid
from ..specs.geometry import PADDING_WORDS, as_pairs, as_tuple
from . import functional as F  # noqa: N812  PyTorch's name
from . import init
from .arguments import check_ints
from .layer import OverAxes, changed
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeformConv2d",
    "DeformableConvolution",
    "ModulatedDeformableConvolution",
]


# ---- Fused activations: `activation="relu"` (Gluon, SINGA), `act_fn` (numpy-ml) -------------------------------------

Activation = str | Callable[[Tensor], Tensor] | None

# PyTorch's names, and MXNet's where they differ
_NAMED: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(F, name) for name in ("elu", "gelu", "hardsigmoid", "leaky_relu", "mish", "relu", "selu")},
    **{name: getattr(F, name) for name in ("sigmoid", "silu", "softplus", "softsign", "tanh")},
    "softrelu": F.softplus,
    "log_sigmoid": F.logsigmoid,
}


def activation_function(name: str, activation: Any) -> Callable[[Tensor], Tensor]:
    """Return the function for ``activation``, a function or its name; ``name`` is the layer's name, for messages.

    Raises:
        ValueError: activation is not a known name.
        TypeError: activation is neither a string nor callable.
    """
    if isinstance(activation, str):
        function = _NAMED.get(activation.lower())
        if function is None:
            raise ValueError(
                f"{name}: activation={activation!r} must be a function, or one of {', '.join(sorted(_NAMED))}"
            )
        return function
    if not callable(activation):
        raise TypeError(f"{name}: activation={activation!r} must be a name, a function of a Tensor, or None")
    return activation


# ---- Convolution and transposed convolution layers: one class each for any number of axes ---------------------------

Extents = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]


class _Convolution(OverAxes, Module):
    """Base of all convolution layers: argument checks, parameters and their initial values."""

    groups: int
    in_channels: int
    out_channels: int
    algorithm: str
    padding_mode: str
    workspace: float | None

    fewest_channels: ClassVar[int] = 1  # a lazy layer starts at 0
    transposed: ClassVar[bool] = False
    weight: Parameter
    bias: Parameter | None

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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_ints(name, self.fewest_channels, in_channels=in_channels)
        check_ints(name, out_channels=out_channels, groups=groups)
        for argument, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            if value % groups:
                raise ValueError(f"{name}: {argument}={value} must be divisible by groups={groups}")
        check_choices(name, padding_mode, algorithm)
        if workspace is not None:
            as_bytes(name, workspace)
        if activation is not None:
            activation_function(name, activation)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size: tuple[int, ...] = self._extents("kernel_size", kernel_size, 1)
        self.stride: tuple[int, ...] = self._extents("stride", stride, 1)
        self.padding: Any = self._padding(padding)
        self.dilation: tuple[int, ...] = self._extents("dilation", dilation, 1)
        self.padding_mode, self.algorithm, self.workspace = padding_mode, algorithm, workspace
        self.activation: Any = activation
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = empty_weight((first, second // groups, *self.kernel_size), dtype)
        self.register_parameter("bias", Parameter(empty(out_channels, as_float_dtype(dtype))) if bias else None)
        self.reset_parameters()

    def _extents(self, argument: str, value: Extents, at_least: int) -> tuple[int, ...]:
        return as_tuple(value, self.ndim, f"{type(self).__name__}: {argument}", at_least)

    def _padding(self, padding: Padding) -> Any:
        """Return one int per axis if low and high are equal, else pairs; words unchanged."""
        if isinstance(padding, str):
            if padding not in PADDING_WORDS:
                words = ", ".join(map(repr, PADDING_WORDS))
                raise ValueError(f"{type(self).__name__}: padding={padding!r} must be numbers or one of {words}")
            return padding
        try:
            pairs = as_pairs(padding, self.ndim)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{type(self).__name__}: {error}") from None
        return tuple(low for low, _ in pairs) if all(low == high for low, high in pairs) else pairs

    def _activated(self, y: Tensor) -> Tensor:
        return y if self.activation is None else activation_function(type(self).__name__, self.activation)(y)

    def reset_parameters(self) -> None:
        """Draw new values: weight and bias from U(-b, b), b = 1 / sqrt(fan_in), as PyTorch does."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.ndim, (1,) * self.ndim
        activation = self.activation
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        words += changed(self, padding=zeros, dilation=ones, output_padding=zeros, target_shape=None, groups=1)
        words += [] if self.bias is not None else ["bias=False"]
        words += changed(self, padding_mode="zeros")
        if activation is not None and not isinstance(activation, Module):  # a module prints as a child
            words.append(f"activation={getattr(activation, '__name__', activation)}")
        return ", ".join(words + changed(self, algorithm="auto", workspace=None))


class _Conv(_Convolution):
    """``functional.conv{n}d`` as a layer with the parameters weight and bias.

    activation: a function applied to y, or its name ("relu", "tanh", "sigmoid", "softplus", "softsign", ...).

    {functional.conv{n}d}
    """

    operator = "conv{n}d"

    def forward(self, input: Tensor) -> Tensor:
        y = self._convolved(input, self.weight, self.bias)
        return y if self.activation is None else self._activated(y)

    def _convolved(self, x: Tensor, w: Tensor, b: Tensor | None, *, groups: int = 0) -> Tensor:
        """Apply the operator; ``groups=0`` means the layer's own."""
        given = x, w, b, self.stride, self.padding, self.dilation, groups or self.groups
        if self.padding_mode == "zeros" and self.algorithm == "auto" and self.workspace is None:
            return self.run(*given)  # its direct form takes no more arguments
        named = {"padding_mode": self.padding_mode, "algorithm": self.algorithm, "workspace": self.workspace}
        return self.run(*given, **named)


class _ConvTranspose(_Convolution):
    """``functional.conv_transpose{n}d`` as a layer with the parameters weight and bias; forward takes output_size.

    activation: a function applied to y, or its name.

    {functional.conv_transpose{n}d}
    """

    target_shape: tuple[int, ...] | None

    operator = "conv_transpose{n}d"
    transposed = True

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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        adj: Extents | None = None,
        target_shape: Extents | None = None,
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            activation=activation,
            algorithm=algorithm,
            workspace=workspace,
            dtype=dtype,
        )
        name = type(self).__name__
        try:
            self.output_padding = output_padding_or_adj(output_padding, adj, self.ndim)
            if target_shape is not None:
                check_target_shape(self.ndim, self.padding, self.output_padding)
            elif isinstance(self.padding, str) and self.padding != "valid":
                check_no_output_padding(self.padding, self.output_padding)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        self.target_shape = None if target_shape is None else self._extents("target_shape", target_shape, 1)
        for extra, step, spread in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if extra >= max(step, spread):
                raise ValueError(
                    f"{name}: output_padding={self.output_padding} must be smaller than "
                    f"stride={self.stride} or dilation={self.dilation}"
                )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """output_size: the extents *O (or the whole shape), where stride allows several.

        Raises:
            ValueError: output_size is not possible; the message lists the sizes that are.
        """
        y = self._convolved(input, self.weight, self.bias, output_size)
        return y if self.activation is None else self._activated(y)

    def _convolved(
        self, x: Tensor, w: Tensor, b: Tensor | None, output_size: Sequence[int] | None = None, *, groups: int = 0
    ) -> Tensor:
        """Apply the operator; ``groups=0`` means the layer's own."""
        output_padding = self.output_padding if output_size is None else 0
        return self.run(
            x,
            w,
            b,
            self.stride,
            self.padding,
            output_padding,
            groups or self.groups,
            self.dilation,
            padding_mode=self.padding_mode,
            output_size=output_size,
            target_shape=self.target_shape,
            algorithm=self.algorithm,
            workspace=self.workspace,
        )


class Conv1d(_Conv, ndim=1):
    """``functional.conv1d`` as a layer with the parameters weight and bias."""


class Conv2d(_Conv, ndim=2):
    """``functional.conv2d`` as a layer with the parameters weight and bias."""


class Conv3d(_Conv, ndim=3):
    """``functional.conv3d`` as a layer with the parameters weight and bias."""


class ConvTranspose1d(_ConvTranspose, ndim=1):
    """``functional.conv_transpose1d`` as a layer with the parameters weight and bias; forward takes output_size."""


class ConvTranspose2d(_ConvTranspose, ndim=2):
    """``functional.conv_transpose2d`` as a layer with the parameters weight and bias; forward takes output_size."""


class ConvTranspose3d(_ConvTranspose, ndim=3):
    """``functional.conv_transpose3d`` as a layer with the parameters weight and bias; forward takes output_size."""


# ---- Deformable convolution layers: with offsets as an input, or predicted by an inner convolution ------------------


class DeformConv2d(_Convolution, ndim=2):
    """Deformable convolution as a layer with the parameters weight and bias: ``layer(x, offset, mask=None)``.

    activation: a function applied to y, or its name ("relu", ...).

    {functional.deform_conv2d}
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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        activation: Activation = None,
        workspace: float | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            activation=activation,
            workspace=workspace,
            dtype=dtype,
        )

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        y = deform_conv2d(
            input,
            offset,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            mask,
            workspace=self.workspace,
        )
        return self._activated(y)


class _WithOffsets(DeformConv2d):
    """x (N, Ci, H, W) or (Ci, H, W) -> y (N, Co, *O) or (Co, *O); weight (Co, Ci/groups, RH, RW), bias (Co,)

    The weights of ``offset`` start at zero, so the layer starts as an ordinary convolution.

    kernel_size, stride, padding, dilation, groups, bias, activation: as in ``Conv2d``; ``offset`` has the same groups.
    num_deformable_group: D; each group of Ci/D channels has its own offsets (and mask).
    offset_bias: whether ``offset`` has a bias.
    workspace: as in ``DeformConv2d``; also used for the convolution ``offset``.

    Raises:
        ValueError: an argument is out of range, or the shape of input does not fit.
        TypeError: input and weight have different dtypes.
    """

    numbers: int  # outputs of ``offset`` per tap

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _WithOffsets in cls.__bases__:
            cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    {_WithOffsets.__doc__}"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents = 1,
        stride: Extents = 1,
        padding: Padding = 0,
        dilation: Extents = 1,
        groups: int = 1,
        num_deformable_group: int = 1,
        bias: bool = True,
        offset_bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        activation: Activation = None,
        workspace: float | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            activation=activation,
            workspace=workspace,
            dtype=dtype,
        )
        name, count = type(self).__name__, num_deformable_group
        if isinstance(count, bool) or not isinstance(count, int) or count < 1 or in_channels % count:
            raise ValueError(
                f"{name}: num_deformable_group={count!r} must be an int of at least 1 that divides "
                f"in_channels={in_channels}"
            )
        self.num_deformable_group = count
        channels = self.numbers * count * self.kernel_size[0] * self.kernel_size[1]
        if channels % groups:
            raise ValueError(
                f"{name}: groups={groups} must divide the {channels} channels of the offsets too; to compute "
                f"offsets with another convolution, use DeformConv2d"
            )
        self.offset: Conv2d = Conv2d(
            in_channels,
            channels,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            groups,
            offset_bias,
            workspace=workspace,
            dtype=dtype,
        )
        self._reset_offset()

    def reset_parameters(self) -> None:
        """Draw weight and bias as ``Conv2d`` does; set those of ``offset`` to zeros."""
        super().reset_parameters()
        if hasattr(self, "offset"):  # not yet in __init__
            self._reset_offset()

    def _reset_offset(self) -> None:
        init.zeros_(self.offset.weight)
        if self.offset.bias is not None:
            init.zeros_(self.offset.bias)

    def extra_repr(self) -> str:
        count = self.num_deformable_group
        return super().extra_repr() + (f", num_deformable_group={count}" if count > 1 else "")


class DeformableConvolution(_WithOffsets):
    """Deformable convolution (v1) whose offsets come from its own convolution ``offset``, of the same geometry.

    offset.weight (2*D*R, Ci/groups, RH, RW), offset.bias (2*D*R,).
    Source: MXNet's ``gluon.nn.DeformableConvolution``; J. Dai et al., 2017, arXiv:1703.06211.
    """

    numbers = 2

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(input, self.offset(input))


class ModulatedDeformableConvolution(_WithOffsets):
    """Deformable convolution (v2) whose offsets and mask come from its own convolution ``offset``.

    offset.weight (3*D*R, Ci/groups, RH, RW), offset.bias (3*D*R,). The first 2*D*R output channels of ``offset`` are
    offsets; the others, z, give the mask 2*sigmoid(z), which starts at one.
    Source: MXNet's ``gluon.nn.ModulatedDeformableConvolution``; X. Zhu et al., 2018, arXiv:1811.11168.
    """

    numbers = 3

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        outputs = self.offset(input)
        split = self.offset.out_channels // 3 * 2
        offsets = GetItem.apply(outputs, (..., slice(0, split), slice(None), slice(None)))
        mask = sigmoid(GetItem.apply(outputs, (..., slice(split, None), slice(None), slice(None)))) * 2
        return super().forward(input, offsets, mask)
