"""Cumulative sums and products, and linear recurrences, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comparison import assert_close, run
from strategies import DTYPES, LAYOUTS, numbers


def scanned(x: np.ndarray, factor: np.ndarray, axis: int, reverse: bool, how: str) -> np.ndarray:
    y = x.astype(np.float64)
    for at in np.ndindex(*x.shape[:axis], *x.shape[axis + 1 :]):
        line = (*at[:axis], slice(None, None, -1 if reverse else 1), *at[axis:])
        values, factors = y[line], factor[line]  # views
        for i in range(1, len(values)):
            if how == "sum":
                values[i] += values[i - 1]
            elif how == "prod":
                values[i] *= values[i - 1]
            else:
                values[i] += factors[i] * values[i - 1]
    return y


def check(kernels: Any, x: np.ndarray, factor: np.ndarray, axis: int) -> None:
    tolerance = float(np.finfo(x.dtype).eps) * (8 + x.shape[axis])
    for reverse in (False, True):
        expected = scanned(x, factor, axis, reverse, "sum")
        assert_close(run(kernels.cumsum, x, axis, reverse), expected, tolerance * (1 + np.abs(expected)))
        expected = scanned(x, factor, axis, reverse, "linear")
        assert_close(run(kernels.linear_scan, x, factor, axis, reverse), expected, tolerance * (1 + np.abs(expected)))
    assert_close(run(kernels.cumprod, x, axis), scanned(x, factor, axis, False, "prod"), tolerance)


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_axis(kernel_set: Any, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 17, 2, 5), (5, 1, 70), (9, 33), (40,), (2, 0, 3)):
        x, factor = LAYOUTS[layout](numbers(rng, shape, dtype)), numbers(rng, shape, dtype)
        for axis in range(len(shape)):
            check(kernel_set, x, factor, axis)


@pytest.mark.parametrize("shape", [(300, 90), (3, 9001), (9001, 3)])
def test_many(kernel_set: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for axis in (0, 1):
        check(kernel_set, numbers(rng, shape, np.float64), numbers(rng, shape, np.float64), axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 5, 40])
def test_special_numbers_stay_where_they_are(kernel_set: Any, place: int, dtype: type) -> None:
    """Elements before a NaN or an infinity are not affected, in rows and in columns."""
    x = np.ones((50, 50), dtype)
    x[:, place], x[7, place] = np.inf, np.nan
    for y in (run(kernel_set.cumsum, x, 1, False), run(kernel_set.cumsum, x.T.copy(), 0, False).T):
        np.testing.assert_array_equal(y[:, :place], np.arange(1, 51)[:place] * np.ones((50, 1)))
        assert np.isnan(y[7, place:]).all() and (y[:7, place:] == np.inf).all()
    x[:, place] = 0
    for y in (run(kernel_set.cumprod, x, 1), run(kernel_set.cumprod, x.T.copy(), 0).T):
        np.testing.assert_array_equal(y, (np.arange(50) < place) * np.ones((50, 1)))
