"""Kernels of resampling, grids, labels, lengths and random choices against answers worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from retrograd.kernels import textbook
from retrograd.specs.geometry import conv_window, pool_window

nan, inf = np.nan, np.inf


def matrix(mode: str, extent: int, target: int, step: float, **options: bool) -> np.ndarray:
    """The weights of an interpolation (target, extent)."""
    given = {"align_corners": False, "antialias": False} | options
    starts, indices, weights = textbook.interpolation_matrix(mode, extent, target, step, **given)
    assert starts.dtype == indices.dtype == np.int64 and weights.dtype == np.float64
    dense = np.zeros((target, extent))
    rows = np.repeat(np.arange(target), np.diff(starts))
    np.add.at(dense, (rows, indices), weights)
    return dense


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: matrix("linear", 2, 4, 0.5), [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]),
        (lambda: matrix("linear", 3, 5, 0.6, align_corners=True)[1::2], [[0.5, 0.5, 0], [0, 0.5, 0.5]]),
        (lambda: matrix("area", 3, 2, 1.5), [[0.5, 0.5, 0], [0, 0.5, 0.5]]),
        # a = -0.75: weights at distances 1.5 and 0.5; the border counts twice
        (lambda: matrix("cubic", 2, 1, 2.0), [[0.5, 0.5]]),
        # a triangle of width 4 about 1 and 3: distances 0.5 and 1.5 of 2
        (lambda: matrix("linear", 4, 2, 2.0, antialias=True), [[3 / 7, 3 / 7, 1 / 7, 0], [0, 1 / 7, 3 / 7, 3 / 7]]),
        # the same with the step 4 / 2: distances 0.5, 0.5, 1.5 from 1, and 1.5, 0.5, 0.5 from 3
        (
            lambda: matrix("linear", 5, 3, 5 / 3, align_corners=True, antialias=True)[:2],
            [[3 / 7, 3 / 7, 1 / 7, 0, 0], [0, 1 / 8, 3 / 8, 3 / 8, 1 / 8]],
        ),
    ],
)
def test_interpolation(found: Any, expected: list[list[float]]) -> None:
    assert_allclose(found(), expected, rtol=1e-15)


def test_nearest() -> None:
    assert textbook.nearest_indices(2, 5, 0.4, False).tolist() == [0, 0, 0, 1, 1]
    assert textbook.nearest_indices(4, 2, 2.0, True).tolist() == [1, 3]
    assert textbook.nearest_indices(5, 2, 1 / 0.7, False).tolist() == [0, 1]


def test_points_of_an_affine_map() -> None:
    points = textbook.affine_points(np.ones((1, 2, 3), np.float32), (1, 2), True)
    assert points.dtype == np.float32 and points.tolist() == [[-1, 0, 1], [1, 0, 1]]
    assert textbook.affine_points(np.ones((1, 2, 3)), (2, 1), False).tolist() == [[0, -0.5, 1], [0, 0.5, 1]]


def test_points_moved_into_an_image() -> None:
    x = np.array([-0.75, 0.5, 3.25, 2.0])
    sign, offset = textbook.fold_points(x, 3, "border", False)
    assert sign.tolist() == [0, 1, 0, 0] and (x * sign + offset).tolist() == [0, 0.5, 2, 2]
    sign, offset = textbook.fold_points(x, 3, "reflection", True)  # at 0 and 2
    assert sign.tolist() == [-1, 1, -1, 0] and (x * sign + offset).tolist() == [0.75, 0.5, 0.75, 2]


def test_neighbors() -> None:
    x = np.array([-4.0, 0, 2, nan, inf])
    assert textbook.neighbor_indices(x, 1, 3, "zeros", False).tolist() == [-1, 1, 3, -1, 3]
    assert textbook.neighbor_indices(x[:3], 1, 3, "border", False).tolist() == [0, 1, 2]
    assert textbook.neighbor_indices(x[:3], 0, 1, "reflection", True).tolist() == [0, 0, 0]
    index, inside = textbook.grid_corner((np.array([0, 1, 2]), np.array([2, 1, -1])), (2, 3))
    assert index.tolist() == [2, 4, 3] and inside.tolist() == [True, True, False]


def test_points_of_a_deformable_convolution() -> None:
    offset = np.array([0.25, -1.5, nan]).reshape(1, 1, 1, 3)
    below, above, rest = textbook.deform_points(offset, conv_window((3,), 1), 0)
    assert below.ravel().tolist() == [0, -1, -2] and above.ravel().tolist() == [1, 0, -1]
    assert rest.ravel().tolist() == [0, 2, 4]  # offset + rest is the distance from below


def test_windows_with_padding() -> None:
    window = pool_window((5,), 3, 2, ((1, 1),))
    assert textbook.window_counts(window, ((0, 0),)).tolist() == [2, 3, 2]
    assert textbook.window_counts(window, ((1, 0),)).tolist() == [3, 3, 2]
    assert textbook.window_factors(window, ((1, 0),), np.dtype(np.float32)).tolist() == [1, 1, 1.5]


def test_windows_at_random_places() -> None:
    x = np.array([[[[5.0, 1, nan, 4, 4]]]])  # of extents 1 and 5
    samples = np.array([[[0.5, 0.9]]])  # of W, of H
    found = textbook.fractional_max_pool_indices(x, (1, 2), (1, 2), samples)
    assert found.dtype == np.int64 and found.tolist() == [[[[0, 3]]]]
    assert textbook.fractional_max_pool_indices(x, (1, 5), (1, 1), samples).tolist() == [[[[2]]]]


def test_labels() -> None:
    labels = np.array([[2, -100], [5, 0]])
    weight = np.array([1.0, 2, 3])
    assert textbook.labels_count(labels, 3, -100).tolist() == [[True, False], [False, True]]
    assert textbook.labels_outside(labels, 3, -100).tolist() == [[False, False], [True, False]]
    assert textbook.labels_outside(labels, 3, None).tolist() == [[False, True], [True, False]]
    assert textbook.label_weights(labels, weight, -100, 3, 0.5, np.dtype(np.float32)).tolist() == [[1.5, 0], [0, 0.5]]
    goals = textbook.label_goals(labels, 3, 0.75, np.dtype(np.float64))
    assert goals[0].tolist() == [[0.25, 0.25], [0.25, 0.25], [0.5, 0.25]]
    own, others = textbook.multi_margin_masks(np.array([[0.5, -1, 0.5]]), np.array([2]))
    assert own.tolist() == [[False, False, True]] and others.tolist() == [[True, False, False]]


def test_the_cosine_of_a_pair() -> None:
    cosine, targets = np.array([0.2, 0.2, 0.9, 0.5]), np.array([1.0, -1, -1, -1])
    slope, start = textbook.cosine_embedding_slopes(cosine, targets, 0.5, np.dtype(np.float64))
    assert slope.tolist() == [-1, 0, 1, 1] and start.tolist() == [1, 0, -0.5, -0.5]


def test_lengths() -> None:
    lengths = np.array([2, 0, 3])
    assert textbook.steps_after(lengths, 3)[..., 0].tolist() == [
        [False, True, False],
        [False, True, False],
        [True, True, False],
    ]
    assert textbook.lengths_within(lengths, 1, 3).tolist() == [1, 0, 2]
    assert_array_equal(textbook.inverse_lengths(lengths, np.dtype(np.float64)), [0.5, 1, 1 / 3])
    assert textbook.pad_rows(np.arange(1, 6), lengths, 3).tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]
    rows = np.array([[0, 9, 9], [9, 9, 9], [-1, 0, 1]])
    assert textbook.row_labels_outside(rows, lengths, 3).tolist() == [
        [False, True, False],
        [False] * 3,
        [True, False, False],
    ]
    assert textbook.zero_infinite(np.array([1.0, inf, nan])).tolist()[:2] == [1, 0]


def test_limits() -> None:
    x = np.array([0.5, 2, nan])
    kept, added = textbook.clamp_parts(x, 1)
    assert kept.tolist() == [0, 1, 1] and added.tolist() == [1, 0, 0]
    assert textbook.shortfall(x, 1).tolist() == [0.5, 0, 0]
    assert textbook.choose(x, 3, 0.5, np.dtype(np.float32)).tolist() == [3, 3, 3]
    assert textbook.choose(x == 2, 3, 0.5, np.dtype(np.int64)).tolist() == [0, 3, 0]


def test_a_band_of_channels() -> None:
    x = np.ones((1, 3, 1))
    assert textbook.channel_band(x, 2, 0.5).tolist() == [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 0.5]]
    assert textbook.channel_band(x.astype(np.int64), 3, 1).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]


def test_statistics() -> None:
    scale, shift = textbook.fixed_scale(*(np.array([value]) for value in (3.0, 3.0, 4.0, 1.0)), 1.0)
    assert scale.tolist() == [2] and shift.tolist() == [-5]
    mean, variance = textbook.instance_statistics(np.array([[1.0], [3.0]]), np.array([[0.5], [1.0]]), 1.0)
    assert mean.tolist() == [2] and variance.tolist() == [1.5]


def test_random_choices() -> None:
    weights = np.array([[0.0, 1, 3, 0], [2, 0, 0, 0]])
    drawn = np.array([[0.0, 0.2, 0.25, 0.999], [0, 0.5, 0.7, 1.0]])
    assert textbook.multinomial_repeated(weights, drawn).tolist() == [[1, 1, 2, 2], [0, 0, 0, 0]]
    times = np.array([[1.0, 2, 3, 1], [1, 1, 1, 1]])
    assert textbook.multinomial_distinct(weights, times, 2).tolist() == [[2, 1], [0, 1]]
    assert textbook.count_positive(weights).tolist() == [2, 1]
    noise, mean, std = np.array([[1.0], [-2.0]]), np.array([10.0, 20]), np.array(2.0)
    assert textbook.scaled_noise(noise, mean, std, np.dtype(np.float32)).tolist() == [[12, 22], [6, 16]]
    assert textbook.bernoulli(np.array([0.2, 0.5]), np.array(0.5), np.dtype(np.float32)).tolist() == [1, 0]
