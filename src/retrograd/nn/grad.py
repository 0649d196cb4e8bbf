"""Gradients of convolution and transposed convolution as functions: with respect to input, weight and bias.

Convolution is a trilinear form of x, w and g (``retrograd.ops.convolution``), so each gradient is one of its three
operators and is itself differentiable: gradients of any order follow by composition.

    value                    gradient w.r.t. input       w.r.t. weight             w.r.t. bias
    conv(x, w)               conv_input_grad(g, w)       conv_weight_grad(x, g)    sum of g over n, o
    conv_transpose(x, w)     conv(g, w)                  conv_weight_grad(g, x)    sum of g over n, o

``per_sample=True`` leaves out the sum over the batch: row n of the result is the gradient of sample n alone. The other
options are those of the forward pass; padding is with zeros.

input (N, Ci, *I), grad_output (N, Co, *O), both with N or both without; weight (Co, Ci/groups, *R), or for a transposed
convolution (Ci, Co/groups, *R). The names follow torch.nn.grad, which has only those of conv input and conv weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.arguments import as_list
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..ops.convolution.arguments import Call, Extent, Padding, frozen
from ..ops.convolution.convolution import (
    Conv,
    ConvInputGrad,
    ConvWeightGrad,
    ThreeGradients,
    bias_gradient,
    conv_gradients,
    shape_of,
)
from ..ops.shape.broadcasting import Sum
from ..ops.signatures import advised
from ..specs.geometry import as_tuple

__all__ = [
    "conv1d_bias",
    "conv1d_input",
    "conv1d_weight",
    "conv2d_bias",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_bias",
    "conv3d_input",
    "conv3d_weight",
    "conv_backward",
    "conv_transpose1d_bias",
    "conv_transpose1d_input",
    "conv_transpose1d_weight",
    "conv_transpose2d_bias",
    "conv_transpose2d_input",
    "conv_transpose2d_weight",
    "conv_transpose3d_bias",
    "conv_transpose3d_input",
    "conv_transpose3d_weight",
]


@operator(records=(Conv, ConvInputGrad, ConvWeightGrad))
def conv_backward(
    grad_output: Tensor,
    input: Tensor | Sequence[int],
    weight: Tensor | Sequence[int],
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    transposed: bool = False,
    output_padding: Extent = 0,
    groups: int = 1,
    output_mask: Sequence[bool] = (True, True, True),
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> ThreeGradients:
    """Compute the gradients of a convolution with respect to input, weight and bias in one call.

    The convolution is over 1, 2 or 3 axes (weight.ndim - 2).

    A gradient whose ``output_mask`` is False is not computed; None is returned for it. ``input`` may be a shape if the
    weight's gradient is not needed, ``weight`` if the input's is not. The other arguments are those of the forward
    pass; ``output_padding`` is for ``transposed`` only.

    per_sample: the gradients to weight (N, *weight.shape) and bias (N, Co) for each sample separately.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window; output_mask is not three bools;
            output_padding without transposed; per_sample without a batch.

    Source: torch.ops.aten.convolution_backward, without ``bias_sizes``, which is always (Co,).

    >>> import retrograd as rg
    >>> x, w, g = rg.ones(8, 3, 9, 9), rg.ones(4, 3, 3, 3), rg.ones(8, 4, 7, 7)
    >>> gx, gw, gb = rg.nn.grad.conv_backward(g, x, w, output_mask=(False, True, True), per_sample=True)
    >>> gx, tuple(gw.shape), tuple(gb.shape)
    (None, (8, 4, 3, 3, 3), (8, 4))
    """
    if interpreters and (seen := interpreted(conv_backward, locals())) is not None:
        return seen
    name = "conv_backward"
    mask = tuple(as_list(name, "output_mask", output_mask, "three bools: for input, weight and bias"))
    if len(mask) != 3 or not all(isinstance(flag, bool) for flag in mask):
        raise ValueError(f"{name}: output_mask={output_mask!r} must be three bools: for input, weight and bias")
    ndim = len(shape_of(name, "weight", weight)) - 2
    if not 1 <= ndim <= 3:
        raise ValueError(f"{name}: weight has {ndim + 2} axes, needs 3 to 5 (2 of channels, 1 to 3 of taps)")
    if not transposed and any(as_tuple(output_padding, ndim, f"{name}: output_padding", 0)):
        raise ValueError(
            f"{name}: output_padding={output_padding!r} is for a transposed convolution; set transposed=True"
        )
    options = stride, padding, dilation, groups, bool(transposed), output_padding, algorithm, workspace
    call = frozen(name, ndim, *options)
    return conv_gradients(call, grad_output, input, weight, mask, per_sample)


def _input_gradient(call: Call, grad_output: Tensor, input_size: Sequence[int], weight: Tensor) -> Tensor:
    gradients = conv_gradients(call, grad_output, input_size, weight, (True, False, False))
    return gradients[0]  # type: ignore[return-value]


def _weight_gradient(
    call: Call, grad_output: Tensor, input: Tensor, weight_size: Sequence[int], per_sample: bool
) -> Tensor:
    gradients = conv_gradients(call, grad_output, input, weight_size, (False, True, False), per_sample)
    return gradients[1]  # type: ignore[return-value]


@advised
@operator(records=ConvInputGrad)
def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k and all o, r with o*stride + r*dilation - padding = i of w[k, c, r] g[n, k, o]

    For a convolution over one axis. Arguments and errors: as for ``conv2d_input``.
    """
    if interpreters and (seen := interpreted(conv1d_input, locals())) is not None:
        return seen
    call = frozen("conv1d_input", 1, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=ConvInputGrad)
