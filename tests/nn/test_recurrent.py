"""RNN, LSTM and GRU: combinations of layers, directions, states and input forms, against loops in NumPy.

tests/ops/recurrent tests the equations with all options; tests/peers compares with PyTorch.
"""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, truncated

KINDS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
LENGTHS = [3, 5, 1, 2]


def normal(*shape: int, seed: int = 0, **options: Any) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape), **options)


def made(kind: str, *sizes: Any, **options: Any) -> Any:
    retrograd.manual_seed(1)
    return KINDS[kind](*sizes, dtype=np.float64, **options)


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def step(kind: str, w: dict[str, np.ndarray], end: str, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """One step of one sequence, by PyTorch's equations."""
    ax = w["weight_ih" + end] @ x + w.get("bias_ih" + end, 0)
    ah = w["weight_hh" + end] @ h + w.get("bias_hh" + end, 0)
    if kind == "RNN":
        return np.tanh(ax + ah), c
    if kind == "GRU":
        (xr, xz, xn), (hr, hz, hn) = np.split(ax, 3), np.split(ah, 3)
        z = sigmoid(xz + hz)
        return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h, c
    i, f, g, o = np.split(ax + ah, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (w["weight_hr" + end] @ h if "weight_hr" + end in w else h), c


def expected(kind: str, layer: Any, x: np.ndarray, h0: Any = None, c0: Any = None, lengths: Any = None) -> Any:
    """y (T, N, D*O), h (L*D, N, O), c (L*D, N, H) and the last layer's cells, sequence by sequence."""
    w = {key: value.array for key, value in layer.state_dict().items()}
    steps, count, _ = x.shape
    hn, cn, cells = [], [], []
    for number in range(layer.num_layers):
        ys, cells = [], []
        for end in (f"_l{number}", f"_l{number}_reverse")[: 1 + layer.bidirectional]:
            units = w["weight_hh" + end].shape[0] // {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
            out = w["weight_hh" + end].shape[1]
            y, all_c = np.zeros((steps, count, out)), np.zeros((steps, count, units))
            last_h, last_c = np.zeros((count, out)), np.zeros((count, units))
            for n in range(count):
                h = np.zeros(out) if h0 is None else h0[len(hn)][n]
                c = np.zeros(units) if c0 is None else c0[len(hn)][n]
                order = range(steps if lengths is None else lengths[n])
                for t in reversed(order) if "reverse" in end else order:
                    h, c = step(kind, w, end, x[t, n], h, c)
                    y[t, n], all_c[t, n] = h, c
                last_h[n], last_c[n] = h, c
            ys.append(y)
            cells.append(all_c)
            hn.append(last_h)
            cn.append(last_c)
        x = np.concatenate(ys, -1)
    return x, hn, cn, np.concatenate(cells, -1)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.array, np.asarray(theirs), rtol=1e-9, atol=1e-12)


STACKS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 3, "bidirectional": True},
    {"bias": False, "num_layers": 2},
]


