"""Recurrent networks of a model, layer by layer and in both directions: their gradients are the model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.test_operators import totals
from retrograd import nn

GRADIENTS = {"gw_ih": "weight_ih", "gw_hh": "weight_hh", "gb_ih": "bias_ih", "gb_hh": "bias_hh"}


class Network(nn.Module):
    """A recurrent network with given initial states, between two linear layers."""

    def __init__(self, rnn: nn.Module, width: int, states: Any = None) -> None:
        super().__init__()
        self.first, self.rnn, self.head = nn.Linear(3, 3), rnn, nn.Linear(width, 2)
        self.states = states

    def forward(self, x: rg.Tensor) -> tuple[rg.Tensor, Any]:
        y, last = self.rnn(self.first(x), self.states)
        return self.head(y), last


def normal(*shape: int, seed: int) -> rg.Tensor:
    return rg.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def loss(result: tuple[rg.Tensor, Any]) -> rg.Tensor:
    """Return a loss of every output and of the last h of every layer."""
    y, last = result
    h = last[0] if isinstance(last, tuple) else last
    return (y * y).sum() + (h * normal(*h.shape, seed=9)).sum()


def explained(rnn: nn.Module, shape: tuple[int, ...], with_states: bool = True) -> tuple[Network, Any, Any]:
    ways = rnn.num_layers * (1 + rnn.bidirectional)
    batch = (shape[0 if rnn.batch_first else 1],) * (len(shape) == 3)
    states = [normal(ways, *batch, 4, seed=j) for j in (3, 4)]
    given = None if not with_states else tuple(states) if isinstance(rnn, nn.LSTM) else states[0]
    model, x = Network(rnn, 4 * (1 + rnn.bidirectional), given), normal(*shape, seed=2)
    return model, x, rg.explain(model, x, loss)


@pytest.mark.parametrize(
    ("kind", "options", "shape", "paths"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True}, (3, 2, 3), ("l0", "l0_reverse", "l1", "l1_reverse")),
        (nn.GRU, {"num_layers": 2, "batch_first": True}, (2, 3, 3), ("l0", "l1")),
        (nn.RNN, {"bidirectional": True}, (4, 3), ("l0", "l0_reverse")),
        (nn.LSTM, {"batch_first": True}, (2, 3, 3), ()),
    ],
)
def test_every_layer_and_direction_has_the_models_gradients(kind, options, shape, paths):
    rg.manual_seed(1)
    model, x, run = explained(kind(3, 4, **options), shape)
    names = [f"rnn.{path}" for path in paths] or ["rnn"]
    assert [layer.path for layer in run.layers] == ["first", *names, "head"]
    loss(model(x)).backward()
    for name in names:
        one = run.layer(name)
        arrays = {each: array.values for each, array in one.arrays.items()}
        for each, products in one.sums.items():
            sums, size = totals(products, arrays, arrays[each].size)
            np.testing.assert_allclose(sums, arrays[each].ravel(), atol=1e-5 * max(size, 1), err_msg=f"{name} {each}")
        end = name.partition(".")[2] or "l0"
        for each, word in GRADIENTS.items():
            expected = getattr(model.rnn, f"{word}_{end}").grad.numpy()
            np.testing.assert_allclose(arrays[each], expected, rtol=1e-4, atol=1e-4, err_msg=f"{name} {each}")
        norms = next(layer.weight_norms for layer in run.layers if layer.path == name)
        assert {*norms} == {f"{word}_{end}" for word in GRADIENTS.values()}
        np.testing.assert_allclose(one.entry("gh0", (0, 0, 1)).numerical, arrays["gh0"][0, 0, 1], rtol=1e-3, atol=1e-4)
    # the steps of the second direction are those of the first from the end
    if "l0_reverse" in paths:
        forward, back = (run.layer(name).arrays["x"].values for name in names[:2])
        np.testing.assert_array_equal(back[::-1], forward)


def test_the_path_goes_through_all_layers():
    model, _, run = explained(nn.GRU(3, 4, num_layers=2, batch_first=True), (2, 3, 3))
    assert [step.path for step in run.path_to_loss("first", "gw", (0, 1))] == ["first", "rnn.l0", "rnn.l1", "head"]
    step = run.path_to_loss("rnn.l1", "gw_ih", (0, 1))[0]
    assert step.path == "rnn.l1" and step.value == run.layer("rnn.l1").arrays["gy"].values[step.index]


REFUSED = [
    (nn.LSTM(3, 4, peephole=True), "LSTM with peephole=True cannot be explained"),
    (nn.GRU(3, 4, reset_after=False), "GRU with reset_after=False cannot be explained"),
    (nn.RNN(3, 4, num_layers=2, dropout=0.5), r"RNN with dropout=0.5 in training cannot be explained"),
    (nn.LSTM(3, 4, zoneout=0.5), "LSTM with zoneout="),
    (nn.RNN(3, 4, num_layers=2, variational_dropout=0.5), "RNN with variational_dropout=0.5 in training"),
    (nn.GRU(4, 4, residual=True), "GRU with residual=True cannot be explained"),
]


@pytest.mark.parametrize(("rnn", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_networks_that_are_not_taken_apart_say_why(rnn, words):
    run = rg.explain(rnn, normal(3, 2, rnn.input_size, seed=2), lambda result: (result[0] * result[0]).sum())
    (row,) = run.to_dict()["layers"]
    assert not row["operator"]
    with pytest.raises(ValueError, match=words):
        run.layer("")


def test_what_the_explanation_cannot_see_is_refused():
    x = normal(3, 2, 3, seed=2)
    run = rg.explain(nn.LSTM(3, 4), x, lambda result: result[0].sum() + result[1][1].sum())
    with pytest.raises(ValueError, match="LSTM whose last cell state the loss depends on cannot be explained"):
        run.layer("")

    class Shortened(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(3, 4)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return self.rnn(x, lengths=[3, 1])[0]

    with pytest.raises(ValueError, match="GRU with lengths cannot be explained"):
        rg.explain(Shortened(), x, lambda y: y.sum()).layer("rnn")
    uneven = rg.explain(nn.LSTM(3, [4, 2], num_layers=2), x, lambda result: result[0].sum())
    with pytest.raises(ValueError, match="layers of several widths"):
        uneven.layer("")
