"""MultiheadAttention: projections around scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.dtype import bool_, require_float
from ..ops.product.attention import append_row, attention_weights, scaled_dot_product_attention
from ..ops.product.matmul import linear, matmul
from ..ops.random.dropout import dropout
from ..ops.reduce.reduction import mean
from ..ops.shape.broadcasting import expand
from ..ops.shape.shape import permute, reshape
from . import init
from .arguments import check_ints
from .linear import Linear
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under PyTorch's name for the output projection, so that both libraries print a model alike."""


class MultiheadAttention(Module):
    """Several attention heads in parallel, each on its own projection of the inputs, joined by an output projection.

    Per head h: y_h = softmax(q_h k_hT / sqrt(D) + masks) v_h, with q_h, k_h, v_h slices of q = query Wq.T + bq etc.;
    the result is concat(y_h) Wo.T + bo. E embed_dim, H num_heads, D = E/H, L and S lengths, N batch.

    query (L, N, E), key (S, N, kdim), value (S, N, vdim) -> y (L, N, E), weights (N, L, S) or None; with batch_first
    N is the first axis; without a batch axis (L, E), (S, kdim), (S, vdim) -> (L, E), (L, S).

    dropout: probability of dropping an attention weight in training. add_bias_kv: append a learned key and value.
    add_zero_attn: append a key and value of zeros. kdim, vdim: features of key and value, by default E; if either
    differs from E, the weights are q_proj_weight, k_proj_weight and v_proj_weight, else in_proj_weight (3E, E).

    Source: A. Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.

    Raises:
        ValueError: an argument is out of range, or shapes do not fit.
        TypeError: inputs or masks and the weights have different dtypes.
    """

    in_proj_weight: Any  # a Parameter or None, like those below
    out_proj: Any
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kdim, vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        check_ints("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads, kdim=kdim, vdim=vdim)
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim={embed_dim} must be divisible by num_heads={num_heads}")
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"MultiheadAttention: dropout={dropout} must be a probability, from 0 to 1")
        self.embed_dim, self.kdim, self.vdim = embed_dim, kdim, vdim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        packed = kdim == vdim == embed_dim
        for name, features in (("q_proj_weight", embed_dim), ("k_proj_weight", kdim), ("v_proj_weight", vdim)):
            self.register_parameter(name, None if packed else empty_weight((embed_dim, features), dtype))
        self.register_parameter("in_proj_weight", empty_weight((3 * embed_dim, embed_dim), dtype) if packed else None)
        kind = as_float_dtype(dtype)
        self.register_parameter("in_proj_bias", Parameter(np.empty(3 * embed_dim, kind)) if bias else None)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(np.empty((1, 1, embed_dim), kind)) if add_bias_kv else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values as PyTorch does: weights by Glorot's uniform rule, biases 0, bias_k and bias_v normal."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        self.out_proj.reset_parameters()
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(y, weights), with the weights of all heads, or their mean with average_attn_weights.

        key_padding_mask: (N, S) or (S,), and attn_mask: (L, S) or (N*H, L, S): bool, True where a key is masked out,
            or of the inputs' dtype, added to the scores. A query with every key masked gets weights of 0.
        need_weights: if False, a fused kernel computes the attention and the second result is None.
        is_causal: asserts that attn_mask is the causal mask; attn_mask is still required.

        Raises:
            ValueError: shapes do not fit, or is_causal without attn_mask.
            TypeError: the dtypes differ.
        """
        unbatched = self._check(query, key, value)
        if is_causal and attn_mask is None:
            raise ValueError("MultiheadAttention: is_causal=True needs attn_mask, the causal mask")
        first = self.batch_first or unbatched  # the batch is the first axis
        if unbatched:
            query, key, value = (reshape(x, 1, *x.shape) for x in (query, key, value))
        (batch, rows), keys = query.shape[:2] if first else query.shape[1::-1], key.shape[1 if first else 0]
        q, k, v = (self._projected(index, x, first) for index, x in enumerate((query, key, value)))
        masks = [
            _bias("key_padding_mask", key_padding_mask, q, [(batch, keys), (keys,)] if unbatched else [(batch, keys)]),
            _bias("attn_mask", attn_mask, q, [(rows, keys), (batch * self.num_heads, rows, keys)]),
        ]
        for wanted, row_k, row_v in (
            (self.bias_k is not None, self.bias_k, self.bias_v),
            (self.add_zero_attn, None, None),
        ):
            if wanted:
                k, v = (append_row(x, self._one_key(row, batch)) for x, row in ((k, row_k), (v, row_v)))
                masks = [None if mask is None else append_row(mask, None, mask.ndim - 1) for mask in masks]
        causal = is_causal and masks[0] is None and not need_weights and k.shape[2] == keys
        bias = None if causal else self._joined(masks, batch, rows, k.shape[2])
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = dropout(attention_weights(q, k, bias, 1.0 / math.sqrt(self.head_dim), False), p)
            y = matmul(weights, v)
            weights = mean(weights, 1) if average_attn_weights else weights
        else:
            y = scaled_dot_product_attention(q, k, v, bias, p, causal)
        y = permute(y, 0, 2, 1, 3) if first else permute(y, 2, 0, 1, 3)  # (N, H, L, D) -> (N, L, H, D) or (L, N, H, D)
        y = reshape(self.out_proj(reshape(y, batch * rows, self.embed_dim)), query.shape)
        if unbatched:
            return reshape(y, y.shape[1:]), None if weights is None else reshape(weights, weights.shape[1:])
        return y, weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        """Whether the inputs have no batch axis."""
        shapes = []
        for name, x, features in (
            ("query", query, self.embed_dim),
            ("key", key, self.kdim),
            ("value", value, self.vdim),
        ):
            require_float("MultiheadAttention", x, name)
            shapes.append(x.shape)
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != features:
                raise ValueError(
                    f"MultiheadAttention: {name}.shape={x.shape} must have 3 axes (2 without batch), as many as "
                    f"query, and {features} features in the last"
                )
        batch = 0 if self.batch_first else 1
        if shapes[1][:-1] != shapes[2][:-1] or (query.ndim == 3 and shapes[0][batch] != shapes[1][batch]):
            raise ValueError(
                "MultiheadAttention: query, key and value must have the same batch, key and value the same length; "
                f"query.shape={shapes[0]}, key.shape={shapes[1]}, value.shape={shapes[2]}, "
                f"batch_first={self.batch_first}"
            )
        return query.ndim == 2

    def _projected(self, index: int, x: Tensor, first: bool) -> Tensor:
        """The heads of query (0), key (1) or value (2): (N, L, ..) or (L, N, ..) -> (N, H, L, D)."""
        rows = slice(index * self.embed_dim, (index + 1) * self.embed_dim)
        weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[index]
        if weight is None:
            weight = self.in_proj_weight[rows]
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        outer, inner, features = x.shape
        y = linear(reshape(x, outer * inner, features), weight, bias)
        y = reshape(y, outer, inner, self.num_heads, self.head_dim)
        return permute(y, 0, 2, 1, 3) if first else permute(y, 1, 2, 0, 3)

    def _one_key(self, row: Parameter | None, batch: int) -> Tensor | None:
        """bias_k or bias_v (1, 1, E) as one row per head, (N, H, 1, D)."""
        if row is None:
            return None
        require_float("MultiheadAttention", row, "bias_k or bias_v")
        return expand(reshape(row, 1, self.num_heads, 1, self.head_dim), batch, -1, -1, -1)

    def _joined(self, masks: list[Tensor | None], batch: int, rows: int, keys: int) -> Tensor | None:
        """The sum of the masks, broadcastable to (N, H, L, S)."""
        padding, mask = masks
        if padding is not None:
            padding = reshape(padding, batch, 1, 1, keys)
        if mask is not None and mask.ndim == 3:
            mask = reshape(mask, batch, self.num_heads, rows, keys)
        if padding is None or mask is None:
            return mask if padding is None else padding
        return padding + mask


def _bias(name: str, mask: Any, q: Tensor, shapes: list[tuple[int, ...]]) -> Tensor | None:
    """A mask as a Tensor to add to the scores: -inf where it is True."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"MultiheadAttention: {name} must be a Tensor, got {type(mask).__name__}")
    if mask.dtype != bool_ and mask.dtype != q.dtype:
        raise TypeError(
            f"MultiheadAttention: {name} is {mask.dtype}; it must be bool (True masks a key out) or the inputs' "
            f"{q.dtype} (added to the scores)"
        )
    if mask.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"MultiheadAttention: {name}.shape={mask.shape} must be {wanted}")
    if mask.dtype != bool_:
        return mask
    return Tensor(np.where(mask.array, q.dtype.type(-np.inf), q.dtype.type(0)))
