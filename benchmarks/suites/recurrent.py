"""Recurrent layers: LSTM, GRU and tanh RNN over whole sequences, inference and training steps.

A training step is the forward pass and the gradients of all parameters and of x, from a random upstream gradient to y.
Both libraries have the same weights, and PyTorch gets the layout that it requires, (T, N, I). torch.compile is not
measured, because it breaks the graph at a recurrent layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils import rnn as peer_rnn

import retrograd
from retrograd.nn.utils import rnn

from .. import libraries as lib
from ..harness import Call, Row, Rows
from ..models import CHARACTERS, characters

PEER = "PyTorch"


class Shape(NamedTuple):
    """T steps, N sequences, I inputs, H units, and the target ratio of a training step."""

    steps: int
    batch: int
    inputs: int
    units: int
    goal: float | None = None

    def __str__(self) -> str:
        return f"({self.steps}, {self.batch}, {self.inputs}, {self.units})"


SHAPES = (
    Shape(100, 1, 64, 64, 4.0),
    Shape(100, 16, 64, 64, 2.0),
    Shape(50, 32, 128, 128, 1.4),
    Shape(50, 64, 256, 256, 1.2),
    Shape(30, 32, 512, 512, 1.2),
    Shape(20, 16, 1024, 1024, 1.3),
)
MIDDLE = SHAPES[2]
LONG = Shape(396, 64, 1, 32, 1.0)
MODES = ("LSTM", "GRU", "RNN")
INFERENCE = 1.2  # the target of LSTM inference, for all shapes
VARIANTS: dict[str, dict[str, Any]] = {
    "2 layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "projection to 64": {"proj_size": 64},
}


def rows(quick: bool, compile: bool) -> Rows:
    for shape in SHAPES[1:2] if quick else SHAPES:
        for mode in MODES:
            yield from pair(mode, shape, {})
    for name, options in VARIANTS.items():
        yield from pair("LSTM", MIDDLE, options, name, 1.2)
    for mode in MODES:
        yield _last_step(mode)
    yield from _lengths(MIDDLE)
    yield _characters()


def _layers(mode: str, shape: Shape, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the layer in both libraries, with the same weights."""
    ours, theirs = (getattr(library.nn, mode)(shape.inputs, shape.units, **options) for library in (retrograd, torch))
    theirs.load_state_dict({name: torch.tensor(value.numpy().copy()) for name, value in ours.state_dict().items()})
    return ours, theirs


def pair(mode: str, shape: Shape, options: dict[str, Any], name: str = "", goal: float | None = None) -> Iterator[Row]:
    """Return a row for inference and one for training."""
    ours, theirs = _layers(mode, shape, options)
    data = lib.random(shape.steps, shape.batch, shape.inputs)
    label = f"{mode} {f'{name} ' if name else ''}{shape}"
    x, px = retrograd.Tensor(data.copy(), requires_grad=True), lib.theirs(data, requires_grad=True)
    width = theirs(px)[0].shape[2]
    g = lib.random(shape.steps, shape.batch, width, seed=9)
    read = partial(_read, retrograd.no_grad, ours, x.detach())
    peer_read = partial(_read, torch.no_grad, theirs, px.detach())
    yield Row(
        "recurrent inference",
        label,
        read,
        {PEER: peer_read},
        (goal or INFERENCE) if mode == "LSTM" else None,
        lambda: [(read().numpy(), peer_read().numpy())],
    )
    step = partial(_step, retrograd.autograd.grad, lambda: ours(x)[0], [x, *ours.parameters()], retrograd.Tensor(g))
    peer = partial(_step, torch.autograd.grad, lambda: theirs(px)[0], [px, *theirs.parameters()], torch.tensor(g))
    yield Row("recurrent training", label, step, {PEER: peer}, goal or shape.goal, _gradients(step, peer))


