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

Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016 (the sizes).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..geometry import Window, as_pairs, as_tuple, conv_transpose_window, conv_window
from .broadcasting import Sum
from .dtype import require_same
from .kernel_set import convolution_kernel, kernels
from .shape import Reshape

Gradients = tuple[Tensor | None, ...]
Extent = int | tuple[int, ...]
Padding = int | str | tuple[int, ...] | tuple[tuple[int, int], ...]


class Conv(Function):
    """y[o] = sum x[i] w[r] + b"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, window: Window) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.window = window
        run = kernels.conv if window.algorithm == "auto" else convolution_kernel("conv", window)
        return wrap(run(x.data, w.data, None if b is None else b.data, window))

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
        return wrap(run(g.data, w.data, None if b is None else b.data, window))

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
        return wrap(run(x.data, g.data, window))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_x, want_g, _), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        gx = conv_input_grad(g, v, None, ctx.window) if want_x else None
        gg = conv(x, v, None, ctx.window) if want_g else None
        return gx, gg, None


def _bias_grad(g: Tensor) -> Tensor:
    """g summed over all axes but 1."""
    return Sum.apply(g, (0,) + tuple(range(2, g.data.ndim)), False)


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
) -> Tensor:
    """Convolution over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, Ci, *I) or (Ci, *I), w (Co, Ci//groups, *R), b (Co,) or None -> (N, Co, *O) or (Co, *O)
    padding: an int, one int per axis, one pair (low, high) per axis, "valid" (none), or "same" (O = ceil(I/stride)).

    Raises:
        TypeError: an operand is no floating-point Tensor, or the types differ.
        ValueError: the shapes do not fit each other, the groups, or the window.
    """
    xs, bs = _check_operands(name, x, w, b)
    options = freeze(stride), freeze(padding), freeze(dilation), freeze(groups)
    window = _conv_plan(name, ndim, xs, w.data.shape, bs, *options)
    if len(xs) == ndim + 1:
        y = Conv.apply(Reshape.apply(x, (1,) + xs), w, b, window)
        return Reshape.apply(y, y.data.shape[1:])
    return Conv.apply(x, w, b, window)


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
) -> Tensor:
    """Transposed convolution over the last ``ndim`` axes, its arguments checked; ``name`` is the caller's in messages.

    x (N, Ci, *I) or (Ci, *I), w (Ci, Co//groups, *R), b (Co,) or None -> (N, Co, *O) or (Co, *O)
    O = (I - 1)*stride - padding + dilation*(R-1) + output_padding + 1

    Raises:
        TypeError: an operand is no floating-point Tensor, or the types differ.
        ValueError: the shapes do not fit each other, the groups, or the window.
    """
    xs, bs = _check_operands(name, x, w, b)
    window = _conv_transpose_plan(
        name,
        ndim,
        xs,
        w.data.shape,
        bs,
        freeze(stride),
        freeze(padding),
        freeze(output_padding),
        freeze(dilation),
        freeze(groups),
    )
    if len(xs) == ndim + 1:
        y = ConvInputGrad.apply(Reshape.apply(x, (1,) + xs), w, b, window)
        return Reshape.apply(y, y.data.shape[1:])
    return ConvInputGrad.apply(x, w, b, window)


def _check_operands(name: str, x: Tensor, w: Tensor, b: Tensor | None) -> tuple[tuple[int, ...], Any]:
    """Shapes of x and b, once all operands are known to be Tensors of one floating-point type."""
    try:
        dtype = x.data.dtype
        fits = dtype is w.data.dtype and dtype.kind == "f" and (b is None or b.data.dtype is dtype)
    except AttributeError:
        fits = False
    if not fits:
        require_same(name, "x", x, "w", w)
        if b is not None:
            require_same(name, "w", w, "b", b)
    return x.data.shape, None if b is None else b.data.shape


@lru_cache(maxsize=4096)
def _conv_plan(
    name: str,
    ndim: int,
    xs: tuple[int, ...],
    ws: tuple[int, ...],
    bs: tuple[int, ...] | None,
    stride: Extent,
    padding: Padding,
    dilation: Extent,
    groups: int,
) -> Window:
    """The window of a checked convolution."""
    _check_ranks(name, ndim, xs, ws, groups)
    channels = xs[-ndim - 1]
    if channels != ws[1] * groups:
        raise ValueError(
            f"{name}: x has {channels} channels, w expects {ws[1]} x groups {groups} = {ws[1] * groups}; "
            f"x.shape={xs}, w.shape={ws}"
        )
    if ws[0] % groups:
        raise ValueError(f"{name}: w.shape={ws} makes {ws[0]} channels, which groups={groups} does not divide")
    _check_bias(name, bs, ws[0], ws)
    size, kernel = xs[-ndim:], ws[2:]
    try:
        steps, spread = as_tuple(stride, ndim, "stride", 1), as_tuple(dilation, ndim, "dilation", 1)
        return conv_window(size, kernel, steps, _pairs(padding, size, kernel, steps, spread), spread, groups)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; x.shape={xs}, w.shape={ws}") from None


@lru_cache(maxsize=4096)
def _conv_transpose_plan(
    name: str,
    ndim: int,
    xs: tuple[int, ...],
    ws: tuple[int, ...],
    bs: tuple[int, ...] | None,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    dilation: Extent,
    groups: int,
) -> Window:
    """The window of the convolution whose input gradient a checked transposed convolution is."""
    _check_ranks(name, ndim, xs, ws, groups)
    channels = xs[-ndim - 1]
    if channels != ws[0]:
        raise ValueError(f"{name}: x has {channels} channels, w expects {ws[0]}; x.shape={xs}, w.shape={ws}")
    if channels % groups:
        raise ValueError(f"{name}: x has {channels} channels, which groups={groups} does not divide; x.shape={xs}")
    _check_bias(name, bs, ws[1] * groups, ws)
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding={padding!r} is for convolutions; a transposed one takes numbers")
    try:
        return conv_transpose_window(
            xs[-ndim:],
            ws[2:],
            stride,
            padding,
            output_padding,
            dilation,
            groups,
        )
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; x.shape={xs}, w.shape={ws}") from None


def _check_ranks(name: str, ndim: int, xs: tuple[int, ...], ws: tuple[int, ...], groups: int) -> None:
    if len(ws) != ndim + 2:
        raise ValueError(
            f"{name}: w has {len(ws)} axes, needs {ndim + 2} (two of channels, {ndim} of taps); w.shape={ws}"
        )
    if len(xs) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: x has {len(xs)} axes, needs {ndim + 2} (batch, channels, {ndim} of positions) or {ndim + 1} "
            f"(without batch); x.shape={xs}"
        )
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ValueError(f"{name}: groups={groups!r} must be an int of at least 1")


def _check_bias(name: str, bs: tuple[int, ...] | None, channels: int, ws: tuple[int, ...]) -> None:
    if bs is not None and bs != (channels,):
        raise ValueError(f"{name}: b.shape={bs}, needs ({channels},), one per channel made; w.shape={ws}")


def _pairs(
    padding: Padding, size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Padding as (low, high) per axis."""
    if padding == "valid":
        return ((0, 0),) * len(size)
    if padding == "same":  # just enough for O = ceil(I / stride); an odd rest goes to the high side
        rests = [
            max(0, (-(-i // s) - 1) * s + d * (r - 1) + 1 - i)
            for i, r, s, d in zip(size, kernel, stride, dilation, strict=True)
        ]
        return tuple((rest // 2, rest - rest // 2) for rest in rests)
    if isinstance(padding, str):
        raise ValueError(f"padding={padding!r} must be 'same', 'valid' or numbers")
    return as_pairs(padding, len(size))


def freeze(value: Any) -> Any:
    """An argument as a key of the cached plans: ints, tuples of them, words and None as they are, lists as tuples.

    2.0 and True are equal to ints and would find their plans; they are wrapped, equal to nothing, and then refused.
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is tuple:
        for entry in value:
            if type(entry) is not int:
                break
        else:
            return value
    if isinstance(value, Sequence):
        return tuple(map(freeze, value))
    if kind is not bool and hasattr(kind, "__index__"):  # NumPy's integers
        return operator.index(value)
    return _NoInteger(value)


class _NoInteger:
    """Something that is no int, shown in messages as it was given."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)
