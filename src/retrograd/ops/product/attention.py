"""Scaled dot-product attention: one fused kernel where possible, otherwise composed of operators.

With q query (..., L, E), k key (..., S, E), v value (..., S, Ev), scores s = scale q kT + bias, weights p = softmax(s)

y = p v,    gv = pT gy,    gp = gy vT,    gs = p (gp - sum gp p),    gq = scale gs k,    gk = scale gsT q
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays import broadcast_to
from ...engine.arguments import kind_name
from ...engine.backward_rules import is_overridden
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_probability, as_real, require_same
from ..dtypes.dtype import bool_
from ..index.indexing import PadSlice
from ..normalization.softmax import SoftmaxGrad, softmax
from ..pointwise.arithmetic import Scale
from ..pointwise.piecewise import where
from ..random.dropout import dropout
from ..shape.broadcasting import Expand, Sum
from ..shape.shape import Reshape, reshaped
from .matmul import matmul, swap_last

__all__ = ["scaled_dot_product_attention"]

Gradients = tuple[Tensor | None, ...]


class Attention(Function):
    """softmax(scale q kT + bias) v, without storing the scores.

    q (B, H, L, E), k (B, H/G, S, E), v (B, H/G, S, Ev), bias: array (B, H, L, S) or None -> (B, H, L, Ev)

    Source: A. Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.
    """

    gradient = "q: scale d k; k: scale dT q; v: pT g, with the weights p and d = p (g vT - sum(g y))"

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: np.ndarray | None, scale: float, causal: bool
    ) -> Tensor:
        result, log_sum = kernels.attention(q.array, k.array, v.array, bias, scale, causal)
        y = wrap(result)
        ctx.save_for_backward(q, k, v, y, log_sum, bias)
        ctx.options = scale, causal
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """Use the fused kernel, or ``attention_grad`` if the gradient is itself recorded."""
        q, k, v, y, log_sum, bias = ctx.saved_tensors
        needs_grad, (scale, causal) = tuple(ctx.needs_input_grad[:3]), ctx.options
        if is_grad_enabled():
            return *attention_grad(g, q, k, v, bias, scale, causal, needs_grad), None, None, None
        arrays = g.array, q.array, k.array, v.array, y.array
        found = kernels.attention_grad(*arrays, log_sum, bias, scale, causal, needs_grad)
        return *(None if gradient is None else wrap(gradient) for gradient in found), None, None, None


def attention_grad(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: np.ndarray | None,
    scale: float,
    causal: bool,
    needs_grad: tuple[bool, ...] = (True, True, True),
) -> Gradients:
    """Gradients of ``Attention`` for q, k and v, composed of operators. The fused gradients must match them."""
    heads = q.array.shape[1]
    keys = _for_queries(k, heads)
    p = attention_weights(q, keys, None if bias is None else wrap(bias), scale, causal)
    gv = _for_keys(matmul(swap_last(p), g), v) if needs_grad[2] else None
    if not (needs_grad[0] or needs_grad[1]):
        return None, None, gv
    gs = SoftmaxGrad.apply(matmul(g, swap_last(_for_queries(v, heads))), p, 3)
    gq = Scale.apply(matmul(gs, keys), scale) if needs_grad[0] else None
    gk = _for_keys(Scale.apply(matmul(swap_last(gs), q), scale), k) if needs_grad[1] else None
    return gq, gk, gv


class MaskedSoftmax(Function):
    """Softmax along the last axis, which gives 0, not NaN, where all elements are -inf."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(kernels.softmax(x.array, x.array.ndim - 1))
        kernels.zero_masked_rows(y.array, x.array)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return (SoftmaxGrad.apply(g, y, y.array.ndim - 1),)


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None, scale: float, causal: bool) -> Tensor:
    """Compute softmax(scale q kT + bias), with 0 for keys after the query's position if ``causal``."""
    scores = Scale.apply(matmul(q, swap_last(k)), scale)
    if causal:
        scores = scores + wrap(kernels.causal_bias(scores.array))
    if bias is not None:
        scores = scores + bias
    if interpreters and is_overridden(softmax):
        alone = (scores == -math.inf).all(-1, True)
        return where(alone, 0.0, softmax(where(alone, 0.0, scores), -1))
    return MaskedSoftmax.apply(scores)


