"""Convolution and transposed convolution in any number of dimensions, with their gradients as operators.

    T(x, w, g) = sum x[i] w[r] g[o]   over all i, r, o with   i = o*stride + r*dilation - padding

summed also over the batch and over the channels of each group. Leaving out g, x or w gives one of three operators.
The gradients of each are the other two, with the incoming gradient v in the empty slot:

    value                     gradient of the 1st input (v)     gradient of the 2nd input (v)
    conv(x, w)                conv_input_grad(v, w)             conv_weight_grad(x, v)
    conv_input_grad(g, w)     conv(v, w)                        conv_weight_grad(v, g)
    conv_weight_grad(x, g)    conv_input_grad(g, v)             conv(x, v)

The three are thus closed under differentiation, and ``conv_input_grad`` is the transposed convolution. One Window
contains all sizes, and the operators pass it on to each other. The gradient of a bias is the sum over all axes but 1.

x (N, Ci, *I), w (Co, Ci//groups, *R), g and y (N, Co, *O), O = (I + padding - dilation*(R-1) - 1)//stride + 1

Padding other than zeros is a separate operator: x is extended, then convolved without padding (Conv), or convolved and
then cropped (ConvInputGrad). Integers are convolved exactly, modulo 2**64, and have no gradient.

Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016 (the sizes).

The gradients are also available as separate functions:

    value                    gradient of the input       of the weight             of the bias
    conv(x, w)               conv_input_grad(g, w)       conv_weight_grad(x, g)    sum of g over n, o
    conv_transpose(x, w)     conv(g, w)                  conv_weight_grad(g, x)    sum of g over n, o

The gradients of the weight and the bias are also available per sample, without the sum over the batch:

    gw[n, k, c, r] = sum over o of g[n, k, o] x[n, c, i]      i = o*stride + r*dilation - padding

With the samples as groups, this is a convolution of one image with N*Ci channels, and so are its gradients. With the
incoming gradient v (N, Co, C, *R) reshaped to (N*Co, C, *R):

    of x: conv_input_grad(g, v)       of g: conv(x, v)        x (1, N*Ci, *I), g (1, N*Co, *O)

Source: G. Rochette et al., "Efficient Per-Example Gradient Computations in Convolutional Neural Networks", 2019
(arXiv:1912.06015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ...arrays import empty
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.node import save_factors
from ...engine.tensor import Tensor, wrap
from ...kernel_set import convolution_kernel, exact, kernels
from ...specs.convolution_options import Options
from ...specs.geometry import Window, as_pairs, as_tuple
from ..argument_checks import require_float, require_same
from ..shape.broadcasting import Sum
from ..shape.padding import Extend, Pairs
from ..shape.shape import Reshape
from .arguments import Call, Extent, Padding, Sizes, check_operands, check_ranks, frozen, window_of

# ---- Convolution as a trilinear form, in any number of dimensions ---------------------------------------------------

Gradients = tuple[Tensor | None, ...]


class Conv(Function):
    """y[o] = sum x[i] w[r] + b"""

    gradient = "x: conv_input_grad(g, w); w: conv_weight_grad(x, g); b: g summed over all axes but 1"

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor | None, window: Window, options: Options) -> Tensor:
        run = convolution_kernel("conv", options) if w.array.dtype.kind == "f" else exact("conv")
        return wrap(run(x.array, w.array, None if b is None else b.array, window, options))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, ctx.window, ctx.options = inputs
        save_factors(ctx, x, w)

    # the input's gradient is computed after the weight's, so that the next node finds it in the cache
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_w, want_b, _, _), (x, w) = ctx.needs_input_grad, ctx.saved_tensors
        gw = conv_weight_grad(x, g, ctx.window, ctx.options) if want_w else None
        gx = conv_input_grad(g, w, None, ctx.window, ctx.options) if want_x else None
        gb = _bias_grad(g) if want_b else None
        return gx, gw, gb, None, None


class ConvInputGrad(Function):
    """x[i] = sum g[o] w[r] + b: the gradient of Conv for x, and the transposed convolution of g"""

    gradient = "g: conv(v, w); w: conv_weight_grad(v, g); b: v summed over all axes but 1"

    @staticmethod
    def forward(g: Tensor, w: Tensor, b: Tensor | None, window: Window, options: Options) -> Tensor:
        run = convolution_kernel("conv_input_grad", options) if w.array.dtype.kind == "f" else exact("conv_input_grad")
        return wrap(run(g.array, w.array, None if b is None else b.array, window, options))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, w, _, ctx.window, ctx.options = inputs
        save_factors(ctx, g, w)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_w, want_b, _, _), (g, w) = ctx.needs_input_grad, ctx.saved_tensors
        gw = conv_weight_grad(v, g, ctx.window, ctx.options) if want_w else None
        gg = conv(v, w, None, ctx.window, ctx.options) if want_g else None
        gb = _bias_grad(v) if want_b else None
        return gg, gw, gb, None, None


class ConvWeightGrad(Function):
    """w[r] = sum x[i] g[o]: the gradient of Conv for w"""

    gradient = "x: conv_input_grad(g, v); g: conv(x, v)"

    @staticmethod
    def forward(x: Tensor, g: Tensor, window: Window, options: Options) -> Tensor:
        return wrap(convolution_kernel("conv_weight_grad", options)(x.array, g.array, window, options))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, g, ctx.window, ctx.options = inputs
        save_factors(ctx, x, g)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_x, want_g, _, _), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, v, None, ctx.window, ctx.options) if want_x else None
        gg = conv(x, v, None, ctx.window, ctx.options) if want_g else None
        return gx, gg, None, None


def _bias_grad(g: Tensor) -> Tensor:
    """g summed over all axes but 1."""
    return Sum.apply(g, (0,) + tuple(range(2, g.array.ndim)), False)


# the operators under the names in the table above; shapes must match the window
conv: Final = Conv.apply
conv_input_grad: Final = ConvInputGrad.apply
conv_weight_grad: Final = ConvWeightGrad.apply


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
    """Apply ``function`` to checked operands; x may lack the batch axis."""
    xs, bs = check_operands(call.name, x, w, b)
    window, extension = window_of(call, xs, w.array.shape, bs)
    batched = len(xs) == call.ndim + 2
    if not batched:
        x = Reshape.apply(x, (1,) + xs)
    if extension is not None:
        x = Extend.apply(x, extension, call.padding_mode)
    y = function.apply(x, w, b, window, call.options)
    return y if batched else Reshape.apply(y, y.array.shape[1:])


# ---- Gradients of convolutions as separate functions with checked arguments ------------------------------------------

ThreeGradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class PerSampleConvWeightGrad(Function):
    """gw[n] = ConvWeightGrad(x[n], g[n]); x (N, Ci, *I), g (N, Co, *O) -> (N, Co, Ci//groups, *R)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor, window: Window, options: Options) -> Tensor:
        ctx.save_for_backward(x, g)
        ctx.window = window
        ctx.options = options
        N, Ci, Co = x.array.shape[0], x.array.shape[1], g.array.shape[1]
        # one convolution per sample: turning the samples into groups of one image would need a copy
        layout = (N, *window.kernel, Ci // window.groups, Co)  # memory layout of gw
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
        if options.algorithm != "exact":  # other algorithms may not support so many groups
            options = options._replace(algorithm="auto")
        v = Reshape.apply(v, (-1, *v.array.shape[2:]))  # (N, Co, C, *R) -> (N*Co, C, *R)
        gx = gg = None
        if want_x:
            gx = Reshape.apply(conv_input_grad(_side_by_side(g), v, None, window, options), x.array.shape)
        if want_g:
            gg = Reshape.apply(conv(_side_by_side(x), v, None, window, options), g.array.shape)
        return gx, gg, None, None


per_sample_conv_weight_grad: Final = PerSampleConvWeightGrad.apply


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
) -> ThreeGradients:
    """Compute the gradients of x, w and bias selected by ``mask``, for ``nn.grad``.

    x and w may be shapes if their values are not needed.
    """
    want_x, want_w, want_b = mask
    require_float(call.name, g, "grad_output")
    if want_w or isinstance(x, Tensor):
        require_same(call.name, "input", x, "grad_output", g)  # type: ignore[arg-type]  # require_same checks the type
    if want_x or isinstance(w, Tensor):
        require_same(call.name, "weight", w, "grad_output", g)  # type: ignore[arg-type]
    xs = shape_of(call.name, "input_size", x)
    window = _window(call, xs, shape_of(call.name, "weight_size", w), g)
    batched = _is_batched(call.name, call.ndim, g, per_sample)
    batch_g = g if batched else _with_batch(g)
    gx = gw = None
    if want_x:
        gx = (conv if call.transposed else conv_input_grad)(batch_g, w, None, window, call.options)
        gx = gx if batched else Reshape.apply(gx, xs)
    if want_w:
        weight_grad = per_sample_conv_weight_grad if per_sample else conv_weight_grad
        images: Tensor = x if batched else _with_batch(x)  # type: ignore[assignment, arg-type]
        inputs, outputs = (batch_g, images) if call.transposed else (images, batch_g)
        gw = weight_grad(inputs, outputs, window, call.options)
    return gx, gw, bias_gradient(call.name, call.ndim, g, per_sample) if want_b else None


def _window(call: Call, xs: tuple[int, ...], ws: tuple[int, ...], g: Tensor) -> Window:
    """Return the window of the forward pass; g must have the shape of its output."""
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
            f"{name}: grad_output.shape={g.array.shape}, needs {output}, the output shape for an input {xs} and a "
            f"weight {ws}{longer}"
        )
    return window


