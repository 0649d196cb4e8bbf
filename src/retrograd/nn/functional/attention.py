"""Multi-head attention: projections around scaled dot-product attention.

E features of the queries, H heads, D = E/H, L and S lengths, N batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arrays import from_host
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ...ops.argument_checks import as_count, as_truth, require_float
from ...ops.dtypes.dtype import bool_
from ...ops.product.attention import append_row, attention_weights, scaled_dot_product_attention
from ...ops.product.matmul import linear, matmul
from ...ops.random.dropout import dropout
from ...ops.reduce.reduction import mean
from ...ops.shape.broadcasting import expand
from ...ops.shape.shape import permute, reshape
from ...ops.shape.splitting import split, unbind

__all__ = ["multi_head_attention_forward"]

Optional = Tensor | None


class Projections(NamedTuple):
    """The projections before and after the attention itself, and the rows appended to key and value."""

    heads: int
    weights: tuple[Tensor, ...]  # (3E, E), or those of query, key and value, (E, ..) each
    bias: Optional  # (3E,)
    more_keys: tuple[tuple[Optional, Optional], ...]  # rows (1, 1, E) appended to key and value; None: zeros
    out: Callable[[Tensor], Tensor]
    fixed: tuple[Optional, Optional] = (None, None)  # already projected key and value, (N*H, S, D)


@operator
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Optional,
    in_proj_bias: Optional,
    bias_k: Optional,
    bias_v: Optional,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Optional,
    training: bool = True,
    key_padding_mask: Optional = None,
    need_weights: bool = True,
    attn_mask: Optional = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Optional = None,
    k_proj_weight: Optional = None,
    v_proj_weight: Optional = None,
    static_k: Optional = None,
    static_v: Optional = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Optional]:
    """``nn.MultiheadAttention`` as a function of its weights; query (L, N, E), key (S, N, kdim), value (S, N, vdim).

    in_proj_weight: (3E, E), or with use_separate_proj_weight q_proj_weight (E, E), k_proj_weight (E, kdim) and
        v_proj_weight (E, vdim). static_k, static_v: (N*H, S, D), used as they are in place of projected keys, values.

    Raises:
        ValueError: an argument is out of range, or shapes do not fit.
        TypeError: inputs or masks and the weights have different dtypes, or a weight is missing.
    """
    if interpreters and (seen := interpreted(multi_head_attention_forward, locals())) is not None:
        return seen
    name = "multi_head_attention_forward"
    training = as_truth(name, "training", training)
    separate = as_truth(name, "use_separate_proj_weight", use_separate_proj_weight)
    features = as_count(name, "embed_dim_to_check", embed_dim_to_check)
    num_heads = as_count(name, "num_heads", num_heads)
    if features % num_heads:
        raise ValueError(f"{name}: embed_dim_to_check={features} must be divisible by num_heads={num_heads}")
    if separate:
        own = {"q_proj_weight": q_proj_weight, "k_proj_weight": k_proj_weight, "v_proj_weight": v_proj_weight}
    else:
        own = {"in_proj_weight": in_proj_weight}
    weights = []
    for label, weight in own.items():
        require_float(name, weight, label)
        assert weight is not None
        if weight.ndim != 2 or weight.shape[0] != features * (1 if separate else 3):
            rows = "embed_dim_to_check" if separate else "3 * embed_dim_to_check"
            raise ValueError(f"{name}: {label}.shape={tuple(weight.shape)} must have {rows} rows")
        weights.append(weight)
    if (bias_k is None) != (bias_v is None):
        raise ValueError(f"{name}: bias_k and bias_v must both be given, or neither")
    if bias_k is not None and (static_k is not None or static_v is not None):
        raise ValueError(f"{name}: bias_k and bias_v cannot be appended to static_k and static_v; leave one pair out")
    more: list[tuple[Optional, Optional]] = [] if bias_k is None else [(bias_k, bias_v)]
    if as_truth(name, "add_zero_attn", add_zero_attn):
        more.append((None, None))
    parts = Projections(
        num_heads,
        tuple(weights),
        in_proj_bias,
        tuple(more),
        lambda y: linear(y, out_proj_weight, out_proj_bias),
        (static_k, static_v),
    )
    return attend(
        name,
        (query, key, value),
        parts,
        False,
        (key_padding_mask, attn_mask),
        need_weights,
        average_attn_weights,
        is_causal,
        dropout_p if training else 0.0,
    )


def attend(
    name: str,
    inputs: tuple[Tensor, Tensor, Tensor],
    parts: Projections,
    batch_first: bool,
    masks: tuple[Optional, Optional],
    need_weights: bool,
    average: bool,
    is_causal: bool,
    dropout_p: float,
) -> tuple[Tensor, Optional]:
    """Return (y, weights) for query, key and value. masks: key_padding_mask and attn_mask.

    Raises: as ``multi_head_attention_forward``.
    """
    unbatched = _check(name, inputs, parts, batch_first)
    need_weights = as_truth(name, "need_weights", need_weights)
    average = as_truth(name, "average_attn_weights", average)
    if as_truth(name, "is_causal", is_causal) and masks[1] is None:
        raise ValueError(
            f"{name}: is_causal=True needs attn_mask, the causal mask; "
            "nn.Transformer.generate_square_subsequent_mask makes it"
        )
    first = batch_first or unbatched  # the batch is the first axis
    if unbatched:
        inputs = _with_batch_axis(inputs)
    query = inputs[0]
    heads = parts.heads
    batch, rows = query.array.shape[:2] if first else query.array.shape[1::-1]
    q, k, v = _projected(inputs, parts, first)
    k, v = (x if own is None else _as_heads(name, own, x, heads) for x, own in zip((k, v), parts.fixed, strict=True))
    keys = k.array.shape[2]
    biases = [
        _bias(name, "key_padding_mask", masks[0], q, [(batch, keys), (keys,)] if unbatched else [(batch, keys)]),
        _bias(name, "attn_mask", masks[1], q, [(rows, keys), (batch * heads, rows, keys)]),
    ]
    for row_k, row_v in parts.more_keys:
        k, v = append_row(k, _row_per_head(name, row_k, k)), append_row(v, _row_per_head(name, row_v, v))
        biases = [None if bias is None else append_row(bias, None, bias.ndim - 1) for bias in biases]
    causal = is_causal and biases[0] is None and not need_weights and not parts.more_keys
    bias = None if causal else _joined(biases, batch, heads, rows, k.array.shape[2])
    weights = None
    if need_weights:
        scale = 1.0 / math.sqrt(q.array.shape[3])
        weights = dropout(attention_weights(q, k, bias, scale, False), dropout_p)
        y = matmul(weights, v)
        weights = mean(weights, 1) if average else weights
    else:
        y = scaled_dot_product_attention(q, k, v, bias, dropout_p, causal)
    y = permute(y, 0, 2, 1, 3) if first else permute(y, 2, 0, 1, 3)  # (N, H, L, D) -> (N, L, H, D) or (L, N, H, D)
    y = parts.out(reshape(y, batch * rows, query.array.shape[2]))
    y = reshape(y, *query.array.shape[:2], y.array.shape[-1])
    if unbatched:
        return reshape(y, y.array.shape[1:]), None if weights is None else reshape(weights, weights.array.shape[1:])
    return y, weights


def _check(name: str, inputs: tuple[Tensor, ...], parts: Projections, batch_first: bool) -> bool:
    """Check the inputs; return whether they have no batch axis."""
    query = inputs[0]
    weights = parts.weights if len(parts.weights) == 3 else parts.weights * 3
    shapes = []
    for label, x, weight in zip(("query", "key", "value"), inputs, weights, strict=True):
        require_float(name, x, label)
        shape, features = x.array.shape, weight.array.shape[1]
        shapes.append(shape)
        if len(shape) not in (2, 3) or len(shape) != query.array.ndim or shape[-1] != features:
            raise ValueError(
                f"{name}: {label}.shape={shape} must have 3 axes (2 without batch), as many as "
                f"query, and {features} features in the last"
            )
    batch = 0 if batch_first else 1
    if shapes[1][:-1] != shapes[2][:-1] or (len(shapes[0]) == 3 and shapes[0][batch] != shapes[1][batch]):
        raise ValueError(
            f"{name}: query, key and value must have the same batch, key and value the same length; "
            f"query.shape={shapes[0]}, key.shape={shapes[1]}, value.shape={shapes[2]}, batch_first={batch_first}"
        )
    return query.array.ndim == 2


def _with_batch_axis(inputs: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs with a batch axis; those that are the same Tensor remain the same."""
    query, key, value = inputs
    one = {id(x): reshape(x, 1, *x.array.shape) for x in inputs}
    return one[id(query)], one[id(key)], one[id(value)]


