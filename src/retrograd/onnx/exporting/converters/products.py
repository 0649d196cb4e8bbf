"""Converters of linear layers, matrix products and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....nn.functional import attention as layers
from ....ops.product import attention as products
from ....ops.product.attention import Attention, MaskedSoftmax
from ....ops.product.matmul import Linear, MatMul
from ..tracing import Known
from ..writer import Value, Writer
from .registry import converter, converter_of

# ---- Linear layers and matrix products ------------------------------------------------------------------------------


@converter(Linear)
def linear(w: Writer, x: Value, weight: Value, bias: Value | None) -> Value:
    if len(x.shape) == 2:
        return w.node("Gemm", x, weight, bias, transB=1)
    y = w.node("MatMul", x, w.node("Transpose", weight, perm=[1, 0]))
    return y if bias is None else w.node("Add", y, bias)


@converter(MatMul)
def matmul(w: Writer, x: Value, y: Value) -> Value:
    return w.node("MatMul", x, y)


# ---- Attention, composed of products and a softmax, which every runtime supports ------------------------------------


@converter(Attention)
def attention(w: Writer, q: Value, k: Value, v: Value, bias: Any, scale: float, causal: bool) -> Value:
    count, length = q.shape[2], k.shape[2]
    groups = q.shape[1] // k.shape[1] if k.shape[1] else 1
    if groups > 1:
        k, v = (_repeated(w, each, groups) for each in (k, v))
    scores = w.node("MatMul", q, w.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.node("Mul", scores, w.constant(scale, q.dtype))
    if causal:
        # True on and below the diagonal: keys that a query may attend to
        ones = w.node("Expand", w.constant(1, np.int64), w.ints((count, length)))
        seen = w.cast(w.node("Trilu", ones, upper=0), np.bool_)
        scores = w.node("Where", seen, scores, w.constant(-np.inf, q.dtype), dtype=q.dtype)
    if bias is None:
        return w.node("MatMul", w.node("Softmax", scores, axis=-1), v)
    bias = w.as_value(bias)
    return w.node("MatMul", masked_softmax(w, w.node("Add", scores, bias), _may_hide(w.weight(bias))), v)


def _may_hide(bias: np.ndarray | None) -> bool:
    """Return whether a mask may leave a query without a key."""
    return bias is None or bool(np.isneginf(bias).all(-1).any())


def _repeated(w: Writer, x: Value, groups: int) -> Value:
    """Repeat each head ``groups`` times consecutively."""
    batch, heads, length, width = x.shape
    apart = w.node("Unsqueeze", x, w.ints([2]))
    many = w.node("Expand", apart, w.ints((batch, heads, groups, length, width)))
    return w.reshape(many, (batch, heads * groups, length, width))


@converter(MaskedSoftmax)
def masked_softmax(w: Writer, x: Value, may_hide: bool = True) -> Value:
    y = w.node("Softmax", x, axis=-1)
    if not may_hide:
        return y
    least = w.node("ReduceMax", x, w.ints([-1]), keepdims=1)
    hidden = w.node("Equal", least, w.constant(-np.inf, x.dtype), dtype=np.bool_)
    return w.node("Where", hidden, w.constant(0, x.dtype), y, dtype=x.dtype)


def _is_truth(given: dict[str, Any]) -> bool:
    return isinstance(given["mask"], Known) and given["mask"].array.dtype.kind == "b"


@converter_of(products._bias, when=_is_truth)
def seen(w: Writer, name: str, mask: Value, query: Value, rows: Any) -> Value:
    return _numbers(w, mask, 0, -np.inf)


@converter_of(layers._bias, when=_is_truth)
def hidden(w: Writer, name: str, label: str, mask: Value, q: Value, shapes: Any) -> Value:
    return _numbers(w, mask, -np.inf, 0)


def _numbers(w: Writer, mask: Value, true: float, false: float) -> Value:
    kind = w.results[0].dtype
    return w.node("Where", mask, w.constant(true, kind), w.constant(false, kind), dtype=kind)
