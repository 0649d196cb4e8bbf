"""The forum's Conv2dShift with only its imports changed: it runs, its gradients are right, and it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
import retrograd
from lowbit.seed_003 import Conv2dShift
from retrograd import Tensor, lowbit, nn, optim
from retrograd.autograd import gradcheck
from retrograd.data import Digits


@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
@pytest.mark.parametrize("groups", [1, 2])
def test_it_runs(groups: int, padding_mode: str) -> None:
    layer: Any = Conv2dShift(2, 4, 3, padding=2, groups=groups, padding_mode=padding_mode, check_grad=True)
    assert layer.weight.dtype == np.float64 and Conv2dShift(1, 2, 3).weight.dtype == np.float32
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 4))
    padded, padding = x, ((2, 2), (2, 2))
    if padding_mode == "circular":
        padded, padding = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "wrap"), ((0, 0), (0, 0))
    expected = naive.conv(padded, layer.weight.array, layer.bias.array, (1, 1), padding, (1, 1), groups)
    np.testing.assert_allclose(layer(Tensor(x)).array, expected, 1e-12, 1e-12)
    assert gradcheck(lambda x, w, b: layer(x), (Tensor(x, requires_grad=True), layer.weight, layer.bias), eps=1e-3)
    text = f"Conv2dShift(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(2, 2){', groups=2' * (groups == 2)})"
    assert repr(layer) == text


def test_it_learns_and_takes_quantized_weights() -> None:
    """The author's goal: a forward with quantized weights, and gradients for the float weights."""
    retrograd.manual_seed(1)
    x, y = (Tensor(t.array[:256]) for t in Digits().tensors)
    layer: Any = Conv2dShift(1, 8, 3, stride=2)
    model = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))
    optimizer, losses = optim.Adam(model.parameters(), lr=0.01), []
    shift = lowbit.DeepShiftQ()
    float_weight = layer.weight

    def step() -> float:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    losses += [step() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]

    class Quantized(type(layer)):  # type: ignore[misc]
        @property
        def weight(self) -> Tensor:
            return shift.weight(float_weight, (1, 2, 3), {}, self.training)

    del layer._parameter_names["weight"], layer.__dict__["weight"]
    layer.__class__ = Quantized
    before = float_weight.array.copy()
    losses = [step() for _ in range(20)]
    assert losses[-1] < losses[0] and not np.array_equal(float_weight.array, before)
    assert set(np.unique(np.log2(abs(layer.weight.array)) % 1)) == {0.0}
