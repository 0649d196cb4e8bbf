"""Convolutional recurrent layers and cells against loops over steps, channels and positions."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

import retrograd
from ops.sets import textbook_at_night
from retrograd import nn
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor

LENGTHS = [2, 3]


def normal(*shape: int, seed: int = 0, **options: Any) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape), **options)


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def conv(x: np.ndarray, w: np.ndarray, b: Any, dilation: int) -> np.ndarray:
    """Convolve x (Ci, *I) with w (Co, Ci, *R), tap by tap; the output has the extents of the input."""
    reach = [dilation * (r - 1) for r in w.shape[2:]]
    padded = np.pad(x, [(0, 0), *((r // 2, r - r // 2) for r in reach)])
    y = np.zeros((len(w), *x.shape[1:]))
    for place in itertools.product(*map(range, x.shape[1:])):
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(p + dilation * t for p, t in zip(place, tap, strict=True))
            y[(slice(None), *place)] += w[(slice(None), slice(None), *tap)] @ padded[(slice(None), *at)]
    return y if b is None else y + b.reshape(-1, *(1,) * (x.ndim - 1))


def step(kind: str, module: Any, x: Any, h: Any, c: Any, act: Any) -> tuple[Any, Any]:
    """One step of one sequence."""
    w, r, b, d = (getattr(module, k) for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    b, d = (None if v is None else v.array for v in (b, d))
    of_h = lambda h, rows=slice(None): conv(h, r.array[rows], None if d is None else d[rows], module.state_dilation[0])  # noqa: E731
    ax, ah = conv(x, w.array, b, module.dilation[0]), of_h(h)
    if kind == "RNN":
        return act(ax + ah), c
    if kind == "GRU":
        (xr, xz, xn), (hr, hz, hn) = np.split(ax, 3), np.split(ah, 3)
        reset, z = sigmoid(xr + hr), sigmoid(xz + hz)
        units = len(h)
        n = act(xn + (reset * hn if module.reset_after else of_h(reset * h, slice(2 * units, None))))
        return (1 - z) * n + z * h, c
    i, f, g, o = np.split(ax + ah, 4)
    p = module.weight_ch.array if module.peephole else np.zeros((3, *(1,) * h.ndim))
    c = sigmoid(f + p[1] * c) * c + sigmoid(i + p[0] * c) * act(g)
    return sigmoid(o + p[2] * c) * act(c), c


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("RNN", 1, {}),
    ("RNN", 2, {"activation": "relu", "bias": False}),
    ("RNN", 3, {"kernel_size": (1, 2, 2), "state_kernel_size": (1, 3, 1)}),
    ("LSTM", 1, {"dilation": 2}),
    ("LSTM", 2, {"peephole": True}),
    ("LSTM", 2, {"peephole": (4, 3)}),
    ("LSTM", 1, {"peephole": 4}),
    ("LSTM", 3, {"kernel_size": 1}),
    ("GRU", 1, {"state_dilation": 2}),
    ("GRU", 2, {"reset_after": False}),
    ("GRU", 3, {"kernel_size": 1, "reset_after": False}),
]
ACTS = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}


@pytest.mark.parametrize(("kind", "ndim", "options"), CASES, ids=str)
def test_layers_and_cells(kind: str, ndim: int, options: dict[str, Any]) -> None:
    options = {"kernel_size": 3, **options}
    extents = (4, 3, 2)[:ndim]
    layer = getattr(nn, f"Conv{kind}{ndim}d")(2, 3, **options).double()
    x = normal(3, 2, 2, *extents)
    states = [normal(2, 3, *extents, seed=n) for n in (1, 2)]
    hx: Any = tuple(states) if kind == "LSTM" else states[0]
    act = ACTS[options.get("activation", "tanh")]

    def expected(lengths: list[int], reverse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = np.zeros((3, 2, 3, *extents))
        ends_h, ends_c = [], []
        for n, length in enumerate(lengths):
            h, c = states[0].array[n], states[1].array[n]
            for t in reversed(range(length)) if reverse else range(length):
                h, c = step(kind, layer, x.array[t, n], h, c, act)
                y[t, n] = h
            ends_h.append(h)
            ends_c.append(c)
        return y, np.array(ends_h), np.array(ends_c)

    for reverse, lengths in itertools.product((False, True), (None, LENGTHS)):
        layer.reverse = reverse
        y, end = layer(x, hx, lengths)
        wy, wh, wc = expected(lengths or [3, 3], reverse)
        np.testing.assert_allclose(y.array, wy, rtol=1e-9, atol=1e-12)
        h, c = end if kind == "LSTM" else (end, None)
        np.testing.assert_allclose(h.array, wh, rtol=1e-9, atol=1e-12)
        if c is not None:
            np.testing.assert_allclose(c.array, wc, rtol=1e-9, atol=1e-12)
    layer.reverse, layer.batch_first = False, True
    z, _ = layer(x.transpose(0, 1), hx)
    np.testing.assert_allclose(z.array.swapaxes(0, 1), expected([3, 3], False)[0], rtol=1e-9, atol=1e-12)

    cell = getattr(nn, f"Conv{kind}Cell{ndim}d")(2, 3, **options).double()
    cell.load_state_dict(layer.state_dict())
    y, _ = nn.Unroll(cell)(x, hx)
    np.testing.assert_allclose(y.array, z.array.swapaxes(0, 1), rtol=1e-9, atol=1e-12)
    both, _ = nn.Bidirectional(cell, cell)(x)
    assert both.shape == (3, 2, 6, *extents)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_gradients(kind: str) -> None:
    options = {"GRU": {"reset_after": False}, "LSTM": {"peephole": True}}.get(kind, {})
    layer = getattr(nn, f"Conv{kind}1d")(1, 2, 3, **options).double()
    x = normal(2, 2, 1, 2, requires_grad=True)
    gradcheck(lambda x: layer(x, None, [1, 2])[0], [x])
    gradgradcheck(lambda x: layer(x, None, [1, 2])[0].cos().sum(), [x])


@pytest.mark.parametrize("every", [1, 2, 9, "auto"])
def test_segments_that_are_computed_again(every: Any) -> None:
    """Values and gradients of both orders equal those without checkpoints; an activation may draw."""
    for kind, options in (
        ("LSTM", {"peephole": True}),
        ("GRU", {"reverse": True, "batch_first": True}),
        ("RNN", {"activation": lambda a: nn.functional.rrelu(a, 0.1, 0.9, training=True)}),
    ):
        layer = getattr(nn, f"Conv{kind}1d")(2, 3, 3, **options).double()
        x, h = normal(*((2, 5) if layer.batch_first else (5, 2)), 2, 4, requires_grad=True), normal(2, 3, 4)
        h.requires_grad = True
        hx: Any = (h, normal(2, 3, 4, seed=1)) if kind == "LSTM" else h
        leaves = [x, h, *layer.parameters()]
        found = []
        for layer.checkpoint in (None, every):
            retrograd.manual_seed(1)
            y, state = layer(x, hx, [3, 5])
            last = state[1] if kind == "LSTM" else state
            retrograd.manual_seed(2)
            loss = (y * normal(*y.shape, seed=3)).sum() + (last * normal(*last.shape, seed=4)).sum()
            gs = retrograd.autograd.grad(loss, leaves, create_graph=True)
            seconds = retrograd.autograd.grad(sum((g * g).sum() for g in gs), leaves)
            found.append([y, last, *gs, *seconds])
        for plain, again in zip(*found, strict=True):
            np.testing.assert_allclose(again.array, plain.array, rtol=1e-9, atol=1e-11)


def test_a_state_that_changes_before_its_second_run() -> None:
    layer = nn.ConvLSTM1d(2, 3, 3, checkpoint=2).double()
    h, c = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    y, _ = layer(normal(4, 2, 2, 4), (h, c))
    c.mul_(2.0)
    with pytest.raises(RuntimeError, match="was changed in place after it had been saved"):
        y.sum().backward()


@textbook_at_night
def test_segments_take_memory_like_the_square_root_of_the_steps() -> None:
    layer = nn.ConvLSTM1d(4, 8, 3)

    def peak(steps: int, checkpoint: Any) -> int:
        layer.checkpoint = checkpoint
        x = normal(steps, 4, 4, 200).float()
        tracemalloc.start()
        y, _ = layer(x)
        y[-1].sum().backward()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - 2 * y.array.nbytes

    peak(16, "auto")  # kernels are compiled, and scratch memory is there
    few, many = peak(16, "auto"), peak(64, "auto")
    assert many < 3 * few and many < peak(64, None) / 3


def test_an_activation_with_parameters_is_there_once() -> None:
    layer = nn.ConvGRU1d(1, 2, 3, activation=nn.PReLU())
    names = [name for name, _ in layer.named_parameters()]
    assert [name for name in names if "activation" in name] == ["activation.weight"] and len(names) == 5
    layer(normal(2, 1, 1, 3).float())[0].sum().backward()
    assert layer.activation.weight.grad is not None


def test_padding_makes_the_extents_of_the_state() -> None:
    layer = nn.ConvLSTM2d(1, 2, 3, padding="valid")
    y, (h, c) = layer(normal(2, 1, 1, 5, 4).float())
    assert y.shape == (2, 1, 2, 3, 2) and h.shape == c.shape == (1, 2, 3, 2)
    bound = (2 * 9) ** -0.5
    assert all(np.abs(p.array).max() <= bound for p in layer.parameters())


def test_reprs() -> None:
    assert repr(nn.ConvGRU1d(2, 3, 3)) == "ConvGRU1d(2, 3, kernel_size=(3,))"
    text = repr(nn.ConvLSTMCell2d(2, 3, 3, 1, peephole=True, bias=False, activation="relu"))
    for part in ("state_kernel_size=(1, 1)", "peephole=True", "bias=False", "activation='relu'"):
        assert part in text
    assert "peephole=(4, 5)" in repr(nn.ConvLSTM2d(2, 3, 3, peephole=(4, 5)))
    assert nn.ConvLSTM2d(2, 3, 3, peephole=(4, 5)).weight_ch.shape == (3, 3, 4, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.ConvRNN1d(0, 2, 3), ValueError, "ConvRNN1d: in_channels=0 must be an int of at least 1"),
        (lambda: nn.ConvRNN1d(1, 2, 3, checkpoint=0), ValueError, "ConvRNN1d: checkpoint=0 must be an int of at least"),
        (lambda: nn.ConvRNN1d(1, 2, 2), ValueError, "ConvRNN1d: state_kernel_size=(2,) must be odd"),
        (lambda: nn.ConvRNN2d(1, 2, 3, (3, 4)), ValueError, "state_kernel_size=(3, 4) must be odd"),
        (lambda: nn.ConvRNN1d(1, 2, 3, activation="tan"), ValueError, "activation='tan' must be a function, or one of"),
        (lambda: nn.ConvGRU2d(1, 2, 3)(normal(2, 1, 3, 3)), ValueError, "input.shape=(2, 1, 3, 3) must be (T, N, 1, 2"),
        (lambda: nn.ConvGRUCell2d(1, 2, 3)(normal(2, 3, 3)), ValueError, "input.shape=(2, 3, 3) must be (N, 1, 2"),
        (lambda: nn.ConvGRUCell1d(1, 2, 3)(1), TypeError, "ConvGRUCell1d: input is int, needs a Tensor"),
        (
            lambda: nn.ConvGRUCell1d(1, 2, 3).double()(normal(2, 1, 3), normal(2, 2, 4)),
            ValueError,
            "ConvGRUCell1d: hx.shape=(2, 2, 4) must be (2, 2, 3)",
        ),
        (
            lambda: nn.ConvLSTMCell1d(1, 2, 3).double()(normal(2, 1, 3), (1, 2)),
            TypeError,
            "ConvLSTMCell1d: hx[0] must be a Tensor of shape (2, 2, 3), got int",
        ),
        (
            lambda: nn.ConvLSTM1d(1, 2, 3).double()(normal(4, 2, 1, 3), normal(2, 2, 3)),
            ValueError,
            "ConvLSTM1d: hx must be a pair (h, c), got Tensor",
        ),
        (
            lambda: nn.ConvLSTM1d(1, 2, 3, peephole=4).double()(normal(4, 2, 1, 3)),
            ValueError,
            "ConvLSTM1d: peephole=(4,) must be the state's extents (3,)",
        ),
        (lambda: nn.ConvLSTM2d(1, 2, 3, peephole=(4, 3, 2)), ValueError, "peephole=(4, 3, 2) has 3 entries"),
        (lambda: nn.ConvRNN1d(1, 2, 3).double()(normal(4, 2, 1, 3), None, [1]), ValueError, "lengths.shape=(1,)"),
        (lambda: nn.ConvRNN1d(1, 2, 3).double()(normal(0, 2, 1, 3)), ValueError, "has no steps"),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
