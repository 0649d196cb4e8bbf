"""A long sequence in pieces: lengths, and dropout masks shared by all pieces."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils.rnn import pack_padded_sequence, truncated
from retrograd.utils.checkpoint import checkpoint

LENGTHS = [3, 5, 1, 6]  # of 8 steps: nothing is left for the last piece


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape))


def flat(states: Any) -> list[Tensor]:
    return [states] if isinstance(states, Tensor) else [t for state in states for t in flat(state)]


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.array, getattr(theirs, "data", theirs), rtol=1e-9, atol=1e-12)


LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(3, 4, 2, proj_size=2, dtype=np.float64),
    "gru, composed": lambda: nn.GRU(3, 4, 2, layer_norm=True, reset_after=False, dtype=np.float64),
    "segments": lambda: nn.RNN(3, 4, checkpoint=2, dtype=np.float64),
    "residual": lambda: nn.LSTM(3, 3, 2, residual=True, peephole=True, dtype=np.float64),
    "batch first": lambda: nn.GRU(3, 4, 2, batch_first=True, dtype=np.float64),
    "unrolled": lambda: nn.Unroll(nn.ResidualCell(nn.LSTMCell(3, 3, dtype=np.float64)), batch_first=True),
    "convolutional": lambda: nn.ConvGRU1d(3, 2, 3, dtype=np.float64),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_lengths(make: Any) -> None:
    """Values are those of the whole batch, gradients those of each sequence alone."""
    layer = make()
    axis, state_axis = int(layer.batch_first), int(isinstance(layer, nn.RNNBase))
    shape = (8, 4, 3, 5) if hasattr(layer, "kernel_size") else (8, 4, 3)
    x = normal(*shape)
    alone = [Tensor(x.array[:length, n : n + 1]) for n, length in enumerate(LENGTHS)]
    x.array[np.arange(8)[:, None] >= LENGTHS] = np.nan  # whatever stands there
    given = x.transpose(0, 1) if axis else x
    whole, last = layer(given, None, LENGTHS)
    ys, g = [], None
    for y, states in truncated(layer, given, 3, lengths=Tensor(np.array(LENGTHS))):
        g = normal(*y.shape, seed=len(ys)).array
        loss = (y * Tensor(g)).sum()
        loss = loss + sum((s * normal(*s.shape, seed=7)).sum() for s in flat(states))
        loss.backward()
        ys.append(y.array)
    close(whole, np.concatenate(ys, axis))
    for a, b in zip(flat(states), flat(last), strict=True):
        close(a, b)
    found = [p.grad.array.copy() for p in layer.parameters()]
    layer.zero_grad()
    for n, one in enumerate(alone):
        for number, (y, states) in enumerate(truncated(layer, one.transpose(0, 1) if axis else one, 3)):
            steps = y.shape[axis]
            of_piece = normal(*ys[number].shape, seed=number).array.swapaxes(0, axis)[:steps, n : n + 1]
            loss = (y * Tensor(of_piece.swapaxes(0, axis))).sum()
            for s in flat(states):
                many = [*s.shape]
                many[state_axis] = 4
                loss = loss + (s * Tensor(normal(*many, seed=7).array.take([n], state_axis))).sum()
            loss.backward()
    for p, wanted in zip(layer.parameters(), found, strict=True):
        close(p.grad, wanted)


class Twice(nn.Module):
    """One layer that runs on two sequences in every call, as in an encoder of pairs."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, states: Any) -> Any:
        first, second = (None, None) if states is None else states
        y, first = self.layer(x, first)
        z, second = self.layer(x * 2.0, second)
        return y - z, (first, second)


