"""Converters of spatial operators: convolution, pooling and resampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.convolution.convolution import Conv, ConvInputGrad
from ....ops.convolution.deformable import DeformConv
from ....ops.pooling import AvgPool, MaxPool, Root, max_unpool_nd
from ....ops.resampling import Repeat, grid_sample, interpolate
from ....specs.geometry import AdaptiveWindow, Window
from ..writer import Value, Writer
from .registry import converter, converter_of

# ---- Convolution and transposed convolution -------------------------------------------------------------------------


def pads(window: Window) -> list[int]:
    """Return the padding before each axis, then the padding after each axis, in ONNX's order."""
    return [low for low, _ in window.padding] + [high for _, high in window.padding]


def _options(window: Window) -> dict[str, Any]:
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "dilations": list(window.dilation),
        "pads": pads(window),
        "group": window.groups,
    }


def _unread(window: Window) -> list[int]:
    """Return how many positions of each axis, with its padding, follow the last window."""
    sizes = zip(window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True)
    return [i + low + high - (o - 1) * s - d * (r - 1) - 1 for i, r, o, s, d, (low, high) in sizes]


@converter(Conv)
def conv(w: Writer, x: Value, weight: Value, bias: Value | None, window: Window, options: Any) -> Value:
    return w.node("Conv", x, weight, bias, **_options(window))


@converter(ConvInputGrad)
def conv_transpose(w: Writer, x: Value, weight: Value, bias: Value | None, window: Window, options: Any) -> Value:
    # input positions that no stride reaches at the end: ONNX's output_padding
    return w.node("ConvTranspose", x, weight, bias, output_padding=_unread(window), **_options(window))


@converter(DeformConv)
def deform_conv(
    w: Writer,
    x: Value,
    offset: Value,
    mask: Value | None,
    weight: Value,
    bias: Value | None,
    window: Window,
    workspace: Any,
) -> Value:
    groups = offset.shape[1] // (2 * window.taps)
    return w.node("DeformConv", x, weight, offset, bias, mask, opset=19, offset_group=groups, **_options(window))


# ---- Pooling and resampling -----------------------------------------------------------------------------------------


