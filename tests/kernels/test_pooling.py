"""Pooling against the oracle: values, where the maxima are, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, assert_equal, assert_sums, run
from kernels.sets import textbook_at_night
from retrograd.specs.geometry import Window, pool_window
from strategies import (
    CHANNELS,
    DTYPES,
    LAYOUTS,
    Source,
    evenly,
    examples,
    many_examples,
    numbers,
    pool_case,
    pool_cases,
    sources,
)


def geometry(window: Window) -> dict[str, Any]:
    return {
        "kernel": window.kernel,
        "stride": window.stride,
        "padding": window.padding,
        "dilation": window.dilation,
    }


def check_max(kernels: Any, x: np.ndarray, g: np.ndarray, window: Window) -> None:
    y, indices = run(kernels.max_pool, x, window)
    expected, places = naive.max_pool(x, **geometry(window), output=window.output)
    assert_equal(y, expected)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, places)
    assert_equal(run(kernels.max_pool_values, x, window), expected)
    gx = run(kernels.max_pool_grad, g, indices, window)
    assert_sums(gx, naive.max_pool_grad(g, indices, window.input), window.taps)
    assert_equal(run(kernels.max_pool_gather, x, indices), expected)


def check_avg(kernels: Any, x: np.ndarray, g: np.ndarray, window: Window, count_include_pad: bool) -> None:
    y = run(kernels.avg_pool, x, window, count_include_pad)
    whole = {**geometry(window), "count_include_pad": count_include_pad}
    assert_sums(y, naive.avg_pool(x, **whole, output=window.output), window.taps)
    gx = run(kernels.avg_pool_grad, g, window, count_include_pad)
    assert_sums(gx, naive.avg_pool_grad(g, window.input, **whole), window.taps)
    if x.dtype == np.float64:
        size = max(np.linalg.norm(y) * np.linalg.norm(g), 1e-300)
        assert abs(np.vdot(y, g) - np.vdot(x, gx)) <= 1e-12 * size


def check(kernels: Any, case: tuple[Window, tuple[int, int]], source: Source, count_include_pad: bool) -> None:
    window, outer = case
    x, g = source.arrays((*outer, *window.input), (*outer, *window.output))
    check_max(kernels, x, g, window)
    check_max(kernels, np.round(x, 0), g, window)  # many are equal: the first counts
    check_avg(kernels, x, g, window, count_include_pad)


@examples(60)
@given(case=pool_cases(), source=sources, count_include_pad=st.booleans())
def test_pooling(kernel_set: Any, case: tuple[Any, Any], source: Source, count_include_pad: bool) -> None:
    check(kernel_set, case, source, count_include_pad)


@pytest.mark.parametrize("number", range(100))
def test_pooling_evenly(kernel_set: Any, number: int) -> None:
    pick, source = evenly(number)
    check(kernel_set, pool_case(pick), source, pick(0, 1) == 1)


@pytest.mark.nightly
@many_examples(2000)
@given(case=pool_cases(6000), source=sources, count_include_pad=st.booleans())
def test_pooling_nightly(kernel_set: Any, case: tuple[Any, Any], source: Source, count_include_pad: bool) -> None:
    check(kernel_set, case, source, count_include_pad)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_channel_counts(kernel_set: Any, channels: int, layout: str, dtype: type) -> None:
    window = pool_window((5, 4), (3, 2), (2, 2), ((1, 1), (0, 0)), (1, 1))
    check(kernel_set, (window, (2, channels)), Source(np.random.default_rng(channels), dtype, (layout,)), True)


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_layouts(kernel_set: Any, ndim: int, layout: str) -> None:
    window = pool_window((6, 5, 4)[:ndim], (3, 2, 2)[:ndim], (2, 1, 3)[:ndim], ((1, 0),) * ndim, (1,) * ndim)
    source = Source(np.random.default_rng(0), np.float32, (layout, "contiguous"))
    check(kernel_set, (window, (2, 9)), source, False)
    check(kernel_set, (window, (2, 9)), Source(source.rng, np.float64, ("channels_last", layout)), True)


def test_widths(kernel_set: Any) -> None:
    """Many widths of the usual windows: 2 by 2 side by side, 3 by 3 that overlap, one window for all."""
    for width in (*range(1, 20), 31, 32, 33, 40):
        source = Source(np.random.default_rng(width), DTYPES[width % 3 == 0], ("contiguous", "contiguous"))
        if width > 1:
            check(kernel_set, (pool_window((2, width), 2), (1, 2)), source, True)
        check(kernel_set, (pool_window((2, width), (2, 1), (2, 1)), (1, 1)), source, True)
        check(kernel_set, (pool_window((3, width), 3, 2, 1), (1, 1)), source, width % 2 == 0)
        check(kernel_set, (pool_window((3, width), (3, width)), (2, 1)), source, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf(kernel_set: Any, dtype: type) -> None:
    """The first NaN of a window is its maximum; a window of -inf has its maximum in the input, not in the padding."""
    rng = np.random.default_rng(0)
    for window in (
        pool_window((7, 6), 3, 2, 1),
        pool_window((7, 6), 2),
        pool_window((7, 6), (2, 3), 1, (1, 1), (2, 1)),
    ):
        for channels in (1, 3, 17):
            x = rng.choice(np.array([0, 1, np.nan, np.inf, -np.inf, -np.inf], dtype), (2, channels, 7, 6))
            x[0, 0] = -np.inf
            for layout in ("contiguous", "channels_last"):
                g = numbers(rng, (2, channels, *window.output), dtype)
                check_max(kernel_set, LAYOUTS[layout](x), g, window)
            y = run(kernel_set.avg_pool, x, window, True)
            whole = {**geometry(window), "count_include_pad": True}
            assert_close(y, naive.avg_pool(x, **whole, output=window.output), 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_negative_numbers_beside_padding(kernel_set: Any, dtype: type) -> None:
    window = pool_window((3, 3), 2, 1, 1)
    x = -1 - np.abs(numbers(np.random.default_rng(0), (1, 2, 3, 3), dtype))
    check_max(kernel_set, x, numbers(np.random.default_rng(1), (1, 2, *window.output), dtype), window)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_any_indices(kernel_set: Any, layout: str, dtype: type) -> None:
    """Scatter and gather take whatever indices, all the same one and indices in another layout included."""
    rng = np.random.default_rng(0)
    window = pool_window((6, 5), 3, 1, 1)
    g = LAYOUTS[layout](numbers(rng, (2, 5, 6, 5), dtype))
    x = LAYOUTS[layout](numbers(rng, (2, 5, 6, 5), dtype))
    whole = rng.integers(0, 30, (2, 5, 6, 5))
    for indices in (whole, np.full_like(whole, 29), whole[:, ::-1], np.asfortranarray(whole)):
        gx = run(kernel_set.max_pool_grad, g, indices, window)
        assert_sums(gx, naive.max_pool_grad(g, indices, window.input), 30)
        assert_equal(run(kernel_set.max_pool_gather, x, indices), naive.max_pool_gather(x, indices))


@pytest.mark.parametrize("channels", [1, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_batch(kernel_set: Any, channels: int, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    check(kernel_set, (pool_window((4, 4), 2), (0, channels)), source, True)


@textbook_at_night
@pytest.mark.parametrize(("dtype", "layout"), [(np.float32, "channels_last"), (np.float64, "contiguous")])
def test_larger_than_one_task(kernel_set: Any, layout: str, dtype: type) -> None:
    window = pool_window((23, 22), 3, 2, 1)
    check(kernel_set, (window, (2, 35)), Source(np.random.default_rng(0), dtype, (layout,)), False)
