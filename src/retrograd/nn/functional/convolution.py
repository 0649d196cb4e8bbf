"""Convolution and transposed convolution over 1, 2 or 3 axes, from one implementation; the batch axis is optional."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...ops.convolution.arguments import Extent, Padding, frozen
from ...ops.convolution.convolution import Conv, ConvInputGrad, conv_transpose_to_shape, convolved
from ...ops.signatures import advised

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]


@advised
@operator(records=Conv, dtypes="if")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Convolution over one axis, input (N, Ci, I):

    y[n, co, o] = bias[co] + sum x[n, ci, o*stride + r*dilation - padding] * weight[co, ci, r]

    input (N, Ci, *I) or (Ci, *I), weight (Co, Ci/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1

    Arguments and errors: as for ``conv2d``.
    """
    if interpreters and (seen := interpreted(conv1d, locals())) is not None:
        return seen
    call = frozen("conv1d", 1, stride, padding, dilation, groups, False, 0, algorithm, workspace, padding_mode)
    return convolved(Conv, call, input, weight, bias)


@advised
@operator(records=Conv, dtypes="if")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Convolution over two axes, input (N, Ci, H, W):

    y[n, co, o] = bias[co] + sum x[n, ci, o*stride + r*dilation - padding] * weight[co, ci, r]

    input (N, Ci, *I) or (Ci, *I), weight (Co, Ci/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1

    padding: an int, one per axis, a pair (low, high) per axis, or a word:
        "valid"                none
        "same", "same_upper"   just enough for O = I/stride, rounded up; the odd element on the high side
        "same_lower"           the same, the odd element on the low side
        "causal"               dilation*(R-1) low: output o reads nothing after o*stride; O = I/stride, rounded up
    padding_mode: the values of the padding: "zeros"; "reflect", the input mirrored at its first and last elements;
        "replicate", these elements repeated; "circular", the input wrapped around.
    algorithm: used in the forward and backward passes; ``conv_plan`` prints it. "auto" chooses by a cost model, from
        the shapes; "exact" does the same without transforms (as within ``exact_convolution``). "direct" computes every
        convolution without transforms; "depthwise", "pointwise" and "winograd" raise an error for convolutions they
        cannot compute. "singa", "mxnet", "pytorch" and "numpy_ml" belong to the textbook set, see ``use_kernels``.
    workspace: limit in MB (1024*1024 bytes) on an algorithm's temporary memory in every pass; None means no limit.
        If the chosen algorithm does not fit, another is used; the result of each is bitwise the same under any
        limit.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their dtypes differ; a size is not an integer.
        ValueError: the shapes do not fit each other, the groups or the window; an option is out of range; the
            algorithm cannot compute this convolution; workspace is too small.
    """
    if interpreters and (seen := interpreted(conv2d, locals())) is not None:
        return seen
    call = frozen("conv2d", 2, stride, padding, dilation, groups, False, 0, algorithm, workspace, padding_mode)
    return convolved(Conv, call, input, weight, bias)


@advised
@operator(records=Conv, dtypes="if")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Convolution over three axes, input (N, Ci, D, H, W):

    y[n, co, o] = bias[co] + sum x[n, ci, o*stride + r*dilation - padding] * weight[co, ci, r]

    input (N, Ci, *I) or (Ci, *I), weight (Co, Ci/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1

    Arguments and errors: as for ``conv2d``.
    """
    if interpreters and (seen := interpreted(conv3d, locals())) is not None:
        return seen
    call = frozen("conv3d", 3, stride, padding, dilation, groups, False, 0, algorithm, workspace, padding_mode)
    return convolved(Conv, call, input, weight, bias)


@advised
@operator(records=ConvInputGrad, dtypes="if")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Transposed convolution over one axis, input (N, Ci, I):

    y[n, co, i*stride + r*dilation - padding] += x[n, ci, i] * weight[ci, co, r], then + bias[co]

    input (N, Ci, *I) or (Ci, *I), weight (Ci, Co/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I-1)*stride - padding on both sides + dilation*(R-1) + output_padding + 1

    Arguments and errors: as for ``conv_transpose2d``.
    """
    if interpreters and (seen := interpreted(conv_transpose1d, locals())) is not None:
        return seen
    return conv_transpose_to_shape(
        "conv_transpose1d",
        1,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        padding_mode,
        output_size,
        adj,
        target_shape,
        algorithm,
        workspace,
    )


@advised
@operator(records=ConvInputGrad, dtypes="if")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Transposed convolution over two axes, input (N, Ci, H, W):

    y[n, co, i*stride + r*dilation - padding] += x[n, ci, i] * weight[ci, co, r], then + bias[co]

    input (N, Ci, *I) or (Ci, *I), weight (Ci, Co/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I-1)*stride - padding on both sides + dilation*(R-1) + output_padding + 1

    padding: an int, one per axis, a pair (low, high) per axis, or a word:
        "valid"                none
        "same", "same_upper"   O = I*stride, as in TensorFlow; the odd element is cropped on the high side
        "same_lower"           O = I*stride, the odd element is cropped on the low side
        "causal"               O = I*stride, all cropped on the high side: y[o] depends only on x[i], i*stride <= o
    padding_mode: the values before and after x: "zeros", or, unlike PyTorch, "reflect", "replicate" and "circular":
        y[o] is then the sum over all integers i and all r with i*stride + r*dilation - low = o, with x continued as
        by ``pad``. With "circular" and O = I*stride, this is the gradient of a circular convolution.
    Where the stride allows several sizes, pass output_size (the extents *O, or the whole shape) or output_padding.
    adj: MXNet's name for output_padding.
    target_shape: MXNet's argument for *O; padding is computed from it, with the odd element on the low side.
    algorithm, workspace: as in ``conv2d``.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their dtypes differ; a size is not an integer.
        ValueError: the shapes do not fit each other, the groups or the window; an option is out of range, or two of
            padding, output_padding, output_size, adj and target_shape contradict each other.
    """
    if interpreters and (seen := interpreted(conv_transpose2d, locals())) is not None:
        return seen
    return conv_transpose_to_shape(
        "conv_transpose2d",
        2,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        padding_mode,
        output_size,
        adj,
        target_shape,
        algorithm,
        workspace,
    )


@advised
@operator(records=ConvInputGrad, dtypes="if")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Transposed convolution over three axes, input (N, Ci, D, H, W):

    y[n, co, i*stride + r*dilation - padding] += x[n, ci, i] * weight[ci, co, r], then + bias[co]

    input (N, Ci, *I) or (Ci, *I), weight (Ci, Co/groups, *R), bias (Co,) -> (N, Co, *O) or (Co, *O)
    O = (I-1)*stride - padding on both sides + dilation*(R-1) + output_padding + 1

    Arguments and errors: as for ``conv_transpose2d``.
    """
    if interpreters and (seen := interpreted(conv_transpose3d, locals())) is not None:
        return seen
    return conv_transpose_to_shape(
        "conv_transpose3d",
        3,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        padding_mode,
        output_size,
        adj,
        target_shape,
        algorithm,
        workspace,
    )
