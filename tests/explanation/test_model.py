"""Explanation of a model: the sums of its layers equal its gradients, and the model does not change."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.explanation.document import block, entry_products, first, outline, start_of, window
from retrograd.explanation.model import ModelExplanation
from retrograd.nn.functional import cross_entropy


class Network(nn.Module):
    """Convolution, normalization, a layer that is used twice, an LSTM with batch_first, and an unused layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.LeakyReLU(0.5, inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.twice = nn.Linear(2, 2)
        self.lstm = nn.LSTM(2, 4, batch_first=True)
        self.head = nn.Linear(4, 3)
        self.unused = nn.Linear(5, 5)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.pool(self.relu(self.norm(self.conv(x))))
        y = self.twice(self.twice(y.reshape(y.shape[0], 3, 2)))
        _, (h, _) = self.lstm(y)
        return self.head(h[0])


def made(training: bool) -> tuple[Network, tuple[rg.Tensor, rg.Tensor]]:
    rg.manual_seed(3)
    model = Network().train(training)
    random = np.random.default_rng(1)
    x = rg.tensor(random.standard_normal((5, 2, 7, 4)).astype(np.float32))
    model(x)  # the running statistics are not those of the beginning
    return model, (x, rg.tensor(random.integers(0, 3, 5)))


@pytest.fixture(scope="module", params=[True, False], ids=["training", "eval"])
def explained(request) -> tuple[Network, Any, ModelExplanation]:
    model, batch = made(request.param)
    return model, batch, rg.explain(model, batch, cross_entropy)


def added(explanation: Any, name: str) -> np.ndarray:
    """Return the sums of an array's products, computed independently."""
    values = {each: array.values.ravel() for each, array in explanation.arrays.items()}
    found = np.zeros(values[name].size)
    for products in explanation.sums[name]:
        for row in products.index:
            factors = [
                0.0 if at < 0 else float(values[factor][at])
                for factor, at in zip(products.factors, row[1:], strict=True)
            ]
            found[row[0]] += products.scale * np.prod(factors)
    return found


def test_the_sums_of_every_layer_are_the_models_gradients(explained):
    model, (x, target), explanation = explained
    model.zero_grad()
    cross_entropy(model(x), target).backward()
    grads = {name: each.grad.numpy() for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad()
    names = {
        "weight": "gw",
        "bias": "gb",
        "weight_ih_l0": "gw_ih",
        "weight_hh_l0": "gw_hh",
        "bias_ih_l0": "gb_ih",
        "bias_hh_l0": "gb_hh",
    }
    seen = set()
    for layer in explanation.layers:
        one = explanation.layer(layer.path)
        for name in one.sums:
            values = one.arrays[name].values
            np.testing.assert_allclose(added(one, name), values.ravel(), rtol=2e-4, atol=2e-6, err_msg=layer.path)
        for parameter in dict(layer.module.named_parameters()):
            if layer.path != "twice":  # of a layer that ran twice, the last run is shown
                shown = one.arrays[names[parameter]].values
                expected = grads[f"{layer.path}.{parameter}"]
                np.testing.assert_allclose(shown, expected, rtol=2e-3, atol=2e-6, err_msg=layer.path)
                seen.add(f"{layer.path}.{parameter}")
    assert seen == {name for name in grads if not name.startswith("twice")}


def test_the_model_stays_as_it_was():
    model, batch = made(True)
    cross_entropy(model(batch[0]), batch[1]).backward()
    before = {name: each.numpy(force=True).copy() for name, each in model.state_dict().items()}
    grads = {name: each.grad.numpy().copy() for name, each in model.named_parameters() if each.grad is not None}
    explanation = rg.explain(model, batch, cross_entropy)
    explanation.to_html()
    for name, each in model.state_dict().items():
        np.testing.assert_array_equal(each.numpy(force=True), before[name], name)
    for name, each in model.named_parameters():
        if each.grad is not None:
            np.testing.assert_array_equal(each.grad.numpy(), grads[name], name)
    assert model.training
    model(batch[0])  # no hook of the explanation is left
    assert [each.calls for each in explanation.layers] == [1, 1, 1, 1, 2, 1, 1]


def test_a_layer_that_changes_its_input_in_place_shows_what_it_read(explained):
    _, _, explanation = explained
    rows = {layer.path: layer for layer in explanation.layers}
    x, y = rows["relu"].x, rows["relu"].y
    np.testing.assert_allclose(y, np.where(x > 0, x, 0.5 * x), rtol=1e-6)
    np.testing.assert_array_equal(x, rows["norm"].y)


def test_the_map(explained):
    model, _, explanation = explained
    found = explanation.to_dict()
    json.dumps(found, allow_nan=False)
    assert [each["path"] for each in found["layers"]] == ["conv", "norm", "relu", "pool", "twice", "lstm", "head"]
    assert found["name"] == "Network" and not any(each["why_not"] for each in found["layers"])
    assert {each["path"]: each["calls"] for each in found["layers"]}["twice"] == 2


def test_dead_and_not_finite_entries_are_counted():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].weight.data = rg.ones(4, 3)
    model[0].bias.data = rg.tensor(np.array([-100.0, 1, -100, 1], np.float32))
    model[2].weight.data = rg.tensor(np.array([[1, 1, 1, np.nan], [1, 1, 1, 1]], np.float32))
    rows = rg.explain(model, rg.ones(2, 3), lambda y: y[:, 1].sum()).to_dict()["layers"]
    assert rows[1]["dead"] == 0.5
    # NaN is in a column of the last result, and 0 times it in one of the first gy, so in a row of gw and in gb
    assert [each["not_finite"] for each in rows] == [2 + 3 + 1, 2, 2]


def test_the_path_leads_to_the_loss():
    rg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = rg.tensor(np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32))
    explanation = rg.explain(model, x, lambda y: (y * y).sum())
    steps = explanation.path_to_loss("0", "gw", (1, 2))
    assert [each.path for each in steps] == ["0", "1", "2"]
    assert explanation.road("0", "gw", (1, 2)) == steps  # its earlier name
    products = explanation.layers[0].gy[:, 1] * x.numpy()[:, 2]
    most = int(np.abs(products).argmax())
    assert steps[0].index == (most, 1) and steps[0].share == pytest.approx(products[most] / products.sum(), rel=1e-4)
    assert steps[1].index == (most, 1) and steps[1].share == pytest.approx(1.0) and steps[2].index == (most, 0)


