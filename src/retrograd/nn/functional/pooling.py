"""Pooling over 1, 2 or 3 axes, from one implementation; the batch axis is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...ops.convolution.arguments import Extent
from ...ops.pooling import (
    AvgPool,
    MaxPool,
    OutputSize,
    Pairs,
    adaptive_avg_pool_nd,
    adaptive_max_pool_nd,
    avg_pool_nd,
    fractional_max_pool_nd,
    lp_pool_nd,
    max_pool_nd,
    max_unpool_nd,
)
from ...ops.reduce.reduction import Mean
from ...ops.signatures import advised

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


@advised
@operator(records=MaxPool, dtypes="if")
def max_pool1d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over one axis (the first of equal ones); padding is ignored, NaN propagates.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1, rounded up with ``ceil_mode``; stride defaults
    to kernel_size. padding: an int, one per axis, or a pair (low, high) per axis; at most half of the kernel.

    Arguments and errors: as for ``max_pool2d``.
    """
    if interpreters and (seen := interpreted(max_pool1d, locals())) is not None:
        return seen
    return max_pool_nd("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@advised
@operator(records=MaxPool, dtypes="if")
def max_pool2d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over two axes (the first of equal ones); padding is ignored, NaN propagates.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1, rounded up with ``ceil_mode``; stride defaults
    to kernel_size. padding: an int, one per axis, or a pair (low, high) per axis; at most half of the kernel.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: an argument is out of range, or input does not fit the window.
    """
    if interpreters and (seen := interpreted(max_pool2d, locals())) is not None:
        return seen
    return max_pool_nd("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@advised
@operator(records=MaxPool, dtypes="if")
def max_pool3d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over three axes (the first of equal ones); padding is ignored, NaN propagates.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1, rounded up with ``ceil_mode``; stride defaults
    to kernel_size. padding: an int, one per axis, or a pair (low, high) per axis; at most half of the kernel.

    Arguments and errors: as for ``max_pool2d``.
    """
    if interpreters and (seen := interpreted(max_pool3d, locals())) is not None:
        return seen
    return max_pool_nd("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@advised
@operator(records=AvgPool, dtypes="if")
def avg_pool1d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window over one axis.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O)
    O = (I + padding on both sides - R)//stride + 1, rounded up with ``ceil_mode``; stride defaults to kernel_size.

    Arguments and errors: as for ``avg_pool2d``.
    """
    if interpreters and (seen := interpreted(avg_pool1d, locals())) is not None:
        return seen
    return avg_pool_nd("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@advised
@operator(records=AvgPool, dtypes="if")
def avg_pool2d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over two axes.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O)
    O = (I + padding on both sides - R)//stride + 1, rounded up with ``ceil_mode``; stride defaults to kernel_size.

    count_include_pad: include the padding in the mean as zeros, except for positions that ``ceil_mode`` adds after it.
    divisor_override: for 2 and 3 axes: divide the sum by this number instead.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: an argument is out of range, input does not fit the window, or divisor_override is 0.
    """
    if interpreters and (seen := interpreted(avg_pool2d, locals())) is not None:
        return seen
    return avg_pool_nd(
        "avg_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@advised
@operator(records=AvgPool, dtypes="if")
def avg_pool3d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over three axes.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O)
    O = (I + padding on both sides - R)//stride + 1, rounded up with ``ceil_mode``; stride defaults to kernel_size.

    Arguments and errors: as for ``avg_pool2d``.
    """
    if interpreters and (seen := interpreted(avg_pool3d, locals())) is not None:
        return seen
    return avg_pool_nd(
        "avg_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@advised
@operator(records=(AvgPool, Mean))
def adaptive_avg_pool1d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling over one axis: the mean of each of O windows that divide the input evenly.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O); output o is the mean of the positions floor(o*I/O) to
    ceil((o + 1)*I/O) - 1. output_size: O for all axes or one per axis; None means I.

    Arguments and errors: as for ``adaptive_avg_pool2d``.
    """
    if interpreters and (seen := interpreted(adaptive_avg_pool1d, locals())) is not None:
        return seen
    return adaptive_avg_pool_nd("adaptive_avg_pool1d", 1, input, output_size)


@advised
@operator(records=(AvgPool, Mean))
def adaptive_avg_pool2d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling over two axes: the mean of each window; O windows per axis divide the input evenly.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O); output o is the mean of the positions floor(o*I/O) to
    ceil((o + 1)*I/O) - 1. output_size: O for all axes or one per axis; None means I.

    Raises:
        TypeError: input is not a floating-point Tensor, or output_size contains anything but integers and None.
        ValueError: input or output_size has the wrong number of axes, or an extent is less than 1.
    """
    if interpreters and (seen := interpreted(adaptive_avg_pool2d, locals())) is not None:
        return seen
    return adaptive_avg_pool_nd("adaptive_avg_pool2d", 2, input, output_size)


@advised
@operator(records=(AvgPool, Mean))
def adaptive_avg_pool3d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling over three axes: the mean of each window; O windows per axis divide the input evenly.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O); output o is the mean of the positions floor(o*I/O) to
    ceil((o + 1)*I/O) - 1. output_size: O for all axes or one per axis; None means I.

    Arguments and errors: as for ``adaptive_avg_pool2d``.
    """
    if interpreters and (seen := interpreted(adaptive_avg_pool3d, locals())) is not None:
        return seen
    return adaptive_avg_pool_nd("adaptive_avg_pool3d", 3, input, output_size)


