"""Layer and group norm and their gradients against the chain rule, sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import retrograd.kernels.compiled
import retrograd.kernels.compiled.normalization as row_norm
from comparison import assert_close, run
from strategies import CHANNELS, DTYPES, LAYOUTS, numbers

EPS = 1e-5
Rows = list[list[float]]


def normalized(row: list[float], centered: bool) -> tuple[list[float], float, float]:
    """(x - mean) * inverse, mean and inverse, inverse = 1 / sqrt(variance + EPS)"""
    mean = math.fsum(row) / len(row) if centered else 0.0
    inverse = (math.fsum((v - mean) ** 2 for v in row) / len(row) + EPS) ** -0.5
    return [(v - mean) * inverse for v in row], mean, inverse


def row_grad(h: list[float], row: list[float], centered: bool) -> list[float]:
    """The gradient through the variance and the mean, as in the paper on batch norm (Ioffe and Szegedy, 2015)."""
    _, mean, inverse = normalized(row, centered)
    count = len(row)
    to_variance = math.fsum(g * (v - mean) * -0.5 * inverse**3 for g, v in zip(h, row, strict=True))
    to_mean = -inverse * math.fsum(h) - to_variance * 2 * math.fsum(v - mean for v in row) / count
    return [
        g * inverse + to_variance * 2 * (v - mean) / count + (to_mean / count if centered else 0.0)
        for g, v in zip(h, row, strict=True)
    ]


def check(
    results: Any, gradients: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, centered: bool
) -> None:
    """All as (samples, groups, elements of a group); weight and bias (groups, elements of a group)."""
    eps = float(np.finfo(x.dtype).eps) * (32 + x.shape[2])
    wide, upstream, w, b = (a.astype(np.float64) for a in (x, g, weight, bias))
    z, gx = np.empty(x.shape), np.empty(x.shape)
    mean, inverse = np.empty(x.shape[:2]), np.empty(x.shape[:2])
    for at in np.ndindex(*x.shape[:2]):
        z[at], mean[at], inverse[at] = normalized(wide[at].tolist(), centered)
        gx[at] = row_grad((upstream[at] * w[at[1]]).tolist(), wide[at].tolist(), centered)
    spread = float(np.max(inverse, initial=1))
    assert_close(results[0], z * w + b, eps * (1 + spread) * 4)
    assert_close(results[1], mean, eps)
    assert_close(results[2], inverse, eps * (1 + inverse**3))
    assert_close(gradients[0], gx, eps * (1 + spread) ** 2 * 8)
    samples = eps * (8 + x.shape[0]) * (1 + spread) * 4
    assert_close(gradients[1], (upstream * z).sum(0), samples)
    assert_close(gradients[2], upstream.sum(0), samples)


def check_group_norm(
    kernels: Any, rng: np.random.Generator, shape: tuple[int, ...], groups: int, layout: str, dtype: type
) -> None:
    x, g = LAYOUTS[layout](numbers(rng, shape, dtype)), numbers(rng, shape, dtype)
    weight, bias = numbers(rng, shape[1:2], dtype), numbers(rng, shape[1:2], dtype)
    N, C = shape[:2]
    positions = math.prod(shape[2:])
    y, mean, inverse = run(kernels.group_norm, x, groups, weight, bias, EPS)
    gx, gweight, gbias = run(kernels.group_norm_grad, g, x, groups, weight, mean, inverse)

    def seen(a: np.ndarray) -> np.ndarray:
        return a.reshape(N, groups, C // groups * positions)

    def per_element(a: np.ndarray) -> np.ndarray:
        return np.repeat(a, positions).reshape(groups, -1)

    def per_channel(expected: np.ndarray) -> np.ndarray:
        return expected.reshape(C, positions).sum(1)

    rows = float(np.finfo(dtype).eps) * (64 + C * positions)
    check(
        (seen(y), mean, inverse),
        (seen(gx), *_exact(seen(g), seen(x), mean, inverse)),
        seen(g),
        seen(x),
        per_element(weight),
        per_element(bias),
        True,
    )
    exact_weight, exact_bias = _exact(seen(g), seen(x), mean, inverse)
    size = (1 + float(np.max(inverse, initial=1))) * (4 + N)
    assert_close(gweight, per_channel(exact_weight), rows * size)
    assert_close(gbias, per_channel(exact_bias), rows * size)


def _exact(g: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients to weight and bias element by element, in float64 from the statistics found."""
    wide = g.astype(np.float64)
    z = (x.astype(np.float64) - mean[..., np.newaxis]) * inverse[..., np.newaxis]
    return (wide * z).sum(0), wide.sum(0)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "inside", "reversed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm(kernel_set: Any, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape, groups in (
        ((3, 4, 5), 2),
        ((2, 6, 3, 3), 3),
        ((2, 6, 3, 3), 6),
        ((2, 6, 3, 3), 1),
        ((1, 4, 2, 2, 3), 2),
        ((5, 8), 2),
        ((3, 4, 1, 1), 2),
        ((2, 1, 7), 1),
        ((0, 4, 3), 2),
    ):
        check_group_norm(kernel_set, rng, shape, groups, layout, dtype)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_channel_counts(kernel_set: Any, channels: int, layout: str) -> None:
    check_group_norm(kernel_set, np.random.default_rng(channels), (2, channels, 3, 2), channels, layout, np.float32)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_several_pieces(kernel_set: Any, layout: str) -> None:
    rng = np.random.default_rng(0)
    check_group_norm(kernel_set, rng, (2, 4, 71, 30), 2, layout, np.float64)
    check_group_norm(kernel_set, rng, (1, 2, 150, 130), 1, layout, np.float64)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("groups", [1, 4, 68])