def loss_of_two(y: rg.Tensor) -> rg.Tensor:
    return y


@pytest.mark.parametrize(
    ("model", "loss", "error", "words"),
    [
        (nn.Linear(2, 2), loss_of_two, ValueError, "one number"),
        (nn.Linear(2, 2), 3, TypeError, "loss is int"),
    ],
)
def test_what_is_refused(model, loss, error, words):
    with pytest.raises(error, match=words):
        rg.explain(model, rg.ones(3, 2), loss)


def test_layers_that_cannot_be_taken_apart_say_why():
    model = nn.Sequential(nn.Linear(2, 2), nn.Flatten())
    explanation = rg.explain(model, rg.ones(3, 2), lambda y: y.sum())
    assert explanation.to_dict()["layers"][1]["why_not"] == "it passes its input on"
    with pytest.raises(KeyError, match="no layer 'x' ran; there are 0, 1"):
        explanation.layer("x")
    with pytest.raises(ValueError, match="Flatten is not one of the layers"):
        explanation.layer("1")
    part = rg.explain(Network(), made(True)[1][0], lambda y: (y * 0 + 1.0).sum())
    assert part.to_dict()["layers"][0]["gy_norm"] == 0.0


# ---- parts of arrays


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), []),
        ((5,), [5]),
        ((100,), [16]),
        ((32, 33), [32, 16]),
        ((64, 64, 3, 3), [4, 4, 3, 3]),
        ((6, 1, 5, 5), [4, 1, 5, 5]),
        ((8, 3, 28, 28), [1, 1, 28, 28]),
        ((16, 1, 3, 3), [4, 1, 3, 3]),
        ((0, 4), [0, 4]),
    ],
)
def test_a_window_is_readable(shape, expected):
    assert window(shape) == expected


@pytest.mark.parametrize("shape", [(7,), (33,), (40, 35), (3, 5, 40, 2), (9, 2, 3, 3)])
def test_blocks_hold_the_entries(shape):
    array = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    for flat in np.random.default_rng(3).integers(0, array.size, 20):
        start = start_of(shape, int(flat))
        part = block(array, start)
        place = tuple(np.subtract(np.unravel_index(flat, shape), start))
        assert np.float32(np.reshape(part["values"], part["shape"])[place]) == array.ravel()[flat]
        assert part["shape"] == window(shape)
    for wrong in ((0,) * (len(shape) + 1), tuple(shape), (-1,) * len(shape)):
        with pytest.raises(ValueError, match="no block that begins"):
            block(array, wrong)


def test_an_entry_lists_its_largest_products():
    random = np.random.default_rng(4)
    x, w = random.standard_normal((300, 4)), random.standard_normal((2, 4))
    explanation = rg.explain("linear", x, w, gy := random.standard_normal((300, 2)))
    found = entry_products(explanation, "gw", 5)
    every = gy[:, 1] * x[:, 1]
    listed = [each["value"] for each in found["products"]]
    assert found["count"] == 300 and len(listed) == 200
    np.testing.assert_allclose(sorted(np.abs(listed)), sorted(np.abs(every))[100:])
    assert found["rest"] + sum(listed) == pytest.approx(found["sum"]) == pytest.approx(every.sum())
    name, at = first(explanation)
    exact = np.array([[math.fsum(gy[:, row] * x[:, column]) for column in range(4)] for row in range(2)])
    assert name == "gw" and at == np.abs(exact).argmax()
    error = 300 * np.finfo(float).eps * (np.abs(gy).T @ np.abs(x))  # of a sum of 300 products, in any order
    assert (np.abs(explanation.arrays["gw"].values - exact) <= error).all()
    assert outline(explanation)["sums"]["gw"]["factors"] == [["gy", "x"]]
    with pytest.raises(ValueError, match="no entry 99"):
        entry_products(explanation, "gw", 99)
    with pytest.raises(ValueError, match="not one of the arrays that are sums"):
        entry_products(explanation, "x", 0)
