"""Pooling over windows and over whole images. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ...ops.convolution.convolution import conv_nd
from ...ops.pooling import avg_pool_nd, max_pool_nd
from ..errors import UnsupportedError
from ..node import Node, Value, array_of, extents, floating, ints
from .convolution import Pairs, check_outputs, paddings, steps
from .registry import operator


def _window(node: Node, x: Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], Pairs]:
    """Return axes, kernel, strides, dilations and paddings."""
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise UnsupportedError(f"a pooling over {axes} axes")
    kernel, stride = steps(node, "kernel_shape", axes), steps(node, "strides", axes)
    dilation = steps(node, "dilations", axes)
    padding = paddings(node, x.shape[2:], kernel, stride, dilation)
    check_outputs(x.shape[:2], x.shape[2:], kernel, stride, dilation, padding)
    return axes, kernel, stride, dilation, padding


def _outputs(size: Sequence[int], kernel: Any, stride: Any, dilation: Any, padding: Pairs, ceil: bool) -> list[int]:
    """Return the outputs per axis, without any that would begin behind the input and its first padding."""
    found = []
    for i, k, s, d, (low, high) in zip(size, kernel, stride, dilation, padding, strict=True):
        span = i + low + high - (k - 1) * d - 1
        o = (-(-span // s) if ceil else span // s) + 1
        found.append(o - 1 if ceil and (o - 1) * s >= i + low else o)
    return found


def _is_wide(padding: Pairs, kernel: Sequence[int], dilation: Sequence[int]) -> bool:
    """Return whether a window may be entirely in the padding, which our pooling rejects."""
    return any(2 * max(pair) > (k - 1) * d + 1 for pair, k, d in zip(padding, kernel, dilation, strict=True))


@operator("MaxPool")
def max_pool(node: Node, x: Value) -> Any:
    kind = array_of(x).dtype
    if kind.kind in "iu":  # bytes, which float32 represents exactly
        x = wrap(array_of(x).astype(np.float32))
    x = floating(x)
    axes, kernel, stride, dilation, padding = _window(node, x)
    several = len(node.outputs) > 1
    if _is_wide(padding, kernel, dilation) and not several:
        x = functional.pad(x, [side for pair in reversed(padding) for side in pair], "constant", -np.inf)
        padding = ((0, 0),) * axes
    result = max_pool_nd("MaxPool", axes, x, kernel, stride, padding, dilation, bool(node["ceil_mode"]), several)
    y, *indices = result if several else (result,)
    if kind.kind in "iu":
        y = wrap(y.array.astype(kind))
    if not several:
        return y
    return y, wrap(_from_start(indices[0].array, x.shape, bool(node["storage_order"])))


def _from_start(indices: np.ndarray, shape: tuple[int, ...], by_column: bool) -> np.ndarray:
    """Convert indices within each image and channel to indices into the whole input; by_column: its last axis first."""
    if by_column:
        indices = np.ravel_multi_index(np.unravel_index(indices, shape[2:])[::-1], shape[2:][::-1])
    planes = np.arange(prod(shape[:2])).reshape(*shape[:2], *(1,) * (len(shape) - 2))
    return indices + planes * prod(shape[2:])


@operator("AveragePool")
def average_pool(node: Node, x: Value) -> Tensor:
    x = floating(x)
    axes, kernel, stride, dilation, padding = _window(node, x)
    ceil, count_padding = bool(node["ceil_mode"]), bool(node["count_include_pad"])
    if set(dilation) == {1} and not _is_wide(padding, kernel, dilation):
        return avg_pool_nd("AveragePool", axes, x, kernel, stride, padding, ceil, count_padding, None)
    sums = _sums(x, kernel, stride, dilation, padding, ceil)
    ones = np.ones((1, 1, *x.shape[2:]), x.array.dtype)
    ones = np.pad(ones, [(0, 0), (0, 0), *padding], constant_values=count_padding)
    return sums / _sums(wrap(ones), kernel, stride, dilation, ((0, 0),) * axes, ceil)


def _sums(x: Tensor, kernel: Any, stride: Any, dilation: Any, padding: Pairs, ceil: bool) -> Tensor:
    """Return the sum of each window, by a convolution with ones."""
    outputs = _outputs(x.shape[2:], kernel, stride, dilation, padding, ceil)
    longer = []
    for i, k, s, d, o, (low, _) in zip(x.shape[2:], kernel, stride, dilation, outputs, padding, strict=True):
        longer.append((low, max(0, (o - 1) * s + (k - 1) * d + 1 - low - i)))
    w = wrap(np.ones((1, 1, *kernel), x.array.dtype))
    one = x.reshape(prod(x.shape[:2]), 1, *x.shape[2:])
    y = conv_nd("pooling", len(kernel), one, w, None, tuple(stride), tuple(longer), tuple(dilation), 1)
    kept = (slice(None), slice(None), *(slice(o) for o in outputs))
    return y[kept].reshape(*x.shape[:2], *outputs)


@operator("LpPool")
def lp_pool(node: Node, x: Value) -> Tensor:
    x = floating(x)
    _, kernel, stride, dilation, padding = _window(node, x)
    return _sums(ops.abs(x) ** node["p"], kernel, stride, dilation, padding, bool(node["ceil_mode"])) ** (1 / node["p"])


@operator("GlobalAveragePool")
def global_average_pool(node: Node, x: Value) -> Tensor:
    x = floating(x)
    return ops.mean(x, tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(node: Node, x: Value) -> Tensor:
    x = floating(x)
    return ops.amax(x, tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(node: Node, x: Value) -> Tensor:
    x = floating(x)
    return ops.sum(ops.abs(x) ** node["p"], tuple(range(2, x.ndim)), keepdim=True) ** (1 / node["p"])


@operator("MaxUnpool", constants=(1, 2))
def max_unpool(node: Node, x: Value, indices: Value, output_shape: Value = None) -> Tensor:
    x = floating(x)
    axes = x.ndim - 2
    kernel, stride = steps(node, "kernel_shape", axes), steps(node, "strides", axes)
    padding = paddings(node, x.shape[2:], kernel, stride, (1,) * axes)
    sizes = zip(x.shape[2:], kernel, stride, padding, strict=True)
    usual = [*x.shape[:2], *((i - 1) * s + k - low - high for i, k, s, (low, high) in sizes)]
    shape = extents(usual if output_shape is None else ints(output_shape))
    flat = ops.zeros(prod(usual), dtype=x.dtype)
    y = ops.scatter(flat, 0, wrap(array_of(indices).reshape(-1)), x.reshape(-1)).reshape(*usual)
    more = [o - u for o, u in zip(shape, usual, strict=True)]
    return functional.pad(y, [side for extra in reversed(more) for side in (0, extra)])
