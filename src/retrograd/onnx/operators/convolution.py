"""Conv, ConvTranspose and their variants, and the window attributes of pooling. Source: ONNX Operators.html."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ...ops.convolution.convolution import conv_nd, conv_transpose_nd
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, extents, floating, ints
from .registry import operator

# ---- Windows of convolution and pooling, with ONNX's paddings -------------------------------------------------------

Pairs = tuple[tuple[int, int], ...]


def steps(node: Node, name: str, axes: int) -> tuple[int, ...]:
    """Return an attribute with one number per axis, 1 where omitted.

    Raises:
        OnnxError: it has another length.
    """
    values = tuple(node[name] or (1,) * axes)
    if len(values) != axes:
        raise OnnxError(f"{name}={list(values)} must have {axes} numbers, one for each axis of the window")
    return values


def paddings(
    node: Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Pairs:
    """Return the zeros before and after each axis of the input, given by ``pads`` or ``auto_pad``."""
    mode = node["auto_pad"] or "NOTSET"
    if mode == "VALID":
        return ((0, 0),) * len(size)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for i, k, s, d in zip(size, kernel, stride, dilation, strict=True):
            total = max(0, (-(-i // s) - 1) * s + (k - 1) * d + 1 - i)
            found.append(split(total, mode == "SAME_UPPER"))
        return tuple(found)
    return pairs(node["pads"], len(size))


def check_outputs(
    first: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Pairs,
) -> None:
    """Check that the windows have no more outputs than a file may request.

    Raises:
        OnnxError: they have more, or a stride, a dilation or a kernel is below 1.
    """
    if min(*kernel, *stride, *dilation) < 1:
        raise OnnxError(f"kernel {list(kernel)}, strides {list(stride)}, dilations {list(dilation)} must be at least 1")
    found = []
    for i, k, s, d, (low, high) in zip(size, kernel, stride, dilation, padding, strict=True):
        found.append(max(0, (i + low + high - (k - 1) * d - 1) // s + 1))
    extents([*first, *found])


def pairs(pads: Sequence[int] | None, axes: int) -> Pairs:
    """Return ``pads`` as (before, after) for each axis.

    Raises:
        OnnxError: it has another length.
    """
    values = list(pads or (0,) * (2 * axes))
    if len(values) != 2 * axes:
        raise OnnxError(f"pads={values} must have {2 * axes} numbers, all those before and all those after")
    return tuple(zip(values[:axes], values[axes:], strict=True))


def split(total: int, upper: bool) -> tuple[int, int]:
    """Split a padding into two, with the larger half after (upper) or before."""
    less = total // 2
    return (less, total - less) if upper else (total - less, less)


# ---- Conv, ConvTranspose and their variants. Source: ONNX Operators.html, sections of these names -------------------


@operator("Conv")
def conv(node: Node, x: Value, w: Value, b: Value = None) -> Tensor:
    return _conv(node, floating(x), floating(w), b)


def _conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise UnsupportedError(f"a convolution over {axes} axes")
    stride, dilation = steps(node, "strides", axes), steps(node, "dilations", axes)
    padding = paddings(node, x.shape[2:], w.shape[2:], stride, dilation)
    check_outputs((x.shape[0], w.shape[0]), x.shape[2:], w.shape[2:], stride, dilation, padding)
    return conv_nd("Conv", axes, x, w, b, stride, padding, dilation, node["group"])


@operator("ConvInteger", constants=(0, 1, 2, 3))
def conv_integer(node: Node, x: Value, w: Value, x_zero: Value = None, w_zero: Value = None) -> Tensor:
    """Compute exactly: the sums of products of bytes are whole numbers that float64 represents."""
    return wrap(_conv(node, _centered(x, x_zero), _centered(w, w_zero, 0), None).array.astype(np.int32))


@operator("QLinearConv", constants=tuple(range(9)))
def qlinear_conv(
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    b: Value = None,
) -> Tensor:
    bias = None if b is None else wrap(array_of(b).astype(np.float64))
    total = _conv(node, _centered(x, x_zero), _centered(w, w_zero, 0), bias).array
    weights = array_of(w_scale).astype(np.float64).reshape(-1, *(1,) * (total.ndim - 2))
    scale = array_of(x_scale).astype(np.float64) * weights / array_of(y_scale)
    return wrap(saturated(np.rint(total * scale) + array_of(y_zero), array_of(y_zero).dtype))


def saturated(numbers: np.ndarray, dtype: Any) -> np.ndarray:
    """Round numbers to whole ones and saturate them to the range of a dtype."""
    limits = np.iinfo(dtype)
    return np.clip(numbers, limits.min, limits.max).astype(dtype)


def _centered(x: Value, zero: Value, axis: int | None = None) -> Tensor:
    numbers = array_of(x).astype(np.float64)
    if zero is None:
        return wrap(numbers)
    shift = array_of(zero).astype(np.float64)
    if axis is not None and shift.ndim:
        shift = shift.reshape(-1, *(1,) * (numbers.ndim - 1))
    return wrap(numbers - shift)


@operator("CausalConvWithState", constants=(3,))
def causal_conv_with_state(node: Node, x: Value, w: Value, b: Value = None, past: Value = None) -> Any:
    """Compute a depthwise convolution over time with past inputs; the second output is the past of the next call."""
    x, w = floating(x), floating(w)
    before = ops.zeros(*x.shape[:2], w.shape[2] - 1, dtype=x.dtype) if past is None else floating(past)
    longer = ops.cat([before, x], 2)
    y = conv_nd("CausalConvWithState", 1, longer, w, b, 1, 0, 1, x.shape[1])
    if node["activation"] in ("silu", "swish"):
        y = functional.silu(y)
    return y, longer[:, :, longer.shape[2] - (w.shape[2] - 1) :]


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Value, w: Value, b: Value = None) -> Tensor:
    x, w = floating(x), floating(w)
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise UnsupportedError(f"a transposed convolution over {axes} axes")
    stride, dilation = steps(node, "strides", axes), steps(node, "dilations", axes)
    extra = tuple(node["output_padding"] or (0,) * axes)
    # the last output of the full convolution, without paddings
    full = [
        (i - 1) * s + (k - 1) * d + 1 for i, s, k, d in zip(x.shape[2:], stride, w.shape[2:], dilation, strict=True)
    ]
    mode = node["auto_pad"] or "NOTSET"
    target = node["output_shape"]
    if target is None and mode.startswith("SAME"):
        target = [i * s for i, s in zip(x.shape[2:], stride, strict=True)]
    if target is not None:
        target = list(target)[-axes:]
        totals = [o + e - n for o, e, n in zip(full, extra, target, strict=True)]
        cuts = [split(total, mode == "SAME_UPPER") for total in totals]
    else:
        cuts = list(pairs(None if mode == "VALID" else node["pads"], axes))
    cuts = [(low, high - e) for (low, high), e in zip(cuts, extra, strict=True)]
    lengths = [max(0, o - min(0, low) - min(0, high)) for o, (low, high) in zip(full, cuts, strict=True)]
    extents([x.shape[0], w.shape[1] * node["group"], *lengths])
    return transposed(x, w, b, stride, dilation, node["group"], cuts)


def transposed(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    cuts: Sequence[tuple[int, int]],
) -> Tensor:
    """Compute a transposed convolution without the outputs cut off at both ends of each axis.

    A negative cut adds outputs that no input reaches.
    """
    axes = x.ndim - 2
    inside = tuple((max(0, low), max(0, high)) for low, high in cuts)
    y = conv_transpose_nd("ConvTranspose", axes, x, w, None, tuple(stride), inside, 0, groups, tuple(dilation))
    if any(low < 0 or high < 0 for low, high in cuts):
        y = functional.pad(y, [max(0, -side) for pair in reversed(cuts) for side in pair])
    return y if b is None else y + b.reshape(-1, *(1,) * axes)


@operator("DeformConv")
def deform_conv(node: Node, x: Value, w: Value, offset: Value, b: Value = None, mask: Value = None) -> Tensor:
    x, w = floating(x), floating(w)
    if x.ndim != 4:
        raise UnsupportedError(f"a deformable convolution over {x.ndim - 2} axes")
    stride, dilation = steps(node, "strides", 2), steps(node, "dilations", 2)
    return functional.deform_conv2d(x, floating(offset), w, b, stride, pairs(node["pads"], 2), dilation, mask)


@operator("Col2Im", constants=(1, 2))
def col2im(node: Node, x: Value, image_shape: Value, block_shape: Value) -> Tensor:
    """Compute the transposed convolution whose weights put each entry of a block in its place."""
    x, image, block = floating(x), ints(image_shape), ints(block_shape)
    axes = len(image)
    extents([*x.shape[:2], *image])
    extents([*block, *block])
    if axes not in (1, 2, 3):
        raise UnsupportedError(f"blocks of {axes} axes")
    stride, dilation, padding = steps(node, "strides", axes), steps(node, "dilations", axes), pairs(node["pads"], axes)
    sizes = zip(image, block, stride, dilation, padding, strict=True)
    counts = [(i + low + high - (k - 1) * d - 1) // s + 1 for i, k, s, d, (low, high) in sizes]
    entries = prod(block)
    if x.ndim != 3 or x.shape[1] % entries or x.shape[2] != prod(counts):
        raise OnnxError(f"the input has the shape {x.shape}, needs (N, C*{entries}, {prod(counts)})")
    batch, channels = x.shape[0], x.shape[1] // entries
    w = wrap(np.eye(entries, dtype=x.array.dtype).reshape(entries, 1, *block))
    cuts = []
    for i, k, s, d, (low, _), o in zip(image, block, stride, dilation, padding, counts, strict=True):
        cuts.append((low, (o - 1) * s + (k - 1) * d + 1 - low - i))
    y = transposed(x.reshape(batch * channels, entries, *counts), w, None, stride, dilation, 1, cuts)
    return y.reshape(batch, channels, *image)
