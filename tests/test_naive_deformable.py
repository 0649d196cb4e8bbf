"""The oracle of deformable convolution compared with results computed by hand and with finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from naive_deformable import deform_conv

X = np.array([[1.0, 2.0], [3.0, 5.0]])[None, None]
ONE = np.full((1, 1, 1, 1), 10.0)
PLAIN = (1, 1), ((0, 0), (0, 0)), (1, 1)


def offsets(down: float, right: float) -> np.ndarray:
    """Return the same offset, down and to the right, for all four outputs."""
    return np.stack([np.full((2, 2), down), np.full((2, 2), right)])[None]


@pytest.mark.parametrize(
    ("down", "right", "expected"),
    [
        (0, 0, [[10, 20], [30, 50]]),
        (0, 1, [[20, 0], [50, 0]]),
        (0.5, 0, [[20, 35], [15, 25]]),  # (1 + 3)/2, (2 + 5)/2; below the last row, half of it
        (0, -0.25, [[7.5, 17.5], [22.5, 45]]),  # 3/4 of 1; 1/4 of 1 and 3/4 of 2
        (0.5, 0.5, [[27.5, 17.5], [20, 12.5]]),
        (-1, 0, [[0, 0], [10, 20]]),
        (0, 2, [[0, 0], [0, 0]]),
    ],
)
def test_one_tap(down: float, right: float, expected: list[list[float]]) -> None:
    y, _ = deform_conv(X, offsets(down, right), None, ONE, np.array([1.0]), None, *PLAIN)
    np.testing.assert_allclose(y[0, 0], np.array(expected) + 1)
    halved, _ = deform_conv(X, offsets(down, right), np.full((1, 1, 2, 2), 0.5), ONE, None, None, *PLAIN)
    np.testing.assert_allclose(halved[0, 0], np.array(expected) / 2)


def test_groups_taps_and_channels() -> None:
    """Two taps side by side; the second deformable group moves its second tap one row down."""
    x = np.arange(8.0).reshape(1, 2, 2, 2)
    offset = np.zeros((1, 8, 2, 1))
    offset[0, 6] = 1
    w = np.array([[[[1.0, 10.0]]], [[[100.0, 1000.0]]]])
    y, _ = deform_conv(x, offset, None, w, None, None, *PLAIN)
    np.testing.assert_array_equal(y[0, 0], [[0 + 10], [2 + 30]])
    np.testing.assert_array_equal(y[0, 1], [[400 + 7000], [600]])
    summed, _ = deform_conv(x, offset, None, w.reshape(1, 2, 1, 2), None, None, *PLAIN)
    np.testing.assert_array_equal(summed[0, 0], y[0].sum(axis=0))


def test_a_derivative_at_a_position_is_that_to_the_next_one() -> None:
    upstream = np.ones((1, 1, 2, 2))
    _, (_, goffset, _, _) = deform_conv(X, offsets(0, 0), None, ONE, None, upstream, *PLAIN)
    np.testing.assert_array_equal(goffset[0], [[[20, 30], [-30, -50]], [[10, -20], [20, -50]]])


def test_gradients_are_difference_quotients() -> None:
    rng = np.random.default_rng(0)
    geometry = (2, 1), ((1, 0), (0, 1)), (1, 2)
    arrays = [
        rng.standard_normal((1, 4, 3, 4)),
        rng.integers(-2, 2, (1, 16, 2, 3)) + rng.uniform(0.2, 0.8, (1, 16, 2, 3)),
        rng.standard_normal((1, 8, 2, 3)),
        rng.standard_normal((2, 2, 2, 2)),
    ]
    g = rng.standard_normal((1, 2, 2, 3))
    _, gradients = deform_conv(*arrays, None, g, *geometry)
    for k, gradient in enumerate(gradients):
        direction = rng.standard_normal(arrays[k].shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = [array + step * direction if n == k else array for n, array in enumerate(arrays)]
            ends.append(float((deform_conv(*moved, None, None, *geometry)[0] * g).sum()))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float((gradient * direction).sum()), rel=1e-8)