@pytest.mark.pairwise
@pytest.mark.parametrize("options", STACKS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["zeros", "states", "lengths"])
def test_layers_and_directions(kind: str, options: dict[str, Any], form: str) -> None:
    layer = made(kind, 3, 5, **options)
    rows = layer.num_layers * (1 + layer.bidirectional)
    x, h0, c0 = normal(5, 4, 3), normal(rows, 4, 5, seed=1), normal(rows, 4, 5, seed=2)
    hx = None if form == "zeros" else (h0, c0) if kind == "LSTM" else h0
    lengths = LENGTHS if form == "lengths" else None
    if lengths:
        beyond = np.arange(5)[:, None] >= lengths
        x.array[beyond] = np.nan  # whatever stands there
    y, states = layer(x, hx, lengths)
    h, c = states if kind == "LSTM" else (states, None)
    clean = np.nan_to_num(x.array)
    wy, wh, wc, _ = expected(kind, layer, clean, *(() if hx is None else (h0.array, c0.array)), lengths=lengths)
    close(y, wy)
    close(h, wh)
    if c is not None:
        close(c, wc)


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_input_agree(kind: str) -> None:
    """batch_first, an unbatched sequence, and a PackedSequence."""
    layer = made(kind, 3, 4, 2, bidirectional=True)
    x, hx = normal(5, 4, 3), normal(4, 4, 4, seed=1)
    hx = (hx, normal(4, 4, 4, seed=2)) if kind == "LSTM" else hx
    pick = lambda states, n: tuple(s[:, n] for s in states) if kind == "LSTM" else states[:, n]  # noqa: E731
    flat = lambda states: list(states) if kind == "LSTM" else [states]  # noqa: E731
    y, states = layer(x, hx)
    first = copy.deepcopy(layer)
    first.batch_first = True
    z, others = first(x.transpose(0, 1), hx)
    close(z.transpose(0, 1), y.array)
    for a, b in zip(flat(states), flat(others), strict=True):
        close(a, b.array)
    for module in (layer, first):
        z, others = module(x[:, 2], pick(hx, 2))
        close(z, y.array[:, 2])
        for a, b in zip(flat(pick(states, 2)), flat(others), strict=True):
            close(a, b.array)

    y, states = layer(x, hx, Tensor(np.array(LENGTHS)))
    for enforce_sorted in (False, True):
        order = np.argsort([-n for n in LENGTHS], kind="stable") if enforce_sorted else np.arange(4)
        sorted_x = Tensor(x.array[:, order])
        packed = pack_padded_sequence(sorted_x, [LENGTHS[n] for n in order], enforce_sorted=enforce_sorted)
        sorted_hx = pick(hx, order.tolist())
        z, others = layer(packed, sorted_hx)
        assert z.batch_sizes.tolist() == packed.batch_sizes.tolist()
        padded, lengths = pad_packed_sequence(z)
        close(padded, y.array[:, order])
        for a, b in zip(flat(pick(states, order.tolist())), flat(others), strict=True):
            close(a, b.array)
    whole = pack_padded_sequence(x, [5] * 4)
    close(pad_packed_sequence(layer(whole, hx)[0])[0], layer(x, hx)[0].array)


