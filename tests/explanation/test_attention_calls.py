"""Attention inside a model: found wherever it is computed, with the gradients of the run."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from explanation.test_operators import totals
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name


class Own(nn.Module):
    """A module that calls the attention function twice, with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        heads = [each.reshape(*x.shape[:2], 2, 2).transpose(1, 2) for each in self.qkv(x).split(4, -1)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        y = F.scaled_dot_product_attention(y, y, y, scale=0.5)
        return self.out(y.transpose(1, 2).reshape(*x.shape))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.heads = Own(), nn.MultiheadAttention(4, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        x = self.own(x)
        hidden = rg.tensor(np.triu(np.ones((3, 3)), 1) > 0)
        return self.encoder(self.heads(x, x, value=x, attn_mask=hidden)[0])


def merged(heads: np.ndarray) -> np.ndarray:
    """Merge the heads: (N, H, L, D) -> (N, L, H * D)."""
    return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)


def test_attention_is_found_wherever_it_is_computed():
    rg.manual_seed(0)
    x = rg.tensor(np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32))
    run = rg.explain(Network(), x, lambda y: (y * y * y).sum())
    paths = [layer.path for layer in run.layers if layer.operator]
    assert paths == ["own.attention", "own.attention.2", "heads", "encoder.self_attn"]
    order = [layer.path for layer in run.layers]
    assert order.index("own.qkv") < order.index("own.attention") < order.index("own.out") < order.index("heads")
    assert order[order.index("heads") + 1] == "heads.out_proj"
    for path in paths:
        explanation = run.layer(path)
        arrays = {name: array.values for name, array in explanation.arrays.items()}
        for name, products in explanation.sums.items():
            sums, size = totals(products, arrays, arrays[name].size)
            np.testing.assert_allclose(sums, arrays[name].ravel(), atol=1e-5 * max(size, 0.3), err_msg=f"{path} {name}")
    # what goes back from the attention is what comes back to the layers before it, and the other way round
    first, second, heads = (run.layer(path).arrays for path in paths[:3])
    expected = np.concatenate([merged(first[name].values) for name in ("gq", "gk", "gv")], -1)
    np.testing.assert_allclose(run.layer("own.qkv").gy, expected, rtol=1e-3, atol=1e-6)
    out = run.layer("own.out").arrays["gx"].values
    np.testing.assert_allclose(merged(second["gy"].values), out, rtol=1e-3, atol=1e-6)
    total = sum(second[name].values for name in ("gq", "gk", "gv"))
    np.testing.assert_allclose(total, first["gy"].values, rtol=1e-3, atol=1e-6)
    out = run.layer("heads.out_proj").arrays["gx"].values.reshape(2, 3, 4)
    np.testing.assert_allclose(merged(heads["gy"].values), out, rtol=1e-3, atol=1e-6)
    assert heads["attn_mask"].values.dtype == bool and heads["attn_mask"].values.shape == (1, 1, 3, 3)
    assert first["p"].values[0, 0, 0, 1] == 0  # causal


def test_a_mask_of_numbers_stays_one():
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            x = self.first(x)
            return F.scaled_dot_product_attention(x, x, x, rg.tensor(np.float32([[0.5, -1.0, -np.inf]])))

    x = rg.tensor(np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32))
    explanation = rg.explain(Biased(), x, lambda y: y.sum()).layer("attention")
    np.testing.assert_array_equal(explanation.arrays["attn_mask"].values, np.float32([[[[0.5, -1.0, -np.inf]]]]))
    assert explanation.entry("gattn_mask", (0, 0, 0, 1)).numerical == pytest.approx(
        explanation.arrays["gattn_mask"].values[0, 0, 0, 1], rel=1e-3, abs=1e-6
    )


class Alone(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, dropout=dropout)

    def forward(self, x: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
        return self.heads(x, x, x)


@pytest.mark.parametrize(
    ("dropout", "loss", "words"),
    [
        (0.0, lambda result: result[0].sum() + (result[1] * result[1]).sum(), "weights the loss depends on"),
        (0.5, lambda result: result[0].sum(), "dropout=0.5 in training"),
    ],
)
def test_heads_that_are_not_taken_apart_say_why(dropout, loss, words):
    x = rg.tensor(np.random.default_rng(1).standard_normal((3, 1, 4)).astype(np.float32))
    run = rg.explain(Alone(dropout), x, loss)
    row = run.to_dict()["layers"][0]
    assert row["path"] == "heads" and words in row["why_not"]