def _even(window: AdaptiveWindow) -> dict[str, Any] | None:
    """Return strides and sizes of windows that divide the input evenly; None if the sizes differ."""
    if any(i % o for i, o in zip(window.input, window.output, strict=True)):
        return None
    sizes = [i // o for i, o in zip(window.input, window.output, strict=True)]
    return {"kernel_shape": sizes, "strides": sizes}


def _sized(window: Window, dilated: bool) -> dict[str, Any]:
    found = {"kernel_shape": list(window.kernel), "strides": list(window.stride), "pads": pads(window)}
    return {**found, "dilations": list(window.dilation)} if dilated else found


def _covers(window: Any) -> bool:
    """Return whether a window covers the whole input."""
    return isinstance(window, AdaptiveWindow) or (window.kernel == window.input and not any(map(any, window.padding)))


@converter(MaxPool)
def max_pool(w: Writer, x: Value, window: Any, return_indices: bool) -> Any:
    if set(window.output) == {1} and not return_indices and _covers(window):
        return w.node("GlobalMaxPool", x)
    if isinstance(window, AdaptiveWindow):
        sizes = _even(window)
        if sizes is None:
            w.require(not return_indices, "indices of adaptive max pooling whose windows differ in size")
            return _adaptive(w, x, window, "ReduceMax")
    else:
        sizes = _sized(window, True)
        if any(max(pair) >= kernel for pair, kernel in zip(window.padding, window.kernel, strict=True)):
            # with a dilation, runtimes reject such pads in the node itself
            w.require(not return_indices, "indices of max pooling with a padding as large as its kernel")
            lows, highs = zip(*window.padding, strict=True)
            x = w.node("Pad", x, w.ints([0, 0, *lows, 0, 0, *highs]), w.constant(-np.inf, x.dtype))
            sizes["pads"] = None
    if not return_indices:
        return _cropped(w, w.node("MaxPool", x, **sizes), window)
    y, indices = w.node("MaxPool", x, outputs=2, **sizes)
    # ONNX counts across the whole batch, ours within each channel
    positions = math.prod(window.input)
    within = w.node("Mod", Value(indices.name, np.dtype(np.int64)), w.constant(positions, np.int64))
    return _cropped(w, y, window), _cropped(w, within, window)


def _cropped(w: Writer, y: Value, window: Any) -> Value:
    """Leave out windows that only ONNX has: dilated ones without the taps that read padding leave positions unread."""
    if isinstance(window, AdaptiveWindow) or all(n < s for n, s in zip(_unread(window), window.stride, strict=True)):
        return y
    axes = range(2, 2 + window.ndim)
    return w.node("Slice", y, w.ints(0 for _ in axes), w.ints(window.output), w.ints(axes), dtype=y.dtype)


@converter(AvgPool)
def avg_pool(w: Writer, x: Value, window: Any, count_include_pad: bool) -> Value:
    if isinstance(window, AdaptiveWindow):
        if set(window.output) == {1}:
            return w.node("GlobalAveragePool", x)
        sizes = _even(window)
        return _adaptive(w, x, window, "ReduceMean") if sizes is None else w.node("AveragePool", x, **sizes)
    w.require(max(window.dilation) == 1, "average pooling with a dilation")
    return w.node("AveragePool", x, count_include_pad=int(count_include_pad), **_sized(window, False))


def _adaptive(w: Writer, x: Value, window: AdaptiveWindow, reduce: str) -> Value:
    """Write windows of different sizes, axis by axis, each output separately."""
    for axis, (extent, outputs) in enumerate(zip(window.input, window.output, strict=True), 2):
        pieces = []
        for o in range(outputs):
            low, high = o * extent // outputs, -(-(o + 1) * extent // outputs)
            piece = w.node("Slice", x, w.ints([low]), w.ints([high]), w.ints([axis]))
            pieces.append(w.node(reduce, piece, w.ints([axis]), keepdims=1))
        x = w.node("Concat", *pieces, axis=axis)
    return x


@converter_of(max_unpool_nd)
def max_unpool(
    w: Writer,
    name: str,
    ndim: int,
    x: Value,
    indices: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Value:
    shape = w.results[0].shape
    lead, positions = shape[:-ndim], math.prod(shape[-ndim:])
    zeros = w.node("Expand", w.constant(0, x.dtype), w.ints((*lead, positions)))
    values, places = (w.reshape(each, (*lead, math.prod(x.shape[-ndim:]))) for each in (x, indices))
    return w.reshape(w.node("ScatterElements", zeros, places, values, axis=-1), shape)


@converter(Root)
def root(w: Writer, x: Value, p: float) -> Value:
    return w.node("Pow", x, w.constant(1.0 / p, x.dtype))


@converter(Repeat)
def repeat(w: Writer, x: Value, factors: tuple[int, ...]) -> Value:
    scales = w.constant([1.0, 1.0, *map(float, factors)], np.float32)
    return w.node(
        "Resize", x, None, scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )


_RESIZED = {
    "nearest": "nearest",
    "nearest-exact": "nearest",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


@converter_of(interpolate, when=lambda given: given["mode"] in _RESIZED)
def resize(
    w: Writer,
    input: Value,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Value:
    space = len(input.shape) - 2
    w.require(not antialias or (mode == "bilinear" and not align_corners), "this interpolation with antialias")
    options: dict[str, Any]
    if mode == "nearest":
        options = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    elif mode == "nearest-exact":
        options = {"nearest_mode": "round_prefer_ceil", "coordinate_transformation_mode": "half_pixel"}
    else:
        whole = "pytorch_half_pixel" if mode == "bicubic" else "half_pixel"
        options = {"coordinate_transformation_mode": "align_corners" if align_corners else whole}
        if mode == "bicubic":
            options |= {"cubic_coeff_a": -0.75}
    sizes: tuple[Value | None, ...]
    if scale_factor is not None and not recompute_scale_factor and not align_corners:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * space
        sizes = None, w.constant([1.0, 1.0, *map(float, factors)], np.float32)
    else:
        sizes = None, None, w.ints(w.results[0].shape)
    if antialias:
        options |= {"antialias": 1, "exclude_outside": 1}
    return w.node("Resize", input, *sizes, mode=_RESIZED[mode], **options)


_SAMPLED = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}  # since opset 20


@converter_of(grid_sample)
def sampled(w: Writer, input: Value, grid: Value, mode: str, padding_mode: str, align_corners: bool | None) -> Value:
    return w.node(
        "GridSample",
        input,
        grid,
        opset=20,
        mode=_SAMPLED[mode],
        padding_mode=padding_mode,
        align_corners=int(bool(align_corners)),
    )