def _for_queries(x: Tensor, heads: int) -> Tensor:
    """Repeat each key head for its G query heads: (..., H/G, S, E) -> (..., H, S, E)."""
    *lead, own, rows, last = x.array.shape
    if own == heads:
        return x
    one = Reshape.apply(x, (*lead, own, 1, rows, last))
    return Reshape.apply(Expand.apply(one, (*lead, own, heads // own, rows, last)), (*lead, heads, rows, last))


def _for_keys(gx: Tensor, x: Tensor) -> Tensor:
    """Sum over the G query heads of each key head: (..., H, S, E) -> (..., H/G, S, E)."""
    *lead, own, rows, last = x.array.shape
    if gx.array.shape == x.array.shape:
        return gx
    split = Reshape.apply(gx, (*lead, own, gx.array.shape[-3] // own, rows, last))
    return Sum.apply(split, (len(lead) + 1,), False)


def append_row(x: Tensor, row: Tensor | None, axis: int = 2) -> Tensor:
    """Append ``row``, which has extent 1 along ``axis``, or zeros to x along ``axis``."""
    shape, extent = list(x.array.shape), x.array.shape[axis]
    shape[axis] += 1
    before = (slice(None),) * axis
    y = PadSlice.apply(x, tuple(shape), (*before, slice(0, extent)))
    return y if row is None else y + PadSlice.apply(row, tuple(shape), (*before, slice(extent, extent + 1)))


@operator(records=Attention)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale query keyT + mask) value: for each query, a weighted mean of the values.

    query (..., L, E), key (..., S, E), value (..., S, Ev) -> (..., L, Ev); leading axes broadcast.

    attn_mask: (..., L, S), broadcast. A bool mask is True where a query may attend to a key; a mask of query's type is
        added to the scores. A query without keys gets 0.
    dropout_p: probability of dropping each weight. It applies in evaluation too, so pass 0.0 there.
    is_causal: query i attends to keys 0 to i.
    scale: 1/sqrt(E) by default.
    enable_gqa: axis -3 contains the heads, and G adjacent query heads share one head of key and value.

    Raises:
        TypeError: query, key, value or a numeric mask differ in type or are not floating point.
        ValueError: shapes do not fit, dropout_p is not in [0, 1], or both attn_mask and is_causal are given.
    """
    if interpreters and (seen := interpreted(scaled_dot_product_attention, locals())) is not None:
        return seen
    name = "scaled_dot_product_attention"
    require_same(name, "query", query, "key", key)
    require_same(name, "query", query, "value", value)
    enable_gqa = as_flag(name, "enable_gqa", enable_gqa)
    lead = _leading(name, query.array.shape, key.array.shape, value.array.shape, enable_gqa)
    is_causal = as_flag(name, "is_causal", is_causal)
    dropout_p = as_probability(name, "dropout_p", dropout_p)
    if attn_mask is not None and is_causal:
        raise ValueError(f"{name}: attn_mask is given and is_causal=True; make attn_mask causal, or leave it out")
    rows = (*lead, query.array.shape[-2], key.array.shape[-2])
    bias = None if attn_mask is None else _bias(name, attn_mask, query, rows)
    depth = query.array.shape[-1]
    factor = (1.0 / math.sqrt(depth) if depth else 1.0) if scale is None else as_real(name, "scale", scale)
    same = query.array.shape[:-2] == lead and key.array.shape[:-2] == value.array.shape[:-2]
    same = same and (key.array.shape[:-2] == lead or (enable_gqa and key.array.shape[:-3] == lead[:-1]))
    if interpreters and is_overridden(softmax, matmul):
        same = False
    if not same or dropout_p or (bias is not None and bias.requires_grad and is_grad_enabled()):
        return _composed(query, key, value, bias, factor, is_causal, dropout_p, enable_gqa)
    fixed = None if bias is None else broadcast_to(bias.array, rows)
    if len(rows) == 4:
        return Attention.apply(query, key, value, fixed, factor, is_causal)
    operands = [_as_four(x) for x in (query, key, value)]
    if fixed is not None:
        fixed = reshaped(fixed, _four(fixed.shape))
    y = Attention.apply(*operands, fixed, factor, is_causal)
    return Reshape.apply(y, (*lead, *y.array.shape[2:]))


def _composed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    scale: float,
    causal: bool,
    dropout_p: float,
    grouped: bool,
) -> Tensor:
    """Attention composed of operators. ``Attention`` must match it."""
    if grouped:
        heads = query.array.shape[-3]
        key, value = _for_queries(key, heads), _for_queries(value, heads)
    weights = attention_weights(query, key, bias, scale, causal)
    return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with exactly two leading axes, batch and heads."""
    lead = shape[:-2]
    if len(lead) < 2:
        return (1,) * (2 - len(lead)) + shape
    return (math.prod(lead[:-1]), *shape[-3:])


def _as_four(x: Tensor) -> Tensor:
    return Reshape.apply(x, _four(x.array.shape))


@operator(by_shape=True)  # because it creates an array
def _bias(name: str, mask: Any, query: Tensor, rows: tuple[int, ...]) -> Tensor:
    """Convert the mask to an additive one: 0 where a query may attend to a key, else -inf."""
    if interpreters and (seen := interpreted(_bias, locals())) is not None:
        return seen
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}: attn_mask is {kind_name(mask)}, needs a Tensor; make one with retrograd.tensor")
    if mask.array.dtype != bool_ and mask.array.dtype != query.array.dtype:
        raise TypeError(
            f"{name}: attn_mask is {mask.array.dtype}, needs bool (True where a query attends to a key) or query's "
            f"{query.array.dtype} (added to the scores)"
        )
    try:
        fits = np.broadcast_shapes(mask.array.shape, rows) == rows
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: attn_mask.shape={mask.array.shape} does not broadcast to (..., L, S) = {rows}")
    if mask.array.dtype != bool_:
        return mask
    return wrap(kernels.mask_bias(mask.array, query.array.dtype))


def _leading(name: str, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], grouped: bool) -> tuple[int, ...]:
    """Return the leading axes of the result; ValueError unless the shapes of query, key and value fit."""
    shapes = f"query.shape={q}, key.shape={k}, value.shape={v}"
    least = 3 if grouped else 2
    if min(len(q), len(k), len(v)) < least:
        axes = "(..., heads, rows, features)" if grouped else "(..., rows, features)"
        raise ValueError(f"{name}: each operand needs at least {least} axes {axes}; {shapes}")
    if q[-1] != k[-1]:
        raise ValueError(f"{name}: query has {q[-1]} features in its last axis, key has {k[-1]}; {shapes}")
    if k[-2] != v[-2]:
        raise ValueError(f"{name}: key has {k[-2]} rows in its second to last axis, value has {v[-2]}; {shapes}")
    leads = [q[:-2], k[:-2], v[:-2]]
    if grouped:
        if k[-3] != v[-3] or not k[-3] or q[-3] % k[-3]:
            raise ValueError(
                f"{name}: with enable_gqa the {q[-3]} heads of query must be a multiple of those of key and value, "
                f"{k[-3]} and {v[-3]}; {shapes}"
            )
        leads = [(*lead[:-1], q[-3]) for lead in leads]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        hint = "" if grouped else "; sharing heads needs enable_gqa=True"
        raise ValueError(f"{name}: the leading axes do not broadcast{hint}; {shapes}") from None
