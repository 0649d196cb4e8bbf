"""Batch norm and its gradient against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, assert_equal, bits_but_nan, run
from kernels.sets import textbook_at_night
from retrograd.kernels import compiled
from strategies import CHANNELS, DTYPES, LAYOUTS, Source, examples, many_examples, numbers, sources

EPS = 1e-5


def per_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))


def check(kernels: Any, source: Source, shape: tuple[int, ...], eps: float = EPS) -> None:
    """Forward, gradient and inference form, with a random upstream gradient.

    Errors grow with the number M of terms; the errors of x are divided by the deviation.
    """
    x, weight, bias, g = source.arrays(shape, shape[1:2], shape[1:2], shape)
    M = x.size // shape[1]
    rounding = float(np.finfo(source.dtype).eps) * (16 + M)
    y, mean, variance, own_inverse = run(kernels.batch_norm, x, weight, bias, eps)
    expected_y, expected_mean, expected_variance = naive.batch_norm(x, weight, bias, eps)
    inverse = 1 / np.sqrt(expected_variance + eps)
    assert_close(mean, expected_mean, rounding)
    assert_close(variance, expected_variance, rounding)
    assert_close(own_inverse, inverse, rounding * (1 + inverse**2))
    assert_close(y, expected_y, per_channel(rounding * (1 + inverse), x) * (1 + np.abs(expected_y)))

    # the rounded statistics are arguments, the same ones for the oracle
    mean, inverse = expected_mean.astype(source.dtype), inverse.astype(source.dtype)
    results = run(kernels.batch_norm_grad, g, x, weight, mean, inverse)
    expected = naive.batch_norm_grad(g, x, weight, mean, inverse)
    spread = 1 + float(np.max(2 * inverse))  # h = (x - mean) * inverse is below it
    assert_close(results[0], expected[0], per_channel(rounding * inverse, x) * (2 + min(spread, M**0.5)) * 4)
    assert_close(results[1], expected[1], rounding * spread)
    assert_close(results[2], expected[2], rounding)

    # in two steps, as several processes do it
    sums = run(kernels.batch_norm_sums, g, x, mean, inverse)
    assert_close(sums[0], expected[2], rounding)
    assert_close(sums[1], expected[1], rounding * spread)
    factor = weight.astype(np.float64) * inverse
    steps = factor, -factor * inverse * expected[1] / M, -factor * expected[2] / M
    gx = run(kernels.batch_norm_input_grad, g, x, mean, *(each.astype(source.dtype) for each in steps))
    assert_close(gx, expected[0], per_channel(rounding * inverse, x) * (2 + min(spread, M**0.5)) * 4)

    eps_of_type, variance = np.finfo(source.dtype).eps, np.abs(mean) + source.dtype(0.1)
    scale, shift = run(kernels.fixed_scale, mean, variance, weight, bias, eps)
    wanted = weight.astype(np.float64) / np.sqrt(variance.astype(np.float64) + eps)
    assert_close(scale, wanted, 4 * eps_of_type * np.abs(wanted))
    assert_close(shift, bias - mean * wanted, 8 * eps_of_type * (np.abs(bias) + np.abs(mean * wanted)))
    y = run(kernels.channel_affine, x, weight, bias)
    assert_close(y, naive.channel_affine(x, weight, bias), 2 * np.finfo(source.dtype).eps)
    y = run(kernels.channel_affine, x, weight, bias, mean)
    assert_close(y, naive.channel_affine(x, weight, bias, mean), 4 * np.finfo(source.dtype).eps)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, ...]:
    ndim = draw(st.integers(2, 5))
    C = draw(st.sampled_from(CHANNELS))
    extents = [draw(st.integers(1, 6)) for _ in range(ndim - 1)]
    while C * np.prod(extents) > 1500:
        extents[int(np.argmax(extents))] //= 2
    return (extents[0], C, *extents[1:])


@examples(60)
@given(source=sources, shape=batches())
def test_batch_norm(kernel_set: Any, source: Source, shape: tuple[int, ...]) -> None:
    check(kernel_set, source, shape)


@pytest.mark.nightly
@many_examples(2000)
@given(source=sources, shape=batches(), eps=st.sampled_from((1e-5, 1e-3, 0.5)))
def test_batch_norm_nightly(kernel_set: Any, source: Source, shape: tuple[int, ...], eps: float) -> None:
    check(kernel_set, source, shape, eps)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_channel_counts(kernel_set: Any, channels: int, layout: str, dtype: type) -> None:
    check(kernel_set, Source(np.random.default_rng(channels), dtype, (layout, "contiguous")), (3, channels, 2, 3))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("shape", [(5, 9), (4, 3, 7), (2, 17, 3, 5), (2, 3, 2, 3, 4)], ids=len)
def test_layouts(kernel_set: Any, shape: tuple[int, ...], layout: str, dtype: type) -> None:
    check(kernel_set, Source(np.random.default_rng(0), dtype, (layout,)), shape)
    check(kernel_set, Source(np.random.default_rng(0), dtype, (layout, "unaligned", "reversed", "contiguous")), shape)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extent", range(1, 36))
def test_extents(kernel_set: Any, extent: int, dtype: type) -> None:
    """Every number of positions, and the same number of images."""
    source = Source(np.random.default_rng(extent), dtype, ("contiguous",))
    check(kernel_set, source, (1, 2, extent))
    check(kernel_set, source, (extent, 3))
    check(kernel_set, source, (2, 1, extent, 3))


@textbook_at_night
@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(np.float32, "contiguous"), (np.float32, "channels_last"), (np.float64, "channels_last")],
)
def test_larger_than_one_task(kernel_set: Any, layout: str, dtype: type) -> None:
    check(kernel_set, Source(np.random.default_rng(0), dtype, (layout, "contiguous")), (3, 35, 20, 21))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("channels", [1, 17])
def test_a_large_mean_does_not_drown_the_variance(kernel_set: Any, channels: int, layout: str) -> None:
    """E[x^2] - E[x]^2 would lose all of it in float32."""
    rng = np.random.default_rng(0)
    x = LAYOUTS[layout](rng.normal(1000, 1, (8, channels, 16, 16)).astype(np.float32))
    one = np.ones(channels, np.float32)
    y, mean, variance, _ = run(kernel_set.batch_norm, x, one, one, EPS)
    expected = naive.batch_norm(x, one, one, EPS)
    assert_close(mean, expected[1], 5e-3)
    assert_close(variance, expected[2], 1e-3)
    assert_close(y, expected[0], 1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, 3.0, -0.1])
def test_constant_channel(kernel_set: Any, value: float, dtype: type) -> None:
    x = np.full((3, 2, 4, 4), value, dtype)
    weight, bias = np.array([2, 3], dtype), np.array([-1, 5], dtype)
    y, mean, variance, _ = run(kernel_set.batch_norm, x, weight, bias, EPS)
    small = np.finfo(dtype).eps
    assert_close(mean, np.full(2, x.item(0), np.float64), 4 * small)
    assert_close(variance, np.zeros(2), 4 * small)
    assert_close(y, np.broadcast_to(per_channel(bias, x), x.shape).astype(np.float64), 4000 * small)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_nan_stays_in_its_channel(kernel_set: Any, value: float, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, g = numbers(rng, (2, 19, 3, 3), dtype), LAYOUTS[layout](numbers(rng, (2, 19, 3, 3), dtype))
    x[1, 17, 2, 1] = value
    x = LAYOUTS[layout](x)
    weight = bias = np.ones(19, dtype)
    healthy = np.arange(19) != 17
    y, mean, variance, inverse = run(kernel_set.batch_norm, x, weight, bias, EPS)
    expected = naive.batch_norm(x[:, healthy], weight[healthy], bias[healthy], EPS)
    assert_close(y[:, healthy], expected[0], 1e-5)
    assert np.isnan(y[:, 17]).all()
    assert_equal(mean[17:18], np.array([value]))
    assert np.isnan(variance[17]) and np.isfinite(variance[healthy]).all()
    gx, gweight, gbias = run(kernel_set.batch_norm_grad, g, x, weight, mean, inverse)
    assert np.isnan(gx[:, 17]).all() and np.isnan(gweight[17])
    assert np.isfinite(gx[:, healthy]).all() and np.isfinite(gweight[healthy]).all() and np.isfinite(gbias).all()
    y = run(kernel_set.channel_affine, x, weight, bias)
    assert_close(y, naive.channel_affine(x, weight, bias), 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_batch(kernel_set: Any, dtype: type) -> None:
    """In the inference form; training refuses an empty batch before the kernel."""
    y = run(kernel_set.channel_affine, np.empty((0, 5, 2, 2), dtype), np.ones(5, dtype), np.ones(5, dtype))
    assert y.shape == (0, 5, 2, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [0, 1, 7, 16, 33, 130])
def test_running_statistics(kernel_set: Any, channels: int, dtype: type) -> None:
    """Each operation is rounded; arrays that are not contiguous are changed in place, too, and nothing beside them."""
    rng = np.random.default_rng(channels)
    around = numbers(rng, (2, 2 * channels + 1), dtype)
    before, running = around.copy(), (around[0, :channels], around[1, 1::2])
    mean, variance = numbers(rng, (channels,), dtype), np.square(numbers(rng, (channels,), dtype))
    if channels > 1:
        mean[1], variance[0] = np.nan, np.inf
    share, factor = dtype(0.1), dtype(33 / 32)
    with np.errstate(all="ignore"):
        expected = [r + (s - r) * share for r, s in zip(running, (mean, variance * factor), strict=True)]
    assert kernel_set.running_statistics(running, mean, variance, 0.1, 33 / 32) is None
    for own, one in zip(running, expected, strict=True):
        assert_equal(own, one.astype(np.float64))
    before[0, :channels], before[1, 1::2] = expected
    assert_equal(around, before.astype(np.float64))


# ---------------------------------------------------------------- with a sum and a clamp

LIMITS = [(0.0, np.nan), (0.0, 6.0), (-0.3, 0.4), (np.nan, np.nan)]  # ReLU, ReLU6, another one, none


@examples(60)
@given(source=sources, shape=batches(), limits=st.sampled_from(LIMITS), adds=st.booleans())
def test_clamp(kernel_set: Any, source: Source, shape: tuple[int, ...], limits: Any, adds: bool) -> None:
    x, weight, bias, g, other = source.arrays(shape, shape[1:2], shape[1:2], shape, shape)
    rounding = float(np.finfo(source.dtype).eps) * (16 + x.size // shape[1])
    y, *statistics, coefficients = run(
        kernel_set.batch_norm_clamp, x, other if adds else None, weight, bias, EPS, *limits
    )
    expected, *of_oracle = naive.batch_norm(x, weight, bias, EPS)
    inverse = 1 / np.sqrt(of_oracle[1] + EPS)
    tolerance = per_channel(rounding * (1 + inverse), x) * (1 + np.abs(expected))
    total = expected + other if adds else expected
    assert_close(y, np.fmin(np.fmax(total, limits[0]), limits[1]), tolerance)
    for own, one in zip(statistics, (*of_oracle, inverse), strict=True):
        assert_close(own, one, rounding * (1 + inverse**2))
    assert_close(coefficients, np.stack((weight * inverse, bias)), rounding * (1 + inverse**2))
    affine = run(kernel_set.channel_affine_clamp, x, other if adds else None, weight, bias, *limits)
    total = naive.channel_affine(x, weight, bias) + (other if adds else 0)
    assert_close(affine, np.fmin(np.fmax(total, limits[0]), limits[1]), 4 * np.finfo(source.dtype).eps)
    if adds:
        return
    mean, inverse = (each.astype(source.dtype) for each in (of_oracle[0], inverse))
    results = run(kernel_set.batch_norm_clamp_grad, g, x, weight, mean, inverse, coefficients, *limits)
    with np.errstate(invalid="ignore"):
        away = (x - per_channel(of_oracle[0], x)) * per_channel(coefficients[0], x) + per_channel(coefficients[1], x)
        near = np.abs(away - limits[0]) < tolerance, np.abs(away - limits[1]) < tolerance
        passed = np.where((away <= limits[0]) | (away >= limits[1]), 0, g)
    if np.any(near):  # either side of a limit is right
        return
    wanted = naive.batch_norm_grad(passed, x, weight, mean, inverse)
    spread = 1 + float(np.max(2 * inverse))
    assert_close(results[0], wanted[0], per_channel(rounding * inverse, x) * (2 + spread) * 4)
    assert_close(results[1], wanted[1], rounding * spread)
    assert_close(results[2], wanted[2], rounding)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (9, 24, 30, 31), (3, 70, 19), (40, 130), (5, 1, 9, 9, 9)], ids=str)
def test_clamp_has_the_bits_of_separate_kernels(shape: tuple[int, ...], dtype: type) -> None:
    rng, threads = np.random.default_rng(len(shape)), compiled.get_num_threads()
    layout = LAYOUTS["channels_last" if len(shape) > 2 else "contiguous"]
    x, g, other = (layout(numbers(rng, shape, dtype)) for _ in range(3))
    weight, bias = numbers(rng, shape[1:2], dtype), numbers(rng, shape[1:2], dtype)
    x[-1, -1:], weight[0], bias[0], other[0] = np.nan, -np.inf, np.inf, -0.0
    for low, high in LIMITS:
        y, *statistics = compiled.batch_norm(x, weight, bias, EPS)
        for added in (None, other):
            total = y if added is None else compiled.add(y, added)
            if np.isnan(low):
                clamped = total
            else:
                clamped = compiled.relu(total) if np.isnan(high) else compiled.clamp(total, low, high)
            affine = compiled.channel_affine(x, weight, bias)
            affine = affine if added is None else compiled.add(affine, added)
            if not np.isnan(low):
                affine = compiled.relu(affine) if np.isnan(high) else compiled.clamp(affine, low, high)
            own = compiled.channel_affine_clamp(x, added, weight, bias, low, high)
            assert bits_but_nan(own) == bits_but_nan(affine) and own.strides == affine.strides
            try:
                for count in (1, 2):
                    compiled.set_num_threads(count)
                    result = compiled.batch_norm_clamp(x, added, weight, bias, EPS, low, high)
                    assert [*map(bits_but_nan, result[:4])] == [*map(bits_but_nan, (clamped, *statistics))]
                    assert result[0].strides == clamped.strides
                    if added is None and not np.isnan(low):
                        grad = compiled.relu_grad(g, clamped)
                        if not np.isnan(high):
                            grad = compiled.hardtanh_grad(g, total, low, high)
                        given = x, weight, statistics[0], statistics[2]
                        own = compiled.batch_norm_clamp_grad(g, *given, result[4], low, high)
                        assert [*map(bits_but_nan, own)] == [*map(bits_but_nan, compiled.batch_norm_grad(grad, *given))]
            finally:
                compiled.set_num_threads(threads)


def test_clamp_of_nothing() -> None:
    x, one = np.ones((0, 3, 4), np.float32), np.ones(3, np.float32)
    y, mean, *_, coefficients = compiled.batch_norm_clamp(x, None, one, one, EPS, 0.0, 6.0)
    assert y.shape == x.shape and np.isnan(mean).all() and coefficients.shape == (2, 3)
    assert compiled.channel_affine_clamp(x, None, one, one, 0.0, 6.0).shape == x.shape
    gx, gweight, gbias = compiled.batch_norm_clamp_grad(x, x, one, one, one, np.stack((one, one)), 0.0, 6.0)
    assert gx.shape == x.shape and not gweight.any() and not gbias.any()
