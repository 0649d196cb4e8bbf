"""Per-sample gradients of recurrent layers and cells against a loop over the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils import per_sample_gradients
from retrograd.nn.utils.rnn import pack_padded_sequence


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape))


class Network(nn.Module):
    """A loss of every sample from a layer's output, its states and its cells."""

    def __init__(self, layer: nn.Module, axis: int, state_axis: int, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.layer, self.axes, self.args, self.kwargs = layer, (axis, state_axis), args, kwargs

    def forward(self, x: Tensor) -> Tensor:
        y, states, *cells = self.layer(x, *self.args, **self.kwargs)
        states = [states] if isinstance(states, Tensor) else list(states)
        total: Any = 0
        of_steps, of_states = self.axes
        parts = [(y, of_steps), *((state, of_states) for state in states), *((c, of_steps) for c in cells)]
        for seed, (t, axis) in enumerate(parts):
            weighted = t * normal(*t.shape, seed=seed)
            total = total + weighted.transpose(0, axis).reshape(t.shape[axis], -1).sum(1)
        return total


def agree(module: nn.Module, x: Tensor, axis: int) -> None:
    """Each row is the gradient of one sample's loss, and their sum is the batch's."""
    found = per_sample_gradients(module, lambda: module(x))
    count = x.shape[axis]
    for n in range(count):
        module.zero_grad()
        module(x)[n].backward()
        for name, p in module.named_parameters():
            np.testing.assert_allclose(found[name].array[n], p.grad.array, rtol=1e-8, atol=1e-11, err_msg=name)
    module.zero_grad()
    with per_sample_gradients(module):
        module(x).sum().backward()
    for p in module.parameters():
        np.testing.assert_allclose(p.grad_sample.array.sum(0), p.grad.array, rtol=1e-8, atol=1e-11)


@pytest.mark.pairwise
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layers(kind: str, first: bool) -> None:
    options: dict[str, Any] = {"return_cells": True, "peephole": True} if kind == "LSTM" else {}
    layer = getattr(nn, kind)(2, 3, 2, bidirectional=True, batch_first=first, **options, dtype=np.float64)
    h = normal(4, 3, 3)
    hx = (h, normal(4, 3, 3, seed=1)) if kind == "LSTM" else h
    x = normal(3, 5, 2) if first else normal(5, 3, 2)
    agree(Network(layer, 0 if first else 1, 1, hx, lengths=[5, 2, 3]), x, 0 if first else 1)
    agree(Network(layer, 0 if first else 1, 1), x, 0 if first else 1)


def test_cells_inside_a_loop() -> None:
    for cell in (nn.LSTMCell(2, 3, dtype=np.float64), nn.GRUCell(2, 3, dtype=np.float64)):
        agree(Network(nn.Unroll(cell), 1, 0, None, [5, 2, 3]), normal(5, 3, 2), 1)


CONVOLUTIONAL: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("LSTM", {"peephole": True}),
    ("LSTM", {"peephole": 4, "batch_first": True}),
    ("GRU", {"reset_after": False, "reverse": True}),
]


@pytest.mark.parametrize(("kind", "options"), CONVOLUTIONAL, ids=str)
def test_convolutional_layers_and_cells(kind: str, options: dict[str, Any]) -> None:
    """y is made of the states and h of c: each output counts once."""
    layer = getattr(nn, f"Conv{kind}1d")(1, 2, 3, **options).double()
    axis, h = int(not layer.batch_first), normal(3, 2, 4)
    hx = (h, normal(3, 2, 4, seed=1)) if kind == "LSTM" else h
    for lengths in (None, [2, 1, 2]):
        x = normal(2, 3, 1, 4) if axis else normal(3, 2, 1, 4)
        agree(Network(layer, axis, 0, hx=hx, lengths=lengths), x, axis)
    own = {key: value for key, value in options.items() if key in ("peephole", "reset_after")}
    cell = getattr(nn, f"Conv{kind}Cell1d")(1, 2, 3, **own).double()

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, x: Tensor) -> Tensor:
            state = self.cell(x, hx)
            parts: Any = [state] if isinstance(state, Tensor) else state
            return sum((t * normal(3, 2, 4, seed=n)).sum((1, 2)) for n, t in enumerate(parts))  # type: ignore[return-value]

    agree(Step(), normal(3, 1, 4), 0)


def test_refusals() -> None:
    layer = nn.GRU(2, 3, 2, dropout=0.5)
    with pytest.raises(ValueError, match="draws random numbers for dropout in training, which cannot be repeated"):
        per_sample_gradients(layer, lambda: layer(normal(4, 3, 2).float())[0].sum((0, 2)))
    cell = nn.GRUCell(2, 3, zoneout=0.1)
    with pytest.raises(ValueError, match="draws random numbers for zoneout in training"):
        per_sample_gradients(cell, lambda: cell(normal(4, 2).float()).sum(1))
    layer.eval()
    found = per_sample_gradients(layer, lambda: layer(normal(4, 3, 2).float())[0].sum((0, 2)))
    assert found["bias_hh_l0"].shape == (3, 9)
    packed = pack_padded_sequence(normal(4, 3, 2).float(), [4, 2, 1])
    with pytest.raises(ValueError, match="was called with a PackedSequence, which has no batch axis"):
        per_sample_gradients(layer, lambda: layer(packed)[1].sum((0, 2)))
    with pytest.raises(ValueError, match="was called without a batch axis"):
        per_sample_gradients(layer, lambda: layer(normal(4, 2).float())[0].sum(1))