def bias_gradient(name: str, ndim: int, g: Tensor, per_sample: bool) -> Tensor:
    """Sum g (N, Co, *O) or (Co, *O) over positions, and over the batch unless ``per_sample``."""
    require_float(name, g, "grad_output")
    batched = _is_batched(name, ndim, g, per_sample)
    positions = tuple(range(g.array.ndim - ndim, g.array.ndim))
    return Sum.apply(g, (0, *positions) if batched and not per_sample else positions, False)


def _is_batched(name: str, ndim: int, g: Tensor, per_sample: bool) -> bool:
    shape = g.array.shape
    if len(shape) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: grad_output.shape={shape}, needs {ndim + 2} axes (batch, channels, {ndim} for positions), or "
            f"{ndim + 1} (without batch)"
        )
    batched = len(shape) == ndim + 2
    if per_sample and not batched:
        raise ValueError(f"{name}: per_sample=True needs a batch axis; grad_output.shape={shape}")
    return batched


def shape_of(name: str, label: str, x: Tensor | Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a Tensor, or x itself if it is a shape; TypeError or ValueError if it is neither."""
    if isinstance(x, Tensor):
        return x.array.shape
    if not isinstance(x, Sequence):
        raise TypeError(f"{name}: {label} is {kind_name(x)}, needs a shape, a tuple of ints, or a Tensor")
    return as_tuple(x, len(x), f"{name}: {label}", 0)


def _with_batch(x: Tensor) -> Tensor:
    return Reshape.apply(x, (1, *x.array.shape))


# ---- MXNet's arguments of transposed convolutions, adj and target_shape ----------------------------------------------


def conv_transpose_to_shape(
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
    """``conv_transpose_nd`` with MXNet's arguments adj and target_shape."""
    if adj is not None or target_shape is not None:
        shapes = check_operands(name, x, w, b)[0], w.array.shape
        padding, output_padding = paddings(
            name, ndim, *shapes, stride, padding, output_padding, dilation, output_size, adj, target_shape
        )
    return conv_transpose_nd(
        name,
        ndim,
        x,
        w,
        b,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        padding_mode,
        output_size,
        algorithm,
        workspace,
    )


def paddings(
    name: str,
    ndim: int,
    xs: Sizes,
    ws: Sizes,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    dilation: Extent,
    output_size: Sequence[int] | None,
    adj: Extent | None,
    target_shape: Extent | None,
) -> tuple[Padding, Extent]:
    """Return the padding and output_padding equivalent to adj and target_shape, as in MXNet's InferPad."""
    if adj is None and target_shape is None:
        return padding, output_padding
    check_ranks(name, ndim, xs, ws, 1)
    try:
        extra = output_padding_or_adj(output_padding, adj, ndim)
        if target_shape is None:
            return padding, extra
        check_target_shape(ndim, 0 if padding == "valid" else padding, extra, output_size)
        steps, spread = as_tuple(stride, ndim, "stride", 1), as_tuple(dilation, ndim, "dilation", 1)
        target = as_tuple(target_shape, ndim, "target_shape", 1)
        return _target_padding(xs[-ndim:], target, ws[2:], steps, spread), extra
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; input.shape={xs}, weight.shape={ws}") from None


def _target_padding(size: Sizes, target: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pairs:
    """Return the padding that leaves ``target`` positions; an odd excess goes to the low side."""
    pairs = []
    for axis, (i, o, r, s, d) in enumerate(zip(size, target, kernel, stride, dilation, strict=True)):
        total = (i - 1) * s + d * (r - 1) + 1 - o
        if total < 0:
            raise ValueError(
                f"target_shape={target} is too large on axis {axis}: the maximum is (I - 1)*stride + dilation*(R - 1) "
                f"+ 1 = ({i} - 1)*{s} + {d}*({r} - 1) + 1 = {total + o}"
            )
        pairs.append(((total + 1) // 2, total // 2))
    return tuple(pairs)


def check_target_shape(ndim: int, padding: Padding, extra: Sizes, output_size: Sequence[int] | None = None) -> None:
    """Raise ValueError if target_shape is combined with another argument that determines the output's extents."""
    others = {"output_size": output_size is not None, "output_padding or adj": any(extra)}
    others["padding"] = isinstance(padding, str) or any(map(any, as_pairs(padding, ndim)))
    for other, given in others.items():
        if given:
            raise ValueError(f"target_shape already determines {other}; leave one of them out")


def output_padding_or_adj(output_padding: int | Sequence[int], adj: int | Sequence[int] | None, ndim: int) -> Sizes:
    """Return output_padding, given under PyTorch's or MXNet's name; ValueError if both are given."""
    extra = as_tuple(output_padding, ndim, "output_padding", 0)
    if adj is None:
        return extra
    if any(extra):
        raise ValueError(f"adj={adj} and output_padding={output_padding} are two names of the same argument; give one")
    return as_tuple(adj, ndim, "adj", 0)
