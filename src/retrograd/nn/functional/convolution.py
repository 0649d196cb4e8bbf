"""Convolution over 1, 2 or 3 axes of positions, from one code, and its transpose; x may come without its batch axis."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.convolution import Extent, Padding, conv_nd, conv_transpose_nd

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over one axis: input (N, Ci, I), weight (Co, Ci/groups, R) -> (N, Co, O). See ``conv2d``."""
    return conv_nd("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Tensor:
    """y[n, co, o] = bias[co] + sum x[n, ci, o*stride + r*dilation - padding] * weight[co, ci, r]

    input (N, Ci, *I) or (Ci, *I), weight (Co, Ci/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1

    padding: an int, one per axis, a pair (low, high) per axis, "valid" (none), or "same" (O = I/stride, rounded up).

    Raises:
        TypeError: an operand is no floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window.
    """
    return conv_nd("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over three axes: input (N, Ci, D, H, W), weight (Co, Ci/groups, *R). See ``conv2d``."""
    return conv_nd("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
) -> Tensor:
    """Transposed convolution over one axis. See ``conv_transpose2d``."""
    return conv_transpose_nd(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
) -> Tensor:
    """y[n, co, i*stride + r*dilation - padding] += x[n, ci, i] * weight[ci, co, r], then + bias[co]

    input (N, Ci, *I) or (Ci, *I), weight (Ci, Co/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I-1)*stride - padding on both sides + dilation*(R-1) + output_padding + 1

    Raises:
        TypeError: an operand is no floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window.
    """
    return conv_transpose_nd(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
) -> Tensor:
    """Transposed convolution over three axes. See ``conv_transpose2d``."""
    return conv_transpose_nd(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
