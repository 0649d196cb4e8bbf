from __future__ import annotations

from typing import Any

import numpy as np

from conformance.table import Layer, Op, Refusal, normal
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> np.ndarray:
    """Query by query."""
    if enable_gqa:
        key, value = (np.repeat(a, query.shape[-3] // a.shape[-3], -3) for a in (key, value))
    lead = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query, key, value = (np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (query, key, value))
    rows, keys = query.shape[-2], key.shape[-2]
    mask = np.broadcast_to(True if attn_mask is None else attn_mask, (*lead, rows, keys))
    y = np.zeros((*lead, rows, value.shape[-1]))
    for at in np.ndindex(*lead, rows):
        s = key[at[:-1]] @ query[at] * (query.shape[-1] ** -0.5 if scale is None else scale)
        s = np.where(mask[at], s, -np.inf) if mask.dtype == bool else s + mask[at]
        if is_causal:
            s[at[-1] + 1 :] = -np.inf
        if np.isfinite(s).any():
            e = np.exp(s - s.max())
            y[at] = e / e.sum() @ value[at[:-1]]
    return y


Q, K, V = normal(2, 3, 3, 3), normal(2, 3, 4, 3, seed=1), normal(2, 3, 4, 2, seed=2)
SEES = np.random.default_rng(0).random((3, 4)) < 0.6
SEES[2] = False  # sees no key
LARGE = (normal(2, 4, 70, 20), normal(2, 4, 130, 20, seed=1), normal(2, 4, 130, 33, seed=2))
NAME = "scaled_dot_product_attention"


def _case(what: str, *arrays: np.ndarray, **options: Any) -> Op:
    kwargs = {key: options.pop(key) for key in list(options) if key in ("is_causal", "scale", "enable_gqa")}
    name = f"{NAME}: {what}" if what else NAME
    options = {"batch": (0, 1, 2), "rounding": 1e-12, **options}
    return Op(name, F.scaled_dot_product_attention, *arrays, kwargs=kwargs, oracle=attention, **options)


OPERATORS = [
    _case(
        "",
        Q,
        K,
        V,
        large=LARGE,
        errors=[
            Refusal(ValueError, "query has 3 features in its last axis, key has 2", Q, K[..., :2], V),
            Refusal(ValueError, "key has 4 rows in its second to last axis, value has 3", Q, K, V[:, :, :3]),
            Refusal(ValueError, "the leading axes do not broadcast; sharing heads needs enable_gqa", Q[:, :2], K, V),
            Refusal(ValueError, "needs at least 2 axes (..., rows, features)", Q[0, 0, 0], K, V),
            Refusal(ValueError, "needs at least 3 axes (..., heads,", Q[0, 0], K[0, 0], V[0, 0], enable_gqa=True),
            Refusal(ValueError, "the 3 heads of query must be a multiple", Q, K[:, :2], V[:, :2], enable_gqa=True),
            Refusal(ValueError, "dropout_p=1.5 is a probability", Q, K, V, dropout_p=1.5),
            Refusal(ValueError, "attn_mask is given and is_causal=True", Q, K, V, SEES, is_causal=True),
            Refusal(
                ValueError, "attn_mask.shape=(4, 3) does not broadcast to (..., L, S) = (2, 3, 3, 4)", Q, K, V, SEES.T
            ),
            Refusal(TypeError, "attn_mask is int64, needs bool", Q, K, V, SEES.astype(np.int64)),
            Refusal(TypeError, "attn_mask is list, needs a Tensor", Q, K, V, [1.0]),
        ],
    ),
    _case("causal", Q, K, V, is_causal=True, large=LARGE),
    _case("more queries than keys", K, Q, normal(2, 3, 3, 5), is_causal=True, scale=0.3),
    _case("mask of truth values", Q, K, V, SEES, large=(*LARGE, normal(4, 1, 130, seed=4) < 0.5)),
    _case("mask of truth values per head", Q, K, V, np.stack([SEES, ~SEES, SEES])),
    _case("mask of numbers", Q, K, V, normal(2, 1, 3, 4, seed=3), batch=(0, 1, 2, 3)),
    _case(
        "shared heads",
        normal(2, 4, 3, 3),
        K[:, :2],
        V[:, :2],
        enable_gqa=True,
        large=(LARGE[0], *(a[:, :2] for a in LARGE[1:])),
    ),
    _case(
        "shared heads, mask of numbers", normal(2, 4, 3, 3), K[:, :2], V[:, :2], normal(3, 4, seed=3), enable_gqa=True
    ),
    _case("one head", Q[0], K[0], V[0]),
    _case("no leading axis", Q[0, 0], K[0, 0], V[0, 0], SEES, batch=()),
    _case("five axes", normal(2, 1, 2, 3, 4), normal(2, 1, 2, 2, 4, seed=1), normal(2, 1, 2, 2, 3, seed=2)),
    _case("broadcast", normal(2, 1, 3, 4), normal(3, 2, 4, seed=1), normal(3, 2, 2, seed=2), batch=()),
    Op(
        f"{NAME}: dropout",
        F.scaled_dot_product_attention,
        Q,
        K,
        V,
        kwargs={"dropout_p": 0.4},
        batch=(0, 1, 2),
        random=True,
    ),
    Op(
        "multi_head_attention_forward",
        lambda *x: F.multi_head_attention_forward(*x[:3], 4, 2, *x[3:5], None, None, False, 0.0, *x[5:]),
        normal(3, 2, 4),
        normal(5, 2, 4, seed=1),
        normal(5, 2, 4, seed=2),
        normal(12, 4),
        normal(12),
        normal(4, 4),
        normal(4),
        oracle=lambda *x: packed_attention(*x),
        batch=(),
    ),
]


def packed_attention(
    query: Any, key: Any, value: Any, w: Any, b: Any, w_out: Any, b_out: Any
) -> tuple[np.ndarray, np.ndarray]:
    """``multihead`` with the batch on axis 1."""
    inputs = (x.swapaxes(0, 1) for x in (query, key, value))
    y, weights = multihead(*inputs, w, b, w_out, b_out)
    return y.swapaxes(0, 1), weights


def multihead(
    query: Any, key: Any, value: Any, w: Any, b: Any, w_out: Any, b_out: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Two heads, head by head; parameters of MultiheadAttention(4, 2)."""
    q, k, v = (x @ w[4 * i : 4 * i + 4].T + b[4 * i : 4 * i + 4] for i, x in enumerate((query, key, value)))
    heads, weights = [], []
    for h in (slice(0, 2), slice(2, 4)):
        e = np.exp(q[..., h] @ k[..., h].swapaxes(1, 2) / np.sqrt(2.0))
        weights.append(e / e.sum(-1, keepdims=True))
        heads.append(weights[-1] @ v[..., h])
    return np.concatenate(heads, -1) @ w_out.T + b_out, (weights[0] + weights[1]) / 2


def _batch_first(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(4, 2, batch_first=True, **options)


def _normed(x: Any, weight: Any, bias: Any) -> np.ndarray:
    centered = x - x.mean(-1, keepdims=True)
    return np.asarray(centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * weight + bias)


def encoder_layer(x: Any, w: Any, b: Any, w_out: Any, b_out: Any, *rest: Any) -> np.ndarray:
    """Two heads of one layer; parameters of TransformerEncoderLayer(4, 2, 3, 0.0), tanh between the linear layers."""
    w1, b1, w2, b2, scale1, shift1, scale2, shift2 = rest
    x = _normed(x + multihead(x, x, x, w, b, w_out, b_out)[0], scale1, shift1)
    return _normed(x + np.tanh(x @ w1.T + b1) @ w2.T + b2, scale2, shift2)


def decoder_layer(x: Any, memory: Any, *p: Any) -> np.ndarray:
    """Parameters of TransformerDecoderLayer(4, 2, 3, 0.0, norm_first=True), tanh between the linear layers."""
    w1, b1, w2, b2, *norms = p[8:]
    y = _normed(x, *norms[:2])
    x = x + multihead(y, y, y, *p[:4])[0]
    x = x + multihead(_normed(x, *norms[2:4]), memory, memory, *p[4:8])[0]
    return np.asarray(x + np.tanh(_normed(x, *norms[4:]) @ w1.T + b1) @ w2.T + b2)


def _transformer_layer(kind: str, **options: Any) -> Any:
    made = getattr(nn, f"Transformer{kind}Layer")
    return made(4, 2, 3, 0.0, nn.Tanh(), batch_first=True, **options)


def _whole() -> nn.Transformer:
    return nn.Transformer(4, 2, 1, 1, 3, 0.0, nn.Tanh(), batch_first=True)


def transformer(source: Any, target: Any, *p: Any) -> np.ndarray:
    memory = _normed(encoder_layer(source, *p[:12]), *p[12:14])
    own = p[14:32]
    w1, b1, w2, b2, *norms = own[8:]
    x = _normed(target + multihead(target, target, target, *own[:4])[0], *norms[:2])
    x = _normed(x + multihead(x, memory, memory, *own[4:8])[0], *norms[2:4])
    return _normed(_normed(x + np.tanh(x @ w1.T + b1) @ w2.T + b2, *norms[4:]), *p[32:])


INPUTS = (normal(2, 3, 4), normal(2, 5, 4, seed=1), normal(2, 5, 4, seed=2))
LAYERS = [
    Layer("MultiheadAttention", _batch_first, *INPUTS, oracle=multihead, batch=(0, 1, 2)),
    Layer(
        "MultiheadAttention: without weights",
        _batch_first,
        *INPUTS,
        kwargs={"need_weights": False},
        oracle=lambda *values, **_: multihead(*values)[0],
        batch=(0, 1, 2),
        rounding=1e-12,
    ),
    Layer(
        "MultiheadAttention: one more key",
        lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, kdim=3, dropout=0.3),
        normal(3, 2, 4),
        normal(3, 2, 3),
        normal(3, 2, 4),
        batch=(),
        random=True,
    ),
    Layer(
        "TransformerEncoderLayer", lambda: _transformer_layer("Encoder"), INPUTS[0], oracle=encoder_layer, batch=(0,)
    ),
    Layer(
        "TransformerDecoderLayer",
        lambda: _transformer_layer("Decoder", norm_first=True),
        *INPUTS[:2],
        oracle=decoder_layer,
        rounding=1e-12,
        batch=(0, 1),
    ),
    Layer(
        "TransformerEncoder",
        lambda: nn.TransformerEncoder(_transformer_layer("Encoder"), 2),
        INPUTS[0],
        oracle=lambda x, *p: encoder_layer(encoder_layer(x, *p[:12]), *p[12:]),
        batch=(0,),
    ),
    Layer(
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(_transformer_layer("Decoder", norm_first=True), 1, nn.LayerNorm(4)),
        *INPUTS[:2],
        oracle=lambda x, memory, *p: _normed(decoder_layer(x, memory, *p[:18]), *p[18:]),
        rounding=1e-12,
        batch=(0, 1),
    ),
    Layer("Transformer", _whole, *INPUTS[:2], oracle=transformer, batch=(0, 1), rounding=1e-12),
]