MASKED: dict[str, Any] = {
    "variational": lambda: nn.LSTM(3, 4, 2, variational_dropout=0.5, dtype=np.float64),
    "recurrent": lambda: nn.GRU(3, 4, 2, recurrent_dropout=0.5, dtype=np.float64),
    "both, in segments": lambda: nn.RNN(
        3, 4, variational_dropout=0.3, recurrent_dropout=0.3, checkpoint=2, dtype=np.float64
    ),
    "cell": lambda: nn.Unroll(nn.VariationalDropoutCell(nn.GRUCell(3, 4, dtype=np.float64), 0.4, 0.4, 0.4)),
    "cell with a mask of its own": lambda: nn.Unroll(nn.LSTMCell(3, 4, recurrent_dropout=0.4, dtype=np.float64)),
    "two calls": lambda: Twice(nn.GRU(3, 4, variational_dropout=0.5, recurrent_dropout=0.5, dtype=np.float64)),
    "two calls of a cell": lambda: Twice(
        nn.Unroll(nn.VariationalDropoutCell(nn.LSTMCell(3, 4, dtype=np.float64), 0.4, 0.4, 0.4))
    ),
}


@pytest.mark.parametrize("make", MASKED.values(), ids=MASKED)
def test_masks_are_one_for_the_sequence(make: Any) -> None:
    """With the same seed, the pieces draw the masks of the whole sequence, regardless of computations in between."""
    layer, x = make(), normal(7, 3, 3)
    retrograd.manual_seed(2)
    whole, states = layer(x, None)
    retrograd.manual_seed(2)
    pieces, others = [], truncated(layer, normal(7, 2, 3, seed=1), 3)
    last: Any = None
    for y, last in truncated(layer, x, 3):  # noqa: B007
        pieces.append(y.array)
        layer(x[:, :1], None)  # draws masks of its own
        next(others)
        layer.eval()
        layer(x, None)
        layer.train()
    close(whole, np.concatenate(pieces))
    for a, b in zip(flat(last), flat(states), strict=True):
        close(a, b)
    again = np.concatenate([y.array for y, _ in truncated(layer, x, 3)])
    assert np.abs(again - whole.array).max() > 1e-3  # the next sequence has its own


def test_other_draws_differ_from_step_to_step() -> None:
    layer = nn.RNN(3, 200, zoneout=0.5, dtype=np.float64)
    x, h0 = normal(4, 1, 3), normal(1, 1, 200)
    one, two = (states.array for _, states in truncated(layer, x[:2], 1, h0))
    kept, still = one == h0.array, two == one
    assert 0.3 < kept.mean() < 0.7 and 0.3 < still.mean() < 0.7 and (kept != still).any()


def test_what_a_layer_returns_beside_the_states() -> None:
    layer = nn.LSTM(3, 4, return_cells=True, dtype=np.float64)
    x = normal(5, 2, 3)
    cells = [cells.array for _, _, cells in truncated(layer, x, 2)]
    close(layer(x)[2], np.concatenate(cells))


class Sparing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, variational_dropout=0.5, dtype=np.float64)

    def forward(self, x: Tensor, states: Any) -> Any:
        return checkpoint(self.layer, x, states)


X = normal(4, 2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: truncated(nn.GRU(3, 4), pack_padded_sequence(X, [4, 3]), 2), TypeError, "x is a PackedSequence"),
        (lambda: truncated(nn.GRU(3, 4), X[:0], 2), ValueError, "x.shape=(0, 2, 3) has no steps"),
        (lambda: truncated(nn.GRU(3, 4), X[:, 0], 2, lengths=[4]), ValueError, "lengths need a batch axis, but x"),
        (lambda: truncated(nn.GRU(3, 4), X, 2, lengths=[4]), ValueError, "truncated: lengths.shape=(1,), needs (2,)"),
        (lambda: truncated(nn.GRU(3, 4), X, 2, lengths=[4, 0]), ValueError, "lengths[1]=0; a length must be 1 to 4"),
        (lambda: truncated(nn.GRU(3, 4), X, 2, lengths=[5, 1]), ValueError, "lengths[0]=5; a length must be 1 to 4"),
        (lambda: truncated(nn.GRU(3, 4), X, 2, lengths=[1.0, 2.0]), TypeError, "lengths is float64"),
        (lambda: next(truncated(Sparing(), X, 2)), RuntimeError, "GRU uses one dropout mask for the whole"),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_checkpoint_without_masks_goes() -> None:
    layer = Sparing().eval()
    close(layer.layer(X)[0], np.concatenate([y.array for y, _ in truncated(layer, X, 3)]))
