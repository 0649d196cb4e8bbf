"""Deformable convolution: learned offsets move the taps of each window, also to fractional positions.

    y[n, k, o] = bias[k] + sum over c, r of w[k, c, r] m[n, d, r, o] s(x[n, c], p)
    p = o*stride + r*dilation - padding + offset[n, d, r, o]

s reads x at p by bilinear interpolation, with zeros outside x; d is the deformable group of channel c. The columns
m s(x, p) replace x at the taps of an ordinary convolution: gw = g columns^T, gcolumns = w^T g. With the weights of the
corners q around p:

    gx[q] = sum of gcolumns m weight[q]        gm = sum over c of gcolumns s
    goffset = sum over c of gcolumns m sum over q of x[q] (derivative of weight[q] for p)

At integer p, where s has a kink, the one-sided derivative from above is used.

Source: J. Dai et al., "Deformable Convolutional Networks", 2017, arXiv:1703.06211; X. Zhu et al., "Deformable ConvNets
v2", 2018, arXiv:1811.11168 (the mask m).
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import product
from math import prod
from operator import add, mul
from typing import Any, NamedTuple

import numpy as np

from ...arrays import broadcast_to, empty, full
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ...specs.geometry import Window
from ..argument_checks import require_same
from ..index.gather import Gather, Scatter
from ..index.indexing import GetItem, PadSlice
from ..product.matmul import matmul, swap_last
from ..shape.broadcasting import Sum
from ..shape.join import stack
from ..shape.shape import Reshape
from .arguments import Call, Extent, Padding, as_bytes, check_operands, freeze, window_of
from .convolution import _bias_grad

__all__ = ["deform_conv2d"]

Gradients = tuple[Tensor | None, ...]
Shape = tuple[int, ...]


class DeformConv(Function):
    """y = bias + sum of w m s(x, p)

    x (N, Ci, *I), offset (N, D*R*axes, *O), mask (N, D*R, *O) or None, w (Co, Ci//groups, *R) -> (N, Co, *O)
    """

    gradient = (
        "x, offset, mask: through the bilinear samples; w: g times these samples; b: g summed over all axes but 1"
    )

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        offset: Tensor,
        mask: Tensor | None,
        w: Tensor,
        b: Tensor | None,
        window: Window,
        workspace: int | None,
    ) -> Tensor:
        ctx.save_for_backward(x, offset, mask, w)
        ctx.window, ctx.workspace = window, workspace
        mask_array, bias = (None if tensor is None else tensor.array for tensor in (mask, b))
        return wrap(kernels.deform_conv(x.array, offset.array, mask_array, w.array, bias, window, workspace))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Use the fused kernels, or differentiable operators if the gradients are themselves recorded."""
        x, offset, mask, w = ctx.saved_tensors
        needs_grad, window, workspace = ctx.needs_input_grad, ctx.window, ctx.workspace
        gb = _bias_grad(g) if needs_grad[4] else None
        if is_grad_enabled():
            return *deform_conv_grad(g, x, offset, mask, w, window, needs_grad[:4]), gb, None, None
        m = None if mask is None else mask.array
        found: list[Any] = [None] * 4
        if any(needs_grad[:3]):
            found[:3] = kernels.deform_conv_grad(
                g.array, x.array, offset.array, m, w.array, window, tuple(needs_grad[:3]), workspace
            )
        if needs_grad[3]:
            found[3] = kernels.deform_conv_weight_grad(x.array, offset.array, m, g.array, window, workspace)
        return *(None if gradient is None else wrap(gradient) for gradient in found), gb, None, None


def per_sample_deform_weight_grad(
    x: Tensor, offset: Tensor, mask: Tensor | None, g: Tensor, window: Window, workspace: int | None
) -> Tensor:
    """Compute the gradient of w for each image, (N, Co, Ci//groups, *R); not differentiable."""
    depth = x.array.shape[1] // window.groups
    found = empty((len(x.array), g.array.shape[1], depth, *window.kernel), x.array.dtype, like=x.array)
    for n in range(len(found)):
        one = slice(n, n + 1)
        part = kernels.deform_conv_weight_grad(
            x.array[one], offset.array[one], None if mask is None else mask.array[one], g.array[one], window, workspace
        )
        kernels.copy(found[n], part)
    return wrap(found)


class _Corner(NamedTuple):
    """One corner of the cells that contain the sampled positions; arrays of shape (N, D, 1, R*O)."""

    place: np.ndarray  # flat index into *I; prod(I), the index of an appended zero, for corners outside
    weight: Tensor
    slopes: list[Tensor]  # derivatives of the weight along the axes


def deform_conv_grad(
    g: Tensor, x: Tensor, offset: Tensor, mask: Tensor | None, w: Tensor, window: Window, needs_grad: tuple[bool, ...]
) -> Gradients:
    """Compute the gradients of ``DeformConv`` by composing operators; the kernels must give the same values."""
    n, channels, outputs, taps = len(x.array), x.array.shape[1], prod(window.output), window.taps
    deformable, groups = offset.array.shape[1] // (window.ndim * taps), window.groups
    lead, last = (n, deformable, channels // deformable), prod(window.input)
    corners = _corners(offset, deformable, window)
    places = [broadcast_to(corner.place, (*lead, taps * outputs)) for corner in corners]
    m = None if mask is None else Reshape.apply(mask, (n, deformable, 1, taps * outputs))

    # (G, C*R, K) @ (N, G, K, O) -> (N, G, C*R, O), which is (N, D, Ci/D, R*O)
    each, deep = len(w.array) // groups, channels // groups * taps
    filters = Reshape.apply(w, (groups, each, deep))
    upstream = Reshape.apply(g, (n, groups, each, outputs))
    g_unmasked = Reshape.apply(matmul(swap_last(filters), upstream), (*lead, taps * outputs))
    gcolumns = g_unmasked if m is None else g_unmasked * m

    padded = PadSlice.apply(Reshape.apply(x, (*lead, last)), (*lead, last + 1), (..., slice(0, last)))
    values = [Gather.apply(padded, index, 3) for index in places]
    gx = goffset = gmask = gw = None
    if needs_grad[0]:
        back = [
            Scatter.apply(gcolumns * corner.weight, index, 3, (*lead, last + 1))
            for corner, index in zip(corners, places, strict=True)
        ]
        gx = Reshape.apply(GetItem.apply(reduce(add, back), (..., slice(0, last))), x.array.shape)
    if needs_grad[1]:
        slopes = [
            reduce(add, [c.slopes[axis] * value for c, value in zip(corners, values, strict=True)])
            for axis in range(window.ndim)
        ]
        parts = [Reshape.apply(Sum.apply(gcolumns * s, (2,), False), (n, deformable, taps, outputs)) for s in slopes]
        goffset = Reshape.apply(stack(parts, 3), offset.array.shape)
    if needs_grad[2] or needs_grad[3]:
        sampled = reduce(add, [c.weight * value for c, value in zip(corners, values, strict=True)])
        if mask is not None and needs_grad[2]:
            gmask = Reshape.apply(Sum.apply(g_unmasked * sampled, (2,), False), mask.array.shape)
        if needs_grad[3]:
            columns = Reshape.apply(sampled if m is None else sampled * m, (n, groups, deep, outputs))
            # (N, G, K, O) @ (N, G, O, C*R) -> (N, G, K, C*R)
            gw = Reshape.apply(Sum.apply(matmul(upstream, swap_last(columns)), (0,), False), w.array.shape)
    return gx, goffset, gmask, gw


def _corners(offset: Tensor, deformable: int, window: Window) -> list[_Corner]:
    """Return the corners around p, with weights as functions of offset."""
    n, taps, axes, outputs = len(offset.array), window.taps, window.ndim, prod(window.output)
    apart = Reshape.apply(offset, (n, deformable, taps, axes, outputs))
    flat = (n, deformable, 1, taps * outputs)
    sides: list[Any] = []  # along each axis, below and above p: (position, weight, sign of its slope)
    for axis in range(axes):
        own = GetItem.apply(apart, (..., axis, slice(None)))  # (N, D, R, O)
        below, higher, rest = kernels.deform_points(own.array, window, axis)
        above = Reshape.apply(own + wrap(rest), flat)
        sides.append([(below.reshape(flat), 1 - above, -1.0), (higher.reshape(flat), above, 1.0)])
    corners, last = [], full((), prod(window.input), np.int64, like=offset.array)
    for chosen in product(*sides):
        index, inside = kernels.grid_corner([i for i, _, _ in chosen], window.input)
        weights = [weight for _, weight, _ in chosen]
        signs = enumerate(sign for _, _, sign in chosen)
        slopes = [sign * reduce(mul, weights[:axis] + weights[axis + 1 :]) for axis, sign in signs]
        corners.append(_Corner(exact("where")(inside, index, last), reduce(mul, weights), slopes))
    return corners


@operator(records=DeformConv)
def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    mask: Tensor | None = None,
    *,
    workspace: float | None = None,
) -> Tensor:
    """Convolution with taps moved by ``offset`` and weighted by ``mask`` (deformable convolution v1, v2).

    y[n, k, o] = bias[k] + sum over c, r of weight[k, c, r] mask[n, d, r, o] x[n, c, p], interpolated bilinearly at
    p = o*stride + r*dilation - padding + offset[n, d, r, :, o], with zeros outside x.

    input (N, Ci, H, W), offset (N, 2*D*R, *O), weight (Co, Ci/groups, RH, RW), bias (Co,), mask (N, D*R, *O) or None
    (ones) -> (N, Co, *O); or input, offset and mask without their batch axis. R = RH*RW taps,
    O = (I + padding on both sides - dilation*(R-1) - 1)//stride + 1

    The shapes imply the groups and the deformable groups D: Ci/D adjacent channels share their offsets.
    The channels of offset are (D, R, 2): for each tap, the offset in rows (down), then the offset in columns (right).

    padding: an int, one per axis, a pair (low, high) per axis, or a string ("valid", "same", ...), see ``conv2d``.
    workspace: MB (of 1024*1024 bytes) for the columns; None: as many as fit in the cache. The columns of at
        least one output are stored (textbook kernels: always one tap of one image). It does not affect the result.

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ; a size is not an integer.
        ValueError: the shapes do not fit each other or the window; an option is out of range.

    Source: ``torchvision.ops.deform_conv2d``; asymmetric padding, padding strings, workspace
    and unbatched input are additions of retrograd.
    """
    if interpreters and (seen := interpreted(deform_conv2d, locals())) is not None:
        return seen
    name = "deform_conv2d"
    xs, bs = check_operands(name, input, weight, bias)
    require_same(name, "input", input, "offset", offset)
    if mask is not None:
        require_same(name, "input", input, "mask", mask)
    window = _checked_window(
        name,
        xs,
        offset.array.shape,
        None if mask is None else mask.array.shape,
        weight.array.shape,
        bs,
        *(freeze(option) for option in (stride, padding, dilation)),
    )
    limit = None if workspace is None else as_bytes(name, workspace)
    if len(xs) == 4:
        return DeformConv.apply(input, offset, mask, weight, bias, window, limit)
    x, places, m = (None if t is None else Reshape.apply(t, (1, *t.array.shape)) for t in (input, offset, mask))
    y = DeformConv.apply(x, places, m, weight, bias, window, limit)
    return Reshape.apply(y, y.array.shape[1:])


@lru_cache(maxsize=4096)
def _checked_window(
    name: str,
    xs: Shape,
    offsets: Shape,
    masks: Shape | None,
    ws: Shape,
    bs: Shape | None,
    stride: Extent,
    padding: Padding,
    dilation: Extent,
) -> Window:
    """Check the shapes of a deformable convolution and return its window."""
    groups = 1
    if len(ws) == 4 and len(xs) in (3, 4):  # other ranks are rejected below
        channels = xs[-3]
        if not ws[1] or not channels or channels % ws[1]:
            raise ValueError(
                f"{name}: input has {channels} channels, which must be a multiple of the {ws[1]} per group "
                f"that weight expects; input.shape={xs}, weight.shape={ws}"
            )
        groups = channels // ws[1]
    window, _ = window_of(Call(name, 2, stride, padding, dilation, groups), xs, ws, bs)
    lead, taps = xs[:-3], window.taps
    offset_channels = offsets[-3] if len(offsets) == len(xs) else 0
    deformable = offset_channels // (2 * taps)
    if offsets != (*lead, 2 * deformable * taps, *window.output) or not deformable or channels % deformable:
        axes = ", ".join(map(str, (*lead, f"2*D*{taps}", *window.output)))
        raise ValueError(
            f"{name}: offset.shape={offsets} must be ({axes}): rows and columns for each of the {taps} taps and of D "
            f"deformable groups, where D divides the {channels} channels of input; input.shape={xs}, weight.shape={ws}"
        )
    if masks is not None and masks != (*lead, deformable * taps, *window.output):
        raise ValueError(
            f"{name}: mask.shape={masks} must be {(*lead, deformable * taps, *window.output)}: one number for each of "
            f"the {taps} taps and {deformable} deformable groups of offset; offset.shape={offsets}"
        )
    return window