def test_samples_from_the_cache(kernel_set: Any, layout: str, groups: int) -> None:
    """So many samples and channels that one task normalizes a whole sample (or one group of it)."""
    check_group_norm(kernel_set, np.random.default_rng(0), (8, 68, 3, 2), groups, layout, np.float32)


def test_samples_in_several_pieces(kernel_set: Any) -> None:
    """The pieces of neighboring channels are merged; the last piece is shorter."""
    check_group_norm(kernel_set, np.random.default_rng(0), (8, 64, 300), 2, "channels_last", np.float32)


def check_layer_norm(
    kernels: Any, rng: np.random.Generator, shape: tuple[int, ...], count: int, layout: str, dtype: type, centered: bool
) -> None:
    last = shape[len(shape) - count :]
    x, g = LAYOUTS[layout](numbers(rng, shape, dtype)), LAYOUTS[layout](numbers(rng, shape, dtype))
    weight, bias = numbers(rng, last, dtype), numbers(rng, last, dtype)
    y, mean, inverse = run(kernels.layer_norm, x, weight, bias, EPS, centered)
    gx, gweight, gbias = run(kernels.layer_norm_grad, g, x, weight, mean, inverse, centered, True)
    rows, length = math.prod(shape[: len(shape) - count]), math.prod(last)
    view = (rows, 1, length)
    assert gweight.shape == gbias.shape == last and mean.shape == inverse.shape == shape[: len(shape) - count]
    check(
        (y.reshape(view), mean.reshape(rows, 1), inverse.reshape(rows, 1)),
        (gx.reshape(view), gweight.reshape(1, length), gbias.reshape(1, length)),
        g.reshape(view),
        x.reshape(view),
        weight.reshape(1, length),
        bias.reshape(1, length),
        centered,
    )
    plain, zeros, none = run(kernels.layer_norm_grad, g, x, weight, mean, inverse, centered, False)
    np.testing.assert_allclose(plain, gx, rtol=1e-4, atol=1e-4)
    assert not zeros.any() and not none.any()


@pytest.mark.pairwise
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(kernel_set: Any, layout: str, dtype: type, centered: bool) -> None:
    rng = np.random.default_rng(0)
    for shape, count in (
        ((4, 5), 1),
        ((3, 33), 1),
        ((2, 3, 4, 5), 3),
        ((2, 3, 4, 5), 2),
        ((7,), 1),
        ((50, 9), 1),
        ((0, 3), 1),
        ((4, 1), 1),
        ((600, 40), 1),
    ):
        check_layer_norm(kernel_set, rng, shape, count, layout, dtype, centered)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows(monkeypatch: pytest.MonkeyPatch, dtype: type, centered: bool) -> None:
    """Rows of several parts, of which the last is shorter, and rows of several blocks, as if tasks were small."""
    monkeypatch.setattr(row_norm, "CHUNK", 16)
    monkeypatch.setattr(row_norm, "FEW", 1000)
    rng = np.random.default_rng(0)
    for shape, count in (((3, 4141), 1), ((1, 2049), 1), ((70, 40), 1), ((0, 40), 1), ((2, 3, 4, 5), 3)):
        check_layer_norm(retrograd.kernels.compiled, rng, shape, count, "channels_last", dtype, centered)


@pytest.mark.parametrize("centered", [True, False])
def test_special_numbers(kernel_set: Any, centered: bool) -> None:
    """NaN and infinity affect their own row and no others."""
    x = numbers(np.random.default_rng(0), (6, 40), np.float32)
    weight, bias = np.ones(40, np.float32), np.zeros(40, np.float32)
    expected, *_ = kernel_set.layer_norm(x, weight, bias, EPS, centered)
    x[1, 3], x[4, 20] = np.nan, np.inf
    y, *_ = run(kernel_set.layer_norm, x, weight, bias, EPS, centered)
    assert np.isnan(y[1]).all() and np.isnan(y[4, 20])
    np.testing.assert_array_equal(y[[0, 2, 3, 5]], expected[[0, 2, 3, 5]])
