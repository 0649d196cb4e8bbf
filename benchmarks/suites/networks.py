"""Whole networks: training steps and inference, a spiking network, and training on mnist5k.

A training step is forward, loss, backward and optimizer. The training on mnist5k is that of a typical script: batches
of 64 from each library's own loader, the network of ``retrograd train mnist5k``, Adam.

The target is for eager mode on both sides, as a user writes it, PyTorch with contiguous or channels-last arrays; the
``compile`` of both libraries is measured too. The step of the spiking network is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

import retrograd
from retrograd.data import DataLoader, MNIST5k

from .. import libraries as lib
from ..harness import Call, Result, Row, Rows, summary
from ..models import NETWORKS, Workload, mnist, spiking

TRAINING, INFERENCE = "networks: training", "networks: inference"
SCRIPT, SPIKING = "networks: script", "networks: spiking"
TARGETS = {SCRIPT: 2.0, SPIKING: 3.0}
MEANS = {  # targets of the geometric means
    TRAINING: {"": 1.5, "avx2": 1.5},
    INFERENCE: {"": 1.2, "avx2": 1.2},
}
REPLAYED, FROZEN = "retrograd, compiled", "retrograd, frozen"
LAYOUTS = (lib.CONTIGUOUS, lib.CHANNELS_LAST)


def rows(quick: bool, compile: bool) -> Rows:
    compile = compile and lib.can_compile() and not quick
    for name, work in list(NETWORKS.items())[: 2 if quick else None]:
        yield from _rows(name, work, compile)
    yield _spiking()
    yield _script()


def summaries(found: list[Result], threads: int, level: str) -> Iterator[Result]:
    """Yield the geometric means of training and of inference."""
    for group, goals in MEANS.items():
        some = [result for result in found if result.group == group]
        yield from summary(group, some, threads, goals[level], geometric_mean)


def _rows(name: str, work: Workload, compile: bool) -> Rows:
    """Yield a row for training and one for inference."""
    retrograd.manual_seed(0)
    data, labels = work.batch(1)
    net = work.make(retrograd.nn)
    state = {key: tensor.numpy().copy() for key, tensor in net.state_dict().items()}
    layouts = LAYOUTS if data.ndim == 4 else LAYOUTS[:1]
    x, y = retrograd.Tensor(data), retrograd.Tensor(labels)
    ours = _step(retrograd, work, net, x, y)
    theirs = {layout: _peer(work, data, labels, state, layout) for layout in layouts}
    theirs[REPLAYED] = retrograd.compile(_step(retrograd, work, _copy(work, state), x, y))
    if compile:
        theirs[lib.COMPILED] = _peer(work, data, labels, state, lib.CONTIGUOUS, compile=True)

    def losses() -> list[tuple[np.ndarray, np.ndarray]]:
        # the losses of three steps agree only if forward, backward and optimizer do
        return [(_losses(ours), _losses(theirs[lib.CONTIGUOUS]))]

    yield Row(TRAINING, name, ours, theirs, 1.0, losses if work.same else None, against=layouts)

    still = _copy(work, state)
    read = _inference(retrograd, still, x)
    peers = {layout: _peer_inference(work, data, state, layout) for layout in layouts}
    peers[REPLAYED] = _inference(retrograd, retrograd.compile(still), x)
    peers[FROZEN] = partial(still.freeze(), x)
    if compile:
        peers[lib.COMPILED] = _peer_inference(work, data, state, lib.CONTIGUOUS, compile=True)

    def scores() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(read().numpy(), peers[lib.CONTIGUOUS]().numpy())]

    yield Row(INFERENCE, name, read, peers, 1.0, scores, against=layouts)


def _copy(work: Workload, state: dict[str, np.ndarray]) -> Any:
    net = work.make(retrograd.nn)
    net.load_state_dict({key: retrograd.Tensor(array.copy()) for key, array in state.items()})
    return net


def _losses(step: Call) -> np.ndarray:
    return np.array([step().item() for _ in range(3)])


def _step(library: Any, work: Workload, net: Any, x: Any, y: Any, compile: bool = False) -> Call:
    optimizer, functional = work.optimizer(library.optim, net.parameters()), library.nn.functional

    def forward() -> Any:
        return work.loss(functional, net(x), y)

    compiled = lib.compiled(forward) if compile else None

    def step() -> Any:
        optimizer.zero_grad()
        loss = work.loss(functional, net(x), y) if compiled is None else compiled()
        loss.backward()
        optimizer.step()
        return loss

    return step


def _inference(library: Any, net: Any, x: Any) -> Call:
    net.eval()

    def read() -> Any:
        with library.no_grad():
            return net(x)

    return read


def _peer_network(work: Workload, state: dict[str, np.ndarray], layout: str) -> Any:
    net = work.make(torch.nn)
    net.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    return net.to(memory_format=torch.channels_last) if layout == lib.CHANNELS_LAST else net


def _peer(
    work: Workload, data: np.ndarray, labels: np.ndarray, state: dict[str, np.ndarray], layout: str, **options: bool
) -> Call:
    net = _peer_network(work, state, layout)
    return _step(torch, work, net, lib.theirs(data, layout), torch.tensor(labels), **options)


def _peer_inference(
    work: Workload, data: np.ndarray, state: dict[str, np.ndarray], layout: str, compile: bool = False
) -> Call:
    net = _peer_network(work, state, layout)
    return _inference(torch, lib.compiled(net) if compile else net, lib.theirs(data, layout))


# ---- spiking neurons -------------------------------------------------------------------------------------------------


def _spiking() -> Row:
    """Return a recorded training step: 20 steps of 784-128-10 leaky integrate-and-fire neurons."""
    steps, samples = 20, 64
    rng = np.random.default_rng(0)
    data = (rng.random((steps, samples, 784)) < 0.2).astype(np.float32)
    labels = rng.integers(0, 10, samples)
    retrograd.manual_seed(0)
    unrolled = retrograd.nn.Unroll(retrograd.rules.LIFCell(decay=0.9))
    net, peer = spiking(retrograd.nn, lambda x: unrolled(x)[0]), spiking(torch.nn, _torch_neurons)
    peer.load_state_dict({name: torch.tensor(tensor.numpy()) for name, tensor in net.state_dict().items()})
    ours = retrograd.compile(_spiking_step(retrograd, net, retrograd.Tensor(data), retrograd.Tensor(labels)))
    theirs = _spiking_step(torch, peer, torch.tensor(data), torch.tensor(labels))

    def losses() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(_losses(ours), _losses(theirs))]

    name = f"784-128-10, {steps} steps, batch {samples}, recorded"
    return Row(SPIKING, name, ours, {"custom autograd.Function": theirs}, TARGETS[SPIKING], losses)


def _spiking_step(library: Any, net: Any, x: Any, y: Any) -> Call:
    optimizer = library.optim.Adam(net.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class _TorchSpike(torch.autograd.Function):
    """A spike whose gradient is that of ``FastSigmoid(slope=25)``."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x >= 0).float()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g / (1 + 25 * x.abs()) ** 2


def _torch_neurons(x: Any) -> Any:
    """The formula of ``LIFCell(decay=0.9)`` for x (T, N, C)."""
    v, spikes = 0.0, []
    for part in x.unbind(0):
        v = 0.9 * v + part
        spikes.append(_TorchSpike.apply(v - 1.0))
        v = v - spikes[-1].detach()
    return torch.stack(spikes)


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
        SCRIPT,
        "mnist5k training, 64 images from the loader",
        _script_step(retrograd, net, DataLoader(data, 64, shuffle=True)),
        {
            layout: _script_step(torch, peer, torch.utils.data.DataLoader(pairs, 64, shuffle=True))
            for layout, peer in peers.items()
        },
        TARGETS[SCRIPT],
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