def test_projection_and_cells() -> None:
    layer = made("LSTM", 3, 5, 2, bidirectional=True, proj_size=2, return_cells=True)
    x, h0, c0 = normal(5, 4, 3), normal(4, 4, 2), normal(4, 4, 5)
    y, (h, c), cells = layer(x, (h0, c0), LENGTHS)
    wanted = expected("LSTM", layer, x.array, h0.array, c0.array, LENGTHS)
    for mine, theirs in zip((y, h, c, cells), wanted, strict=True):
        close(mine, theirs)
    assert layer.weight_hr_l1_reverse.shape == (2, 5)
    layer.return_states = False
    y, cells = layer(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    assert y.data.shape == (11, 4) and cells.data.shape == (11, 10)
    layer.return_cells = False
    assert isinstance(layer(x), Tensor)


def test_widths_that_differ() -> None:
    layer = made("LSTM", 3, [4, 6, 5], 3, bidirectional=True, proj_size=[0, 2, 0])
    x = normal(5, 4, 3)
    h0 = tuple(normal(2, 4, n, seed=n) for n in (4, 2, 5))
    c0 = tuple(normal(2, 4, n, seed=n) for n in (4, 6, 5))
    y, (h, c) = layer(x, (h0, c0))
    rows_h, rows_c = ([row for part in state for row in part.array] for state in (h0, c0))
    wy, wh, wc, _ = expected("LSTM", layer, x.array, rows_h, rows_c)
    close(y, wy)
    for number in range(3):
        close(h[number], wh[2 * number : 2 * number + 2])
        close(c[number], wc[2 * number : 2 * number + 2])
    _, (h, c) = layer(x[:, 0], tuple(tuple(s[:, 0] for s in part) for part in (h0, c0)))
    close(h[1], np.stack(wh[2:4])[:, 0])
    assert layer.hidden_size == [4, 6, 5] and "LSTM(3, [4, 6, 5], proj_size=[0, 2, 0]" in repr(layer)


def test_residual() -> None:
    layer = made("GRU", 6, 3, 2, bidirectional=True)
    single = [made("GRU", 6, 3, bidirectional=True) for _ in range(2)]
    for number, one in enumerate(single):
        one.load_state_dict({k.replace("l1", "l0"): v for k, v in layer.state_dict().items() if f"l{number}" in k})
    x = normal(5, 4, 6)
    below, h0 = single[0](x)
    above, h1 = single[1](below + x)
    layer.residual = True
    y, h = layer(x)
    close(y, (above + below + x).array)
    close(h, np.concatenate([h0.array, h1.array]))
    y, _ = layer(x, lengths=LENGTHS)
    assert not y.array[np.arange(5)[:, None] >= LENGTHS].any()


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {"clip": (-0.1, 0.2)}),
    ("LSTM", {"coupled": True}),
    ("LSTM", {"peephole": True}),
    ("LSTM", {"layer_norm": True}),
    ("LSTM", {"zoneout": 0.3}),
    ("LSTM", {"zoneout": (0.3, 0.0)}),
    ("LSTM", {"recurrent_dropout": 0.4}),
    ("LSTM", {"variational_dropout": 0.4}),
    ("LSTM", {"forget_bias": 3.0}),
    ("LSTM", {"proj_size": 2}),
    ("GRU", {"reset_after": False}),
    ("GRU", {"zoneout": 0.3}),
    ("GRU", {"layer_norm": True}),
    ("RNN", {"nonlinearity": "relu"}),
    ("RNN", {"recurrent_dropout": 0.4}),
    ("RNN", {"bias": False}),
    ("RNN", {"layer_norm": True}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_no_option_is_ignored(kind: str, options: dict[str, Any]) -> None:
    layer, x = made(kind, 3, 4, 2, bidirectional=True, **options), normal(5, 4, 3)
    plain = made(kind, 3, 4, 2, bidirectional=True)
    y, z = layer(x)[0], plain(x)[0]
    assert y.shape != z.shape or np.abs(y.array - z.array).max() > 1e-4
    assert y.array.any() and np.isfinite(y.array).all()
    for name, value in options.items():
        assert f"{name}=" in repr(layer) or name == "nonlinearity" or value == 0.3, repr(layer)
    again = made(kind, 3, 4, 2, bidirectional=True, **options)
    again.load_state_dict(layer.state_dict())
    close(again.eval()(x)[0], layer.eval()(x)[0].array)
    if "norm" not in str(options):
        assert not any("norm" in name for name in layer.state_dict())


def test_dropout_between_layers() -> None:
    layer, x = made("GRU", 3, 50, 2, dropout=0.4), normal(4, 3, 3)
    retrograd.manual_seed(3)
    y = layer(x)[0]
    retrograd.manual_seed(3)
    close(layer(x)[0], y.array)
    assert np.abs(layer(x)[0].array - y.array).max() > 1e-3
    layer.eval()
    close(layer(x)[0], expected("GRU", layer, x.array)[0])
    layer.train()
    layer.dropout = 1.0  # the second layer reads zeros
    close(layer(x)[0][0], layer(normal(4, 3, 3, seed=8))[0][0].array)


def test_variational_dropout_has_one_mask_for_all_steps() -> None:
    layer = made("RNN", 40, 3, variational_dropout=0.5)
    layer.weight_hh_l0.array[...] = 0
    x = Tensor(np.broadcast_to(normal(1, 2, 40).array, (6, 2, 40)).copy())
    y = layer(x)[0].array
    np.testing.assert_array_equal(y, np.broadcast_to(y[:1], y.shape))
    assert np.abs(y[0] - layer(x)[0].array[0]).max() > 1e-4


def test_a_pickled_layer_is_the_same() -> None:
    layer, x = made("LSTM", 3, 4, 2, proj_size=2, clip=(-0.5, 0.5)), normal(4, 2, 3)
    again = pickle.loads(pickle.dumps(layer))
    close(again(x)[0], layer(x)[0].array)


def test_truncated_backpropagation_through_a_layer() -> None:
    layer, x = made("LSTM", 3, 4, 2, batch_first=True), normal(2, 7, 3)
    whole = layer(x)[0].array
    pieces = [y.array for y, _ in truncated(layer, x, 3)]
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, rtol=1e-10)
    with pytest.raises(ValueError, match="reads from the end"):
        truncated(made("LSTM", 3, 4, bidirectional=True), x, 3)