def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k and all o, r with o*stride + r*dilation - padding = i of w[k, c, r] g[n, k, o]

    The gradient of conv2d with respect to its input, of shape ``input_size``: (N, Ci, *I) or (Ci, *I). The input's
    values are not needed. The options are those of the forward pass; ``padding`` may be numbers, pairs or a word.
    ``input_size`` may also be the larger size that conv_transpose2d with ``output_padding`` computes from grad_output.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window.
    """
    if interpreters and (seen := interpreted(conv2d_input, locals())) is not None:
        return seen
    call = frozen("conv2d_input", 2, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=ConvInputGrad)
def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k and all o, r with o*stride + r*dilation - padding = i of w[k, c, r] g[n, k, o]

    For a convolution over three axes. Arguments and errors: as for ``conv2d_input``.
    """
    if interpreters and (seen := interpreted(conv3d_input, locals())) is not None:
        return seen
    call = frozen("conv3d_input", 3, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=ConvWeightGrad)
def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[k, c, r] = sum over n, o of g[n, k, o] x[n, c, o*stride + r*dilation - padding]

    For a convolution over one axis. Arguments and errors: as for ``conv2d_weight``.
    """
    if interpreters and (seen := interpreted(conv1d_weight, locals())) is not None:
        return seen
    call = frozen("conv1d_weight", 1, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=ConvWeightGrad)
def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[k, c, r] = sum over n, o of g[n, k, o] x[n, c, o*stride + r*dilation - padding]

    The gradient of conv2d with respect to its weight, of shape ``weight_size`` (Co, Ci/groups, *R). The weight's
    values are not needed. The options are those of the forward pass.

    per_sample: the gradient of each sample separately, (N, Co, Ci/groups, *R).

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window; per_sample without a batch.
    """
    if interpreters and (seen := interpreted(conv2d_weight, locals())) is not None:
        return seen
    call = frozen("conv2d_weight", 2, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=ConvWeightGrad)
