"""The trial that finds the kernels of a first training step leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.kernels.compiled.machine import launch, precompile


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Every first step is tried as if kernels were missing, without helper processes."""
    begun: list[bool] = []
    before = launch.get_num_threads()
    launch.set_num_threads(2)
    monkeypatch.setattr(launch, "is_compiling", lambda: not begun.append(True))
    monkeypatch.setattr(precompile, "_start", lambda: None)
    yield begun
    launch.set_num_threads(before)


def _trained(compiled: bool) -> list[Any]:
    rg.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = optim.Adam(net.parameters(), 0.01)
    seen: list[int] = []

    def step(x: rg.Tensor) -> rg.Tensor:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        seen.append(1)
        return loss

    call = rg.compile(step) if compiled else step
    x = rg.randn(6, 5)
    losses = [call(x).item() for _ in range(4)]
    states = [value for entries in optimizer.state.values() for value in entries.values()]
    numbers = [value.numpy() if isinstance(value, rg.Tensor) else np.array(value) for value in states]
    arrays = [*numbers, *(value.numpy() for value in net.state_dict().values()), rg.rand(2).numpy()]
    return [losses, len(seen), *(array.tobytes() for array in arrays)]


def test_steps_are_those_of_eager_mode(trials: list[bool]) -> None:
    assert _trained(True) == _trained(False)
    assert trials


def test_an_error_is_raised_by_the_call(trials: list[bool]) -> None:
    weight = nn.Parameter(rg.ones(3))
    optimizer = optim.SGD([weight], 0.1)
    calls: list[int] = []

    def step(x: rg.Tensor) -> rg.Tensor:
        calls.append(1)
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    call = rg.compile(step)
    with pytest.raises(ValueError, match="shape"):
        call(rg.ones(4))
    assert trials and len(calls) == 1 and weight.grad is None and not launch.waiting
    np.testing.assert_array_equal(weight.detach().numpy(), [1, 1, 1])
    call(rg.ones(3))
    np.testing.assert_allclose(weight.detach().numpy(), [0.9] * 3, rtol=1e-6)
