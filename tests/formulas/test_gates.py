"""The gates of recurrent cells: their gradients match their equations. (tests/kernels has them on registers.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.formulas import gates
from retrograd.formulas.primitive import tanh


def _lstm_cell(g: Sequence[Any], i: Any, f: Any, z: Any, c: Any) -> tuple[Any, ...]:
    *values, _ = gates.lstm_cell(i, f, z, c, tanh)
    return gates.lstm_cell_grad(g[-1], *values, c)


def _lstm_output(g: Sequence[Any], o: Any, c: Any) -> tuple[Any, ...]:
    o, _ = gates.lstm_output(o, c, tanh)
    return gates.lstm_output_grad(g[-1], o, c)


def _mixture(g: Sequence[Any], n: Any, z: Any, h: Any) -> tuple[Any, ...]:
    *values, _ = gates.mixture_cell(n, z, h, tanh)
    return gates.mixture_grad(g[-1], *values, h)


def _gru_cell(g: Sequence[Any], n: Any, r: Any, z: Any, m: Any, h: Any) -> tuple[Any, ...]:
    *values, _ = gates.gru_cell(n, r, z, m, h, tanh)
    return gates.gru_cell_grad(g[-1], *values, m, h)


def _lstm(peephole: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """c and the output of an LSTM whose cell state is doubled where another one would be clipped."""

    def forward(*operands: Any) -> Any:
        *sums, c = operands[:-1] if peephole else operands
        weights = list(operands[-1]) if peephole else []
        _, c, h = gates.lstm(sums, c, weights, lambda c: c * 2.0, gates.unchanged, tanh)
        return c, h

    def gradient(g: Sequence[Any], *operands: Any) -> Any:
        *sums, before = operands[:-1] if peephole else operands
        weights = list(operands[-1]) if peephole else []
        values, c, _ = gates.lstm(sums, before, weights, lambda c: c * 2.0, gates.unchanged, tanh)
        of_sums, gc = gates.lstm_grad(g[1], g[0], values, before, c, weights, lambda gc, c: gc * 2.0)
        return *of_sums, gc

    return forward, gradient


# forward, of whose results the last ones have gradients, those gradients, operands
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "lstm_cell": (lambda *x: gates.lstm_cell(*x, tanh)[-1:], _lstm_cell, 4),
    "lstm_output": (lambda *x: gates.lstm_output(*x, tanh)[-1:], _lstm_output, 2),
    "mixture": (lambda *x: gates.mixture_cell(*x, tanh)[-1:], _mixture, 3),
    "gru_cell": (lambda *x: gates.gru_cell(*x, tanh)[-1:], _gru_cell, 5),
    "lstm": (*_lstm(False), 5),
    "coupled": (*_lstm(False), 4),
    "peephole": (*_lstm(True), 6),
    "coupled, peephole": (*_lstm(True), 5),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: str) -> None:
    forward, gradient, count = CASES[case]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 4)) for _ in range(count)]
    if "peephole" in case:
        arrays[-1] = rng.standard_normal((count - 3, 4))
    tensors = [rg.tensor(array, requires_grad=True) for array in arrays]
    results = forward(*tensors)
    gs = [rng.standard_normal((3, 4)) for _ in results]
    for result, array in zip(results, forward(*arrays), strict=True):
        np.testing.assert_allclose(result.array, array, 1e-14, 1e-14)
    wanted = rg.autograd.grad(results, tensors, [rg.tensor(g) for g in gs])
    for found, want in zip(gradient(gs, *arrays), wanted, strict=False):
        np.testing.assert_allclose(found, want.array, 1e-12, 1e-12)


def test_a_gate_that_is_shut_or_open_keeps_or_replaces_the_state() -> None:
    """To the bit, however different the two are in size."""
    new, old = np.float32([1.0, -1e-3]), np.float32([1e-20, 1e20])
    for gate, expected in ((np.float32(1.0), old), (np.float32(0.0), new)):
        np.testing.assert_array_equal(gates.mixture(new, gate, old), expected)
    np.testing.assert_array_equal(gates.without_nan(np.array([np.nan, np.inf, -2.0]), 0.5), [0.5, np.inf, -2.0])
