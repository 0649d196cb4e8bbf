"""Straight-through training on the digits: the loss falls, and the float weights stay in the method's range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, lowbit, nn, optim
from retrograd.data import Digits
from retrograd.kernel_set import use_kernels


def network(weight: Any, activation: Any) -> nn.Sequential:
    """The first and the last layer are float, with a batch norm before each low-bit layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.Hardtanh(),
        lowbit.Conv2d(16, 32, 3, stride=2, padding=1, weight=weight, activation=activation),
        nn.BatchNorm2d(32),
        nn.Hardtanh(),
        nn.Flatten(),
        lowbit.Linear(512, 64, weight=weight, activation=activation),
        nn.BatchNorm1d(64),
        nn.Hardtanh(),
        nn.Linear(64, 10),
    )


METHODS: dict[str, tuple[Any, Any, float]] = {  # weight, activation, the accuracy to reach
    "float": (None, None, 0.96),
    "BNN": (lowbit.BinaryConnect(), lowbit.Sign(), 0.9),
    "BinaryConnect, stochastic": (lowbit.BinaryConnect(stochastic=True), None, 0.85),
    "XNOR": (lowbit.XNOR(), lowbit.XNOR(), 0.9),
    "Bi-Real": (lowbit.BiReal(), lowbit.BiReal(), 0.9),
    "TWN": (lowbit.TWN(), None, 0.95),
    "DeepShift-Q": (lowbit.DeepShiftQ(), lowbit.Fixed(8, 8), 0.95),
    "DeepShift-PS": (lowbit.DeepShiftPS(), lowbit.Fixed(8, 8), 0.9),
    "DoReFa": (lowbit.DoReFa(2), lowbit.DoReFa(2), 0.92),
    "LSQ and PACT": (lowbit.LSQ(3), lowbit.PACT(3), 0.92),
    "Int8": (lowbit.Int8(), lowbit.Int8(), 0.95),
}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("method", METHODS)
def test_straight_through_training(method: str, seed: int) -> None:
    weight, activation, least = METHODS[method]
    retrograd.manual_seed(seed)
    model = network(weight, activation)
    # weights near 0 have random signs: they must reach -1 and 1 before there is anything to learn; shifts are exponents
    rate = {"BinaryConnect, stochastic": 0.1, "DeepShift-PS": 0.03}.get(method, 0.01)
    optimizer = optim.RAdam(model.parameters(), lr=rate)
    (images, labels), (unseen, wanted) = Digits(True).tensors, Digits(False).tensors
    order, losses = np.random.default_rng(seed), []
    for _ in range(6):
        total = 0.0
        for batch in np.array_split(order.permutation(len(images.array)), 23):
            loss = nn.functional.cross_entropy(model(Tensor(images.array[batch])), Tensor(labels.array[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            for array, (low, high) in [(p.array, p.limits) for p in model.parameters() if p.limits is not None]:
                assert low <= array.min() <= array.max() <= high
        losses.append(total / 23)
    assert losses[-1] < 0.4 * losses[0] and losses[-1] < losses[1]
    found = model.eval()(Tensor(unseen.array)).array.argmax(1)
    assert (found == wanted.array).mean() >= least


def test_both_kernel_sets_take_the_same_steps() -> None:
    outcomes = []
    for kernels in ("compiled", "textbook"):
        with use_kernels(kernels):
            retrograd.manual_seed(3)
            model = network(lowbit.XNOR(), lowbit.XNOR()).double()
            optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            images, labels = (t.array[:16] for t in Digits().tensors)
            for _ in range(3):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(Tensor(images.astype(np.float64))), Tensor(labels)).backward()
                optimizer.step()
            outcomes.append([p.array.copy() for p in model.parameters()])
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(one, other, 1e-8, 1e-10)
