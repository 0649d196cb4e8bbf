"""Sums, products, norms and extremes against the oracle."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import retrograd.kernels.compiled
from comparison import assert_close, assert_equal, assert_sums, run
from kernels.sets import textbook_at_night
from strategies import CHANNELS, DTYPES, LAYOUTS, Source, examples, many_examples, numbers, shapes, sources


def check_sum(kernels: Any, x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> None:
    terms = int(np.prod([x.shape[axis] for axis in axes]))
    assert_sums(run(kernels.sum, x, axes, keepdims), naive.sum(x, axes, keepdims), terms)


def check_max(kernels: Any, x: np.ndarray, axis: int) -> None:
    """Also check the minimum: it is minus the maximum of -x, at the same index."""
    for kernel, sign in ((kernels.max, 1), (kernels.min, -1)):
        values, indices = run(kernel, x, axis)
        expected_values, expected_indices = naive.max(sign * x, axis)
        assert_equal(values, sign * expected_values)
        assert indices.dtype == np.int64
        np.testing.assert_array_equal(indices, expected_indices)


def lines(x: np.ndarray, axes: tuple[int, ...]) -> tuple[list[list[float]], tuple[int, ...]]:
    """The elements of each result, in float64, and the shape of the result with axes of extent 1."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = math.prod(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes)
    rows = x.astype(np.float64).transpose(*kept, *axes).reshape(shape)
    return rows.tolist(), tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))


def check_others(kernels: Any, x: np.ndarray, axes: tuple[int, ...]) -> None:
    """Products, extremes and norms; of numbers from 0.25 to 1, so that errors are relative."""
    rows, shape = lines(x, axes)
    terms = math.prod(x.shape[a] for a in axes)
    eps = float(np.finfo(x.dtype).eps) * (8 + terms)
    expected = np.array([math.prod(row) for row in rows]).reshape(shape)
    assert_close(run(kernels.prod, x, axes, True), expected, eps * np.abs(expected) + np.finfo(x.dtype).tiny)
    for order in (1, 2):
        expected = np.array([math.fsum(abs(v) ** order for v in row) ** (1 / order) for row in rows]).reshape(shape)
        assert_close(run(kernels.norm, x, order, axes, True), expected, eps * np.abs(expected))
    if terms:
        assert_equal(run(kernels.amax, x, axes, True), np.array([max(row) for row in rows]).reshape(shape))
        assert_equal(run(kernels.amin, x, axes, True), np.array([min(row) for row in rows]).reshape(shape))