def _projected(inputs: tuple[Tensor, Tensor, Tensor], parts: Projections, first: bool) -> list[Tensor]:
    """Return the heads of query, key and value: (N, L, ..) or (L, N, ..) -> (N, H, L, D).

    Inputs that are the same Tensor are multiplied once, by the rows of the packed weight that belong to them.
    """
    query, key, value = inputs
    bias = parts.bias
    if len(parts.weights) == 3:
        pieces = (None,) * 3 if bias is None else split(bias, bias.array.shape[0] // 3)
        runs = [(x, w, b, 1) for x, w, b in zip(inputs, parts.weights, pieces, strict=True)]
    else:
        (weight,) = parts.weights
        features = weight.array.shape[0] // 3
        if query is key and key is value:
            runs = [(query, weight, bias, 3)]
        else:
            counts = [1, 2] if key is value else [1, 1, 1]
            sizes = [features * count for count in counts]
            pieces = (None,) * 3 if bias is None else split(bias, sizes)
            runs = [(x, w, b, n) for x, w, b, n in zip(inputs, split(weight, sizes), pieces, counts, strict=False)]
    heads: list[Tensor] = []
    for x, w, b, count in runs:
        outer, inner, features = x.array.shape
        y = linear(reshape(x, outer * inner, features), w, b)
        depth = y.array.shape[1] // (count * parts.heads)
        y = reshape(y, outer, inner, count, parts.heads, depth)
        pieces = unbind(y, 2) if count > 1 else (reshape(y, outer, inner, parts.heads, depth),)
        heads += [permute(piece, 0, 2, 1, 3) if first else permute(piece, 1, 2, 0, 3) for piece in pieces]
    return heads


def _as_heads(name: str, own: Tensor, x: Tensor, heads: int) -> Tensor:
    """Return static keys or values (N*H, S, D) as (N, H, S, D), in place of ``x``."""
    batch, _, _, depth = x.array.shape
    shape = own.array.shape
    if len(shape) != 3 or shape[0] != batch * heads or shape[2] != depth:
        raise ValueError(
            f"{name}: static_k or static_v has shape {shape}; it must be (N * num_heads, S, embed_dim / num_heads), "
            f"here ({batch * heads}, S, {depth})"
        )
    return reshape(own, batch, heads, shape[1], depth)


def _row_per_head(name: str, row: Optional, x: Tensor) -> Optional:
    """Return bias_k or bias_v (1, 1, E) as one row per head, (N, H, 1, D)."""
    if row is None:
        return None
    require_float(name, row, "bias_k or bias_v")
    batch, heads, _, depth = x.array.shape
    return expand(reshape(row, 1, heads, 1, depth), batch, -1, -1, -1)


def _joined(biases: list[Optional], batch: int, heads: int, rows: int, keys: int) -> Optional:
    """Return the sum of the masks, broadcastable to (N, H, L, S)."""
    padding, mask = biases
    if padding is not None:
        padding = reshape(padding, batch, 1, 1, keys)
    if mask is not None and mask.ndim == 3:
        mask = reshape(mask, batch, heads, rows, keys)
    if padding is None or mask is None:
        return mask if padding is None else padding
    return padding + mask


@operator(by_shape=True)  # where it creates an array
def _bias(name: str, label: str, mask: Any, q: Tensor, shapes: list[tuple[int, ...]]) -> Optional:
    """Return a mask as a Tensor to add to the scores: -inf where it is True."""
    if interpreters and (seen := interpreted(_bias, locals())) is not None:
        return seen
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}: {label} must be a Tensor, got {kind_name(mask)}")
    own, dtype = mask.array, q.array.dtype
    if own.dtype != bool_ and own.dtype != dtype:
        raise TypeError(
            f"{name}: {label} is {own.dtype}; it must be bool (True masks a key out) or the inputs' "
            f"{dtype} (added to the scores)"
        )
    if own.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name}: {label}.shape={own.shape} must be {expected}")
    if own.dtype != bool_:
        return mask
    return Tensor(kernels.where(own, from_host(-np.inf, dtype), from_host(0, dtype)))
