"""Ranges of integers: fractions of the ends are cut off before, as PyTorch does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((0.5, 5.7), [0, 1, 2, 3, 4]),
        ((0.9, 3.2, 1.7), [0, 1, 2]),
        ((-0.5, 2.5), [0, 1]),
        ((2.7, -1.2, -1.5), [2, 1, 0]),
        ((5.9,), [0, 1, 2, 3, 4]),
        ((1.5, 1.9), []),
    ],
)
def test_arange(ends: Any, expected: list[int]) -> None:
    x = rg.arange(*ends, dtype=np.int64)
    assert x.dtype == np.int64 and x.tolist() == expected


def test_arange_refuses_steps_that_do_not_lead_there() -> None:
    with pytest.raises(ValueError, match="arange: step=0 does not lead from start=0 to end=1"):
        rg.arange(0, 1.5, 0.5, dtype=np.int64)
    with pytest.raises(ValueError, match=r"arange: step=1 does not lead from start=2.7 to end=2.5"):
        rg.arange(2.7, 2.5, dtype=np.int64)


@pytest.mark.parametrize(
    ("ends", "line", "powers"),
    [
        ((0.5, 5.7, 4), [0, 1, 3, 5], [1, 3, 10, 32]),
        ((-0.9, 2.9, 5), [0, 0, 1, 1, 2], [1, 1, 2, 2, 4]),
        ((2.7, -1.2, 7), [2, 1, 1, 0, 0, 0, -1], [4, 2, 2, 1, 1, 0, 0]),
        ((0, 3.9, 1), [0], [1]),
    ],
)
def test_lines(ends: Any, line: list[int], powers: list[int]) -> None:
    assert rg.linspace(*ends, dtype=np.int64).tolist() == line
    assert rg.logspace(*ends, base=2, dtype=np.int64).tolist() == powers
    assert rg.linspace(*ends).tolist() == pytest.approx(np.linspace(*ends).tolist())


@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.float32])
def test_scatter_reduce_without_self(kind: Any) -> None:
    x, index = np.array([1, 0, 1, 0]).astype(kind), np.array([0, 0, 1, 1, 3])
    src = np.array([0, 0, 0, 1, 1]).astype(kind)
    for reduce, expected in (("amax", [0, 1, 1, 1]), ("amin", [0, 0, 1, 1])):
        y = rg.scatter_reduce(rg.tensor(x), 0, rg.tensor(index), rg.tensor(src), reduce, include_self=False)
        assert y.dtype == kind and y.tolist() == expected


@pytest.mark.parametrize("make", [rg.linspace, rg.logspace])
def test_steps_are_an_int(make: Any) -> None:
    assert make(0, 3, np.int64(2)).shape == (2,)
    with pytest.raises(TypeError, match=rf"{make.__name__}: steps=2.0 must be an int"):
        make(0, 3, 2.0)


def test_extents_of_eye_are_ints() -> None:
    for extents, message in (((2.0,), "n=2.0"), ((2, "3"), "m='3'")):
        with pytest.raises(TypeError, match=f"eye: {message} must be an int"):
            rg.eye(*extents)
