"""Errors of float32 sums against float64: they do not grow with the length like those of a running sum.

A running sum of k terms of mean 0 has errors of about ``ONE * sqrt(k / 2)`` times its size. Sums in blocks of 64, and
then of these sums, have ``ONE * sqrt(32 + k / 128)``, which the tests allow half as much again.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from retrograd import kernels
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import conv_window
from strategies import examples

EXACT = Options("exact")
ONE = 2.6e-8  # root of the mean square of the relative error of one operation in float32
lengths = st.integers(1, 40_000) | st.sampled_from([127, 128, 129, 256, 768, 769, 4096, 20_000])
seeds = st.integers(0, 1000)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def relu(seed: int, *shape: int) -> np.ndarray:
    return np.maximum(normal(seed, *shape), 0)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The root of the mean square of the errors, relative to that of the exact result."""
    assert found.dtype == np.float32
    size = np.sqrt(np.mean(np.square(exact, dtype=np.float64)))
    return float(np.sqrt(np.mean(np.square(found - exact.astype(np.float64)))) / size)


def bound(terms: int) -> float:
    return 1.5 * ONE * sqrt(min(terms, 80) / 2 + terms / 128 + 3)


@examples(30)
@given(k=lengths, rows=st.integers(12, 60), columns=st.integers(12, 60), seed=seeds, turned=st.booleans())
def test_matmul(k: int, rows: int, columns: int, seed: int, turned: bool) -> None:
    a, b = normal(seed, rows, k), normal(seed + 1, k, columns)
    if turned:  # the other form of the micro-kernel
        a = np.ascontiguousarray(a.T).T
    assert error(kernels.matmul(a, b), a.astype(np.float64) @ b) < bound(k)


@pytest.mark.parametrize("k", [200_000, 1_000_000])
def test_matmul_of_a_million_terms(k: int) -> None:
    a, b = normal(0, 12, k), normal(1, k, 12)
    assert error(kernels.matmul(a, b), a.astype(np.float64) @ b) < bound(k) / sqrt(2)


@examples(12)
@given(
    channels=st.integers(1, 300),
    outputs=st.sampled_from([1, 3, 16, 20]),
    kernel=st.sampled_from([1, 3, 9]),
    positions=st.integers(30, 400),
    stride=st.integers(1, 2),
    seed=seeds,
)
def test_convolution(channels: int, outputs: int, kernel: int, positions: int, stride: int, seed: int) -> None:
    window = conv_window((positions,), (kernel,), stride, kernel // 2)
    x, w = normal(seed, 1, channels, positions), normal(seed + 1, outputs, channels, kernel)
    g = normal(seed + 2, 1, outputs, *window.output)
    wide = [array.astype(np.float64) for array in (x, w, g)]
    geometry = window.stride, window.padding, window.dilation
    y = naive.conv(wide[0], wide[1], None, *geometry, 1)
    gx = naive.conv_input_grad(wide[2], wide[1], None, window.input, *geometry, 1)
    gw = naive.conv_weight_grad(wide[0], wide[2], window.kernel, *geometry, 1)
    assert error(kernels.conv(x, w, None, window, EXACT), y) < 1.3 * bound(channels * kernel)
    assert error(kernels.conv_input_grad(g, w, None, window, EXACT), gx) < 1.3 * bound(outputs * kernel)
    assert error(kernels.conv_weight_grad(x, g, window, EXACT), gw) < 1.3 * bound(positions)


@pytest.mark.parametrize(("channels", "kernel"), [(24, 3), (64, 1), (49, 1)])
def test_convolution_of_up_to_two_blocks(channels: int, kernel: int) -> None:
    """All terms in a row would miss this bound: they are added in two halves."""
    window, terms = conv_window((1000,), (kernel,), 1, kernel // 2), channels * kernel
    x, w = normal(0, 1, channels, 1000), normal(1, 32, channels, kernel)
    wide = x.astype(np.float64), w.astype(np.float64)
    exact = naive.conv(*wide, None, window.stride, window.padding, window.dilation, 1)
    assert error(kernels.conv(x, w, None, window, EXACT), exact) < 1.05 * ONE * sqrt(terms / 4 + 3)


@pytest.mark.parametrize("extents", [(8, 7, 7), (2, 14, 14), (4, 9, 11)])
def test_weight_gradient_of_some_hundred_positions(extents: tuple[int, ...]) -> None:
    """Blocks of twice as many terms would miss this bound."""
    images, terms = extents[0], int(np.prod(extents))
    x, g = normal(0, images, 40, *extents[1:]), normal(1, images, 48, *extents[1:])
    exact = np.einsum("nihw,nohw->oi", x.astype(np.float64), g)[..., np.newaxis, np.newaxis]
    found = kernels.conv_weight_grad(x, g, conv_window(extents[1:], (1, 1), 1, 0), EXACT)
    assert error(found, exact) < 1.15 * ONE * sqrt(32 + terms / 128)


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(24, 24, 1), (2, 3, 1), (16, 16, 16), (3, 20, 1)])
def test_weight_gradient_of_many_positions(channels: int, outputs: int, groups: int) -> None:
    """Of each form: taps one by one, few outputs, depthwise, few inputs."""
    window = conv_window((60_000,), (3,), 1, 1, groups=groups)
    x, g = normal(0, 1, channels, 60_000), normal(1, 1, outputs, 60_000)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    exact = np.stack([padded[:, :, tap : tap + 60_000][0] @ g[0].T.astype(np.float64) for tap in range(3)], -1)
    exact = exact.transpose(1, 0, 2)  # (Co, Ci, 3)
    if groups > 1:
        exact = np.stack([exact[c, c] for c in range(channels)])[:, np.newaxis]
    assert error(kernels.conv_weight_grad(x, g, window), exact) < bound(60_000)


