"""Convolution and transposed convolution."""

from __future__ import annotations

from typing import Any

from ....ops.convolution.convolution import Conv, ConvInputGrad
from ....ops.convolution.deformable import DeformConv
from ....specs.geometry import Window
from ..writer import Value, Writer
from .registry import converter


def pads(window: Window) -> list[int]:
    """All that is added before, then all that is added after, as ONNX has them."""
    return [low for low, _ in window.padding] + [high for _, high in window.padding]


def _options(window: Window) -> dict[str, Any]:
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "dilations": list(window.dilation),
        "pads": pads(window),
        "group": window.groups,
    }


@converter(Conv)
def conv(w: Writer, x: Value, weight: Value, bias: Value | None, window: Window, options: Any) -> Value:
    return w.node("Conv", x, weight, bias, **_options(window))


@converter(ConvInputGrad)
def conv_transpose(w: Writer, x: Value, weight: Value, bias: Value | None, window: Window, options: Any) -> Value:
    # what the strides leave over at the end: ONNX's output_padding
    sizes = zip(window.input, window.kernel, window.output, window.stride, window.dilation, window.padding, strict=True)
    rest = [i + low + high - (o - 1) * s - d * (r - 1) - 1 for i, r, o, s, d, (low, high) in sizes]
    return w.node("ConvTranspose", x, weight, bias, output_padding=rest, **_options(window))


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
