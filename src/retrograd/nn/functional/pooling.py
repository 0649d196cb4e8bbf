"""Pooling over 1, 2 or 3 axes of positions, from one code; x may come without its batch axis."""

from __future__ import annotations

from typing import Any

from ...engine.tensor import Tensor
from ...ops.convolution import Extent
from ...ops.pooling import Pairs, avg_pool_nd, max_pool_nd

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"]


def max_pool1d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over one axis. See ``max_pool2d``."""
    return max_pool_nd("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window; padding is never chosen, NaN always, of equal ones the first.

    input (N, C, *I) or (C, *I) -> y (N, C, *O) or (C, *O), or with ``return_indices`` (y, flat places in *I)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1, rounded up with ``ceil_mode``; stride defaults
    to kernel_size.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: input does not fit the window.
    """
    return max_pool_nd("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over three axes. See ``max_pool2d``."""
    return max_pool_nd("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def avg_pool1d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window over one axis. See ``avg_pool2d``."""
    return avg_pool_nd("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window.

    input (N, C, *I) or (C, *I) -> (N, C, *O) or (C, *O)
    O = (I + padding on both sides - R)//stride + 1, rounded up with ``ceil_mode``; stride defaults to kernel_size.

    count_include_pad: padding counts as zeros in the mean. divisor_override: divide the sum by this instead.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: input does not fit the window, or ``ceil_mode`` does not fit the padding that is counted.
    """
    return avg_pool_nd(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Pairs = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over three axes. See ``avg_pool2d``."""
    return avg_pool_nd(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