def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[k, c, r] = sum over n, o of g[n, k, o] x[n, c, o*stride + r*dilation - padding]

    For a convolution over three axes. Arguments and errors: as for ``conv2d_weight``.
    """
    if interpreters and (seen := interpreted(conv3d_weight, locals())) is not None:
        return seen
    call = frozen("conv3d_weight", 3, stride, padding, dilation, groups, False, 0, algorithm, workspace)
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=Sum)
def conv1d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over one axis w.r.t. its bias, (Co,).

    Arguments and errors: as for ``conv2d_bias``.
    """
    if interpreters and (seen := interpreted(conv1d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv1d_bias", 1, grad_output, per_sample=per_sample)


@advised
@operator(records=Sum)
def conv2d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over two axes w.r.t. its bias, (Co,).

    grad_output (N, Co, *O) or (Co, *O); per_sample: the gradient of each sample separately, (N, Co).

    Raises:
        TypeError: grad_output is not a Tensor.
        ValueError: grad_output has the wrong number of axes, or per_sample is set and there is no batch.
    """
    if interpreters and (seen := interpreted(conv2d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv2d_bias", 2, grad_output, per_sample=per_sample)


@advised
@operator(records=Sum)
def conv3d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over three axes w.r.t. its bias, (Co,).

    Arguments and errors: as for ``conv2d_bias``.
    """
    if interpreters and (seen := interpreted(conv3d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv3d_bias", 3, grad_output, per_sample=per_sample)


@advised
@operator(records=Conv)
def conv_transpose1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k, r of w[c, k, r] g[n, k, i*stride + r*dilation - padding]

    For a convolution over one axis. Arguments and errors: as for ``conv_transpose2d_input``.
    """
    if interpreters and (seen := interpreted(conv_transpose1d_input, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose1d_input", 1, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=Conv)
def conv_transpose2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k, r of w[c, k, r] g[n, k, i*stride + r*dilation - padding]

    The gradient of conv_transpose2d with respect to its input, of shape ``input_size``: (N, Ci, *I) or (Ci, *I). The
    input's values are not needed. The options are those of the forward pass.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window.
    """
    if interpreters and (seen := interpreted(conv_transpose2d_input, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose2d_input", 2, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=Conv)
def conv_transpose3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gx[n, c, i] = sum over k, r of w[c, k, r] g[n, k, i*stride + r*dilation - padding]

    For a convolution over three axes. Arguments and errors: as for ``conv_transpose2d_input``.
    """
    if interpreters and (seen := interpreted(conv_transpose3d_input, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose3d_input", 3, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _input_gradient(call, grad_output, input_size, weight)


@advised
@operator(records=ConvWeightGrad)
def conv_transpose1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[c, k, r] = sum over n, i of x[n, c, i] g[n, k, i*stride + r*dilation - padding]

    For a convolution over one axis. Arguments and errors: as for ``conv_transpose2d_weight``.
    """
    if interpreters and (seen := interpreted(conv_transpose1d_weight, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose1d_weight", 1, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=ConvWeightGrad)
def conv_transpose2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[c, k, r] = sum over n, i of x[n, c, i] g[n, k, i*stride + r*dilation - padding]

    The gradient of conv_transpose2d with respect to its weight, of shape ``weight_size`` (Ci, Co/groups, *R). The
    weight's values are not needed. The options are those of the forward pass.

    per_sample: the gradient of each sample separately, (N, Ci, Co/groups, *R).

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: the shapes do not fit each other, the groups or the window; per_sample without a batch.
    """
    if interpreters and (seen := interpreted(conv_transpose2d_weight, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose2d_weight", 2, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=ConvWeightGrad)
def conv_transpose3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    *,
    per_sample: bool = False,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """gw[c, k, r] = sum over n, i of x[n, c, i] g[n, k, i*stride + r*dilation - padding]

    For a convolution over three axes. Arguments and errors: as for ``conv_transpose2d_weight``.
    """
    if interpreters and (seen := interpreted(conv_transpose3d_weight, locals())) is not None:
        return seen
    call = frozen(
        "conv_transpose3d_weight", 3, stride, padding, dilation, groups, True, output_padding, algorithm, workspace
    )
    return _weight_gradient(call, grad_output, input, weight_size, per_sample)


@advised
@operator(records=Sum)
def conv_transpose1d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over one axis w.r.t. its bias, (Co,).

    Arguments and errors: as for ``conv_transpose2d_bias``.
    """
    if interpreters and (seen := interpreted(conv_transpose1d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv_transpose1d_bias", 1, grad_output, per_sample=per_sample)


@advised
@operator(records=Sum)
def conv_transpose2d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over two axes w.r.t. its bias, (Co,).

    grad_output (N, Co, *O) or (Co, *O); per_sample: the gradient of each sample separately, (N, Co).

    Raises:
        TypeError: grad_output is not a Tensor.
        ValueError: grad_output has the wrong number of axes, or per_sample is set and there is no batch.
    """
    if interpreters and (seen := interpreted(conv_transpose2d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv_transpose2d_bias", 2, grad_output, per_sample=per_sample)


@advised
@operator(records=Sum)
def conv_transpose3d_bias(grad_output: Tensor, *, per_sample: bool = False) -> Tensor:
    """gb[k] = sum over n, o of g[n, k, o]: the gradient of a convolution over three axes w.r.t. its bias, (Co,).

    Arguments and errors: as for ``conv_transpose2d_bias``.
    """
    if interpreters and (seen := interpreted(conv_transpose3d_bias, locals())) is not None:
        return seen
    return bias_gradient("conv_transpose3d_bias", 3, grad_output, per_sample=per_sample)
