"""Embedding, EmbeddingBag, Bilinear, padding and resampling layers, beyond the conformance tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

INDEX = Tensor(np.array([[1, 4, 1], [0, 2, 2]]))


def test_padding_idx() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-4)
    assert layer.padding_idx == 1 and not layer.weight.array[1].any()
    g = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)
    layer(INDEX).backward(Tensor(g))
    expected = [g[1, 0], 0 * g[0, 0], g[1, 1] + g[1, 2], 0 * g[0, 0], g[0, 1]]  # row by row of the table
    np.testing.assert_allclose(layer.weight.grad.array, expected, rtol=1e-6)


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_the_gradient_is_divided_by_the_frequency(layer: Any) -> None:
    table = layer(5, 3, scale_grad_by_freq=True, **({"mode": "sum"} if layer is nn.EmbeddingBag else {}))
    y = table(INDEX)
    g = np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)
    y.backward(Tensor(g))
    each = g if layer is nn.Embedding else np.repeat(g[:, None], 3, axis=1)  # a bag's gradient goes to all in it
    expected = [each[1, 0], (each[0, 0] + each[0, 2]) / 2, (each[1, 1] + each[1, 2]) / 2, 0 * each[0, 0], each[0, 1]]
    np.testing.assert_allclose(table.weight.grad.array, expected, rtol=1e-6)


def test_max_norm_changes_the_rows_that_are_used() -> None:
    layer = nn.Embedding(5, 3, max_norm=0.5, norm_type=1.0)
    before = layer.weight.array.copy()
    y = layer(INDEX)
    sizes = np.abs(layer.weight.array).sum(1)
    assert sizes[[0, 1, 2, 4]].max() < 0.5 + 1e-5 and np.array_equal(layer.weight.array[3], before[3])
    np.testing.assert_array_equal(y.array, layer.weight.array[INDEX.array])


def test_from_pretrained() -> None:
    table = Tensor(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    frozen, trained = nn.Embedding.from_pretrained(table), nn.Embedding.from_pretrained(table, freeze=False)
    assert not frozen.weight.requires_grad and trained.weight.requires_grad
    np.testing.assert_array_equal(frozen(Tensor(np.array([2]))).array, [[4, 5]])
    bag = nn.EmbeddingBag.from_pretrained(table, mode="sum")
    assert not bag.weight.requires_grad
    np.testing.assert_array_equal(bag(Tensor(np.array([[2, 0]]))).array, [[4, 6]])
    for kind in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(
            ValueError, match=rf"{kind.__name__}.from_pretrained: embeddings must be a Tensor \(V, D\), got .*\(3,\)"
        ):
            kind.from_pretrained(table[:, 0])


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_is_a_way_to_store_the_same_gradient(kind: type) -> None:
    """A sparse gradient has the dense one's values, and an SGD step with it is the same, as in PyTorch."""
    rows = retrograd.tensor([[1, 3, 1], [0, 3, 3]])
    layers = [kind(5, 2, sparse=sparse) for sparse in (False, True)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer in layers:
        y = layer(rows)
        y.backward(Tensor(np.arange(y.numel(), dtype=np.float32).reshape(y.shape) - 2.5))
        retrograd.optim.SGD(layer.parameters(), lr=0.5).step()
    assert "sparse=True" in repr(layers[1]) and "sparse" not in repr(layers[0])
    np.testing.assert_array_equal(layers[0].weight.array, layers[1].weight.array)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Embedding(-1, 2), "Embedding: num_embeddings=-1 must be an int of at least 0"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "Embedding: padding_idx=3 is out of range for num_embeddings=3"),
        (lambda: nn.EmbeddingBag(3, 2, mode="min"), "EmbeddingBag: mode='min' must be"),
        (
            lambda: nn.Embedding(3, 2, _weight=Tensor(np.zeros((2, 2)))),
            r"Embedding: _weight.shape=\(2, 2\) must be \(3, 2\)",
        ),
        (lambda: nn.Bilinear(0, 2, 3), "Bilinear: in1_features=0 must be an int of at least 1"),
        (lambda: nn.ZeroPad2d((1, 2, 3)), r"ZeroPad2d: padding=\(1, 2, 3\) must be an int or 4 ints"),
        (lambda: nn.ReflectionPad1d(1.5), "ReflectionPad1d: padding=1.5 must be an int or 2 ints"),
        (lambda: nn.Dropout2d(2.0), "Dropout2d: p=2.0 must be a probability"),
        (lambda: nn.AlphaDropout(-1), "AlphaDropout: p=-1 must be a probability"),
    ],
)
def test_arguments(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_unflatten_takes_an_int() -> None:
    with pytest.raises(TypeError, match="Unflatten: dim='a' must be an int; named axes are not supported"):
        nn.Unflatten("a", (2, 2))


def test_repr() -> None:
    for layer, text in (
        (nn.Embedding(5, 3, padding_idx=1), "Embedding(5, 3, padding_idx=1)"),
        (nn.EmbeddingBag(5, 3), "EmbeddingBag(5, 3, mode='mean')"),
        (nn.Bilinear(2, 3, 4), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)"),
        (nn.ConstantPad1d(2, 3.5), "ConstantPad1d(padding=(2, 2), value=3.5)"),
        (nn.ReflectionPad2d((1, 2, 3, 4)), "ReflectionPad2d((1, 2, 3, 4))"),
        (nn.Upsample(scale_factor=2), "Upsample(scale_factor=2.0, mode='nearest')"),
        (nn.PixelShuffle(3), "PixelShuffle(upscale_factor=3)"),
        (nn.Unflatten(1, (2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))"),
        (nn.Dropout3d(0.2), "Dropout3d(p=0.2, inplace=False)"),
        (nn.Dropout(0.2, True), "Dropout(p=0.2, inplace=True)"),
        (nn.Fold((4, 5), 2), "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)"),
    ):
        assert repr(layer) == text


def test_dropout_of_channels() -> None:
    retrograd.manual_seed(0)
    x = retrograd.ones(30, 20, 4, 5)
    y = F.dropout2d(x, 0.25).array
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)} and (y == y[:, :, :1, :1]).all()
    assert abs((y[:, :, 0, 0] == 0).mean() - 0.25) < 0.06
    assert F.dropout2d(x, 0.25, training=False) is x and F.dropout1d(x[0], 0.5).shape == (20, 4, 5)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    retrograd.manual_seed(0)
    x = retrograd.randn(200, 200)
    for y in (F.alpha_dropout(x, 0.3, True).array, F.feature_alpha_dropout(x, 0.3, True).array):
        assert abs(y.mean()) < 0.03 and abs(y.std() - 1) < 0.03
        low = -1.7580993 * 0.7 / np.sqrt(0.7 * (1 + 0.3 * 1.7580993**2))
        assert abs(np.isclose(y, low, rtol=1e-4).mean() - 0.3) < 0.03
    assert F.alpha_dropout(x, 0.3) is x and not F.alpha_dropout(x, 1.0, True).array.any()
