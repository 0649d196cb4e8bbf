"""Layers as functions: PyTorch's ``torch.nn.functional``, its names, argument order and defaults.

N batch, Ci/Co channels, I/R/O extents of input, kernel and output. Convolutions and poolings take 1, 2 or 3 axes of
positions from one code, and x without its batch axis too. Everything they take is checked here, once; messages name
the function, the argument and the shapes.
"""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.convolution import Extent, Padding, conv_nd, conv_transpose_nd
from ..ops.creation import ones, zeros
from ..ops.dropout import dropout as _dropout
from ..ops.dtype import require_float, require_same
from ..ops.elementwise import relu, sigmoid, tanh
from ..ops.loss import cross_entropy as _cross_entropy
from ..ops.loss import mse_loss as _mse_loss
from ..ops.loss import nll as _nll
from ..ops.matmul import linear as _linear
from ..ops.normalization import batch_norm as _batch_norm
from ..ops.normalization import elements_per_channel, fixed_batch_norm
from ..ops.pooling import Pairs, avg_pool_nd, max_pool_nd
from ..ops.softmax import log_softmax, softmax

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "linear",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]


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


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x weightT + bias; input (..., Ci), weight (Co, Ci), bias (Co,) -> (..., Co)

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the extents do not fit.
    """
    return _linear(input, weight, bias)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias per channel; input (N, C, *I), all others (C,)

    In training, or without running statistics, mean and (biased) variance are those of x, and running statistics that
    are given move towards them in place: r = (1 - momentum)*r + momentum*(mean or unbiased variance).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, or a channel has not more than one element to take statistics over.
    """
    require_float("batch_norm", input)
    shape = input.data.shape
    if len(shape) < 2:
        raise ValueError(f"batch_norm: x has {len(shape)} axes, needs at least 2 (batch, channels); x.shape={shape}")
    others = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for label, value in others.items():
        if value is not None:
            require_same("batch_norm", "x", input, label, value)
            if value.data.shape != shape[1:2]:
                raise ValueError(
                    f"batch_norm: {label}.shape={value.data.shape}, needs ({shape[1]},), one per channel; "
                    f"x.shape={shape}"
                )
    if (running_mean is None) != (running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise ValueError(f"batch_norm: {missing} is missing; give both running statistics or neither")
    if weight is None:
        weight = ones(shape[1], dtype=input.data.dtype)
    if bias is None:
        bias = zeros(shape[1], dtype=input.data.dtype)
    if not training and running_mean is not None and running_var is not None:
        return fixed_batch_norm(input, running_mean, running_var, weight, bias, eps)

    count = elements_per_channel(shape)
    if count <= 1:
        raise ValueError(
            f"batch_norm: each channel has {count} elements to take statistics over, needs more than 1; "
            f"x.shape={shape}; use a larger batch, or eval mode"
        )
    y, mean, variance = _batch_norm(input, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        running_mean.data += momentum * (mean.data - running_mean.data)
        running_var.data += momentum * (variance.data * (count / (count - 1)) - running_var.data)
    return y


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each element is zeroed with probability p and the others are scaled by 1/(1 - p).

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: p is not in [0, 1].
    """
    return _dropout(input, p, training)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of softmax(input) over axis 1 against class indices or class probabilities.

    input (N, C, *D) or (C,); target int64 (N, *D) or (), or probabilities shaped like input
    Per element: -weight[t] * log(softmax(input))[t]. "mean" divides by the sum of the targets' weights.

    Raises:
        TypeError: input or weight are not of one floating-point type, or target is of a wrong one.
        ValueError: the shapes do not fit, the reduction is unknown, or label_smoothing is not in [0, 1].
        IndexError: a label is no class, named with its place.
    """
    return _cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-weight[t] * input[t] for log-probabilities; shapes and errors as ``cross_entropy``."""
    return _nll(input, target, weight, ignore_index, reduction)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(input - target)**2, averaged ("mean"), summed ("sum") or as it is ("none").

    Raises:
        TypeError: an operand is no floating-point Tensor.
        ValueError: the shapes do not broadcast or the reduction is unknown.
    """
    return _mse_loss(input, target, reduction)
