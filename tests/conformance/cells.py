"""Cases of recurrent cells."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd
from conformance.table import Op, Refusal, normal

X, H, C = normal(3, 2), normal(3, 4), normal(3, 4, seed=1)


def weights(gates: int) -> tuple[np.ndarray, ...]:
    rows = 4 * gates
    return normal(rows, 2), normal(rows, 4), normal(rows), normal(rows, seed=2)


def sums(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def gru(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = (np.split(a, 3, 1) for a in (x @ w_ih.T + b_ih, h @ w_hh.T + b_hh))
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def lstm(x: Any, h: Any, c: Any, *w: Any) -> Any:
    i, f, g, o = np.split(sums(x, h, *w), 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm_cell(x: Any, h: Any, c: Any, *w: Any) -> Any:
    return retrograd.lstm_cell(x, (h, c), *w)


OPERATORS = [
    Op(
        "rnn_tanh_cell",
        retrograd.rnn_tanh_cell,
        *(X, H, *weights(1)),
        batch=(0, 1),
        oracle=lambda *given: np.tanh(sums(*given)),
        errors=[Refusal(ValueError, "rnn_tanh_cell: hx.shape=(3, 2), needs (N, H) = (3, 4)", X, X, *weights(1))],
    ),
    Op(
        "rnn_relu_cell",
        retrograd.rnn_relu_cell,
        *(X, H, *weights(1)),
        batch=(0, 1),
        oracle=lambda *given: np.maximum(sums(*given), 0),
        errors=[
            Refusal(ValueError, "rnn_relu_cell: b_ih.shape=(16,), needs (4,)", X, H, *weights(1)[:2], *weights(4)[2:])
        ],
    ),
    Op(
        "gru_cell",
        retrograd.gru_cell,
        *(X, H, *weights(3)),
        batch=(0, 1),
        oracle=gru,
        errors=[Refusal(ValueError, "gru_cell: input.shape=(3, 2), w_ih.shape=(16, 2)", X, H, *weights(4))],
    ),
    Op(
        "lstm_cell",
        lstm_cell,
        *(X, H, C, *weights(4)),
        batch=(0, 1, 2),
        oracle=lstm,
        errors=[Refusal(ValueError, "lstm_cell: hx[1].shape=(3, 2), needs (N, H) = (3, 4)", X, H, X, *weights(4))],
    ),
]
