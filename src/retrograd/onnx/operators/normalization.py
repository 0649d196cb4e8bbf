"""Normalization, softmax and classification losses. Source: ONNX Operators.html."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, floating
from .registry import operator

# ---- Normalization. Source: ONNX Operators.html, sections of these names --------------------------------------------


@operator("BatchNormalization", constants=(3, 4), stateful=True)
def batch_normalization(
    node: Node, x: Value, scale: Value, b: Value, mean: Value, variance: Value, *, module: Any
) -> Any:
    """Normalize by the batch statistics if training_mode=1, with the running statistics as further outputs.

    An inference model in training mode also uses the batch statistics, and updates its buffers.
    """
    x = floating(x)
    if node["training_mode"]:
        axes = (0, *range(2, x.ndim))
        keep = node["momentum"]
        batch_variance, batch_mean = ops.var(x, axes, correction=0), ops.mean(x, axes)
        y = functional.batch_norm(x, None, None, scale, b, True, 0.1, node["epsilon"])
        return y, mean * keep + batch_mean * (1 - keep), variance * keep + batch_variance * (1 - keep)
    return functional.batch_norm(x, mean, variance, scale, b, module.training, 1 - node["momentum"], node["epsilon"])


@operator("InstanceNormalization")
def instance_normalization(node: Node, x: Value, scale: Value, b: Value) -> Tensor:
    x = floating(x)
    if x.ndim > 2 and prod(x.array.shape[2:]) == 1:  # the only number is the mean; PyTorch refuses it
        of_channels = (-1, *(1,) * (x.ndim - 2))
        return (x - x) * scale.reshape(of_channels) + b.reshape(of_channels)
    return functional.instance_norm(x, None, None, scale, b, True, 0.1, node["epsilon"])


@operator("GroupNormalization")
def group_normalization(node: Node, x: Value, scale: Value, b: Value) -> Tensor:
    """Scale and bias are per group up to opset 20, and per channel from 21 on."""
    x, groups = floating(x), node["num_groups"]
    if node.version < 21:
        each = x.shape[1] // groups
        scale, b = ops.repeat_interleave(scale, each), ops.repeat_interleave(b, each)
    return functional.group_norm(x, groups, scale, b, node["epsilon"])


@operator("LayerNormalization")
def layer_normalization(node: Node, x: Value, scale: Value, b: Value = None) -> Any:
    x = floating(x)
    axis = _axis(node["axis"], x.ndim)
    axes = tuple(range(axis, x.ndim))
    if len(node.outputs) == 1 and scale.shape == x.shape[axis:] and (b is None or b.shape == scale.shape):
        return functional.layer_norm(x, x.shape[axis:], scale, b, node["epsilon"])
    mean = ops.mean(x, axes, keepdim=True)
    inverse = ops.rsqrt(ops.var(x, axes, correction=0, keepdim=True) + node["epsilon"])
    y = (x - mean) * inverse * scale
    return (y if b is None else y + b), mean, inverse


@operator("RMSNormalization")
def rms_normalization(node: Node, x: Value, scale: Value) -> Tensor:
    x = floating(x)
    axis = _axis(node["axis"], x.ndim)
    if scale.shape == x.shape[axis:]:
        return functional.rms_norm(x, x.shape[axis:], scale, node["epsilon"])
    square = ops.mean(x * x, tuple(range(axis, x.ndim)), keepdim=True)
    return x * ops.rsqrt(square + node["epsilon"]) * scale


@operator("LRN")
def local_response_normalization(node: Node, x: Value) -> Tensor:
    x, size = floating(x), node["size"]
    if size % 2 == 0:
        raise UnsupportedError(f"size={size}, an even number of channels")
    return functional.local_response_norm(x, size, node["alpha"], node["beta"], node["bias"])


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node, x: Value) -> Tensor:
    x = floating(x)
    axes = tuple(node["axes"] or (0, 2, 3))
    centered = x - ops.mean(x, axes, keepdim=True)
    return centered / (ops.sqrt(ops.mean(centered * centered, axes, keepdim=True)) + 1e-9)


@operator("LpNormalization")
def lp_normalization(node: Node, x: Value) -> Tensor:
    """Return x / ||x||; zeros stay zeros."""
    x, axis = floating(x), node["axis"]
    length = ops.sum(ops.abs(x) ** node["p"], axis, keepdim=True) ** (1 / node["p"])
    return x / ops.where(length == 0, ops.ones_like(length), length)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise OnnxError(f"axis={axis} is not one of the {ndim} axes of the input")
    return axis % ndim


# ---- Softmax and losses. Source: ONNX Operators.html, sections of these names ---------------------------------------

_NONE = -(2**31)  # no class is ignored


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node, x: Value) -> Tensor:
    """Compute softmax along an axis; up to opset 12 along all axes from it on."""
    x = floating(x)
    if node.version < 13:
        axis = node["axis"] % x.ndim
        return _softmax(node.operator, x.reshape(prod(x.shape[:axis]), -1), 1).reshape(*x.shape)
    return _softmax(node.operator, x, node["axis"])


def _softmax(name: str, x: Tensor, axis: int) -> Tensor:
    if name == "Hardmax":
        first = np.expand_dims(np.argmax(x.array, axis), axis)
        y = np.zeros_like(x.array)
        np.put_along_axis(y, first, 1, axis)
        return wrap(y)
    return ops.softmax(x, axis) if name == "Softmax" else ops.log_softmax(x, axis)


@operator("NegativeLogLikelihoodLoss", constants=(1, 2))
def nll_loss(node: Node, x: Value, target: Value, weight: Value = None) -> Tensor:
    ignored = node["ignore_index"]
    labels = wrap(array_of(target).astype(np.int64))
    return functional.nll_loss(
        floating(x), labels, weight, ignore_index=_NONE if ignored is None else ignored, reduction=node["reduction"]
    )


@operator("SoftmaxCrossEntropyLoss", constants=(1, 2))
def cross_entropy(node: Node, x: Value, target: Value, weight: Value = None) -> Any:
    logs = ops.log_softmax(floating(x), 1)
    loss = nll_loss(node, logs, target, weight)
    return (loss, logs) if len(node.outputs) > 1 else loss
