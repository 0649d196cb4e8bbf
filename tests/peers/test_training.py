"""Optimizers step by step, initial values of layers, and the training of a whole network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.01, "betas": (0.7, 0.9), "eps": 1e-6, "weight_decay": 0.1}),
]

LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Conv1d", (4, 6, 5), {"groups": 2}),
    ("Conv2d", (3, 64, 3), {}),
    ("Conv2d", (8, 8, (3, 5)), {"bias": False, "groups": 4}),
    ("Conv3d", (2, 9, 3), {}),
    ("ConvTranspose1d", (4, 6, 5), {"groups": 2}),
    ("ConvTranspose2d", (16, 8, 4), {"stride": 2, "padding": 1}),
    ("ConvTranspose3d", (2, 4, 3), {}),
    ("Linear", (300, 100), {}),
    ("Linear", (30, 10), {"bias": False}),
    ("BatchNorm1d", (5,), {}),
    ("BatchNorm2d", (5,), {"affine": False}),
    ("BatchNorm3d", (5,), {"track_running_stats": False}),
]

INITIALIZERS: list[tuple[str, dict[str, Any]]] = [
    ("uniform_", {"a": -0.5, "b": 2.0}),
    ("normal_", {"mean": 1.0, "std": 0.5}),
    ("constant_", {"val": 0.25}),
    ("ones_", {}),
    ("zeros_", {}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"nonlinearity": "relu"}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}),
]


def _name(value: Any) -> str:
    return str(value).replace(" ", "")


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=_name)
def test_trajectory(name: str, options: dict[str, Any]) -> None:
    start = [normal(4, 3), normal(3, seed=1), normal(2, 3, 2, 2, seed=2)]
    mine = [retrograd.nn.Parameter(retrograd.tensor(array.copy())) for array in start]
    yours = [torch.nn.Parameter(torch.tensor(array.copy())) for array in start]
    optimizer = getattr(retrograd.optim, name)(mine, **options)
    peer = getattr(torch.optim, name)(yours, **options)
    for step in range(12):
        for index, (p, q) in enumerate(zip(mine, yours, strict=True)):
            gradient = normal(*q.shape, seed=100 * step + index)
            p.grad, q.grad = retrograd.tensor(gradient), torch.tensor(gradient)
        optimizer.step()
        peer.step()
        for index, (p, q) in enumerate(zip(mine, yours, strict=True)):
            assert_close(p, q, f"parameter {index} after step {step}")


@pytest.mark.parametrize(("name", "arguments", "options"), LAYERS, ids=_name)
def test_layer_starts_as_the_peer(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Names, shapes and types of the state; bounds and spread of the values, over many draws."""
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    states = [getattr(retrograd.nn, name)(*arguments, **options).state_dict() for _ in range(200)]
    peers = [getattr(torch.nn, name)(*arguments, **options).state_dict() for _ in range(200)]
    assert list(states[0]) == list(peers[0])
    for key in peers[0]:
        assert states[0][key].shape == tuple(peers[0][key].shape), key
        assert states[0][key].dtype == peers[0][key].numpy().dtype, key
        mine = np.stack([state[key].numpy() for state in states])
        yours = np.stack([state[key].numpy() for state in peers])
        _assert_same_distribution(mine, yours, key)


@pytest.mark.parametrize(("name", "options"), INITIALIZERS, ids=_name)
def test_initializer(name: str, options: dict[str, Any]) -> None:
    shape = (64, 32, 3, 3)
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    mine = getattr(retrograd.nn.init, name)(retrograd.zeros(*shape), **options).numpy()
    yours = getattr(torch.nn.init, name)(torch.zeros(*shape), **options).numpy()
    _assert_same_distribution(mine, yours, name)


def _assert_same_distribution(mine: np.ndarray, yours: np.ndarray, what: str) -> None:
    spread = float(yours.std())
    allowed = 6 * spread / np.sqrt(yours.size) + 1e-7
    assert abs(float(mine.mean()) - float(yours.mean())) <= 2 * allowed, what
    assert abs(float(mine.std()) - spread) <= 2 * allowed, what
    if spread and abs(yours).max() < 1.8 * spread:  # uniform: the bounds are sharp
        assert abs(abs(mine).max() - abs(yours).max()) <= 0.02 * abs(yours).max(), what


