"""Selecting elements by index, writing them back, and the k largest, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comparison import run
from strategies import DTYPES, LAYOUTS, numbers


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_pick_and_place(kernel_set: Any, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 17, 2, 5), (9, 70), (40,), (300, 100)):
        x = LAYOUTS[layout](numbers(rng, shape, dtype))
        for axis in range(len(shape)):
            count = min(3, shape[axis])
            indices = np.argsort(rng.random(shape), axis).take(range(count), axis)
            y = run(kernel_set.pick, x, indices, axis)
            order = tuple(rng.permutation(len(shape)).tolist())
            back = run(kernel_set.place, y, indices, axis, shape[axis], order)
            expected = np.zeros(shape, dtype)
            for at in np.ndindex(*indices.shape):
                source = (*at[:axis], indices[at], *at[axis + 1 :])
                assert y[at] == x[source]
                expected[source] = x[source]
            np.testing.assert_array_equal(back, expected)


def first(row: list[float], k: int, largest: bool) -> list[int]:
    """The indices of the first k, chosen one by one; NaN is larger than all numbers."""
    left = list(range(len(row)))
    found = []
    for _ in range(k):
        best = left[0]
        for i in left[1:]:
            a, b = row[i], row[best]
            above = (a > b) or (a != a and b == b)
            below = (a < b) or (a == a and b != b)
            if above if largest else below:
                best = i
        left.remove(best)
        found.append(best)
    return found


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_topk(kernel_set: Any, dtype: type, largest: bool) -> None:
    rng = np.random.default_rng(0)
    for shape, k in (((3, 1), 1), ((4, 50), 5), ((3, 90), 70), ((2, 300), 64), ((5, 33), 33), ((2, 40), 0)):
        for steps in (2, 1000):  # with and without many equal ones
            x = np.round(numbers(rng, shape, dtype) * steps)
            x[0, rng.integers(0, shape[1], 3)] = np.nan, np.inf, -np.inf
            expected = np.array([first(row, k, largest) for row in x.tolist()], np.int64).reshape(shape[0], k)
            found = run(kernel_set.topk, x, k, 1, largest)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(run(kernel_set.topk, x.T.copy(), k, 0, largest), expected.T)


def test_topk_of_an_empty_batch(kernel_set: Any) -> None:
    assert run(kernel_set.topk, np.zeros((0, 7, 2), np.float32), 3, 1, True).shape == (0, 3, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kth(kernel_set: Any, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 1), (4, 50), (70, 33), (2, 300)):
        for steps in (2, 1000):  # with and without many equal ones
            x = np.round(numbers(rng, shape, dtype) * steps)
            x[0, rng.integers(0, shape[1], 3)] = np.nan, np.inf, -np.inf
            x[-1] *= dtype(1e-40)  # denormal in float32; zeros of both signs
            for k in {0, shape[1] // 2, shape[1] - 1}:
                order = [sorted(range(shape[1]), key=lambda i: (row[i] != row[i], row[i], i)) for row in x.tolist()]
                expected = np.array([[line[k]] for line in order])
                found = run(kernel_set.kth, x, k, 1)
                assert found.dtype == np.int64
                np.testing.assert_array_equal(found, expected)
                np.testing.assert_array_equal(run(kernel_set.kth, x.T.copy(), k, 0), expected.T)
    assert run(kernel_set.kth, np.zeros((0, 7, 2), dtype), 3, 1).shape == (0, 1, 2)
