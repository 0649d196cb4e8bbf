"""Attention, composed of products and a softmax, which every runtime has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.product.attention import Attention, MaskedSoftmax
from ..writer import Value, Writer
from .registry import converter


@converter(Attention)
def attention(w: Writer, q: Value, k: Value, v: Value, bias: Any, scale: float, causal: bool) -> Value:
    count, length = q.shape[2], k.shape[2]
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    if groups > 1:
        k, v = (_repeated(w, each, groups) for each in (k, v))
    scores = w.node("MatMul", q, w.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.node("Mul", scores, w.constant(scale, q.dtype))
    if causal:
        # True on and below the diagonal, where a query may look
        ones = w.node("Expand", w.constant(1, np.int64), w.ints((count, length)))
        seen = w.cast(w.node("Trilu", ones, upper=0), np.bool_)
        scores = w.node("Where", seen, scores, w.constant(-np.inf, q.dtype), dtype=q.dtype)
    if bias is not None:
        scores = w.node("Add", scores, w.taken(bias))
    return w.node("MatMul", w.node("Softmax", scores, axis=-1), v)


def _repeated(w: Writer, x: Value, groups: int) -> Value:
    """Each head ``groups`` times, one after the other."""
    batch, heads, length, width = x.shape
    apart = w.node("Unsqueeze", x, w.ints([2]))
    many = w.node("Expand", apart, w.ints((batch, heads, groups, length, width)))
    return w.reshape(many, (batch, heads * groups, length, width))


@converter(MaskedSoftmax)
def masked_softmax(w: Writer, x: Value) -> Value:
    y = w.node("Softmax", x, axis=-1)
    least = w.node("ReduceMax", x, w.ints([-1]), keepdims=1)
    hidden = w.node("Equal", least, w.constant(-np.inf, x.dtype), dtype=np.bool_)
    return w.node("Where", hidden, w.constant(0, x.dtype), y, dtype=x.dtype)