@advised
@operator(records=MaxPool)
def adaptive_max_pool1d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Adaptive max pooling over one axis: the largest element of each of O windows that divide the input evenly.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)

    Arguments and errors: as for ``adaptive_max_pool2d``.
    """
    if interpreters and (seen := interpreted(adaptive_max_pool1d, locals())) is not None:
        return seen
    return adaptive_max_pool_nd("adaptive_max_pool1d", 1, input, output_size, return_indices)


@advised
@operator(records=MaxPool)
def adaptive_max_pool2d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Adaptive max pooling over two axes: the maximum of each window; O windows per axis divide the input evenly.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)

    Windows, output_size and errors are those of ``adaptive_avg_pool2d``; the first of equal elements counts.
    """
    if interpreters and (seen := interpreted(adaptive_max_pool2d, locals())) is not None:
        return seen
    return adaptive_max_pool_nd("adaptive_max_pool2d", 2, input, output_size, return_indices)


@advised
@operator(records=MaxPool)
def adaptive_max_pool3d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Adaptive max pooling over three axes: the maximum of each window; O windows per axis divide the input evenly.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)

    Arguments and errors: as for ``adaptive_max_pool2d``.
    """
    if interpreters and (seen := interpreted(adaptive_max_pool3d, locals())) is not None:
        return seen
    return adaptive_max_pool_nd("adaptive_max_pool3d", 3, input, output_size, return_indices)


@advised
@operator(dtypes="bif")
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Extent,
    stride: Extent | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm (sum of input**p)**(1/p) of each window over one axis, p = norm_type; p = inf: the largest |input|.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O), O = (I - R)//stride + 1, rounded up with ``ceil_mode``: a
    truncated window counts as if it were whole with the same mean. Where a norm is 0, so is its gradient.

    Arguments and errors: as for ``lp_pool2d``.
    """
    if interpreters and (seen := interpreted(lp_pool1d, locals())) is not None:
        return seen
    return lp_pool_nd("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


@advised
@operator(dtypes="bif")
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Extent,
    stride: Extent | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm (sum of input**p)**(1/p) of each window over two axes, p = norm_type; p = inf: the largest |input|.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O), O = (I - R)//stride + 1, rounded up with ``ceil_mode``: a
    truncated window counts as if it were whole with the same mean. Where a norm is 0, so is its gradient.

    Raises:
        TypeError: input is not a floating-point Tensor, or norm_type is not a number.
        ValueError: an argument is out of range, input does not fit the window, or norm_type is 0 or NaN.
    """
    if interpreters and (seen := interpreted(lp_pool2d, locals())) is not None:
        return seen
    return lp_pool_nd("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


@advised
@operator(dtypes="bif")
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Extent,
    stride: Extent | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm (sum of input**p)**(1/p) of each window over three axes, p = norm_type; p = inf: the largest |input|.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O), O = (I - R)//stride + 1, rounded up with ``ceil_mode``: a
    truncated window counts as if it were whole with the same mean. Where a norm is 0, so is its gradient.

    Arguments and errors: as for ``lp_pool2d``.
    """
    if interpreters and (seen := interpreted(lp_pool3d, locals())) is not None:
        return seen
    return lp_pool_nd("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


@advised
@operator(records=MaxPool)
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Extent,
    output_size: Extent | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of each of O windows over two axes, at random places that cover the input evenly.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)
    Window o begins at floor((o + u) (I - R) / (O - 1)) - floor(u (I - R) / (O - 1)), with R the kernel_size and one
    random u from 0 to 1 for each image, channel and axis; the last window ends with the input.

    output_size: O for all axes or one per axis
    output_ratio: O / I instead, rounded down: between 0 and 1, one number or one per axis
    _random_samples: u, (N, C, 2), by default from the default generator

    Raises:
        TypeError: input is not a floating-point Tensor, or a size is not an int.
        ValueError: an argument is out of range, both or neither of output_size and output_ratio are given, or input is
            too small.
    """
    if interpreters and (seen := interpreted(fractional_max_pool2d, locals())) is not None:
        return seen
    return fractional_max_pool_nd(
        "fractional_max_pool2d",
        2,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )


@advised
@operator(records=MaxPool)
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Extent,
    output_size: Extent | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of each of O windows over three axes, at random places that cover the input evenly.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat indices into *I)
    Window o begins at floor((o + u) (I - R) / (O - 1)) - floor(u (I - R) / (O - 1)), with R the kernel_size and one
    random u from 0 to 1 for each image, channel and axis; the last window ends with the input.

    Arguments and errors: as for ``fractional_max_pool2d``.
    """
    if interpreters and (seen := interpreted(fractional_max_pool3d, locals())) is not None:
        return seen
    return fractional_max_pool_nd(
        "fractional_max_pool3d",
        3,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )


