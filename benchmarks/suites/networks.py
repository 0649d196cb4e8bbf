"""Training steps of LeNet on 28×28 images, and training on mnist5k.

A LeNet step is forward, loss, backward and SGD with momentum. The training on mnist5k is that of a typical script:
batches of 64 from each library's own loader, the network of ``retrograd train mnist5k``, Adam.

The target is against PyTorch eager as a user writes it; its fused optimizer and torch.compile are measured too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import retrograd
from retrograd.data import DataLoader, MNIST5k

from .. import libraries as lib
from ..harness import Call, Row, Rows
from ..models import lenet, mnist

TARGET = 2.0
FUSED = "fused SGD"


def rows(quick: bool, compile: bool) -> Rows:
    for batch in (16,) if quick else (1, 16, 64):
        yield _row(batch, compile and lib.can_compile() and not quick)
    yield _script()


def _row(batch: int, compile: bool) -> Row:
    retrograd.manual_seed(0)
    images = lib.random(batch, 1, 28, 28)
    labels = np.arange(batch, dtype=np.int64) % 10
    net = lenet(retrograd.nn)
    state = {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}
    theirs = {layout: _peer_step(images, labels, state, layout) for layout in (lib.CONTIGUOUS, lib.CHANNELS_LAST)}
    theirs[FUSED] = _peer_step(images, labels, state, lib.CONTIGUOUS, fused=True)
    if compile:
        theirs[lib.COMPILED] = _peer_step(images, labels, state, lib.CONTIGUOUS, compile=True)
    ours = _step(net, retrograd.Tensor(images), retrograd.Tensor(labels))

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        # the losses of three steps agree only if forward, backward and optimizer do
        return [(_losses(ours), _losses(theirs[lib.CONTIGUOUS]))]

    against = (lib.CONTIGUOUS, lib.CHANNELS_LAST)
    return Row("networks", f"LeNet training step, batch {batch}", ours, theirs, TARGET, values, against=against)


def _losses(step: Call) -> np.ndarray:
    return np.array([step().item() for _ in range(3)])


def _step(net: Any, x: Any, y: Any) -> Call:
    loss_of = retrograd.nn.CrossEntropyLoss()
    optimizer = retrograd.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _peer_step(
    images: np.ndarray,
    labels: np.ndarray,
    state: dict[str, np.ndarray],
    layout: str,
    fused: bool = False,
    compile: bool = False,
) -> Call:
    net = lenet(torch.nn)
    net.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    if layout == lib.CHANNELS_LAST:
        net = net.to(memory_format=torch.channels_last)
    x, y = lib.theirs(images, layout), torch.tensor(labels)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=fused or None)

    def forward() -> Any:
        return loss_of(net(x), y)

    forward = lib.compiled(forward) if compile else forward

    def step() -> Any:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss

    return step


# ---- mnist5k -------------------------------------------------------------------------------------------------------


def _script() -> Row:
    retrograd.manual_seed(0)
    net, data = mnist(retrograd.nn), MNIST5k()
    state = {name: torch.tensor(tensor.numpy()) for name, tensor in net.state_dict().items()}
    peers = {}
    for layout in (lib.CONTIGUOUS, lib.CHANNELS_LAST):
        peer = mnist(torch.nn)
        peer.load_state_dict(state)
        peers[layout] = peer.to(memory_format=torch.channels_last) if layout == lib.CHANNELS_LAST else peer
    images, labels = (tensor.numpy() for tensor in data.tensors)
    pairs = torch.utils.data.TensorDataset(torch.tensor(images), torch.tensor(labels))

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        peer, some = peers[lib.CONTIGUOUS], images[:64]
        ours, theirs = net.eval()(retrograd.Tensor(some)), peer.eval()(torch.tensor(some))
        net.train(), peer.train()
        return [(ours.detach().numpy(), theirs.detach().numpy())]

    return Row(
        "networks",
        "mnist5k training, 64 images from the loader",
        _script_step(retrograd, net, DataLoader(data, 64, shuffle=True)),
        {
            layout: _script_step(torch, peer, torch.utils.data.DataLoader(pairs, 64, shuffle=True))
            for layout, peer in peers.items()
        },
        TARGET,
        values,
    )


def _script_step(library: Any, net: Any, loader: Any) -> Call:
    loss_of = library.nn.CrossEntropyLoss()
    optimizer = library.optim.Adam(net.parameters(), lr=0.003)
    batches = _for_ever(loader)

    def step() -> Any:
        x, y = next(batches)
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _for_ever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader
