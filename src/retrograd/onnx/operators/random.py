"""Operators that draw random numbers. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import wrap
from ...nn import functional
from ..node import Node, Value, array_of, floating, scalar
from .registry import operator


@operator("Dropout", constants=(1, 2), stateful=True)
def dropout(node: Node, x: Value, ratio: Value = None, training: Value = None, *, module: Any) -> Any:
    """Zero entries with probability ``ratio`` if the module or the node is in training mode; scale the others.

    With a seed, the numbers are those of NumPy's RandomState, as in ONNX's reference.
    """
    x = floating(x)
    chance = (node["ratio"] if node["ratio"] is not None else 0.5) if ratio is None else scalar(ratio)
    active = bool(scalar(training)) if training is not None else module.training
    several = len(node.outputs) > 1
    if not active or chance == 0:
        return (x, wrap(np.ones(x.shape, bool))) if several else x
    if node["seed"] is None and not several:
        return functional.dropout(x, chance)
    if node["seed"] is None:
        kept = array_of(ops.rand(*x.shape)) >= chance
    else:
        kept = np.random.RandomState(node["seed"]).uniform(0, 1, x.shape) >= chance
    y = x * wrap(kept.astype(x.array.dtype)) / (1 - chance)
    return (y, wrap(kept)) if several else y
