"""Convolution as a trilinear form, in any number of dimensions.

    T(x, w, g) = sum x[i] w[r] g[o]   over all i, r, o with   i = o*stride + r*dilation - padding

summed over the batch and over the channels of each group as well. Leave out g, x or w and there are three operators;
the gradients of each are the other two, with the incoming gradient v in the empty place:

    value                     gradient to the 1st input (v)     gradient to the 2nd input (v)
    conv(x, w)                conv_input_grad(v, w)             conv_weight_grad(x, v)
    conv_input_grad(g, w)     conv(v, w)                        conv_weight_grad(v, g)
    conv_weight_grad(x, g)    conv_input_grad(g, v)             conv(x, v)

So the family is closed under differentiation, and ``conv_input_grad`` is the transposed convolution. One Window holds
every size; the operators pass it on to each other. The gradient of a bias is the sum over all axes but 1.

x (N, Ci, *I), w (Co, Ci//groups, *R), g and y (N, Co, *O), O = (I + padding - dilation*(R-1) - 1)//stride + 1

Padding other than zeros is a separate operator: x is extended, then convolved without padding (Conv), or convolved and
cropped (ConvInputGrad). Integers are convolved exactly, modulo 2**64, and have no gradient.

Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016 (the sizes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import convolution_kernel, exact
from ...specs.convolution_options import Options
from ...specs.geometry import Window
from ..shape.broadcasting import Sum
from ..shape.padding import Extend
from ..shape.shape import Reshape
from .arguments import Call, Extent, Padding, check_operands, frozen, window_of

Gradients = tuple[Tensor | None, ...]


class Conv(Function):
    """y[o] = sum x[i] w[r] + b"""

    gradient = "x: conv_input_grad(g, w); w: conv_weight_grad(x, g); b: g summed over all axes but 1"

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, window: Window, options: Options) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.window = window
        ctx.options = options
        run = convolution_kernel("conv", options) if w.array.dtype.kind == "f" else exact("conv")
        return wrap(run(x.array, w.array, None if b is None else b.array, window, options))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_w, want_b, _, _), (x, w) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, w, None, ctx.window, ctx.options) if want_x else None
        gw = conv_weight_grad(x, g, ctx.window, ctx.options) if want_w else None
        gb = _bias_grad(g) if want_b else None
        return gx, gw, gb, None, None


class ConvInputGrad(Function):
    """x[i] = sum g[o] w[r] + b: the gradient of Conv to x, and the transposed convolution of g"""

    gradient = "g: conv(v, w); w: conv_weight_grad(v, g); b: v summed over all axes but 1"

    @staticmethod
    def forward(ctx: Any, g: Tensor, w: Tensor, b: Tensor | None, window: Window, options: Options) -> Tensor:
        ctx.save_for_backward(g, w)
        ctx.window = window
        ctx.options = options
        run = convolution_kernel("conv_input_grad", options) if w.array.dtype.kind == "f" else exact("conv_input_grad")
        return wrap(run(g.array, w.array, None if b is None else b.array, window, options))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_w, want_b, _, _), (g, w) = ctx.needs_input_grad, ctx.saved_tensors
        gg = conv(v, w, None, ctx.window, ctx.options) if want_g else None
        gw = conv_weight_grad(v, g, ctx.window, ctx.options) if want_w else None
        gb = _bias_grad(v) if want_b else None
        return gg, gw, gb, None, None


class ConvWeightGrad(Function):
    """w[r] = sum x[i] g[o]: the gradient of Conv to w"""

    gradient = "x: conv_input_grad(g, v); g: conv(x, v)"

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor, window: Window, options: Options) -> Tensor:
        ctx.save_for_backward(x, g)
        ctx.window = window
        ctx.options = options
        return wrap(convolution_kernel("conv_weight_grad", options)(x.array, g.array, window, options))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_x, want_g, _, _), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, v, None, ctx.window, ctx.options) if want_x else None
        gg = conv(x, v, None, ctx.window, ctx.options) if want_g else None
        return gx, gg, None, None


def _bias_grad(g: Tensor) -> Tensor:
    """g summed over all axes but 1."""
    return Sum.apply(g, (0,) + tuple(range(2, g.array.ndim)), False)


# the operators by the names in the table above; shapes must fit the window
conv, conv_input_grad, conv_weight_grad = Conv.apply, ConvInputGrad.apply, ConvWeightGrad.apply


def conv_nd(
    name: str,
    ndim: int,
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: Extent,
    padding: Padding,
    dilation: Extent,
    groups: int,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """``nn.functional.conv2d``, which explains the arguments, for ``ndim`` axes; messages begin with ``name``."""
    call = frozen(name, ndim, stride, padding, dilation, groups, False, 0, algorithm, workspace, padding_mode)
    return convolved(Conv, call, x, w, b)


def conv_transpose_nd(
    name: str,
    ndim: int,
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    groups: int,
    dilation: Extent,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """``nn.functional.conv_transpose2d``, which explains the arguments, for ``ndim`` axes; see ``conv_nd``."""
    options = groups, True, output_padding, algorithm, workspace, padding_mode, output_size
    return convolved(ConvInputGrad, frozen(name, ndim, stride, padding, dilation, *options), x, w, b)


def convolved(function: type[Function], call: Call, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """``function`` of checked operands, x perhaps without a batch axis."""
    xs, bs = check_operands(call.name, x, w, b)
    window, extension = window_of(call, xs, w.array.shape, bs)
    batched = len(xs) == call.ndim + 2
    if not batched:
        x = Reshape.apply(x, (1,) + xs)
    if extension is not None:
        x = Extend.apply(x, extension, call.padding_mode)
    y = function.apply(x, w, b, window, call.options)
    return y if batched else Reshape.apply(y, y.array.shape[1:])
