from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import naive
import naive_adaptive
from comparison import assert_close, assert_equal, run
from retrograd.specs.geometry import AdaptiveWindow
from strategies import DTYPES, LAYOUTS

# input, output: windows of one size, of two sizes, fewer inputs than outputs, both kinds in one
SIZES = [
    ((6,), (3,)),
    ((7,), (3,)),
    ((3,), (7,)),
    ((5,), (1,)),
    ((1,), (1,)),
    ((5, 8), (3, 4)),
    ((7, 5), (7, 3)),
    ((4, 9), (2, 1)),
    ((3, 4, 5), (2, 3, 2)),
    ((2, 6, 3), (1, 2, 5)),
]


def array(dtype: type, *shape: int, layout: str = "contiguous") -> np.ndarray:
    return LAYOUTS[layout](np.random.default_rng(shape).standard_normal(shape).astype(dtype))


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "every_other"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inputs", "outputs"), SIZES, ids=str)
def test_against_the_definition(kernel_set: Any, inputs: Any, outputs: Any, dtype: type, layout: str) -> None:
    window = AdaptiveWindow(inputs, outputs)
    x, g = array(dtype, 2, 5, *inputs, layout=layout), array(dtype, 2, 5, *outputs, layout=layout)
    tolerance = 1e-6 if dtype is np.float32 else 1e-14
    y, indices = run(kernel_set.adaptive_max_pool, x, window)
    expected, places = naive_adaptive.adaptive_max_pool(x, outputs)
    assert_equal(y, expected)
    np.testing.assert_array_equal(indices, places)
    assert_close(run(kernel_set.adaptive_avg_pool, x, window), naive_adaptive.adaptive_avg_pool(x, outputs), tolerance)
    expected = naive_adaptive.adaptive_avg_pool_grad(g, inputs)
    assert_close(run(kernel_set.adaptive_avg_pool_grad, g, window), expected, 4 * tolerance)
    expected = naive.max_pool_grad(g, indices, inputs)
    assert_close(run(kernel_set.max_pool_grad, g, indices, window), expected, 4 * tolerance)


@pytest.mark.parametrize("channels", [1, 17, 70])
def test_numbers_of_channels(kernel_set: Any, channels: int) -> None:
    window = AdaptiveWindow((9, 20), (4, 3))
    x, g = array(np.float32, 1, channels, 9, 20), array(np.float32, 1, channels, 4, 3)
    assert_equal(kernel_set.adaptive_max_pool(x, window)[0], naive_adaptive.adaptive_max_pool(x, (4, 3))[0])
    assert_close(kernel_set.adaptive_avg_pool(x, window), naive_adaptive.adaptive_avg_pool(x, (4, 3)), 1e-6)
    expected = naive_adaptive.adaptive_avg_pool_grad(g, (9, 20))
    assert_close(kernel_set.adaptive_avg_pool_grad(g, window), expected, 1e-6)


def test_nan_and_ties(kernel_set: Any) -> None:
    x = np.array([[[1.0, 1.0, np.nan, 5.0, -np.inf]]])
    y, indices = kernel_set.adaptive_max_pool(x, AdaptiveWindow((5,), (3,)))  # 0..1, 1..3, 3..4
    np.testing.assert_array_equal(y, [[[1, np.nan, 5]]])
    np.testing.assert_array_equal(indices, [[[0, 2, 3]]])
    np.testing.assert_array_equal(kernel_set.adaptive_avg_pool(x, AdaptiveWindow((5,), (3,))), [[[1, np.nan, -np.inf]]])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty(kernel_set: Any, shape: tuple[int, int]) -> None:
    window = AdaptiveWindow((5, 3), (2, 2))
    x, g = np.zeros((*shape, 5, 3), np.float32), np.zeros((*shape, 2, 2), np.float32)
    for y in (*kernel_set.adaptive_max_pool(x, window), kernel_set.adaptive_avg_pool(x, window)):
        assert y.shape == g.shape
    assert kernel_set.adaptive_avg_pool_grad(g, window).shape == x.shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 4), (9,)), ((1, 70, 2, 3), (4, 5)), ((0, 2, 1), (3,)), ((2, 2, 1, 1, 1), (1, 2, 2))]
)
def test_unpooling(kernel_set: Any, shape: tuple[int, ...], size: tuple[int, ...], dtype: type) -> None:
    """Indices may repeat: the last value wins."""
    x, plane = array(dtype, *shape), int(np.prod(size))
    indices = np.random.default_rng(3).integers(0, plane, shape)
    expected = np.zeros((*shape[:2], plane))
    for at in np.ndindex(shape):
        expected[(*at[:2], indices[at])] = x[at]
    y = run(kernel_set.max_unpool, x, indices, size)
    assert y.dtype == dtype
    assert_equal(y, expected.reshape(*shape[:2], *size))


def test_the_largest_window() -> None:
    for i, o in itertools.product(range(1, 12), repeat=2):
        sizes = [len(naive_adaptive.members((at,), (i,), (o,))) for at in range(o)]
        window = AdaptiveWindow((i,), (o,))
        assert window.kernel == (max(sizes),) and window.taps == max(sizes) and window.padding == ((0, 0),)