@st.composite
def sums(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(shapes())
    return shape, tuple(axis for axis in range(len(shape)) if draw(st.booleans()))


@examples(80)
@given(what=sums(), source=sources, keepdims=st.booleans())
def test_sum(kernel_set: Any, what: tuple[Any, Any], source: Source, keepdims: bool) -> None:
    check_sum(kernel_set, *source.arrays(what[0]), what[1], keepdims)


@pytest.mark.nightly
@many_examples(2000)
@given(what=sums(), source=sources, keepdims=st.booleans())
def test_sum_nightly(kernel_set: Any, what: tuple[Any, Any], source: Source, keepdims: bool) -> None:
    check_sum(kernel_set, *source.arrays(what[0]), what[1], keepdims)


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_set_of_axes(kernel_set: Any, layout: str, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, (layout,))
    for shape in ((3, 17, 2, 5), (1, 5, 1, 33), (2, 0, 3, 2)):
        for count in range(5):
            for axes in combinations(range(4), count):
                check_sum(kernel_set, *source.arrays(shape), axes, count % 2 == 0)
                check_others(kernel_set, *source.arrays(shape), axes)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
def test_the_same_layout_again(kernel_set: Any, name: str, axes: tuple[int, ...]) -> None:
    """Later calls run what the first one prepared: each on its own numbers, type, layout and axes."""
    function, rng = {"amax": np.max, "amin": np.min}.get(name) or getattr(np, name), np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.float32):
        for shape in ((3, 5), (5, 3), (3, 5), (1, 4), (4, 1)):
            for keepdims in (False, True):
                x = rng.normal(size=shape).astype(dtype)
                for each in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
                    y = getattr(kernel_set, name)(each, axes, keepdims)
                    assert y.dtype == dtype
                    expected = function(x.astype(np.float64), axis=axes, keepdims=keepdims)
                    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((70001,), (0,)), ((3, 11011), (1,)), ((11011, 3), (0,)), ((5, 33, 15, 14), (0, 2, 3)), ((190, 180), (0, 1))],
)
def test_sum_of_many(kernel_set: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: type) -> None:
    """More than a task, and partial sums: float32 keeps five digits of a sum of positive numbers."""
    x = np.abs(numbers(np.random.default_rng(0), shape, dtype))
    y = run(kernel_set.sum, x, axes, False)
    expected = naive.sum(x, axes, False)
    assert_close(y, expected, np.abs(expected) * (1e-5 if dtype == np.float32 else 1e-13))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_of_special_numbers(kernel_set: Any, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for extent in CHANNELS:
        x = numbers(rng, (4, extent, 3), dtype)
        x[0, extent // 2, 0] = np.nan
        x[1, extent // 3, 1] = np.inf
        x[2, 0, 2], x[2, -1, 1] = -np.inf, np.inf
        for axes in ((1,), (0, 1), (2,), (0, 1, 2)):
            check_sum(kernel_set, x, axes, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes"), [((40001,), (0,)), ((3, 20011), (1,)), ((5, 33, 15, 14), (0, 2, 3))])
def test_others_of_many(kernel_set: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: type) -> None:
    check_others(kernel_set, numbers(np.random.default_rng(0), shape, dtype), axes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_extremes_and_products_of_special_numbers(kernel_set: Any, axis: int, dtype: type) -> None:
    x = np.random.default_rng(0).choice(np.array([0.5, 1, np.nan, np.inf, -np.inf, 0], dtype), (37, 35, 3))
    x[:, :, 0] = np.where(np.isnan(x[:, :, 0]), 1, x[:, :, 0])
    with np.errstate(all="ignore"):
        assert_equal(run(kernel_set.amax, x, (axis,), False), x.max(axis))
        assert_equal(run(kernel_set.amin, x, (axis,), False), x.min(axis))
        found, expected = run(kernel_set.prod, x[:4, :5], (axis,), False), x[:4, :5].prod(axis)
        assert_close(found, expected, 1e-6)
        total = np.abs(x.astype(np.float64)).sum(axis)
        assert_close(run(kernel_set.norm, x, 1, (axis,), False), total, 1e-4)


# ---------------------------------------------------------------- max


@st.composite
def maxima(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    """A shape and an axis that is not empty; others may be."""
    shape = list(draw(shapes(ndim=(1, 4))))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = max(1, shape[axis])
    return tuple(shape), axis


def rounded(x: np.ndarray, steps: int) -> np.ndarray:
    """Numbers among which many are equal."""
    return np.round(x * steps)


@examples(80)
@given(what=maxima(), source=sources, steps=st.sampled_from((1, 2, 1000)))
def test_max(kernel_set: Any, what: tuple[Any, int], source: Source, steps: int) -> None:
    (x,) = source.arrays(what[0])
    check_max(kernel_set, x, what[1])
    check_max(kernel_set, rounded(x, steps), what[1])


@pytest.mark.nightly
@many_examples(2000)
@given(what=maxima(), source=sources, steps=st.sampled_from((1, 2, 1000)))
def test_max_nightly(kernel_set: Any, what: tuple[Any, int], source: Source, steps: int) -> None:
    (x,) = source.arrays(what[0])
    check_max(kernel_set, x, what[1])
    check_max(kernel_set, rounded(x, steps), what[1])


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_where_the_maximum_is(kernel_set: Any, axis: int, dtype: type) -> None:
    """At every position of every length: once alone, once with an equal element after it, and once as NaN."""
    for extent in (*range(1, 20), 33):
        for at in range(extent):
            shape = [2, 3, 4]
            shape[axis] = extent
            x = np.zeros(shape, dtype)
            along = np.moveaxis(x, axis, 0)
            along[at] = 1
            along[at:, 0] = 1
            along[at, -1, -1] = np.nan
            if at + 1 < extent:
                along[at + 1, -1, -1] = np.nan
            check_max(kernel_set, x, axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_of_special_numbers(kernel_set: Any, dtype: type) -> None:
    special = np.array([0.0, -0.0, 1, np.nan, np.inf, -np.inf], dtype)
    x = np.random.default_rng(0).choice(special, (40, 35, 3))
    x[0] = -np.inf
    for axis in range(3):
        check_max(kernel_set, x, axis)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_of_nothing_there_is_no_extreme(name: str) -> None:
    kernel, x = getattr(retrograd.kernels.compiled, name), np.ones((2, 0), np.float32)
    with pytest.raises(ValueError, match=rf"{name}: x.shape=\(2, 0\) has no elements"):
        kernel(x, 1) if name in ("max", "min") else kernel(x, (1,), False)


@pytest.mark.parametrize(("shape", "axis"), [((70001,), 0), ((2, 20003), 1), ((20003, 2), 0), ((20003, 2), 1)])
def test_max_of_many(kernel_set: Any, shape: tuple[int, ...], axis: int) -> None:
    check_max(kernel_set, rounded(numbers(np.random.default_rng(0), shape, np.float32), 50), axis)


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(33, 5), (17, 1), (16, 70), (3, 40001), (0, 3), (3, 0), (9, 2, 77), (21, 130)])
def test_rows_that_share_registers(kernel_set: Any, shape: tuple[int, ...], dtype: type) -> None:
    """As many rows as a register has lanes are combined at once: fewer, more, and long rows in pieces."""
    x = numbers(np.random.default_rng(0), shape, dtype)
    for axes in ((0,), (len(shape) - 1,)):
        rows, kept = lines(x, axes)
        terms = math.prod(shape[a] for a in axes)
        mean = np.array([math.fsum(row) / terms if terms else math.nan for row in rows]).reshape(kept)
        assert_close(run(kernel_set.mean, x, axes, True), mean, float(np.finfo(dtype).eps) * 8)
        if not x.size:
            continue
        spoiled = x.copy()
        spoiled.reshape(-1)[x.size // 2] = np.nan
        for name, best in (("amax", max), ("amin", min)):
            rows, _ = lines(spoiled, axes)
            expected = np.array([math.nan if any(map(math.isnan, row)) else best(row) for row in rows]).reshape(kept)
            assert_equal(run(getattr(kernel_set, name), spoiled, axes, True), expected)
