"""Moments, log-sum-exp and their gradients against the definitions."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from comparison import assert_close, assert_equal, run
from strategies import DTYPES, LAYOUTS, numbers

SHAPES = ((3, 17, 2, 5), (1, 5, 1, 33), (2, 33, 3), (70, 19), (7,), ())


def over(x: np.ndarray, axes: tuple[int, ...], of_row: Any) -> np.ndarray:
    """of_row of the numbers (float64) that belong to each result; reduced axes have extent 1."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.astype(np.float64).transpose(*kept, *axes).reshape(math.prod(x.shape[a] for a in kept), -1)
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    return np.array([of_row(row.tolist()) for row in rows]).reshape(shape)


def mean_of(row: list[float]) -> float:
    return math.fsum(row) / len(row)


def squares_of(row: list[float]) -> float:
    mean = mean_of(row)
    return math.fsum((v - mean) ** 2 for v in row)


def log_of_sum(row: list[float]) -> float:
    return math.log(math.fsum(math.exp(v) for v in row))


def check(kernels: Any, x: np.ndarray, axes: tuple[int, ...]) -> None:
    eps = float(np.finfo(x.dtype).eps)
    terms = math.prod(x.shape[a] for a in axes)
    mean, squares = run(kernels.moments, x, axes)
    size = float(np.abs(x).max())
    assert_close(mean, over(x, axes, mean_of), 16 * eps * size)
    expected = over(x, axes, squares_of)
    assert_close(squares, expected, eps * (16 + terms) * expected + terms * (16 * eps * size) ** 2)
    y = run(kernels.logsumexp, x, axes)
    expected = over(x, axes, log_of_sum)
    assert_close(y, expected, 16 * eps * (1 + np.abs(expected)))
    g = numbers(np.random.default_rng(1), y.shape, x.dtype.type)
    wide = x.astype(np.float64)
    assert_close(run(kernels.logsumexp_grad, g, x, y), g * np.exp(wide - y), 16 * eps * (1 + size))
    assert_close(run(kernels.moments_grad, g, x, mean), g * (wide - mean), 4 * eps * size)
    assert_equal(run(kernels.spread, g, x.shape), g * np.ones(x.shape))
    assert_equal(run(kernels.signed, g, x), g * np.where(x > 0, 1, -1))
    top = np.max(x, axis=axes, keepdims=True)
    assert_equal(run(kernels.ties, g, x, np.asarray(top)), np.where(x == top, g, 0))


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_set_of_axes(kernel_set: Any, layout: str, dtype: type) -> None:
    for shape in SHAPES:
        x = LAYOUTS[layout](numbers(np.random.default_rng(0), shape, dtype))
        for count in range(len(shape) + 1):
            for axes in combinations(range(len(shape)), count):
                check(kernel_set, x, axes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((40001,), (0,)), ((2, 20011), (1,)), ((11011, 3), (0,)), ((5, 33, 15, 14), (0, 2, 3)), ((20, 8, 9, 15), (0, 2))],
)
def test_many(kernel_set: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: type) -> None:
    """Merged pieces, also of columns and of alternating groups of axes."""
    check(kernel_set, numbers(np.random.default_rng(0), shape, dtype), axes)


@pytest.mark.parametrize("outliers", [range(8), range(3, 9), [100]])
def test_some_rows_are_far_from_the_others(kernel_set: Any, outliers: Any) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((171, 37)).astype(np.float32)  # several blocks of rows, and part of a register
    x[outliers] += 300 * rng.standard_normal(37).astype(np.float32)
    mean, squares = kernel_set.moments(x, (0,))
    assert_close(squares, over(x, (0,), squares_of), 8 * np.finfo(np.float32).eps * over(x, (0,), squares_of))
    assert_close(mean, over(x, (0,), mean_of), 2 * np.finfo(np.float32).eps * np.abs(x).max())


@pytest.mark.parametrize("shape", [(30000,), (9, 3001), (3001, 9)])
def test_far_from_zero(shape: tuple[int, ...]) -> None:
    """Nothing cancels: of float32 numbers around 10,000 the variance, 1, has four digits and more."""
    from retrograd import kernels

    x = (10000 + np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    for axes in ((0,), tuple(range(len(shape)))):
        mean, squares = kernels.moments(x, axes)
        exact = x.astype(np.float64)
        np.testing.assert_allclose(mean, exact.mean(axes, keepdims=True), rtol=1e-6)
        expected = np.square(exact - exact.mean(axes, keepdims=True)).sum(axes, keepdims=True)
        np.testing.assert_allclose(squares, expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 5), (6, 70), (6, 20000)])
def test_special_numbers(kernel_set: Any, shape: tuple[int, ...], dtype: type) -> None:
    x = np.zeros(shape, dtype)
    x[0] = -np.inf
    x[1, 1:3] = np.inf, 1
    x[2, 3] = np.nan
    x[3] = -1e4
    x[4] = 3e4  # its exponential overflows
    x[5, 2] = -np.inf
    n = shape[1]
    expected = [-np.inf, np.inf, np.nan, -1e4 + math.log(n), 3e4 + math.log(n), math.log(n - 1)]
    for y in (run(kernel_set.logsumexp, x, (1,))[:, 0], run(kernel_set.logsumexp, x.T.copy(), (0,))[0]):
        assert_close(y, np.array(expected), 1e-2 if dtype == np.float32 else 1e-10)
    for values in (x, x.T.copy()):
        mean, squares = run(kernel_set.moments, values, (int(values is x),))
        assert np.isnan(squares.reshape(-1)[[0, 1, 2, 5]]).all()
        rough = 1e-3 if dtype == np.float32 else 1e-9  # plain sums of equal numbers are so
        assert (squares.reshape(-1)[3:5] <= n * (rough * np.array([1e4, 3e4])) ** 2).all()
        assert_close(mean.reshape(-1), np.array([-np.inf, np.inf, np.nan, -1e4, 3e4, -np.inf]), rough * 3e4)
    g = np.ones((6, 1), dtype)
    assert run(kernel_set.ties, g, x, np.full((6, 1), np.nan, dtype)).sum() == 1  # NaN equals NaN
    assert np.isnan(run(kernel_set.signed, g, x)[2, 3]) and run(kernel_set.signed, g, x)[2, 0] == 0


def test_of_nothing(kernel_set: Any) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    mean, squares = run(kernel_set.moments, x, (1,))
    assert mean.shape == squares.shape == (2, 1, 3) and np.isnan(mean).all() and (squares == 0).all()
    assert (run(kernel_set.logsumexp, x, (1,)) == -np.inf).all()
    assert run(kernel_set.logsumexp, x, (0, 2)).shape == (1, 0, 1)
