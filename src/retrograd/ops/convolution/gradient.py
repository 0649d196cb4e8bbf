"""The gradients of convolution and transposed convolution as separate functions with checked arguments.

    value                    gradient to the input       to the weight             to the bias
    conv(x, w)               conv_input_grad(g, w)       conv_weight_grad(x, g)    sum of g over n, o
    conv_transpose(x, w)     conv(g, w)                  conv_weight_grad(g, x)    sum of g over n, o

Those to weight and bias exist per sample too, without the sum over the batch:

    gw[n, k, c, r] = sum over o of g[n, k, o] x[n, c, i]      i = o*stride + r*dilation - padding

With the samples as groups, this is a convolution of one image with N*Ci channels, and so are its gradients. With the
incoming gradient v (N, Co, C, *R) as (N*Co, C, *R):

    to x: conv_input_grad(g, v)       to g: conv(x, v)        x (1, N*Ci, *I), g (1, N*Co, *O)

Source: G. Rochette et al., "Efficient Per-Example Gradient Computations in Convolutional Neural Networks", 2019
(arXiv:1912.06015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...arrays import empty
from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...specs.convolution_options import Options
from ...specs.geometry import Window, as_tuple
from ..arguments.checks import require_float, require_same
from ..shape.broadcasting import Sum
from ..shape.shape import Reshape
from .arguments import Call, window_of
from .convolution import conv, conv_input_grad, conv_weight_grad

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class PerSampleConvWeightGrad(Function):
    """gw[n] = ConvWeightGrad(x[n], g[n]); x (N, Ci, *I), g (N, Co, *O) -> (N, Co, Ci//groups, *R)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor, window: Window, options: Options) -> Tensor:
        ctx.save_for_backward(x, g)
        ctx.window = window
        ctx.options = options
        N, Ci, Co = x.array.shape[0], x.array.shape[1], g.array.shape[1]
        # a convolution per sample: to make the samples groups of one image, they would have to be copied
        layout = (N, *window.kernel, Ci // window.groups, Co)  # of weights
        memory = empty(layout, x.array.dtype, like=x.array)
        gw = memory.transpose(0, -1, -2, *range(1, memory.ndim - 2))
        for n in range(N):
            part = conv_weight_grad(wrap(x.array[n : n + 1]), wrap(g.array[n : n + 1]), window, options).array
            kernels.copy(gw[n], part)
        return wrap(gw)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_g, _, _), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        if not x.array.shape[0]:
            return x * 0 if want_x else None, g * 0 if want_g else None, None, None
        window, options = replace(ctx.window, groups=x.array.shape[0] * ctx.window.groups), ctx.options
        if options.algorithm != "exact":  # others may not suit so many groups
            options = options._replace(algorithm="auto")
        v = Reshape.apply(v, (-1, *v.array.shape[2:]))  # (N, Co, C, *R) -> (N*Co, C, *R)
        gx = gg = None
        if want_x:
            gx = Reshape.apply(conv_input_grad(_side_by_side(g), v, None, window, options), x.array.shape)
        if want_g:
            gg = Reshape.apply(conv(_side_by_side(x), v, None, window, options), g.array.shape)
        return gx, gg, None, None


per_sample_conv_weight_grad = PerSampleConvWeightGrad.apply


def _side_by_side(x: Tensor) -> Tensor:
    """(N, C, *I) -> (1, N*C, *I)"""
    shape = x.array.shape
    return Reshape.apply(x, (1, shape[0] * shape[1], *shape[2:]))


def conv_gradients(
    call: Call,
    g: Tensor,
    x: Tensor | Sequence[int],
    w: Tensor | Sequence[int],
    mask: tuple[bool, ...],
    per_sample: bool = False,
) -> Gradients:
    """The gradients to x, w and bias that ``mask`` asks for, for ``nn.grad``.

    x and w may be shapes where their values are not needed.
    """
    want_x, want_w, want_b = mask
    require_float(call.name, g, "grad_output")
    if want_w or isinstance(x, Tensor):
        require_same(call.name, "input", x, "grad_output", g)  # type: ignore[arg-type]  # the check is in there
    if want_x or isinstance(w, Tensor):
        require_same(call.name, "weight", w, "grad_output", g)  # type: ignore[arg-type]
    xs = shape_of(call.name, "input_size", x)
    window = _window(call, xs, shape_of(call.name, "weight_size", w), g)
    batched = _is_batched(call.name, call.ndim, g, per_sample)
    whole = g if batched else _with_batch(g)
    gx = gw = None
    if want_x:
        gx = (conv if call.transposed else conv_input_grad)(whole, w, None, window, call.options)
        gx = gx if batched else Reshape.apply(gx, xs)
    if want_w:
        weight_grad = per_sample_conv_weight_grad if per_sample else conv_weight_grad
        images: Tensor = x if batched else _with_batch(x)  # type: ignore[assignment, arg-type]
        read, made = (whole, images) if call.transposed else (images, whole)
        gw = weight_grad(read, made, window, call.options)
    return gx, gw, bias_gradient(call.name, call.ndim, g, per_sample) if want_b else None


def _window(call: Call, xs: tuple[int, ...], ws: tuple[int, ...], g: Tensor) -> Window:
    """The window of the forward pass; g must have the shape of its output."""
    name, ndim = call.name, call.ndim
    window, _ = window_of(call, xs, ws, None)
    lead = xs[: -ndim - 1]
    output = (*lead, ws[1] * window.groups, *window.input) if call.transposed else (*lead, ws[0], *window.output)
    if not call.transposed and g.array.shape[: -ndim or None] == output[:-ndim] and g.array.ndim == len(output):
        shorter = replace(window, output=g.array.shape[-ndim:])
        if all(
            0 <= extent + before + after - (o - 1) * stride - (k - 1) * dilation - 1 < max(stride, dilation)
            for extent, (before, after), o, stride, k, dilation in zip(
                window.input, window.padding, shorter.output, window.stride, window.kernel, window.dilation, strict=True
            )
        ):  # the input is the output of a transposed convolution of g with output_padding
            return shorter
    if g.array.shape != output:
        longer = "; output_padding selects one of several sizes" if call.transposed else ""
        raise ValueError(
            f"{name}: grad_output.shape={g.array.shape}, needs {output}, the shape of the output of an input {xs} with "
            f"a weight {ws}{longer}"
        )
    return window


def bias_gradient(name: str, ndim: int, g: Tensor, per_sample: bool) -> Tensor:
    """g (N, Co, *O) or (Co, *O) summed over positions, and over the batch unless ``per_sample``."""
    require_float(name, g, "grad_output")
    batched = _is_batched(name, ndim, g, per_sample)
    positions = tuple(range(g.array.ndim - ndim, g.array.ndim))
    return Sum.apply(g, (0, *positions) if batched and not per_sample else positions, False)


def _is_batched(name: str, ndim: int, g: Tensor, per_sample: bool) -> bool:
    shape = g.array.shape
    if len(shape) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: grad_output.shape={shape}, needs {ndim + 2} axes (batch, channels, {ndim} of positions), or "
            f"{ndim + 1} (without batch)"
        )
    batched = len(shape) == ndim + 2
    if per_sample and not batched:
        raise ValueError(f"{name}: per_sample=True, but there is no axis of samples in grad_output.shape={shape}")
    return batched


def shape_of(name: str, label: str, x: Tensor | Sequence[int]) -> tuple[int, ...]:
    """The shape of a Tensor, or x itself if it is a shape; TypeError or ValueError if it is neither."""
    if isinstance(x, Tensor):
        return x.array.shape
    if not isinstance(x, Sequence):
        raise TypeError(f"{name}: {label} is {type(x).__name__}, needs a shape, ints in a tuple, or a Tensor of it")
    return as_tuple(x, len(x), f"{name}: {label}", 0)


def _with_batch(x: Tensor) -> Tensor:
    return Reshape.apply(x, (1, *x.array.shape))
