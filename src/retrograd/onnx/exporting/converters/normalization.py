"""Normalisations and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.normalization.group_norm import GroupNorm, LayerNorm
from ....ops.normalization.normalization import BatchNorm, ChannelAffine, FixedScale
from ....ops.normalization.softmax import LogSoftmax, Softmax
from ..writer import Value, Writer
from .reductions import reduced
from .registry import converter


@converter(FixedScale)
def fixed_scale(w: Writer, mean: Value, variance: Value, weight: Value, bias: Value, eps: float) -> tuple[Value, Value]:
    """Nothing yet: ``ChannelAffine`` takes these five as a BatchNormalization."""
    promise = w.promise((mean, variance, weight, bias, eps))
    return promise, promise


@converter(ChannelAffine)
def channel_affine(w: Writer, x: Value, scale: Value, shift: Value) -> Value:
    promised = w.promised(scale)
    if promised is not None:
        mean, variance, weight, bias, eps = promised
        return w.node("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps)
    return _scaled(w, x, scale, shift, len(x.shape))


def _scaled(w: Writer, x: Value, scale: Value, shift: Value, axes: int) -> Value:
    """x * scale + shift per channel, x with this number of axes."""
    sides = (1, -1, *(1,) * (axes - 2))
    return w.node("Add", w.node("Mul", x, w.reshape(scale, sides)), w.reshape(shift, sides))


@converter(BatchNorm)
def batch_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, statistics: Any) -> Value:
    """By the statistics of the batch itself, as without running statistics."""
    axes = [0, *range(2, len(x.shape))]
    away = w.node("Sub", x, reduced(w, "ReduceMean", x, axes, True))
    variance = reduced(w, "ReduceMean", w.node("Mul", away, away), axes, True)
    deviation = w.node("Sqrt", w.node("Add", variance, w.constant(eps, x.dtype)))
    return _scaled(w, w.node("Div", away, deviation), weight, bias, len(x.shape))


@converter(GroupNorm)
def group_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, groups: int, statistics: Any) -> Value:
    if groups == x.shape[1]:
        return w.node("InstanceNormalization", x, weight, bias, epsilon=eps)
    # each group as one channel
    batch, _, *space = x.shape
    apart = w.reshape(x, (batch, groups, x.shape[1] // groups * math.prod(space)))
    ones, zeros = (w.constant(np.full(groups, number, x.dtype)) for number in (1, 0))
    normal = w.node("InstanceNormalization", apart, ones, zeros, epsilon=eps)
    return _scaled(w, w.reshape(normal, x.shape), weight, bias, len(x.shape))


@converter(LayerNorm)
def layer_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, centred: bool, affine: bool) -> Value:
    axis = -len(weight.shape)
    if centred:
        return w.node("LayerNormalization", x, weight, bias, axis=axis, epsilon=eps)
    mean = reduced(w, "ReduceMean", w.node("Mul", x, x), range(axis, 0), True)
    y = w.node("Div", x, w.node("Sqrt", w.node("Add", mean, w.constant(eps, x.dtype))))
    return w.node("Add", w.node("Mul", y, weight), bias) if affine else y


@converter(Softmax)
def softmax(w: Writer, x: Value, axis: int) -> Value:
    return w.node("Softmax", x, axis=axis)


@converter(LogSoftmax)
def log_softmax(w: Writer, x: Value, axis: int) -> Value:
    return w.node("LogSoftmax", x, axis=axis)