def test_initial_values() -> None:
    layer = made("LSTM", 30, 40, 2, peephole=False, forget_bias=1.5, layer_norm=True)
    bound = 40**-0.5
    for name, p in layer.named_parameters():
        if name.startswith("weight"):
            assert np.abs(p.array).max() <= bound and abs(p.array.std() - bound / 3**0.5) < 0.1 * bound
    assert (layer.bias_ih_l1.array[40:80] == 1.5).all() and not layer.bias_hh_l1.array[40:80].any()
    assert (layer.norm_ih_l0.array == 1).all() and layer.norm_c_l1.array.tolist() == [[1.0] * 40, [0.0] * 40]
    coupled = made("LSTM", 3, 4, coupled=True, forget_bias=2.0)
    assert (coupled.bias_ih_l0.array[:4] == 2).all() and coupled.weight_hh_l0.shape == (12, 4)
    widths = made("RNN", 3, [100, 10000 // 100], 2)
    assert np.abs(widths.weight_hh_l0.array).max() <= 0.1
    assert len(layer.all_weights) == 2 and len(layer.all_weights[0]) == 7
    layer.flatten_parameters()


X = normal(5, 4, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTM(0, 2), ValueError, "LSTM: input_size=0 must be an int of at least 1"),
        (lambda: nn.LSTM(3, 2.0), ValueError, "LSTM: hidden_size=2.0 must be an int of at least 1"),
        (lambda: nn.LSTM(3, [2, 3]), ValueError, "hidden_size=[2, 3] must be an int of at least 1, or a list of 1"),
        (lambda: nn.GRU(3, 2, 0), ValueError, "GRU: num_layers=0 must be"),
        (lambda: nn.LSTM(3, 2, proj_size=2), ValueError, "proj_size=2 must be below hidden_size=2"),
        (lambda: nn.LSTM(3, 2, proj_size=-1), ValueError, "proj_size=-1 must be an int of at least 0"),
        (lambda: nn.RNN(3, 2, nonlinearity="sin"), ValueError, "RNN: nonlinearity='sin' must be"),
        (lambda: nn.RNN(3, 2, 2, dropout=1.5), ValueError, "RNN: dropout=1.5 must be a probability"),
        (lambda: nn.RNN(3, 2, variational_dropout=-1), ValueError, "variational_dropout=-1 must be a probability"),
        (lambda: nn.RNN(3, 2, 2, dropout=0.5, variational_dropout=0.5), ValueError, "drop the same outputs twice"),
        (lambda: nn.LSTM(3, 2, clip=(1, 0)), ValueError, "LSTM: clip=(1, 0) must not"),
        (lambda: nn.LSTM(3, 2, clip_nan=True), ValueError, "LSTM: clip_nan=True needs clip"),
        (lambda: nn.LSTM(3, 2, peephole=True, layer_norm=True), ValueError, "normalization and peepholes cannot"),
        (lambda: nn.GRU(3, 2, zoneout=(0.1, 0.2)), ValueError, "zoneout of the cell needs a cell state"),
        (lambda: nn.LSTM(3, 2, zoneout=1.0), ValueError, "zoneout of the cell has probability 1.0"),
        (lambda: nn.LSTM(3, 2, algorithm="fast"), ValueError, "algorithm='fast' is unknown"),
        (lambda: nn.GRU(3, 2, reset_after=False, algorithm="fused"), ValueError, "algorithm='fused' does not support"),
        (lambda: nn.LSTM(3, 2, bias=False, forget_bias=1.0), ValueError, "forget_bias=1.0 needs bias=True"),
        (lambda: nn.GRU(3, 2, residual=True), ValueError, "layer 0 has 3 input and 2 output features"),
        (lambda: nn.RNNBase("RNN", 3, 2), ValueError, "RNNBase: mode='RNN' must be one of 'RNN_TANH'"),
        (lambda: nn.RNNBase("GRU", 3, 2, return_cells=True), ValueError, "return_cells=True needs cell states"),
        (lambda: nn.RNNBase("GRU", 3, 2, proj_size=1), ValueError, "a projection needs a cell state"),
        (lambda: nn.LSTM(3, 2, dtype=np.int64), TypeError, "dtype=int64"),
        (lambda: made("GRU", 4, 2)(X), ValueError, "GRU: input.shape=(5, 4, 3), needs (T, N, 4), or without a batch"),
        (lambda: made("GRU", 3, 2)(X[0, 0]), ValueError, "GRU: input.shape=(3,), needs (T, N, 3)"),
        (lambda: made("GRU", 3, 2)(X.array), TypeError, "GRU: input must be a Tensor or a PackedSequence, got ndarray"),
        (lambda: made("GRU", 3, 2)(X[:0]), ValueError, "has no steps"),
        (lambda: made("GRU", 3, 2)(X.float()), TypeError, "float32"),
        (lambda: made("GRU", 3, 2)(X, X), ValueError, "GRU: hx.shape=(5, 4, 3), needs (1, 4, 2)"),
        (lambda: made("GRU", 3, 2)(X[:, 0], normal(1, 4, 2)), ValueError, "hx.shape=(1, 4, 2), needs (1, 2)"),
        (lambda: made("GRU", 3, 2)(X, 1.0), TypeError, "hx must be a Tensor of shape (1, 4, 2), got float"),
        (lambda: made("LSTM", 3, 2)(X, normal(1, 4, 2)), ValueError, "hx must be a pair (h, c), got Tensor"),
        (
            lambda: made("LSTM", 3, 2)(X, (normal(1, 4, 2), normal(1, 4, 3))),
            ValueError,
            "hx[1].shape=(1, 4, 3), needs (1, 4, 2)",
        ),
        (lambda: made("LSTM", 3, 2)(X, (None, normal(1, 4, 2))), ValueError, "hx[0] is None; pass both states"),
        (lambda: made("GRU", 3, [2, 3], 2)(X, normal(2, 4, 2)), ValueError, "hx must be a tuple of 2 Tensors"),
        (lambda: made("GRU", 3, 2)(X, lengths=[1, 2, 3]), ValueError, "lengths.shape=(3,), needs (4,)"),
        (lambda: made("GRU", 3, 2)(X, lengths=[1, 2, 0, 4]), ValueError, "lengths[2]=0; a length must be 1 to 5"),
        (lambda: made("GRU", 3, 2)(X, lengths=[1, 2, 6, 4]), ValueError, "lengths[2]=6; a length must be 1 to 5"),
        (lambda: made("GRU", 3, 2)(X[:, 0], lengths=[3]), ValueError, "lengths need a batch axis, but input.shape=(5,"),
        (
            lambda: made("GRU", 3, 2)(pack_padded_sequence(X, [5, 4, 3, 2]), lengths=[1] * 4),
            ValueError,
            "lengths must be None for a PackedSequence",
        ),
        (
            lambda: made("GRU", 4, 2)(pack_padded_sequence(X, [5, 4, 3, 2])),
            ValueError,
            "data of the PackedSequence has shape (14, 3), needs (*, 4)",
        ),
        (lambda: made("GRU", 3, 2, checkpoint=0)(X), ValueError, "checkpoint=0 must be an int of at least 1"),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_dropout_of_one_layer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="LSTM: dropout=0.5 acts between layers"):
        nn.LSTM(3, 2, dropout=0.5)


def test_options_may_be_numbers_of_numpy() -> None:
    """NumPy numbers, for example from a hyperparameter search."""
    p = np.float32(0.25)
    options: dict[str, Any] = {
        "zoneout": (p, p),
        "recurrent_dropout": p,
        "clip": (np.float32(-1), np.int64(1)),
        "forget_bias": p,
    }
    layer = nn.LSTM(3, 4, 2, dropout=p, **options)
    usual = nn.LSTM(3, 4, 2, dropout=0.25, zoneout=0.25, recurrent_dropout=0.25, clip=(-1.0, 1.0), forget_bias=0.25)
    assert repr(layer) == repr(usual) and layer.layers == usual.layers
