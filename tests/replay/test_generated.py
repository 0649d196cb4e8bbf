"""Recorded calls of random networks: the bits of eager mode; of frozen networks, errors like those of eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits_but_nan
from generated_networks import Network
from retrograd import nn, optim
from retrograd.engine import fusion
from retrograd.nn.compilation import explain_recording

DAY, NIGHT = 30, 500
SEEDS = [pytest.param(seed, marks=() if seed < DAY else pytest.mark.nightly) for seed in range(NIGHT)]


def flat(result: Any) -> list[rg.Tensor]:
    return [*result.values()] if isinstance(result, dict) else [*result]


def is_recorded(explained: str) -> bool:
    """Whether there is a recording, or none because an operator decides by values, such as ``prod`` with a factor 0."""
    return any(text in explained for text in ("launches", "has changed a parameter", "steps depends on values"))


def rows(net: nn.Module, call: Any, seed: int, backward: bool) -> list[bytes]:
    """The bits of three calls: results, gradients, parameters, buffers and the next random number."""
    found: list[bytes] = []
    rg.manual_seed(seed)
    for turn in range(3):
        inputs = net.inputs(seed + 1000 * turn)
        draw = np.random.default_rng(seed + turn)
        for x in inputs[:2]:
            x.requires_grad_(backward)
        with rg.set_grad_enabled(backward):
            results = flat(call(*inputs, factor=0.5))
        found += [row for y in results for row in bits_but_nan(y.detach().numpy())]
        trained = [y for y in results if y.requires_grad]
        if trained:
            upstream = [rg.Tensor(draw.standard_normal(y.shape, dtype=np.float32)) for y in trained]
            rg.autograd.backward(trained, upstream)
        grads = [x.grad for x in (*inputs, *net.parameters())]
        found += [b"" if g is None else bits_but_nan(g.numpy())[0] for g in grads]
        found += [bits_but_nan(buffer.numpy())[0] for buffer in net.buffers()]
        with rg.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.9)
        found += bits_but_nan(rg.rand(2).numpy())
    return found


@pytest.fixture(autouse=True)
def short_chains(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile kernels for chains of any length, with every fourth network by day."""
    seed = request.node.callspec.params["seed"]
    if seed % 4 == 0 or seed >= DAY:
        monkeypatch.setattr(fusion, "LEAST_GAIN", 0.0)
        monkeypatch.setattr(fusion, "FAR", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_networks(seed: int) -> None:
    net = Network(seed)
    other = copy.deepcopy(net)
    compiled = rg.compile(other)
    for training, backward in ((True, True), (False, False), (False, True), (True, False)):
        net.train(training), other.train(training)
        net.zero_grad(), other.zero_grad()
        wanted = rows(net, net, seed, backward)
        assert rows(other, compiled, seed, backward) == wanted, (training, backward)
        assert is_recorded(explain_recording(compiled)), explain_recording(compiled)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_frozen_networks(seed: int) -> None:
    net = Network(seed).eval()
    wide = copy.deepcopy(net).double()
    frozen = net.freeze()
    with rg.no_grad():
        for turn in range(3):
            inputs = net.inputs(seed + 1000 * turn, batch=turn // 2)
            wanted = flat(wide(*[x.double() if x.dtype.kind == "f" else x for x in inputs]))
            for y, usual, exact in zip(flat(frozen(*inputs)), flat(net(*inputs)), wanted, strict=True):
                error, bound = (np.abs(each.numpy() - exact.numpy()).max() for each in (y, usual))
                assert error <= 4 * bound + 1e-5 * max(1.0, np.abs(exact.numpy()).max())


OPTIMIZERS: list[Callable[[Any], optim.Optimizer]] = [
    lambda parameters: optim.SGD(parameters, 0.01, momentum=0.9),
    lambda parameters: optim.AdamW(parameters, 0.001),
    lambda parameters: optim.RMSprop(parameters, 0.001),
    lambda parameters: optim.Adagrad(parameters, 0.01),
]


def trained(seed: int, compiled: bool) -> tuple[list[bytes], str]:
    """The bits of five training steps: losses, parameters, gradients and buffers; and what was recorded."""
    net = Network(seed)
    optimizer = OPTIMIZERS[seed % 4]([*net.parameters(), nn.Parameter(rg.ones(1))])

    def step(image: rg.Tensor, sequence: rg.Tensor, codes: rg.Tensor) -> rg.Tensor:
        optimizer.zero_grad()
        loss = rg.zeros(1)
        for y in flat(net(image, sequence, codes)):
            loss = loss + (y * y).mean()
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
        return loss

    call = rg.compile(step) if compiled else step
    rg.manual_seed(seed)
    found: list[bytes] = []
    for turn in range(5):
        found += bits_but_nan(call(*net.inputs(seed + 100 * turn)).detach().numpy())
        grads = [parameter.grad for parameter in net.parameters()]
        found += [b"" if g is None else bits_but_nan(g.numpy())[0] for g in grads]
        found += [bits_but_nan(value.numpy())[0] for value in net.state_dict().values()]
    return found + bits_but_nan(rg.rand(2).numpy()), explain_recording(call) if compiled else ""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_training_steps(seed: int) -> None:
    wanted, _ = trained(seed, False)
    found, recorded = trained(seed, True)
    assert found == wanted
    assert is_recorded(recorded), recorded
