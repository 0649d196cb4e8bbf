"""The helpers of the kernel tests detect and name each deliberate bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import naive
from comparison import assert_close, assert_equal, assert_sums, assert_ulps, run
from strategies import LAYOUTS, numbers

ONE = {"stride": [1, 1], "padding": [(1, 1), (1, 1)], "dilation": [1, 1], "groups": 1}


def changes_input(x: np.ndarray) -> np.ndarray:
    x += 1
    return x.copy()


def changes_neighbor(x: np.ndarray) -> np.ndarray:
    assert x.base is not None
    x.base.flat[0] = 5
    return x.copy()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (changes_input, "changed its array argument 0"),
        (changes_neighbor, "changed its array argument 0"),
        (lambda x: x, "result 0 shares memory"),
        (lambda x: x[::2], "result 0 shares memory"),
        (lambda x: (x.copy(),) * 2, "result 1 shares memory"),
        (lambda x: x.astype(np.float64), "result 0 has dtype float64, the inputs have float32"),
        (lambda x: x.copy().item(0), "returned a float"),
        (lambda x: np.broadcast_to(x.copy(), x.shape), "cannot be written to"),
    ],
)
def test_what_holds_of_every_kernel(kernel: Callable[..., Any], message: str) -> None:
    x = LAYOUTS["inside"](np.ones((3, 4), np.float32))
    with pytest.raises(pytest.fail.Exception, match=message):
        run(kernel, x)
    assert run(np.negative, x).shape == (3, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_faults_in_sums_are_caught(dtype: type) -> None:
    """Even the smallest bug is detected: one of 600 terms is missing."""
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (1, 70, 5, 6), dtype), numbers(rng, (3, 70, 3, 3), dtype)
    expected = naive.conv(x, w, None, **ONE)
    right = expected.astype(dtype)
    assert_sums(right, expected, 630)
    dropped = right.copy()
    dropped[0, 1, 2, 3] -= np.abs(x).min() * np.abs(w).min()
    shifted, swapped = np.roll(right, 1, 3), right[:, [0, 2, 1]]
    not_a_number = right.copy()
    not_a_number[0, 0, 4, 5] = np.nan
    scaled, flipped, short = right * dtype(1.001), right[..., ::-1], right[:, :2]
    for wrong in (dropped, shifted, swapped, not_a_number, -right, scaled, flipped, short):
        with pytest.raises(pytest.fail.Exception):
            assert_sums(wrong, expected, 630)


def test_nan_inf_and_units_in_the_last_place() -> None:
    expected = np.array([1.0, np.nan, np.inf, 1e300])
    right = expected.copy()
    assert_equal(right, expected)
    for at, value in ((0, np.nan), (1, 0), (2, np.nan), (2, -np.inf), (0, np.nextafter(1, 2))):
        wrong = right.copy()
        wrong[at] = value
        with pytest.raises(pytest.fail.Exception, match=rf"1 of 4 entries are wrong; the first at \({at},\)"):
            assert_equal(wrong, expected)
    with np.errstate(over="ignore"):
        assert_ulps(expected.astype(np.float32), expected, 0.5)  # 1e300 overflows
    with pytest.raises(pytest.fail.Exception):
        assert_ulps(right * (1 + 9e-16), expected, 2)
    with pytest.raises(pytest.fail.Exception, match=r"shape \(4,\) instead of \(1, 4\)"):
        assert_close(right, expected[None], 1)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_layouts_are_what_they_say(name: str) -> None:
    x = numbers(np.random.default_rng(0), (2, 5, 3, 4))
    view = LAYOUTS[name](x)
    assert view.shape == x.shape and view.dtype == x.dtype
    if name != "expanded":
        np.testing.assert_array_equal(view, x)
    else:
        assert view.strides[1] == 0  # the longest one
    assert view.flags.writeable == (name not in ("read_only", "expanded"))
    ordinary = {"contiguous", "read_only", "unaligned"}
    assert (view.strides == x.strides) == (name in ordinary)
    for shape in ((), (0,), (1,), (2, 0, 3), (1, 1, 1, 1)):
        assert LAYOUTS[name](np.ones(shape)).shape == shape
