"""Matrix products and attention. Source: ONNX Operators.html."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ...ops.dtypes.dtype import cast as cast_tensor
from ..node import Node, Value, array_of, elements_of, floating
from .convolution import saturated
from .registry import operator

# ---- Matrix products. Source: ONNX Operators.html, sections of these names ------------------------------------------


@operator("Gemm")
def gemm(node: Node, a: Value, b: Value, c: Value = None) -> Tensor:
    """Return alpha * a' b' + beta * c, with a' and b' optionally transposed."""
    a, b = floating(a), floating(b)
    a, b = (a.T if node["transA"] else a), (b.T if node["transB"] else b)
    product = ops.matmul(a, b)
    if node["alpha"] != 1:
        product = product * node["alpha"]
    if c is None:
        return product
    return product + (c if node["beta"] == 1 else c * node["beta"])


@operator("MatMul")
def matmul(node: Node, a: Value, b: Value) -> Value:
    if array_of(a).dtype.kind in "iu":
        return wrap(np.matmul(array_of(a), array_of(b)))
    return ops.matmul(floating(a), floating(b))


@operator("MatMulInteger", constants=(0, 1, 2, 3))
def matmul_integer(node: Node, a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Tensor:
    return wrap(np.matmul(_centered(a, a_zero, -1), _centered(b, b_zero, -2)).astype(np.int32))


@operator("QLinearMatMul", constants=tuple(range(8)))
def qlinear_matmul(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Tensor:
    total = np.matmul(_centered(a, a_zero, -1), _centered(b, b_zero, -2))
    scales = array_of(a_scale).astype(np.float64) * array_of(b_scale).astype(np.float64) / array_of(y_scale)
    return wrap(saturated(np.rint(total * scales) + array_of(y_zero), array_of(y_zero).dtype))


def _centered(x: Value, zero: Value, axis: int) -> np.ndarray:
    """Return x minus its zero point per row (axis -1) or column; float64 makes sums of products of bytes exact."""
    numbers = array_of(x).astype(np.float64)
    if zero is None:
        return numbers
    shift = array_of(zero).astype(np.float64)
    return numbers - (np.expand_dims(shift, axis) if shift.ndim == 1 and shift.size > 1 else shift)


@operator("Einsum")
def einsum(node: Node, *operands: Value) -> Tensor:
    return ops.einsum(node["equation"].replace(" ", ""), *[floating(each) for each in operands])


# ---- Attention and related operators. Source: ONNX Operators.html, sections of these names --------------------------

_DOUBLE = 11  # the ONNX type number of float64


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
    """Compute softmax(scale q kᵀ + mask) v of each head, with past keys and values before the new ones.

    q, k, v (N, heads, L, D), or (N, L, heads * D). Several heads of q may share one of k and v.
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
        if nowhere.any():  # a row that attends to nothing
            weights = ops.where(wrap(np.broadcast_to(nowhere, weights.shape).copy()), ops.zeros_like(weights), weights)
    y = ops.matmul(weights, v)
    if flat:
        y = ops.transpose(y, 1, 2).reshape(y.shape[0], y.shape[2], -1)
    return y, *present, (scores, capped, biased, weights)[node["qk_matmul_output_mode"] or 0]


def _heads(x: Tensor, count: int) -> Tensor:
    """Reshape (N, L, heads * D) to (N, heads, L, D)."""
    return ops.transpose(x.reshape(x.shape[0], x.shape[1], count, -1), 1, 2)


def _bias(node: Node, q: Tensor, k: Tensor, mask: Value, past: Value, lengths: Value) -> Tensor | None:
    """Return the bias of the scores, -infinity where a query does not attend to a key; None if nothing is added."""
    queries, keys = q.shape[2], k.shape[2]
    dtype = q.array.dtype
    bias: Tensor | None = None
    if mask is not None:
        array = array_of(mask)
        if isinstance(mask, Tensor) and array.dtype == dtype:  # it may be computed, and have a gradient
            bias = mask
        else:
            array = elements_of(mask)
            bias = wrap((np.where(array, 0, -np.inf) if array.dtype == bool else array).astype(dtype))
        if bias.shape[-1] < keys:  # keys beyond the mask are hidden
            bias = functional.pad(bias, [0, keys - bias.shape[-1]], "constant", -np.inf)
    left, right = (-1 if node[name] is None else node[name] for name in ("left_window_size", "right_window_size"))
    if node["is_causal"]:
        right = 0 if right < 0 else min(right, 0)
    if left >= 0 or right >= 0:
        behind: Any = 0 if past is None else past.shape[2]  # keys before those of the first query
        if lengths is not None and past is None:
            behind = elements_of(lengths).reshape(-1, 1, 1, 1) - queries
        distance = np.arange(queries)[:, None] + behind - np.arange(keys)
        seen = (distance <= left if left >= 0 else True) & (-distance <= right if right >= 0 else True)
        near = wrap(np.where(seen, 0, -np.inf).astype(dtype))
        bias = near if bias is None else bias + near
    if lengths is not None:
        inside = np.arange(keys) < elements_of(lengths).reshape(-1, 1, 1, 1)
        padding = wrap(np.where(inside, 0, -np.inf).astype(dtype))
        bias = padding if bias is None else bias + padding
    return bias


@operator("RotaryEmbedding", constants=(1, 2, 3))
def rotary_embedding(node: Node, x: Value, cos: Value, sin: Value, positions: Value = None) -> Tensor:
    """Rotate pairs of entries by an angle that depends on the position; pairs join both halves, or neighbors."""
    x = floating(x)
    flat = x.ndim == 3
    if flat:
        x = _heads(x, node["num_heads"])
    turned = node["rotary_embedding_dim"] or x.shape[-1]
    if positions is not None:
        cos, sin = (wrap(array_of(table)[elements_of(positions)]) for table in (cos, sin))
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
