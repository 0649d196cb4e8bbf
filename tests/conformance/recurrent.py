from __future__ import annotations

from typing import Any

import numpy as np

from conformance.table import Layer, Op, Refusal, normal
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

SMALL: dict[str, Any] = {"batch": (), "rounding": 1e-12, "single": 1e-3}
CELL = {**SMALL, "batch": (0, 1)}
X = normal(3, 2, 2)  # T, N, I


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def rnn_step(x: Any, h: Any, w: Any, r: Any, b: Any, c: Any) -> np.ndarray:
    return np.tanh(x @ w.T + b + h @ r.T + c)


def gru_step(x: Any, h: Any, w: Any, r: Any, b: Any, c: Any) -> np.ndarray:
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w.T + b, 3, -1), np.split(h @ r.T + c, 3, -1)
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def lstm_step(x: Any, state: Any, w: Any, r: Any, b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
    i, f, g, o = np.split(x @ w.T + b + state[0] @ r.T + c, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def over_time(step: Any, lstm: bool = False, lead: int = 1) -> Any:
    """A layer without initial state, step by step, as an oracle of (x, parameters)."""

    def oracle(x: Any, *parameters: Any, **_: Any) -> tuple[Any, ...]:
        h = np.zeros((x.shape[1], parameters[1].shape[1]))
        state: Any = (h, h) if lstm else h
        ys = []
        for one in x:
            state = step(one, state, *parameters)
            ys.append(state[0] if lstm else state)
        end = state if lstm else (state,)
        return (np.array(ys), *[part[None] if lead else part for part in end])

    return oracle


def packed(x: Any, parameters: Any, h: Any, c: Any = None, **_: Any) -> Any:
    """MXNet's operator with one layer of 2 units: weights first, then biases."""
    rows = 4 * 2
    cuts = np.cumsum([rows * 2, rows * 2, rows])
    w, r, b, d = np.split(parameters, cuts)
    state, ys = (h[0], c[0]), []
    for one in x:
        state = lstm_step(one, state, w.reshape(rows, 2), r.reshape(rows, 2), b, d)
        ys.append(state[0])
    return np.array(ys), state[0][None], state[1][None]


VECTOR, H0 = normal(8 * (2 + 2 + 2)), normal(1, 2, 2)
OPTIONS: dict[str, Any] = {"mode": "lstm", "state_size": 2, "state_outputs": True}


def refused(message: str, *args: Any, **options: Any) -> Refusal:
    return Refusal(ValueError, message, *args, **{**OPTIONS, **options})


OPERATORS = [
    Op(
        "rnn",
        F.rnn,
        X,
        VECTOR,
        H0,
        normal(1, 2, 2, seed=1),
        kwargs=OPTIONS,
        oracle=packed,
        **SMALL,
        errors=[
            refused("rnn: data.shape=(3, 2), needs (T, N, I)", X[0, 0][None].repeat(3, 0), VECTOR, H0),
            refused("rnn: parameters.shape=(47,), needs (48,)", X, VECTOR[1:], H0, H0),
            refused("rnn: state.shape=(2, 2), needs (1, 2, 2)", X, VECTOR, H0[0], H0),
            refused("rnn: mode 'lstm' needs state_cell", X, VECTOR, H0),
            refused("rnn: mode='lstn' is unknown", X, VECTOR, H0, mode="lstn"),
            refused("rnn: p=1.0 must be a probability", X, VECTOR, H0, H0, p=1.0),
            refused("state_size=0 must be an int", X, VECTOR, H0, H0, state_size=0),
            refused("num_layers=0 must be an int", X, VECTOR, H0, H0, num_layers=0),
            refused("projection_size=0 must be an int", X, VECTOR, H0, H0, projection_size=0),
            refused("projection=3 of 2 units", X, VECTOR, H0, H0, projection_size=3),
            refused("clip=(1.0, None) must have both ends", X, VECTOR, H0, H0, lstm_state_clip_min=1.0),
            refused("clip=(1, 0) must not", X, VECTOR, H0, H0, lstm_state_clip_min=1, lstm_state_clip_max=0),
            refused("clip_nan=True needs clip", X, VECTOR, H0, H0, lstm_state_clip_nan=True),
            refused("sequence_length=[1.5, 2.0] must be whole", X, VECTOR, H0, H0, [1.5, 2.0]),
            refused("lengths[0]=4; a length must be 1 to 3", X, VECTOR, H0, H0, [4, 2]),
            refused("mode 'rnn_tanh' has no cell state", X, normal(2 * 6), H0, H0, mode="rnn_tanh"),
            refused("a projection needs a cell state", X, VECTOR, H0, mode="gru", projection_size=1),
        ],
    ),
    Op(
        "rnn: two layers, projection, clip, lengths",
        F.rnn,
        normal(2, 2, 1),
        normal(2 * (2 * 4 * 2 + 2) + 2 * 4 * 2 * 2),
        normal(2, 2, 1),
        normal(2, 2, 2),
        [2, 1],
        kwargs={
            "mode": "lstm",
            "state_size": 2,
            "num_layers": 2,
            "projection_size": 1,
            "lstm_state_clip_min": -0.4,
            "lstm_state_clip_max": 0.5,
            "state_outputs": True,
        },
        order=1,
        **SMALL,
    ),
]


def last(function: Any) -> Any:
    """A step over channels, which stand in axis 1, as one over the last axis."""

    def moved(x: Any, state: Any, *parameters: Any) -> Any:
        flat = [p.reshape(p.shape[:2]) if p.ndim > 1 else p for p in parameters]
        many = [np.moveaxis(s, 1, -1) for s in (state if isinstance(state, tuple) else [state])]
        result = function(np.moveaxis(x, 1, -1), tuple(many) if isinstance(state, tuple) else many[0], *flat)
        if isinstance(result, tuple):
            return tuple(np.moveaxis(r, -1, 1) for r in result)
        return np.moveaxis(result, -1, 1)

    return moved


def conv_layer(step: Any, lstm: bool) -> Any:
    def oracle(x: Any, *parameters: Any, **_: Any) -> tuple[Any, ...]:
        h = np.zeros((x.shape[1], parameters[1].shape[1], *x.shape[3:]))
        state: Any = (h, h) if lstm else h
        ys = []
        for one in x:
            state = last(step)(one, state, *parameters)
            ys.append(state[0] if lstm else state)
        return (np.array(ys), *(state if lstm else (state,)))

    return oracle


STEPS = {"RNN": rnn_step, "LSTM": lstm_step, "GRU": gru_step}
LAYERS = [
    Layer("RNN", lambda: nn.RNN(2, 2), X, oracle=over_time(rnn_step), **SMALL),
    Layer("LSTM", lambda: nn.LSTM(2, 2), X, oracle=over_time(lstm_step, True), **SMALL),
    Layer("GRU", lambda: nn.GRU(2, 2), X, oracle=over_time(gru_step), **SMALL),
    Layer("RNNBase", lambda: nn.RNNBase("RNN_RELU", 2, 2, 2, bidirectional=True), X[:2], order=1, **SMALL),
    Layer(
        "LSTM: options",
        lambda: nn.LSTM(2, 2, peephole=True, coupled=True, clip=(-0.3, 0.3), return_cells=True, recurrent_dropout=0.3),
        X[:2],
        order=1,
        random=True,
        **SMALL,
    ),
    Layer("RNNCell", lambda: nn.RNNCell(2, 3), X[0], normal(2, 3), oracle=rnn_step, **CELL),
    Layer("GRUCell", lambda: nn.GRUCell(2, 3), X[0], normal(2, 3), oracle=gru_step, **CELL),
    Layer("LSTMCell", lambda: nn.LSTMCell(2, 2), X[0], (H0[0], X[1]), oracle=lstm_step, **{**CELL, "batch": (0, 1, 2)}),
    Layer("Unroll", lambda: nn.Unroll(nn.RNNCell(2, 2)), X, oracle=over_time(rnn_step, lead=0), order=1, **SMALL),
    Layer("Bidirectional", lambda: nn.Bidirectional(nn.RNNCell(2, 1), nn.RNNCell(2, 1)), X[:2], order=1, **SMALL),
    Layer("ResidualCell", lambda: nn.ResidualCell(nn.RNNCell(2, 2)), X[0], X[1], order=1, **CELL),
    Layer("ZoneoutCell", lambda: nn.ZoneoutCell(nn.RNNCell(2, 2), 0.4), X[0], X[1], order=1, random=True, **CELL),
    Layer(
        "VariationalDropoutCell",
        lambda: nn.VariationalDropoutCell(nn.RNNCell(2, 2), 0.3, 0.3, 0.3),
        X[0],
        X[1],
        order=1,
        random=True,
        **CELL,
    ),
]
for dims in (1, 2, 3):
    extents = (2,) * dims
    for kind, step in STEPS.items():
        one = {"order": 2 if (dims, kind) == (2, "LSTM") else 1}
        LAYERS += [
            Layer(
                f"Conv{kind}{dims}d",
                lambda kind=kind, dims=dims: getattr(nn, f"Conv{kind}{dims}d")(1, 2 if dims == 1 else 1, 1),
                normal(2, 1, 1, *extents),
                oracle=conv_layer(step, kind == "LSTM"),
                **SMALL,
                **one,
            ),
            Layer(
                f"Conv{kind}Cell{dims}d",
                lambda kind=kind, dims=dims: getattr(nn, f"Conv{kind}Cell{dims}d")(1, 1, 1),
                normal(2, 1, *extents),
                (normal(2, 1, *extents, seed=1),) * 2 if kind == "LSTM" else normal(2, 1, *extents, seed=1),
                oracle=last(step),
                **{**CELL, "batch": (0, 1, 2) if kind == "LSTM" else (0, 1)},
                order=1,
            ),
        ]
