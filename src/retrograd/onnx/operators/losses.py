"""Softmax and losses. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..node import Node
from ..values import Value, array_of, floating
from .registry import operator

_NONE = -(2**31)  # no class is ignored


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node, x: Value) -> Tensor:
    """Along an axis; up to opset 12 along all axes from it on."""
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