def _last_step(mode: str) -> Row:
    """Return a training step with a loss on the last step only, as for a forecast or a class.

    The gradients decay over many steps, and become denormal numbers unless these are flushed to 0."""
    ours, theirs = _layers(mode, LONG, {})
    data, g = lib.random(*LONG[:3]), lib.random(LONG.batch, LONG.units, seed=9) * np.float32(1e-3)
    x, px = retrograd.Tensor(data.copy(), requires_grad=True), lib.theirs(data, requires_grad=True)
    step = partial(_step, retrograd.autograd.grad, lambda: ours(x)[0][-1], [x, *ours.parameters()], retrograd.Tensor(g))
    peer = partial(_step, torch.autograd.grad, lambda: theirs(px)[0][-1], [px, *theirs.parameters()], torch.tensor(g))
    return Row("recurrent training", f"{mode} last step {LONG}", step, {PEER: peer}, None, _gradients(step, peer))


def _read(no_grad: Any, layer: Any, x: Any) -> Any:
    with no_grad():
        return layer(x)[0]


def _step(grad: Any, forward: Callable[[], Any], inputs: list[Any], g: Any) -> Any:
    return grad(forward(), inputs, g)


def _gradients(ours: Call, theirs: Call) -> Callable[[], list[tuple[np.ndarray, np.ndarray]]]:
    return lambda: [(mine.numpy(), peer.numpy()) for mine, peer in zip(ours(), theirs(), strict=True)]


def _lengths(shape: Shape) -> Iterator[Row]:
    """Return rows with sequences of random lengths.

    They are compared with our own time for sequences padded to the full length (target: at most 1.1 times that), and
    with PyTorch's PackedSequence, without a target."""
    ours, theirs = _layers("LSTM", shape, {})
    data = lib.random(shape.steps, shape.batch, shape.inputs)
    lengths = np.sort(np.random.default_rng(0).integers(1, shape.steps + 1, shape.batch))[::-1].copy()
    lengths[0] = shape.steps
    x, px = retrograd.Tensor(data.copy(), requires_grad=True), lib.theirs(data, requires_grad=True)
    g = lib.random(shape.steps, shape.batch, shape.units, seed=9)
    mine, upstream = [x, *ours.parameters()], retrograd.Tensor(g)

    def packed() -> Any:
        return rnn.pad_packed_sequence(ours(rnn.pack_padded_sequence(x, lengths))[0])[0]

    def peer_packed() -> Any:
        return peer_rnn.pad_packed_sequence(theirs(peer_rnn.pack_padded_sequence(px, torch.tensor(lengths)))[0])[0]

    peer = partial(_step, torch.autograd.grad, peer_packed, [px, *theirs.parameters()], torch.tensor(g))
    padded = partial(_step, retrograd.autograd.grad, lambda: ours(x)[0], mine, upstream)
    for name, forward in (("lengths", lambda: ours(x, lengths=lengths)[0]), ("PackedSequence", packed)):
        step = partial(_step, retrograd.autograd.grad, forward, mine, upstream)
        theirs_of: dict[str, Call] = {"retrograd, all steps": padded, "PackedSequence": peer}
        yield Row(
            "recurrent lengths",
            f"LSTM {name} {shape}",
            step,
            theirs_of,
            1 / 1.1,
            _gradients(step, peer),
            against=("retrograd, all steps",),
        )


def _characters() -> Row:
    """Return a training step, with Adam, of the network of ``retrograd train text``."""
    steps, batch = 64, 16
    codes = np.random.default_rng(0).integers(0, CHARACTERS, (steps, batch))
    target = np.random.default_rng(1).integers(0, CHARACTERS, steps * batch)

    def make(library: Any) -> Call:
        net = characters(library.nn)
        optimizer, loss_of = library.optim.Adam(net.parameters(), lr=1e-4), library.nn.CrossEntropyLoss()
        x, y = library.tensor(codes), library.tensor(target)

        def step() -> Any:
            optimizer.zero_grad()
            loss = loss_of(net(x).reshape(-1, CHARACTERS), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    name = f"characters: Embedding, LSTM 2 layers ({steps}, {batch}, 64, 256), Linear, Adam"
    return Row("recurrent networks", name, make(retrograd), {PEER: make(torch)}, 1.2)
