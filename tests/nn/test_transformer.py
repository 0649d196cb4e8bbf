"""Transformer layers: errors, dropout, and the user's own layers; values are in conformance and peers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.TransformerEncoderLayer(4, 2, 0), ValueError, "dim_feedforward=0 must be an int of at least 1"),
        (lambda: nn.TransformerEncoderLayer(4, 3), ValueError, "embed_dim=4 must be divisible by num_heads=3"),
        (
            lambda: nn.TransformerDecoderLayer(4, 2, activation="tanh"),
            RuntimeError,
            'TransformerDecoderLayer: activation=\'tanh\' must be "relu", "gelu" or a function',
        ),
        (lambda: nn.TransformerEncoder(nn.Linear(2, 2), -1), ValueError, "num_layers=-1 must be an int of at least 0"),
        (lambda: nn.TransformerDecoder(nn.Linear(2, 2), 1.0), ValueError, "TransformerDecoder: num_layers=1.0"),
        (lambda: _small()(normal(3, 2, 4), normal(3, 1, 4)), RuntimeError, "the batch, axis 1, must be equal"),
        (lambda: _small()(normal(3, 2, 4), normal(3, 2, 5)), RuntimeError, "the last axis must have d_model=4"),
        (
            lambda: nn.TransformerEncoderLayer(4, 2)(normal(3, 2, 4), is_causal=True),
            ValueError,
            "is_causal=True needs attn_mask, the causal mask; nn.Transformer.generate_square_subsequent_mask makes it",
        ),
    ],
)
def test_refusals(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def _small(**options: Any) -> nn.Transformer:
    return nn.Transformer(4, 2, 1, 1, 8, **options)


def test_dropout_is_for_training_alone() -> None:
    retrograd.manual_seed(0)
    model, inputs = _small(dropout=0.5), (normal(3, 2, 4), normal(5, 2, 4))
    assert not np.array_equal(model(*inputs).array, model(*inputs).array)
    model.eval()
    np.testing.assert_array_equal(model(*inputs).array, model(*inputs).array)


def test_copies_are_equal_at_first_and_have_their_own_memory() -> None:
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3), 2)
    one, other = (layer.linear1.weight for layer in stack.layers)
    np.testing.assert_array_equal(one.array, other.array)
    assert not np.shares_memory(one.array, other.array)


@pytest.mark.parametrize("given", [True, None, False])
def test_the_causal_mask_is_recognized(given: bool | None) -> None:
    seen = []

    class Layer(nn.Module):
        def forward(self, x: Tensor, src_mask: Any, is_causal: bool, src_key_padding_mask: Any) -> Tensor:
            seen.append(is_causal)
            return x * 2

    encoder = nn.TransformerEncoder(Layer(), 2)
    for mask, causal in (
        (nn.Transformer.generate_square_subsequent_mask(3), True),
        (Tensor(np.triu(np.ones((3, 3), bool), 1)), True),
        (normal(3, 3), False),
        (normal(4, 3, 3), False),
        (None, False),
    ):
        np.testing.assert_array_equal(encoder(normal(3, 2, 4), mask, is_causal=given).array, normal(3, 2, 4).array * 4)
        assert seen[-2:] == [causal if given is None else given] * 2


def test_own_stacks() -> None:
    class Both(nn.Module):
        def forward(self, tgt: Tensor, *memory: Tensor, **_: Any) -> Tensor:
            return tgt + memory[0] if memory else tgt * 3

    model = nn.Transformer(4, custom_encoder=Both(), custom_decoder=Both())
    source, target = normal(2, 4), normal(2, 4, seed=1)
    np.testing.assert_allclose(model(source, target).array, (source * 3 + target).array)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"num_heads": 0}, ValueError, "num_heads=0 must be at least 1"),
        ({"num_heads": "2"}, TypeError, "num_heads='2' must be an int"),
        ({"num_heads": 3}, ValueError, "embed_dim_to_check=4 must be divisible by num_heads=3"),
        ({"in_proj_weight": None}, TypeError, "in_proj_weight is NoneType, needs a Tensor"),
        ({"in_proj_weight": normal(8, 4)}, ValueError, "in_proj_weight.shape=(8, 4) must have 3 * embed_dim_to_check"),
        ({"bias_k": normal(1, 1, 4)}, ValueError, "bias_k and bias_v must both be given, or neither"),
        (
            {"bias_k": normal(1, 1, 4), "bias_v": normal(1, 1, 4), "static_k": normal(4, 3, 2)},
            ValueError,
            "bias_k and bias_v cannot be appended to static_k and static_v; leave one pair out",
        ),
        ({"static_v": normal(4, 3, 4)}, ValueError, "static_k or static_v has shape (4, 3, 4); it must be (N * num_"),
    ],
)
def test_function_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    x = normal(3, 2, 4)
    arguments = {
        "query": x,
        "key": x,
        "value": x,
        "embed_dim_to_check": 4,
        "num_heads": 2,
        "in_proj_weight": normal(12, 4),
        "in_proj_bias": None,
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.0,
        "out_proj_weight": normal(4, 4),
        "out_proj_bias": None,
    }
    with pytest.raises(error, match=re.escape(message)):
        nn.functional.multi_head_attention_forward(**{**arguments, **changes})
