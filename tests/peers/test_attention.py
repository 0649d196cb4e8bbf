"""Scaled dot-product attention and MultiheadAttention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, normal

Q, K, V = normal(2, 4, 5, 6), normal(2, 4, 7, 6, seed=1), normal(2, 4, 7, 3, seed=2)
SEES = np.random.default_rng(0).random((5, 7)) < 0.6
SEES[:, 0] = True


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": SEES}, {"attn_mask": normal(2, 1, 5, 7)}],
    ids=["plain", "causal", "scale", "truth values", "numbers"],
)
def test_scaled_dot_product_attention(options: dict[str, Any]) -> None:
    def call(library: Any, tensor: Any) -> Any:
        chosen = {key: tensor(value) if key == "attn_mask" else value for key, value in options.items()}
        return lambda q, k, v: library.scaled_dot_product_attention(q, k, v, **chosen)

    assert_agree(call(ours, retrograd.tensor), call(peer, torch.tensor), Q, K, V)


def test_shared_heads() -> None:
    assert_agree(
        lambda q, k, v: ours.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda q, k, v: peer.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        Q,
        K[:, :2],
        V[:, :2],
    )


@pytest.mark.parametrize("causal", [False, True])
def test_many_blocks_float32(causal: bool) -> None:
    q, k, v = (normal(2, 2, 150, 40, seed=seed, dtype=np.float32) for seed in range(3))
    assert_agree(
        lambda *x: ours.scaled_dot_product_attention(*x, is_causal=causal),
        lambda *x: peer.scaled_dot_product_attention(*x, is_causal=causal),
        q,
        k,
        v,
        second=False,
    )


def test_a_query_that_sees_no_key() -> None:
    sees = SEES.copy()
    sees[3] = False
    mine = ours.scaled_dot_product_attention(*map(retrograd.tensor, (Q, K, V)), attn_mask=retrograd.tensor(sees))
    yours = peer.scaled_dot_product_attention(*map(torch.tensor, (Q, K, V)), attn_mask=torch.tensor(sees))
    assert_close(mine, yours, "value")


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"batch_first": True}, {"need_weights": False}),
    ({"bias": False}, {"average_attn_weights": False}),
    ({"kdim": 3, "vdim": 5}, {}),
    ({"vdim": 5, "add_bias_kv": True}, {"need_weights": False, "key_padding_mask": "bool"}),
    ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": "bool", "attn_mask": "bool"}),
    ({"add_zero_attn": True, "batch_first": True}, {"attn_mask": "float", "need_weights": False}),
    ({}, {"attn_mask": "heads", "key_padding_mask": "float"}),
    ({"batch_first": True}, {"attn_mask": "causal", "is_causal": True, "need_weights": False}),
    ({}, {"attn_mask": "causal", "is_causal": True}),
]
MASKS = {
    "bool": {"key_padding_mask": np.arange(5) > np.array([[4], [2]]), "attn_mask": ~SEES[:4, :5]},
    "float": {"key_padding_mask": normal(2, 5), "attn_mask": normal(4, 5)},
    "heads": {"attn_mask": normal(4, 4, 5)},
    "causal": {"attn_mask": ~np.tri(4, 5, dtype=bool)},
}


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(("options", "call"), CASES, ids=str)
def test_multihead_attention(options: dict[str, Any], call: dict[str, Any], batched: bool) -> None:
    mine = retrograd.nn.MultiheadAttention(6, 2, **options, dtype=np.float64)
    yours = torch.nn.MultiheadAttention(6, 2, **options, dtype=torch.float64)
    state = {key: normal(*value.shape, seed=3) for key, value in yours.state_dict().items()}
    assert list(mine.state_dict()) == list(yours.state_dict())
    mine.load_state_dict(state)
    yours.load_state_dict({key: torch.tensor(value) for key, value in state.items()})
    assert repr(mine) == repr(yours)
    first = options.get("batch_first", False)
    inputs = []
    for length, features, seed in ((4, 6, 0), (5, options.get("kdim", 6), 1), (5, options.get("vdim", 6), 2)):
        shape = (2, length, features) if first else (length, 2, features)
        inputs.append(normal(*(shape if batched else (length, features)), seed=seed))
    masks = {name: MASKS[kind][name] for name, kind in call.items() if name.endswith("mask")}
    if not batched:
        masks = {name: m[1] if name == "key_padding_mask" else m[:2] if m.ndim == 3 else m for name, m in masks.items()}
    plain = {name: value for name, value in call.items() if name not in masks}

    def run(module: Any, tensor: Any, which: int) -> Any:
        extra = {name: tensor(mask) for name, mask in masks.items()}
        return lambda *x: module(*x, **extra, **plain)[which]

    weighed = call.get("need_weights", True)  # PyTorch's fused attention has no second derivative
    assert_agree(run(mine, retrograd.tensor, 0), run(yours, torch.tensor, 0), *inputs, second=weighed)
    if weighed:  # the weights do not depend on the values
        q, k, v = inputs
        my_weights, your_weights = run(mine, retrograd.tensor, 1), run(yours, torch.tensor, 1)
        assert_agree(
            lambda q, k: my_weights(q, k, retrograd.tensor(v)), lambda q, k: your_weights(q, k, torch.tensor(v)), q, k
        )
    upstream = normal(*(inputs[0].shape), seed=9)
    run(mine, retrograd.tensor, 0)(*map(retrograd.tensor, inputs)).backward(retrograd.tensor(upstream))
    run(yours, torch.tensor, 0)(*map(torch.tensor, inputs)).backward(torch.tensor(upstream))
    for (name, p), (_, q) in zip(mine.named_parameters(), yours.named_parameters(), strict=True):
        assert_close(p.grad, q.grad, f"gradient of {name}")


def test_multihead_attention_starts_as_the_peer() -> None:
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    for options in ({"add_bias_kv": True}, {"kdim": 30, "vdim": 20}):
        mine = retrograd.nn.MultiheadAttention(60, 3, **options).state_dict()
        for key, value in torch.nn.MultiheadAttention(60, 3, **options).state_dict().items():
            a, b = mine[key].numpy(), value.numpy()
            assert abs(a.std() - b.std()) <= 0.1 * b.std() + 0.04 * (b.size < 100), key
            assert abs(a.mean()) <= 6 * (b.std() / b.size**0.5) + 1e-7, key