def _lenet(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2, bias=False),  # before batch norm its gradient would be rounding noise
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Sigmoid(),
        nn.Linear(84, 10),
    )


@pytest.mark.parametrize(("name", "options"), [OPTIMIZERS[2], OPTIMIZERS[3]], ids=_name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_training_lenet_gives_equal_losses(dtype: Any, name: str, options: dict[str, Any]) -> None:
    retrograd.manual_seed(1)
    options = {**options, "lr": options["lr"] / 10}
    net, peer = _lenet(retrograd.nn), _lenet(torch.nn)
    if dtype is np.float64:
        net, peer = net.double(), peer.double()
    state = net.state_dict()
    assert list(state) == list(peer.state_dict())
    peer.load_state_dict({key: torch.tensor(value.numpy().copy()) for key, value in state.items()})
    optimizer = getattr(retrograd.optim, name)(net.parameters(), **options)
    peer_optimizer = getattr(torch.optim, name)(peer.parameters(), **options)
    labels = np.arange(8) % 10
    losses, peer_losses = [], []
    for step in range(20):
        images = normal(8, 1, 28, 28, seed=step % 4, dtype=dtype)
        optimizer.zero_grad()
        loss = retrograd.nn.functional.cross_entropy(net(retrograd.tensor(images)), retrograd.tensor(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        peer_optimizer.zero_grad()
        peer_loss = torch.nn.functional.cross_entropy(peer(torch.tensor(images)), torch.tensor(labels))
        peer_loss.backward()
        peer_optimizer.step()
        peer_losses.append(peer_loss.item())
    np.testing.assert_allclose(losses, peer_losses, rtol=1e-3 if dtype is np.float32 else 1e-8)
    assert losses[-1] < losses[0]
    for key, value in peer.state_dict().items():
        assert_close(net.state_dict()[key], value, key, tolerance=5e-3 if dtype is np.float32 else 1e-6)


def _binary_network(lib: Any, weights: list[np.ndarray]) -> Any:
    """Two layers that see the signs of their latent weights ``weight.org``, as BinaryNet's code for PyTorch does."""

    class Binary(lib.nn.Linear):  # type: ignore[misc, name-defined]
        def forward(self, input: Any) -> Any:
            if not hasattr(self.weight, "org"):
                self.weight.org = self.weight.data.clone()
            self.weight.data = self.weight.org.sign()
            return super().forward(input)

    first, second = Binary(6, 8, dtype=lib.float64), Binary(8, 4, dtype=lib.float64)
    for layer, weight in zip((first, second), weights, strict=True):
        layer.weight.data.copy_(lib.tensor(weight))
        layer.bias.data.zero_()
    return lib.nn.Sequential(first, lib.nn.Hardtanh(), second)


@pytest.mark.parametrize(("name", "options"), [OPTIMIZERS[1], OPTIMIZERS[3]], ids=_name)
def test_training_of_latent_weights(name: str, options: dict[str, Any]) -> None:
    weights = [normal(8, 6), normal(4, 8)]
    x, labels = normal(12, 6), np.arange(12) % 4
    results = []
    for lib in (retrograd, torch):
        net: Any = _binary_network(lib, weights)
        optimizer = getattr(lib.optim, name)(net.parameters(), **options)
        losses = []
        for _ in range(8):
            loss = lib.nn.functional.cross_entropy(net(lib.tensor(x)), lib.tensor(labels))
            optimizer.zero_grad()
            loss.backward()
            for p in net.parameters():
                if hasattr(p, "org"):
                    p.data.copy_(p.org)
            optimizer.step()
            for p in net.parameters():
                if hasattr(p, "org"):
                    p.org.copy_(p.data.clamp_(-1, 1))
            losses.append(loss.item())
        results.append((losses, [p.org for p in net.parameters() if hasattr(p, "org")]))
    (losses, latent), (expected, latent_there) = results
    np.testing.assert_allclose(losses, expected, rtol=1e-8)
    assert len(latent) == len(latent_there) == 2
    for ours, theirs in zip(latent, latent_there, strict=True):
        assert_close(ours, theirs, "latent weight", tolerance=1e-6)
