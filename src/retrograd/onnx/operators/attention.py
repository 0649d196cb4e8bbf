"""Attention and what goes with it. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ...ops.dtypes.dtype import cast as cast_tensor
from ..node import Node
from ..values import Value, array_of, floating
from .registry import operator

_DOUBLE = 11  # among ONNX's types


@operator("Attention", constants=(3, 6))
def attention(
    node: Node,
    q: Value,
    k: Value,
    v: Value,
    mask: Value = None,
    past_k: Value = None,
    past_v: Value = None,
    lengths: Value = None,
) -> Any:
    """softmax(scale q kᵀ + mask) v of each head, with past keys and values before the new ones.

    q, k, v (N, heads, L, D), or (N, L, heads * D). Heads of q may share those of k and v.
    """
    q, k, v = floating(q), floating(k), floating(v)
    flat = q.ndim == 3
    if flat:
        q, k, v = _heads(q, node["q_num_heads"]), _heads(k, node["kv_num_heads"]), _heads(v, node["kv_num_heads"])
    if past_k is not None:
        k, v = ops.cat([past_k, k], 2), ops.cat([past_v, v], 2)
    present = k, v
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = ops.repeat_interleave(k, shared, 1), ops.repeat_interleave(v, shared, 1)
    scale = node["scale"] if node["scale"] is not None else q.shape[-1] ** -0.5
    root = scale**0.5
    scores = ops.matmul(q * root, ops.transpose(k, -1, -2) * root)
    capped = node["softcap"] * ops.tanh(scores / node["softcap"]) if node["softcap"] else scores
    bias = _bias(node, q, k, mask, past_k, lengths)
    biased = capped if bias is None else capped + bias
    wide = cast_tensor(biased, np.float64) if node["softmax_precision"] == _DOUBLE else biased
    weights = cast_tensor(ops.softmax(wide, -1), biased.array.dtype)
    if bias is not None:
        nowhere = np.isneginf(np.broadcast_to(bias.array, biased.shape)).all(-1, keepdims=True)
        if nowhere.any():  # a row that sees nothing
            weights = ops.where(wrap(np.broadcast_to(nowhere, weights.shape).copy()), ops.zeros_like(weights), weights)
    y = ops.matmul(weights, v)
    if flat:
        y = ops.transpose(y, 1, 2).reshape(y.shape[0], y.shape[2], -1)
    return y, *present, (scores, capped, biased, weights)[node["qk_matmul_output_mode"] or 0]


def _heads(x: Tensor, count: int) -> Tensor:
    """(N, L, heads * D) -> (N, heads, L, D)"""
    return ops.transpose(x.reshape(x.shape[0], x.shape[1], count, -1), 1, 2)


def _bias(node: Node, q: Tensor, k: Tensor, mask: Value, past: Value, lengths: Value) -> Tensor | None:
    """Return the bias of the scores, -infinity where a query does not see a key; None if nothing is added."""
    queries, keys = q.shape[2], k.shape[2]
    dtype = q.array.dtype
    bias: Tensor | None = None
    if mask is not None:
        array = array_of(mask)
        if isinstance(mask, Tensor) and array.dtype == dtype:  # it may be computed, and have a gradient
            bias = mask
        else:
            bias = wrap((np.where(array, 0, -np.inf) if array.dtype == bool else array).astype(dtype))
        if bias.shape[-1] < keys:  # keys behind the mask are not seen
            bias = functional.pad(bias, [0, keys - bias.shape[-1]], "constant", -np.inf)
    left, right = (-1 if node[name] is None else node[name] for name in ("left_window_size", "right_window_size"))
    if node["is_causal"]:
        right = 0 if right < 0 else min(right, 0)
    if left >= 0 or right >= 0:
        behind: Any = 0 if past is None else past.shape[2]  # keys before those of the first query
        if lengths is not None and past is None:
            behind = array_of(lengths).reshape(-1, 1, 1, 1) - queries
        distance = np.arange(queries)[:, None] + behind - np.arange(keys)
        seen = (distance <= left if left >= 0 else True) & (-distance <= right if right >= 0 else True)
        near = wrap(np.where(seen, 0, -np.inf).astype(dtype))
        bias = near if bias is None else bias + near
    if lengths is not None:
        inside = np.arange(keys) < array_of(lengths).reshape(-1, 1, 1, 1)
        padding = wrap(np.where(inside, 0, -np.inf).astype(dtype))
        bias = padding if bias is None else bias + padding
    return bias


@operator("RotaryEmbedding", constants=(1, 2, 3))
def rotary_embedding(node: Node, x: Value, cos: Value, sin: Value, positions: Value = None) -> Tensor:
    """Pairs of entries turned by an angle that depends on the position: halves of the entries, or neighbours."""
    x = floating(x)
    flat = x.ndim == 3
    if flat:
        x = _heads(x, node["num_heads"])
    turned = node["rotary_embedding_dim"] or x.shape[-1]
    if positions is not None:
        cos, sin = (wrap(array_of(table)[array_of(positions)]) for table in (cos, sin))
    cos, sin = (ops.unsqueeze(table, 1) for table in (cos, sin))
    first, rest = x[..., :turned], x[..., turned:]
    if node["interleaved"]:
        a, b = first[..., 0::2], first[..., 1::2]
    else:
        a, b = first[..., : turned // 2], first[..., turned // 2 :]
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if node["interleaved"]:
        y = ops.stack([real, imaginary], -1).reshape(*first.shape)
    else:
        y = ops.cat([real, imaginary], -1)
    y = ops.cat([y, rest], -1) if rest.shape[-1] else y
    return ops.transpose(y, 1, 2).reshape(y.shape[0], y.shape[2], -1) if flat else y
