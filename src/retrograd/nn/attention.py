"""MultiheadAttention: projections around scaled dot-product attention."""

from __future__ import annotations

from typing import Any

from ..arrays import empty
from ..engine.tensor import Tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from . import init
from .arguments import check_ints
from .functional.attention import Projections, attend
from .linear import Linear
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under PyTorch's name for the output projection, so that both libraries print a model alike."""


class MultiheadAttention(Module):
    """Multi-head attention: parallel heads on projections of the inputs, joined by an output projection.

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

    embed_dim: int
    kdim: int
    vdim: int
    head_dim: int
    num_heads: int
    add_zero_attn: bool
    batch_first: bool
    dropout: float

    in_proj_weight: Any  # a Parameter or None, like those below
    out_proj: Any
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
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
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, kind)) if bias else None)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(empty((1, 1, embed_dim), kind)) if add_bias_kv else None)
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
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return (y, weights): the weights of all heads, or their mean with average_attn_weights.

        key_padding_mask: (N, S) or (S,), and attn_mask: (L, S) or (N*H, L, S): bool, True where a key is masked out,
            or of the inputs' dtype, added to the scores. A query with every key masked gets weights of 0.
        need_weights: if False, a fused kernel computes the attention and the second result is None.
        is_causal: asserts that attn_mask is the causal mask; attn_mask is still required.

        Raises:
            ValueError: shapes do not fit, or is_causal without attn_mask.
            TypeError: the dtypes differ.
        """
        separate = self.in_proj_weight is None
        own = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if separate else (self.in_proj_weight,)
        more = () if self.bias_k is None else ((self.bias_k, self.bias_v),)
        if self.add_zero_attn:
            more = (*more, (None, None))
        return attend(
            "MultiheadAttention",
            (query, key, value),
            Projections(self.num_heads, own, self.in_proj_bias, more, self.out_proj),
            self.batch_first,
            (key_padding_mask, attn_mask),
            need_weights,
            average_attn_weights,
            is_causal,
            self.dropout if self.training else 0.0,
        )
