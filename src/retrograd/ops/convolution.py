"""Convolution as a trilinear form, in any number of dimensions.

    T(x, w, g) = sum x[i] w[r] g[o]   over all i, r, o with   i = o*stride + r*dilation - padding

summed over the batch and over the channels of each group as well. Leave out g, x or w and there are three operators;
the gradients of each are the other two, with the incoming gradient v in the empty place:

    value                     gradient to the 1st input (v)     gradient to the 2nd input (v)
    conv(x, w)                conv_input_grad(v, w)             conv_weight_grad(x, v)
    conv_input_grad(g, w)     conv(v, w)                        conv_weight_grad(v, g)
    conv_weight_grad(x, g)    conv_input_grad(g, v)             conv(x, v)

So the family is closed under differentiation, and ``conv_input_grad`` is the transposed convolution. One Window holds
every size and is handed from operator to operator. A bias is added to every position of its channel: its gradient is
the sum over all axes but 1.

x (N, Ci, *I), w (Co, Ci//groups, *R), g and y (N, Co, *O), O = (I + padding - dilation*(R-1) - 1)//stride + 1

Padding with anything but zeros is an operator of its own in front of these: x is extended, then convolved without
padding (Conv), or convolved and cut to the positions that the extension makes whole (ConvInputGrad).

Integers are convolved exactly, modulo 2**64, and have no gradient.

Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016 (the sizes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.function import Function
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor, wrap
from ..geometry import Window
from .broadcasting import Sum
from .convolution_arguments import (
    Extent,
    Padding,
    as_bytes,
    check_operands,
    conv_arguments,
    conv_transpose_arguments,
    freeze,
)
from .kernel_set import convolution_kernel, exact, kernels
from .padding import Extend, Pairs
from .shape import Reshape

Gradients = tuple[Tensor | None, ...]


class Conv(Function):
    """y[o] = sum x[i] w[r] + b"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, window: Window) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.window = window
        run = kernels.conv if window.algorithm == "auto" else convolution_kernel("conv", window)
        if w.array.dtype.kind != "f":
            run = exact("conv")
        return wrap(run(x.array, w.array, None if b is None else b.array, window))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_w, want_b, _), (x, w) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, w, None, ctx.window) if want_x else None
        gw = conv_weight_grad(x, g, ctx.window) if want_w else None
        gb = _bias_grad(g) if want_b else None
        return gx, gw, gb, None


class ConvInputGrad(Function):
    """x[i] = sum g[o] w[r] + b: the gradient of Conv to x, and the transposed convolution of g"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, w: Tensor, b: Tensor | None, window: Window) -> Tensor:
        ctx.save_for_backward(g, w)
        ctx.window = window
        run = kernels.conv_input_grad if window.algorithm == "auto" else convolution_kernel("conv_input_grad", window)
        if w.array.dtype.kind != "f":
            run = exact("conv_input_grad")
        return wrap(run(g.array, w.array, None if b is None else b.array, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_w, want_b, _), (g, w) = ctx.needs_input_grad, ctx.saved_tensors
        gg = conv(v, w, None, ctx.window) if want_g else None
        gw = conv_weight_grad(v, g, ctx.window) if want_w else None
        gb = _bias_grad(v) if want_b else None
        return gg, gw, gb, None


class ConvWeightGrad(Function):
    """w[r] = sum x[i] g[o]: the gradient of Conv to w"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor, window: Window) -> Tensor:
        ctx.save_for_backward(x, g)
        ctx.window = window
        run = kernels.conv_weight_grad if window.algorithm == "auto" else convolution_kernel("conv_weight_grad", window)
        return wrap(run(x.array, g.array, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_x, want_g, _), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, v, None, ctx.window) if want_x else None
        gg = conv(x, v, None, ctx.window) if want_g else None
        return gx, gg, None


def _bias_grad(g: Tensor) -> Tensor:
    """g summed over all axes but 1."""
    return Sum.apply(g, (0,) + tuple(range(2, g.array.ndim)), False)


