"""The textbook kernels of recurrent layers; tests/ops/recurrent compares them with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd.kernels.textbook import recurrent, recurrent_grad
from retrograd.specs.recurrence import GATES, Weights, recurrence


def arguments(mode: str, dtype: type, lengths: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    what = recurrence("test", mode, 3, 4, reverse=(False, True))
    rows = 4 * what.gates

    def a(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    weights = [Weights(a(rows, 3), a(rows, 4), a(rows), a(rows)) for _ in range(2)]
    return a(5, 2, 3), a(2, 2, 4), a(2, 2, 4) if mode == "lstm" else None, weights, lengths, what


def everything(found: Any) -> list[np.ndarray]:
    if isinstance(found, np.ndarray):
        return [found]
    return [array for part in found for array in everything(part)] if isinstance(found, (tuple, list)) else []


@pytest.mark.parametrize("lengths", [None, np.array([2, 5])], ids=["whole", "lengths"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", GATES)
def test_types_fresh_results_and_inputs_left_alone(mode: str, dtype: type, lengths: Any) -> None:
    given = arguments(mode, dtype, lengths)
    before = [array.copy() for array in everything(given)]
    *outputs, saved = recurrent(*given, True, mode == "lstm")
    y, hn, cn, cells = outputs
    gradients = recurrent_grad(y, hn, cn, cells, *given, saved, (True, True, True, True))
    for array in everything((outputs, gradients)):
        assert array.dtype == dtype
        assert not any(np.shares_memory(array, other) for other in everything((given, saved)))
    for array, copy in zip(everything(given), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert recurrent(*given, False, False)[-1] is None


@pytest.mark.parametrize("mode", GATES)
def test_what_is_not_wanted_is_none(mode: str) -> None:
    given = arguments(mode, np.float64, None)
    y, *_, saved = recurrent(*given, True, False)
    whole = recurrent_grad(y, None, None, None, *given, saved, (True, True, True, True))
    for place in range(4):
        wanted = tuple(place == i for i in range(4))
        found: Any = recurrent_grad(y, None, None, None, *given, saved, wanted)  # type: ignore[arg-type]
        for i, (one, same) in enumerate(zip(found, whole, strict=True)):
            assert (one is None) == (i != place or same is None)
        for array, other in zip(everything(found), everything(whole[place : place + 1]), strict=True):
            np.testing.assert_array_equal(array, other)


def test_overflow_makes_no_warning() -> None:
    for mode in GATES:
        given = arguments(mode, np.float32, np.array([3, 5]))
        given[0][0] = np.inf
        given[0][1] = np.nan
        y, hn, cn, _, saved = recurrent(*given, True, False)
        recurrent_grad(y, hn, cn, None, *given, saved, (True, True, True, True))
