"""Batch norm, softmax, losses, linear and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, normal, uniform

SHAPES = [(6, 3), (4, 3, 5), (3, 4, 5, 2), (2, 3, 2, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape: tuple[int, ...], training: bool) -> None:
    channels = shape[1]
    mean, variance = normal(channels, seed=3), uniform(0.5, 2, channels, seed=4)
    running = [retrograd.tensor(array.copy()) for array in (mean, variance)]
    peers = [torch.tensor(array.copy()) for array in (mean, variance)]
    weight, bias = uniform(0.5, 2, channels, seed=1), normal(channels, seed=2)
    assert_agree(
        lambda x, w, b: ours.batch_norm(x, *running, w, b, training=training, momentum=0.3),
        lambda x, w, b: peer.batch_norm(x, *peers, w, b, training=training, momentum=0.3),
        normal(*shape) * 2 + 1,
        weight,
        bias,
    )
    for name, mine, yours in zip(("mean", "variance"), running, peers, strict=True):
        assert_close(mine, yours, f"running {name}")


def test_batch_norm_of_large_mean_float32() -> None:
    x = (normal(8, 5, 6, 7) + 300).astype(np.float32)
    statistics = np.zeros(5, np.float32), np.ones(5, np.float32)
    assert_agree(
        lambda x: ours.batch_norm(x, *map(retrograd.tensor, statistics), training=True),
        lambda x: peer.batch_norm(x, *map(torch.tensor, statistics), training=True),
        x,
        second=False,
        tolerance=2e-3,
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(name: str, axis: int) -> None:
    x = normal(4, 5, 6) * 3
    assert_agree(lambda x: getattr(ours, name)(x, dim=axis), lambda x: getattr(peer, name)(x, dim=axis), x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 2}, {"label_smoothing": 0.2}, {"weight": 1}], ids=str)
@pytest.mark.parametrize("shape", [(6, 5), (3, 5, 4, 2)], ids=str)
def test_cross_entropy(shape: tuple[int, ...], options: dict[str, Any], reduction: str) -> None:
    labels = np.random.default_rng(5).integers(0, shape[1], (shape[0], *shape[2:]))
    weight = uniform(0.5, 2, shape[1], seed=6)

    def call(library: Any, tensor: Any) -> Any:
        chosen = {**options, **({"weight": tensor(weight)} if "weight" in options else {})}
        return lambda x: library.cross_entropy(x, tensor(labels), reduction=reduction, **chosen)

    assert_agree(call(ours, retrograd.tensor), call(peer, torch.tensor), normal(*shape) * 3)


def test_cross_entropy_with_probabilities() -> None:
    target = uniform(0.1, 1, 6, 5)
    target /= target.sum(1, keepdims=True)
    assert_agree(ours.cross_entropy, peer.cross_entropy, normal(6, 5) * 3, target)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_and_mse(reduction: str) -> None:
    labels = np.array([0, 3, 1, 4])
    assert_agree(
        lambda x: ours.nll_loss(x, retrograd.tensor(labels), reduction=reduction),
        lambda x: peer.nll_loss(x, torch.tensor(labels), reduction=reduction),
        normal(4, 5),
    )
    assert_agree(
        lambda x, y: ours.mse_loss(x, y, reduction=reduction),
        lambda x, y: peer.mse_loss(x, y, reduction=reduction),
        normal(4, 5),
        normal(4, 5, seed=1),
    )


@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7)], ids=str)
def test_linear(shape: tuple[int, ...]) -> None:
    assert_agree(ours.linear, peer.linear, normal(*shape), normal(4, 7, seed=1), normal(4, seed=2))


def test_dropout_keeps_the_same_share_and_scale() -> None:
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    mine = ours.dropout(retrograd.ones(100_000), 0.3).numpy()
    yours = peer.dropout(torch.ones(100_000), 0.3).numpy()
    np.testing.assert_array_equal(np.unique(mine), np.unique(yours))
    assert abs(mine.mean() - yours.mean()) < 0.02