def conv(x: Tensor, w: Tensor, b: Tensor | None, window: Window) -> Tensor:
    """x (N, Ci, *I), w (Co, Ci//groups, *R), b (Co,) or None -> (N, Co, *O); shapes must fit the window."""
    return Conv.apply(x, w, b, window)


def conv_input_grad(g: Tensor, w: Tensor, b: Tensor | None, window: Window) -> Tensor:
    """g (N, Co, *O), w (Co, Ci//groups, *R), b (Ci,) or None -> (N, Ci, *I); shapes must fit the window."""
    return ConvInputGrad.apply(g, w, b, window)


def conv_weight_grad(x: Tensor, g: Tensor, window: Window) -> Tensor:
    """x (N, Ci, *I), g (N, Co, *O) -> (Co, Ci//groups, *R); shapes must fit the window."""
    return ConvWeightGrad.apply(x, g, window)


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
    """Convolution over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, Ci, *I) or (Ci, *I), w (Co, Ci//groups, *R), b (Co,) or None -> (N, Co, *O) or (Co, *O)
    padding: an int, one int per axis, one pair (low, high) per axis, or a word, see ``geometry.conv_padding``.

    Raises:
        TypeError: the operands are not of one type, floating-point or int64; a size is no integer.
        ValueError: the shapes do not fit each other, the groups, or the window; an option is out of range.
    """
    xs, bs = check_operands(name, x, w, b)
    window, extension = conv_arguments(
        name, ndim, xs, w.array.shape, bs, freeze(stride), freeze(padding), freeze(dilation), freeze(groups),
        padding_mode if padding_mode == "zeros" else freeze(padding_mode),
        thread.mode.algorithm if algorithm == "auto" else freeze(algorithm),
        None if workspace is None else as_bytes(name, workspace),
    )  # fmt: skip
    if len(xs) == ndim + 2:
        return Conv.apply(x if extension is None else Extend.apply(x, extension, padding_mode), w, b, window)
    return _of_one(Conv, x, w, b, window, extension, padding_mode)


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
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """Transposed convolution over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, Ci, *I) or (Ci, *I), w (Ci, Co//groups, *R), b (Co,) or None -> (N, Co, *O) or (Co, *O)
    O = (I - 1)*stride - padding + dilation*(R-1) + output_padding + 1; words and other modes of padding, output_size,
    adj and target_shape: see ``convolution_arguments.conv_transpose_arguments``.

    Raises:
        TypeError: the operands are not of one type, floating-point or int64; a size is no integer.
        ValueError: the shapes do not fit each other, the groups, or the window; an option is out of range, or two of
            them contradict each other.
    """
    xs, bs = check_operands(name, x, w, b)
    window, extension = conv_transpose_arguments(
        name, ndim, xs, w.array.shape, bs, freeze(stride), freeze(padding), freeze(output_padding), freeze(dilation),
        freeze(groups),
        padding_mode if padding_mode == "zeros" else freeze(padding_mode),
        None if output_size is None else freeze(output_size),
        None if adj is None else freeze(adj),
        None if target_shape is None else freeze(target_shape),
        thread.mode.algorithm if algorithm == "auto" else freeze(algorithm),
        None if workspace is None else as_bytes(name, workspace),
    )  # fmt: skip
    if len(xs) == ndim + 2:
        return ConvInputGrad.apply(x if extension is None else Extend.apply(x, extension, padding_mode), w, b, window)
    return _of_one(ConvInputGrad, x, w, b, window, extension, padding_mode)


def _of_one(
    function: type[Function], x: Tensor, w: Tensor, b: Tensor | None, window: Window, extension: Pairs | None, mode: str
) -> Tensor:
    """The operator on an x without its batch axis."""
    x = Reshape.apply(x, (1,) + x.array.shape)
    y = function.apply(x if extension is None else Extend.apply(x, extension, mode), w, b, window)
    return Reshape.apply(y, y.array.shape[1:])
