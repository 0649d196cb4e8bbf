"""The recurrent cells as functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd
from peers.compare import assert_agree, normal


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(("name", "gates"), [("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)])
def test_cells(name: str, gates: int, bias: bool) -> None:
    rows = 5 * gates
    weights = [normal(rows, 3), normal(rows, 5), *([normal(rows), normal(rows, seed=1)] if bias else [])]
    states = [normal(4, 5), *([normal(4, 5, seed=2)] if name == "lstm" else [])]

    def call(library: Any) -> Any:
        def cell(x: Any, *given: Any) -> Any:
            h, w = given[: len(states)], given[len(states) :]
            return getattr(library, f"{name}_cell")(x, h if name == "lstm" else h[0], *w)

        return cell

    for output in range(len(states)):

        def one(library: Any, output: int = output) -> Any:
            cell = call(library)
            return lambda *given: cell(*given)[output] if name == "lstm" else cell(*given)

        assert_agree(one(retrograd), one(torch), normal(4, 3), *states, *weights)