@examples(20)
@given(k=lengths, seed=seeds, down=st.booleans())
def test_sums_and_running_sums(k: int, seed: int, down: bool) -> None:
    """Sums of blocks of blocks; running sums are rounded once."""
    x, axis = (normal(seed, k, 40), 0) if down else (normal(seed, 40, k), 1)
    wide = x.astype(np.float64)
    assert error(kernels.sum(x, (axis,), False), wide.sum(axis)) < 8 * ONE
    assert error(kernels.cumsum(x, axis, seed % 2 == 1), _running(wide, axis, seed % 2 == 1)) < 1.5 * ONE
    near = 1 + x / 1000
    assert error(kernels.prod(near, (axis,), False), near.astype(np.float64).prod(axis)) < 60 * ONE


def _running(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)


@examples(20)
@given(k=lengths, seed=seeds, down=st.booleans())
def test_statistics_after_a_relu(k: int, seed: int, down: bool) -> None:
    """Where half of the numbers are equal, so are their roundings: they must not add up.

    20 means of eight partial sums each have errors of up to 4.9 * ONE in 3,000 draws; those of running sums exceed
    6 * ONE from 300 terms on.
    """
    x, axis = (relu(seed, k + 7, 20), 0) if down else (relu(seed, 20, k + 7), 1)
    mean, squares = kernels.moments(x, (axis,))
    wide = x.astype(np.float64)
    assert error(mean, wide.mean(axis, keepdims=True)) < 6 * ONE
    assert error(squares, wide.var(axis, keepdims=True) * (k + 7)) < 6 * ONE


@examples(12)
@given(k=st.integers(2, 4000) | st.just(30_000), channels=st.integers(1, 70), seed=seeds)
def test_normalizations_after_a_relu(k: int, channels: int, seed: int) -> None:
    x, g = relu(seed, k, channels), normal(seed + 1, k, channels)
    one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    wide = x.astype(np.float64)
    mean, variance = wide.mean(0), wide.var(0)
    h = (wide - mean) / np.sqrt(variance + 1e-5)
    y, own_mean, _, inverse = kernels.batch_norm(x, one, zero, 1e-5)
    _, gweight, gbias = kernels.batch_norm_grad(g, x, one, own_mean, inverse)
    assert error(y, h) < 8 * ONE
    assert error(gbias, g.sum(0, np.float64)) < 4 * ONE
    assert _distance(gweight, (g * h).sum(0)) < 16 * ONE * sqrt(k)  # h carries the error of the mean
    rows, ones = np.ascontiguousarray(x.T), np.ones(k, np.float32)
    z, _, _ = kernels.layer_norm(rows, ones, np.zeros(k, np.float32), 1e-5, True)
    assert error(z, h.T) < 8 * ONE


def _distance(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(found - exact))))


@examples(10)
@given(k=st.integers(1000, 200_000), seed=seeds)
def test_losses_after_a_relu(k: int, seed: int) -> None:
    x, t = relu(seed, k), relu(seed + 1, k)
    for name, exact in (
        ("squared_error", np.square(x.astype(np.float64) - t)),
        ("absolute_error", np.abs(x.astype(np.float64) - t)),
    ):
        found: Any = kernels.element_loss(name, (x, t), (), 1.0)
        assert abs(float(found) / exact.sum() - 1) < 8 * ONE
