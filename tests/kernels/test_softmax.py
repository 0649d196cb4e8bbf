"""Softmax, its logarithm and their gradients against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, assert_equal, run
from kernels.sets import textbook_at_night
from strategies import DTYPES, LAYOUTS, Source, examples, many_examples, numbers, shapes, sources


def check(kernels: Any, x: np.ndarray, g: np.ndarray, axis: int) -> None:
    """exp turns the rounding error of x - max(x) into a relative error; the rest is that of a sum."""
    eps = float(np.finfo(x.dtype).eps)
    terms = x.shape[axis]
    with np.errstate(all="ignore"):
        distance = np.abs(x - x.max(axis, keepdims=True, initial=-np.inf)).astype(np.float64)
        distance = np.where(np.isfinite(distance), np.minimum(distance, 800), 0)
    expected = naive.softmax(x, axis)
    y = run(kernels.softmax, x, axis)
    assert_close(y, expected, eps * (8 + terms**0.5 + distance) * expected + np.finfo(x.dtype).tiny)
    expected_log = naive.log_softmax(x, axis)
    assert_close(run(kernels.log_softmax, x, axis), expected_log, eps * (8 + terms**0.5 + 2 * _finite(expected_log)))

    y, log = expected.astype(x.dtype), expected_log.astype(x.dtype)
    tolerance = eps * (8 + 2 * terms)
    assert_close(run(kernels.softmax_grad, g, y, axis), naive.softmax_grad(g, y, axis), tolerance)
    expected_grad = naive.log_softmax_grad(g, log, axis)
    assert_close(run(kernels.log_softmax_grad, g, log, axis), expected_grad, tolerance * (1 + _finite(expected_grad)))


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), np.abs(x), 0)


@st.composite
def rows(draw: st.DrawFn, limit: int = 400) -> tuple[tuple[int, ...], int]:
    """A shape and an axis that is not empty; others may be."""
    shape = list(draw(shapes(ndim=(1, 4), limit=limit)))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = min(max(1, shape[axis]), 70)
    return tuple(shape), axis


def stretched(x: np.ndarray, factor: float) -> np.ndarray:
    """``factor`` times x, in the layout of x."""
    y = np.empty_like(x)
    np.multiply(x, x.dtype.type(factor), out=y)
    return y


factors = st.sampled_from((1.0, 10.0, 1e4, 1e30))


@examples(60)
@given(what=rows(), source=sources, factor=factors)
def test_softmax(kernel_set: Any, what: tuple[Any, int], source: Source, factor: float) -> None:
    x, g = source.arrays(what[0], what[0])
    check(kernel_set, x if factor == 1 else stretched(x, factor), g, what[1])


@pytest.mark.nightly
@many_examples(2000)
@given(what=rows(), source=sources, factor=factors)
def test_softmax_nightly(kernel_set: Any, what: tuple[Any, int], source: Source, factor: float) -> None:
    x, g = source.arrays(what[0], what[0])
    check(kernel_set, x if factor == 1 else stretched(x, factor), g, what[1])


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layouts(kernel_set: Any, layout: str, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, (layout, "contiguous"))
    for shape in ((5, 17), (3, 9, 4), (2, 10, 3, 2)):
        for axis in range(len(shape)):
            check(kernel_set, *source.arrays(shape, shape), axis)
            check(kernel_set, *source.arrays(shape, shape)[::-1], axis)


@pytest.mark.parametrize("extent", [*range(1, 36), 64, 70, 129])
def test_extents(kernel_set: Any, extent: int) -> None:
    source = Source(np.random.default_rng(extent), DTYPES[extent % 3 == 0], ("contiguous", "contiguous"))
    check(kernel_set, *source.arrays((3, extent), (3, extent)), 1)
    check(kernel_set, *source.arrays((extent, 2), (extent, 2)), 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_and_infinite_numbers(kernel_set: Any, dtype: type) -> None:
    """Only differences count: no sum overflows. Rows of -inf alone, with inf or with NaN are NaN, no others are."""
    largest = float(np.finfo(dtype).max) / 4
    x = np.array(
        [
            [1e4, 1e4, 1e4 - 1, -1e4],
            [largest, largest, -largest, 0],
            [-largest, -largest, -largest, -largest],
            [0, -np.inf, 1, -np.inf],
            [-np.inf, -np.inf, -np.inf, 3],
            [-np.inf, -np.inf, -np.inf, -np.inf],
            [np.inf, 0, 0, 0],
            [0, np.nan, 0, 0],
            [88, 89, 700, 710],
            [-745, -700, -104, -88],
        ],
        dtype,
    )
    g = numbers(np.random.default_rng(0), x.shape, dtype)
    usual = np.isfinite(x).all(1)
    check(kernel_set, x[usual], g[usual], 1)
    for many in (1, 9):
        wide = np.concatenate([x] + [np.full_like(x, -np.inf)] * (many - 1), 1)
        for row, axis in ((wide, 1), (np.ascontiguousarray(wide.T), 0)):
            y, log = run(kernel_set.softmax, row, axis), run(kernel_set.log_softmax, row, axis)
            eps = np.finfo(dtype).eps
            assert_close(y, naive.softmax(row, axis), 200 * eps)
            expected = naive.log_softmax(row, axis)
            assert_close(log, expected, 200 * eps + 4 * eps * _finite(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (3, 4, 0)])
def test_no_rows(kernel_set: Any, shape: tuple[int, ...], dtype: type) -> None:
    x = np.empty(shape, dtype)
    axis = next(n for n, extent in enumerate(shape) if extent)
    for name in ("softmax", "log_softmax"):
        assert_equal(run(getattr(kernel_set, name), x, axis), x.astype(np.float64))
        assert_equal(run(getattr(kernel_set, f"{name}_grad"), x, x, axis), x.astype(np.float64))


@textbook_at_night
@pytest.mark.parametrize(("axis", "layout"), [(1, "channels_last"), (2, "channels_last"), (3, "contiguous")])
def test_larger_than_one_task(kernel_set: Any, axis: int, layout: str) -> None:
    shape = [21, 22, 20, 24]
    shape[axis] = 4
    source = Source(np.random.default_rng(0), np.float32, (layout, "contiguous"))
    check(kernel_set, *source.arrays(tuple(shape), tuple(shape)), axis)
