"""Deformable convolution layers: with offsets from outside, and with a convolution of their own that makes them.

Ci/Co input and output channels, I/R/O extents of input, kernel and output, D deformable groups.
"""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.deformable import deform_conv2d
from ..ops.indexing import GetItem
from ..ops.transcendental import sigmoid
from . import init
from .convolution import Conv2d, Extents, Padding, _Convolution
from .folded_activation import Activation

__all__ = ["DeformConv2d", "DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformConv2d(_Convolution):
    """Deformable convolution as a layer: ``layer(x, offset, mask=None)``, see ``nn.functional.deform_conv2d``.

    x (N, Ci, H, W), offset (N, 2*D*R, *O), mask (N, D*R, *O) or None -> y (N, Co, *O); or all without batch axis
    weight (Co, Ci/groups, RH, RW), bias (Co,), R = RH*RW

    kernel_size, stride, dilation: an int for both axes or one per axis.
    padding: the same, or a pair (low, high) per axis, or a word ("valid", "same", ...), as in ``Conv2d``.
    activation: a function of y that belongs to the layer, or its name ("relu", ...).
    workspace: MB for what is read of x at the taps.

    Raises:
        ValueError: an argument is out of range, or x, offset or mask do not fit.
        TypeError: x, offset or mask have another dtype than the weight.

    Source: ``torchvision.ops.DeformConv2d``.
    """

    ndim = 2

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
        *,
        activation: Activation = None,
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, "zeros"),
            *(activation, "auto", workspace, dtype),
            transposed=False,
        )

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        y = deform_conv2d(
            input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask,
            workspace=self.workspace,
        )  # fmt: skip
        return self._activated(y)


class _WithOffsets(DeformConv2d):
    """What both layers that make their own offsets share: the convolution ``offset``, which begins with zeros."""

    numbers: int  # that ``offset`` makes for a tap

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
        *,
        activation: Activation = None,
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias),
            activation=activation,
            workspace=workspace,
            dtype=dtype,
        )
        name, many = type(self).__name__, num_deformable_group
        if isinstance(many, bool) or not isinstance(many, int) or many < 1 or in_channels % many:
            raise ValueError(
                f"{name}: num_deformable_group={many!r} must be an int of at least 1 that divides "
                f"in_channels={in_channels}"
            )
        self.num_deformable_group = many
        made = self.numbers * many * self.kernel_size[0] * self.kernel_size[1]
        if made % groups:
            raise ValueError(
                f"{name}: groups={groups} must divide the {made} channels of the offsets too; to make them by another "
                f"convolution, use DeformConv2d"
            )
        self.offset = Conv2d(
            in_channels, made, self.kernel_size, self.stride, self.padding, self.dilation, groups, offset_bias,
            workspace=workspace, dtype=dtype,
        )  # fmt: skip
        self._reset_offset()

    def reset_parameters(self) -> None:
        """Draw new values for weight and bias, as ``Conv2d``; those of ``offset`` become zeros."""
        super().reset_parameters()
        if hasattr(self, "offset"):  # not yet when it is made
            self._reset_offset()

    def _reset_offset(self) -> None:
        init.zeros_(self.offset.weight)
        if self.offset.bias is not None:
            init.zeros_(self.offset.bias)

    def extra_repr(self) -> str:
        many = self.num_deformable_group
        return super().extra_repr() + (f", num_deformable_group={many}" if many > 1 else "")


class DeformableConvolution(_WithOffsets):
    """Deformable convolution (v1) that makes its own offsets, by the convolution ``offset`` of the same geometry.

    x (N, Ci, H, W) or (Ci, H, W) -> y (N, Co, *O) or (Co, *O)
    weight (Co, Ci/groups, RH, RW), bias (Co,), offset.weight (2*D*R, Ci/groups, RH, RW), offset.bias (2*D*R,)

    The weights of ``offset`` begin with zeros, and the layer as an ordinary convolution.

    kernel_size, stride, padding, dilation, groups, bias, activation: as in ``Conv2d``; ``offset`` has the same groups.
    num_deformable_group: D; each group of Ci/D channels has its own offsets.
    offset_bias: whether ``offset`` has a bias.
    workspace: as in ``DeformConv2d``, and of the convolution ``offset``.

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x has another dtype than the weight.

    Source: MXNet's ``gluon.nn.DeformableConvolution``; J. Dai et al., 2017, arXiv:1703.06211.
    """

    numbers = 2

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(input, self.offset(input))


class ModulatedDeformableConvolution(_WithOffsets):
    """Deformable convolution (v2) that makes its own offsets and mask, by the convolution ``offset``.

    x (N, Ci, H, W) or (Ci, H, W) -> y (N, Co, *O) or (Co, *O)
    weight (Co, Ci/groups, RH, RW), bias (Co,), offset.weight (3*D*R, Ci/groups, RH, RW), offset.bias (3*D*R,)

    Of the channels that ``offset`` makes the first 2*D*R are offsets; of the others, z, the mask is 2*sigmoid(z). Its
    weights begin with zeros, the mask with ones, and the layer as an ordinary convolution.

    kernel_size, stride, padding, dilation, groups, bias, activation: as in ``Conv2d``; ``offset`` has the same groups.
    num_deformable_group: D; each group of Ci/D channels has its own offsets and mask.
    offset_bias: whether ``offset`` has a bias.
    workspace: as in ``DeformConv2d``, and of the convolution ``offset``.

    Raises:
        ValueError: an argument is out of range, or x does not fit.
        TypeError: x has another dtype than the weight.

    Source: MXNet's ``gluon.nn.ModulatedDeformableConvolution``; X. Zhu et al., 2018, arXiv:1811.11168.
    """

    numbers = 3

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        made = self.offset(input)
        split = self.offset.out_channels // 3 * 2
        places = GetItem.apply(made, (..., slice(0, split), slice(None), slice(None)))
        mask = sigmoid(GetItem.apply(made, (..., slice(split, None), slice(None), slice(None)))) * 2
        return super().forward(input, places, mask)
