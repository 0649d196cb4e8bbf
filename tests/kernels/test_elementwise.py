"""Elementwise kernels against the oracle: broadcasting, layouts, the full range of the element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, assert_equal, assert_ulps, run
from kernels.sets import textbook_at_night
from strategies import DTYPES, LAYOUTS, Source, broadcastable, examples, many_examples, numbers, shapes, sources

ARITHMETIC = ("add", "sub", "mul", "div")
# how many units in the last place a value may be off; 0.5 is the correctly rounded one
ULPS = {"neg": 0.0, "relu": 0.0, "sqrt": 0.5, "exp": 4.0, "log": 4.0, "sigmoid": 4.0, "tanh": 4.0}
EXPONENTS = (2.0, 3.0, 1.0, 0.0, -1.0, 0.5, -0.5, 1.5, 1 / 3, 7.0, -2.5)


def check_arithmetic(kernels: Any, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """The correctly rounded result: float64 has more than twice the digits of float32, so rounding it is exact."""
    with np.errstate(over="ignore"):
        expected = getattr(naive, name)(x, y).astype(x.dtype)
    assert_equal(run(getattr(kernels, name), x, y), expected.astype(np.float64))


def check_function(kernels: Any, name: str, x: np.ndarray) -> None:
    assert_ulps(run(getattr(kernels, name), x), getattr(naive, name)(x), ULPS[name])


def check_power(kernels: Any, x: np.ndarray, exponent: float) -> None:
    """float32 may round the exponent first."""
    expected = naive.power(x, float(x.dtype.type(exponent)))
    with np.errstate(all="ignore"):
        rounding = np.nan_to_num(np.abs(naive.power(x, exponent) / expected - 1)) / np.finfo(x.dtype).eps
    assert_ulps(run(kernels.power, x, exponent), expected, 8 + rounding)


def check_gradient(kernels: Any, name: str, g: np.ndarray, y: np.ndarray) -> None:
    expected = getattr(naive, name)(g, y)
    tolerance = 0.0 if name == "relu_grad" else 4 * np.finfo(g.dtype).eps * np.abs(g.astype(np.float64))
    assert_close(run(getattr(kernels, name), g, y), expected, tolerance)


def check_all(kernels: Any, source: Source, shape: tuple[int, ...], pair: tuple[Any, Any]) -> None:
    for name in ARITHMETIC:
        check_arithmetic(kernels, name, *source.arrays(*pair))
    for name in ULPS:
        (x,) = source.arrays(shape)
        check_function(kernels, name, np.asarray(np.abs(x)) if name in ("log", "sqrt") else x)
    for name in ("relu_grad", "sigmoid_grad", "tanh_grad"):
        check_gradient(kernels, name, *source.arrays(shape, shape))


@examples(60)
@given(source=sources, shape=shapes(limit=300), pair=broadcastable())
def test_elementwise(kernel_set: Any, source: Source, shape: tuple[int, ...], pair: tuple[Any, Any]) -> None:
    check_all(kernel_set, source, shape, pair)


@pytest.mark.nightly
@many_examples(2000)
@given(source=sources, shape=shapes(), pair=broadcastable())
def test_elementwise_nightly(kernel_set: Any, source: Source, shape: tuple[int, ...], pair: tuple[Any, Any]) -> None:
    check_all(kernel_set, source, shape, pair)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((), ()),
        ((), (3,)),
        ((1,), ()),
        ((0,), ()),
        ((0,), (1,)),
        ((3, 0), (1,)),
        ((3, 0), (3, 1)),
        ((1, 5), (0, 1)),
        ((0, 1, 4), (3, 1)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((1, 3, 1, 1), (2, 3, 4, 5)),
        ((2, 1, 4, 1), (3, 1, 5)),
        ((33, 1), (1, 70)),
        ((2, 70), (70,)),
        ((1, 1, 1), (1, 1)),
        ((2, 1, 2, 1, 2, 1, 2), (2, 1, 2, 1, 2)),
    ],
)
def test_broadcasting(kernel_set: Any, name: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    for dtype in DTYPES:
        rng = np.random.default_rng(0)
        check_arithmetic(kernel_set, name, numbers(rng, x, dtype), numbers(rng, y, dtype))
        check_arithmetic(kernel_set, name, numbers(rng, y, dtype), numbers(rng, x, dtype))


@pytest.mark.pairwise
@pytest.mark.parametrize("first", sorted(LAYOUTS))
@pytest.mark.parametrize("second", sorted(LAYOUTS))
def test_layouts(kernel_set: Any, first: str, second: str) -> None:
    for dtype in DTYPES if first == second else (np.float32,):
        source = Source(np.random.default_rng(0), dtype, (first, second))
        for name in ARITHMETIC:
            check_arithmetic(kernel_set, name, *source.arrays((2, 5, 3, 4), (2, 5, 3, 4)))
            check_arithmetic(kernel_set, name, *source.arrays((2, 5, 3, 4), (5, 1, 4)))
        for name in ("relu_grad", "sigmoid_grad", "tanh_grad"):
            check_gradient(kernel_set, name, *source.arrays((2, 5, 3, 4), (2, 5, 3, 4)))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layouts_of_one_operand(kernel_set: Any, layout: str) -> None:
    for dtype in DTYPES:
        source = Source(np.random.default_rng(0), dtype, (layout,))
        for name in ULPS:
            (x,) = source.arrays((2, 5, 3, 4))
            check_function(kernel_set, name, x)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("shape", [(76, 0), (0, 76), (2, 0, 70), (2, 70, 0)])
def test_no_elements(kernel_set: Any, shape: tuple[int, ...], layout: str) -> None:
    """Whatever the strides of an array without elements are."""
    x = LAYOUTS[layout](np.empty(shape))
    for other in (np.ones(()), np.ones(1), np.ones(shape[-1]), np.ones((*shape[:-1], 1))):
        for name in ARITHMETIC:
            check_arithmetic(kernel_set, name, x, other)
            check_arithmetic(kernel_set, name, other, x)
    for name in ULPS:
        check_function(kernel_set, name, x)


def test_an_array_with_itself(kernel_set: Any) -> None:
    x = numbers(np.random.default_rng(0), (5, 17))
    for name in ARITHMETIC:
        check_arithmetic(kernel_set, name, x, x)
        check_arithmetic(kernel_set, name, x, x[:, ::-1])
    for name in ("relu_grad", "sigmoid_grad", "tanh_grad"):
        check_gradient(kernel_set, name, x, x)


# ---------------------------------------------------------------- the whole range


def any_bits(dtype: type, count: int = 12_003) -> np.ndarray:
    """Numbers of every magnitude, subnormal ones, inf and NaN: random bits."""
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    values = np.frombuffer(rng.bytes(count * size), dtype).copy()
    values[np.isnan(values)] = np.nan  # a quiet one
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, info.max, -info.max, info.tiny, info.smallest_subnormal]
    values[: len(special)] = np.array(special, dtype)
    values[len(special) : count // 2] = rng.uniform(-100, 100, count // 2 - len(special))
    values[count // 2 : count // 2 + 500] = rng.uniform(-1e-3, 1e-3, 500)
    values[count // 2 + 500 : count // 2 + 1000] = 1 + rng.uniform(-1e-3, 1e-3, 500)
    return values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(ULPS))
def test_whole_range(kernel_set: Any, name: str, dtype: type) -> None:
    check_function(kernel_set, name, any_bits(dtype))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_power(kernel_set: Any, exponent: float, dtype: type) -> None:
    check_power(kernel_set, any_bits(dtype), exponent)


@examples(30)
@given(source=sources, shape=shapes(limit=300), exponent=st.sampled_from(EXPONENTS), factor=st.floats(-9, 9))
def test_power_and_scale(
    kernel_set: Any, source: Source, shape: tuple[int, ...], exponent: float, factor: float
) -> None:
    x, y = source.arrays(shape, shape)
    check_power(kernel_set, np.asarray(np.abs(x)), exponent)
    assert_ulps(run(kernel_set.scale, y, factor), naive.scale(y, factor), 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0, 0.1, 2.0**-60, np.inf, np.nan])
def test_scale(kernel_set: Any, factor: float, dtype: type) -> None:
    x = any_bits(dtype)
    assert_ulps(run(kernel_set.scale, x, factor), naive.scale(x, factor), 2)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_the_whole_range(kernel_set: Any, name: str, dtype: type) -> None:
    x = any_bits(dtype, 5_003)
    y = np.random.default_rng(1).permutation(x)
    check_arithmetic(kernel_set, name, x, y)
    special = x[:11]
    check_arithmetic(kernel_set, name, special[:, None], special)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_special_numbers(kernel_set: Any, dtype: type) -> None:
    special = np.array([0.0, -0.0, 1, -1, 0.5, np.nan, np.inf, -np.inf], dtype)
    g, y = (side.copy() for side in np.broadcast_arrays(special[:, None], special))
    for name in ("relu_grad", "sigmoid_grad", "tanh_grad"):
        check_gradient(kernel_set, name, g, y)


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_than_one_task(kernel_set: Any, dtype: type) -> None:
    """Tasks share an array: every element is computed once, at every cut."""
    source = Source(np.random.default_rng(0), dtype, ("contiguous", "channels_last"))
    shape = (3, 7, 61, 67)
    for name in ULPS:
        check_function(kernel_set, name, np.abs(source.arrays(shape)[0]))
    x, y = source.arrays(shape, shape)
    assert_equal(run(kernel_set.add, x, y), x.astype(np.float64) + y if dtype == np.float64 else x + y)
    assert_equal(run(kernel_set.mul, x, y[:1, :, :1, :1]), x * y[:1, :, :1, :1])
    assert_equal(run(kernel_set.sub, y[:, :1], x), y[:, :1] - x)
    assert_equal(run(kernel_set.relu_grad, x, y), np.where(y <= 0, 0, x))


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "shape", [(1,), (5,), (3, 1, 4), (5, 300), (2, 17, 70), (2, 64, 5, 7), (0, 3, 2), (3, 3, 1, 1), (70_000, 2)]
)
@pytest.mark.parametrize("shared", [False, True])
def test_prelu_grad_in_both_orders_of_memory(kernel_set: Any, shape: tuple[int, ...], shared: bool) -> None:
    rng = np.random.default_rng(4)
    channels = shape[1] if len(shape) > 1 else shape[0]
    weight = rng.normal(size=1 if shared else channels).astype(np.float32)
    g, x = rng.normal(size=(2, *shape)).astype(np.float32)
    expected = g.copy()
    for index in np.argwhere(x <= 0):
        channel = index[1] if len(shape) > 1 else index[0]
        expected[tuple(index)] *= weight[0 if shared else channel]
    weight = weight.reshape(-1, *(1,) * (len(shape) - 2)) if len(shape) > 1 else weight
    orders = [(g, x)]
    if len(shape) > 2:
        orders.append(tuple(np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in (g, x)))
    for g, x in orders:
        gx, terms = kernel_set.prelu_grad(g, x, weight, True, True)
        np.testing.assert_array_equal(gx, expected)
        np.testing.assert_array_equal(terms, np.where(x > 0, 0, g * x))