@advised
@operator
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of ``max_pool1d(..., return_indices=True)``: elements at their indices, zeros elsewhere.

    input, indices (N, C, *O) or (C, *O) -> (N, C, *I) or (C, *I), I = (O - 1)*stride + kernel_size - 2*padding on
    every axis. output_size: another I, less than a stride away (pooling drops the remainder of the division); it
    may include N and C. Where indices coincide, the last element counts.

    Arguments and errors: as for ``max_unpool2d``.
    """
    if interpreters and (seen := interpreted(max_unpool1d, locals())) is not None:
        return seen
    return max_unpool_nd("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@advised
@operator
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of ``max_pool2d(..., return_indices=True)``: elements at their indices, zeros elsewhere.

    input, indices (N, C, *O) or (C, *O) -> (N, C, *I) or (C, *I), I = (O - 1)*stride + kernel_size - 2*padding on
    every axis. output_size: another I, less than a stride away (pooling drops the remainder of the division); it
    may include N and C. Where indices coincide, the last element counts.

    Raises:
        TypeError: input is not a floating-point Tensor, or indices is not an int64 Tensor.
        ValueError: shapes do not fit, or an index is outside the output.
    """
    if interpreters and (seen := interpreted(max_unpool2d, locals())) is not None:
        return seen
    return max_unpool_nd("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@advised
@operator
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of ``max_pool3d(..., return_indices=True)``: elements at their indices, zeros elsewhere.

    input, indices (N, C, *O) or (C, *O) -> (N, C, *I) or (C, *I), I = (O - 1)*stride + kernel_size - 2*padding on
    every axis. output_size: another I, less than a stride away (pooling drops the remainder of the division); it
    may include N and C. Where indices coincide, the last element counts.

    Arguments and errors: as for ``max_unpool2d``.
    """
    if interpreters and (seen := interpreted(max_unpool3d, locals())) is not None:
        return seen
    return max_unpool_nd("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
