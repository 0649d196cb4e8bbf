"""Loss layers against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor

RNG = np.random.default_rng(2)
X = RNG.normal(size=(5, 4))
LABELS = np.array([0, 3, 1, 1, 2])
LOGS = X - np.log(np.exp(X).sum(1, keepdims=True))
PICKED = -LOGS[np.arange(5), LABELS]


def test_cross_entropy_reductions_and_gradient() -> None:
    x, labels = Tensor(X, requires_grad=True), Tensor(LABELS)
    np.testing.assert_allclose(nn.CrossEntropyLoss(reduction="none")(x, labels).array, PICKED, rtol=1e-12)
    np.testing.assert_allclose(nn.CrossEntropyLoss(reduction="sum")(x, labels).array, PICKED.sum(), rtol=1e-12)
    loss = nn.CrossEntropyLoss()(x, labels)
    np.testing.assert_allclose(loss.array, PICKED.mean(), rtol=1e-12)
    (loss * 3.0).backward()
    np.testing.assert_allclose(x.grad.array, 3 * (np.exp(LOGS) - np.eye(4)[LABELS]) / 5, rtol=1e-10)


def test_cross_entropy_weight_ignore_index_and_smoothing() -> None:
    weight = np.array([1.0, 2.0, 0.5, 0.25])
    layer = nn.CrossEntropyLoss(Tensor(weight))
    assert list(layer.state_dict()) == ["weight"]
    expected = (weight[LABELS] * PICKED).sum() / weight[LABELS].sum()
    np.testing.assert_allclose(layer(Tensor(X), Tensor(LABELS)).array, expected, rtol=1e-12)
    counted = LABELS != 1
    loss = nn.CrossEntropyLoss(ignore_index=1)(Tensor(X), Tensor(LABELS))
    np.testing.assert_allclose(loss.array, PICKED[counted].mean(), rtol=1e-12)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.2)(Tensor(X), Tensor(LABELS))
    goals = 0.8 * np.eye(4)[LABELS] + 0.2 / 4
    np.testing.assert_allclose(smooth.array, -(goals * LOGS).sum(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(nn.CrossEntropyLoss()(Tensor(X), Tensor(goals)).array, smooth.array, rtol=1e-12)


def test_mse() -> None:
    x, target = Tensor(X, requires_grad=True), RNG.normal(size=(5, 4))
    square = (X - target) ** 2
    np.testing.assert_allclose(nn.MSELoss(reduction="none")(x, Tensor(target)).array, square, rtol=1e-12)
    np.testing.assert_allclose(nn.MSELoss(reduction="sum")(x, Tensor(target)).array, square.sum(), rtol=1e-12)
    loss = nn.MSELoss()(x, Tensor(target))
    np.testing.assert_allclose(loss.array, square.mean(), rtol=1e-12)
    (loss * -2.0).backward()
    np.testing.assert_allclose(x.grad.array, -4 * (X - target) / 20, rtol=1e-10)


def test_losses_are_checked() -> None:
    for kind in (nn.CrossEntropyLoss, nn.MSELoss):
        with pytest.raises(ValueError, match=f"{kind.__name__}: reduction='max' must be 'mean'"):
            kind(reduction="max")
    with pytest.raises(ValueError, match="CrossEntropyLoss: label_smoothing=1.5 must be between 0 and 1"):
        nn.CrossEntropyLoss(label_smoothing=1.5)
    with pytest.raises(TypeError, match=r"CrossEntropyLoss: weight is list, needs a Tensor"):
        nn.CrossEntropyLoss([1.0, 2.0])  # type: ignore[arg-type]
    wrong = LABELS.copy()
    wrong[2] = 4
    with pytest.raises(IndexError, match=r"^in CrossEntropyLoss.*target\[2\] = 4 is not a class"):
        nn.CrossEntropyLoss()(Tensor(X), Tensor(wrong))
    with pytest.raises(TypeError, match="in CrossEntropyLoss"):
        nn.CrossEntropyLoss()(Tensor(X), LABELS)
