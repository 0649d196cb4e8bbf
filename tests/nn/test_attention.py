"""MultiheadAttention: errors and combinations of options; values are in conformance and peers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape))


def layer(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(4, 2, dtype=np.float64, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "embed_dim=0 must be an int of at least 1"),
        ((4, 2.0), "num_heads=2.0 must be an int"),
        ((5, 2), "embed_dim=5 must be divisible by num_heads=2"),
        ((4, 2, 1.5), "dropout=1.5 must be a probability"),
        ((4, 2, 0.0, True, False, False, 0), "kdim=0 must be an int of at least 1"),
    ],
)
def test_arguments_are_checked(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"MultiheadAttention: {message}")):
        nn.MultiheadAttention(*arguments)


X = normal(3, 2, 4)  # L, N, E


@pytest.mark.parametrize(
    ("inputs", "options", "error", "message"),
    [
        ((X, X, X.array), {}, TypeError, "value is ndarray, needs a Tensor"),
        ((X, X[:, 0], X), {}, ValueError, "key.shape=(3, 4) must have 3 axes (2 without batch), as many as query"),
        (
            (X[..., :3], X, X),
            {},
            ValueError,
            "query.shape=(3, 2, 3) must have 3 axes (2 without batch), as many as query, and 4",
        ),
        ((X, X, X[:2]), {}, ValueError, "the same batch, key and value the same length; query.shape=(3, 2, 4)"),
        ((X[:, :1], X, X), {}, ValueError, "must have the same batch, key and value the same length"),
        (
            (X, X, X),
            {"is_causal": True},
            ValueError,
            "is_causal=True needs attn_mask, the causal mask",
        ),
        ((X, X, X), {"attn_mask": X}, ValueError, "attn_mask.shape=(3, 2, 4) must be (3, 3) or (4, 3, 3)"),
        ((X, X, X), {"key_padding_mask": normal(3, 2)}, ValueError, "key_padding_mask.shape=(3, 2) must be (2, 3)"),
        ((X, X, X), {"attn_mask": normal(3, 3).long()}, TypeError, "attn_mask is int64; it must be bool"),
        ((X, X, X), {"attn_mask": np.ones((3, 3))}, TypeError, "attn_mask must be a Tensor, got ndarray"),
    ],
)
def test_inputs_are_checked(inputs: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        layer()(*inputs, **options)


def test_weights_do_not_change_the_result() -> None:
    module = layer(add_zero_attn=True)
    mask = retrograd.tensor(np.array([[True, False, False], [False] * 3, [True] * 3]))
    y, weights = module(X, X, X, attn_mask=mask)
    alone, nothing = module(X, X, X, attn_mask=mask, need_weights=False)
    assert nothing is None and weights.shape == (2, 3, 4)
    np.testing.assert_allclose(alone.array, y.array, rtol=1e-12)
    np.testing.assert_allclose(weights.array.sum(-1), 1.0)
    assert not weights.array[:, 2, :3].any()


def test_a_mask_is_differentiable() -> None:
    mask = normal(3, 3)
    mask.requires_grad = True
    module = layer()
    module(X, X, X, attn_mask=mask, need_weights=False)[0].backward(normal(3, 2, 4, seed=5))
    fused = mask.grad.array.copy()
    mask.grad = None
    module(X, X, X, attn_mask=mask)[0].backward(normal(3, 2, 4, seed=5))
    assert fused.any()
    np.testing.assert_allclose(fused, mask.grad.array, rtol=1e-12)


def test_dropout_is_for_training_only() -> None:
    module = layer(dropout=0.5)
    retrograd.manual_seed(0)
    for need_weights in (True, False):
        first, second = (module(X, X, X, need_weights=need_weights)[0].array for _ in range(2))
        assert not np.array_equal(first, second)
    module.eval()
    first, second = (module(X, X, X)[0].array for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_one_object_in_three_roles_gets_the_sum_of_gradients() -> None:
    module, g = layer(), normal(3, 2, 4, seed=7)
    x = Tensor(X.array, requires_grad=True)
    module(x, x, x, need_weights=False)[0].backward(g)
    parts = [Tensor(X.array, requires_grad=True) for _ in range(3)]
    module(*parts, need_weights=False)[0].backward(g)
    np.testing.assert_allclose(x.grad.array, sum(part.grad.array for part in parts), rtol=1e-12)
