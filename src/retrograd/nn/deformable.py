"""Deformable convolution layers: with offsets as an input, or predicted by a convolution of their own.

Ci/Co input and output channels, I/R/O extents of input, kernel and output, D deformable groups.
"""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.convolution.deformable import deform_conv2d
from ..ops.index.indexing import GetItem
from ..ops.pointwise.transcendental import sigmoid
from . import init
from .convolution import Conv2d, Extents, Padding, _Convolution
from .folded_activation import Activation

__all__ = ["DeformConv2d", "DeformableConvolution", "ModulatedDeformableConvolution"]


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
        device: Any = None,
        dtype: Any = None,
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
        device: Any = None,
        dtype: Any = None,
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
        self.offset = Conv2d(
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
