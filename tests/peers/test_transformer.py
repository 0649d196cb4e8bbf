"""Transformer layers: PyTorch's state loads, and outputs and gradients are equal, in every form of mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal
from retrograd import nn

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Support for mismatched")

CAUSAL = np.triu(np.full((5, 5), -np.inf), 1)
PADDED = np.arange(5) > np.array([[4], [2]])
SEES_MEMORY = np.random.default_rng(0).random((5, 3)) < 0.6
SEES_MEMORY[:, 0] = True


def _same(name: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """A module of each library, with the same weights."""
    options = {"activation": "relu", **options}
    mine = getattr(nn, name)(*arguments, **options, dtype=retrograd.float64)
    yours = getattr(torch.nn, name)(*arguments, **options, dtype=torch.float64)
    return _share(mine, yours)


def _share(mine: Any, yours: Any) -> tuple[Any, Any]:
    state = {key: normal(*value.shape, seed=3) / 2 for key, value in yours.state_dict().items()}
    assert list(mine.state_dict()) == list(yours.state_dict())
    assert repr(mine) == repr(yours)
    mine.load_state_dict(state)
    yours.load_state_dict({key: torch.tensor(value) for key, value in state.items()})
    return mine, yours


def _agree(mine: Any, yours: Any, inputs: list[np.ndarray], masks: dict[str, Any], training: bool = True) -> None:
    found = []
    for module, tensor in ((mine, retrograd.tensor), (yours, torch.tensor)):
        module.train(training)
        xs = [tensor(x, requires_grad=True) for x in inputs]
        given = {name: tensor(m) if isinstance(m, np.ndarray) else m for name, m in masks.items()}
        y = module(*xs, **given)
        y.backward(tensor(normal(*y.shape, seed=9)))
        found.append((y, [x.grad for x in xs] + [p.grad for p in module.parameters()]))
    assert_close(found[0][0], found[1][0], "value", 1e-9)
    for number, (a, b) in enumerate(zip(found[0][1], found[1][1], strict=True)):
        assert_close(a, b, f"gradient {number}", 1e-9)


@pytest.mark.parametrize(
    ("options", "masks"),
    [
        ({}, {}),
        ({"norm_first": True, "batch_first": True}, {"src_mask": CAUSAL, "is_causal": True}),
        ({"activation": "gelu", "bias": False}, {"src_mask": CAUSAL, "src_key_padding_mask": PADDED}),
        ({"layer_norm_eps": 0.1}, {"src_key_padding_mask": PADDED, "src_mask": np.isinf(CAUSAL)}),
        ({"batch_first": True}, {"src_mask": normal(4, 5, 5)}),
    ],
    ids=str,
)
def test_encoder_layer(options: dict[str, Any], masks: dict[str, Any]) -> None:
    mine, yours = _same("TransformerEncoderLayer", 6, 2, 7, 0.0, **options)
    shape = (2, 5, 6) if options.get("batch_first") else (5, 2, 6)
    _agree(mine, yours, [normal(*shape)], masks)
    _agree(mine, yours, [normal(*shape, seed=1)], masks, training=False)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "batch_first": True, "bias": False}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_layer(options: dict[str, Any], masked: bool) -> None:
    mine, yours = _same("TransformerDecoderLayer", 6, 3, 4, 0.0, **options)
    swap = (lambda x: x.swapaxes(0, 1).copy()) if options else np.copy
    masks = {"tgt_mask": CAUSAL, "memory_mask": ~SEES_MEMORY, "tgt_key_padding_mask": PADDED} if masked else {}
    _agree(mine, yours, [swap(normal(5, 2, 6)), swap(normal(3, 2, 6, seed=1))], masks)


@pytest.mark.parametrize("mask", [CAUSAL, np.isinf(CAUSAL), normal(5, 5)], ids=["numbers", "truth", "not causal"])
@pytest.mark.parametrize("batched", [True, False])
def test_stacks(mask: np.ndarray, batched: bool) -> None:
    for kind in ("Encoder", "Decoder"):
        stacks = []
        for library, dtype in ((nn, retrograd.float64), (torch.nn, torch.float64)):
            layer = getattr(library, f"Transformer{kind}Layer")(4, 2, 3, 0.0, "relu", dtype=dtype)
            stacks.append(getattr(library, f"Transformer{kind}")(layer, 2, library.LayerNorm(4, dtype=dtype)))
        inputs = [normal(5, 2, 4), normal(3, 2, 4, seed=1)][: 1 if kind == "Encoder" else 2]
        inputs = inputs if batched else [x[:, 0].copy() for x in inputs]
        name = "mask" if kind == "Encoder" else "tgt_mask"
        _agree(*_share(*stacks), inputs, {name: mask})


@pytest.mark.parametrize("options", [{}, {"batch_first": True, "norm_first": True, "activation": "gelu"}], ids=str)
def test_transformer(options: dict[str, Any]) -> None:
    mine, yours = _same("Transformer", 4, 2, 1, 2, 3, 0.0, **options)
    first = bool(options)
    masks = {
        "src_mask": normal(3, 3),
        "tgt_mask": CAUSAL,
        "memory_mask": ~SEES_MEMORY,
        "src_key_padding_mask": np.array([[False] * 3, [False, False, True]]),
        "tgt_key_padding_mask": PADDED,
        "memory_key_padding_mask": np.array([[False] * 3, [False, False, True]]),
    }
    shapes = [(2, 3, 4), (2, 5, 4)] if first else [(3, 2, 4), (5, 2, 4)]
    _agree(mine, yours, [normal(*shape) for shape in shapes], masks)
    for size in (0, 1, 4):
        mask = nn.Transformer.generate_square_subsequent_mask(size)
        assert_close(mask, torch.nn.Transformer.generate_square_subsequent_mask(size), "mask")


def test_initial_weights_have_the_peers_spread() -> None:
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    mine = nn.Transformer(40, 2, 1, 1, 50).state_dict()
    for key, value in torch.nn.Transformer(40, 2, 1, 1, 50).state_dict().items():
        a, b = mine[key].numpy(), value.numpy()
        assert abs(a.std() - b.std()) <= 0.1 * b.std() + 0.02 * (b.size < 100), key
        assert abs(a.mean() - b.mean()) <= 6 * (b.std() / b.size**0.5) + 1e-7, key


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("static", [False, True])
def test_multi_head_attention_forward(separate: bool, static: bool) -> None:
    query, key, value = normal(4, 2, 6), normal(5, 2, 6, seed=1), normal(5, 2, 6, seed=2)
    arrays = {
        "weight": normal(18, 6),
        "bias": normal(18),
        "out": normal(6, 6, seed=3),
        "out_bias": normal(6, seed=4),
        "q": normal(6, 6, seed=5),
        "k": normal(6, 6, seed=6),
        "v": normal(6, 6, seed=7),
        "static_k": normal(4, 5, 3, seed=8),
        "static_v": normal(4, 5, 3, seed=9),
    }
    results = []
    for library, tensor in ((nn, retrograd.tensor), (torch.nn, torch.tensor)):
        x = {name: tensor(array, requires_grad=True) for name, array in arrays.items()}
        y, weights = library.functional.multi_head_attention_forward(
            *map(tensor, (query, key, value)),
            6,
            2,
            None if separate else x["weight"],
            x["bias"],
            None,
            None,
            True,
            0.0,
            x["out"],
            x["out_bias"],
            use_separate_proj_weight=separate,
            q_proj_weight=x["q"] if separate else None,
            k_proj_weight=x["k"] if separate else None,
            v_proj_weight=x["v"] if separate else None,
            static_k=x["static_k"] if static else None,
            static_v=x["static_v"] if static else None,
            average_attn_weights=False,
        )
        y.backward(tensor(normal(*y.shape, seed=11)))
        results.append((y, weights, [p.grad for p in x.values()]))
    for what in (0, 1):
        assert_close(results[0][what], results[1][what], f"result {what}")
    for a, b in zip(results[0][2], results[1][2], strict=True):
        if b is None:
            assert a is None or not a.array.any()
        else:
            assert_close(a, b, "gradient")
