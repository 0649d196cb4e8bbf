"""Dropout masks, which depend on positions, against Philox in Python integers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from comparison import run
from kernels.sets import textbook_at_night
from strategies import DTYPES, LAYOUTS, numbers


def philox(number: int, stream: int, key: int) -> int:
    """Philox-2x32-10 as the paper has it."""
    low, high = number % 2**32, (number >> 32) ^ stream
    for _ in range(10):
        product = low * 0xD256D193
        low, high = (product >> 32) ^ key ^ high, product % 2**32
        key = (key + 0x9E3779B9) % 2**32
    return low


def dropped(x: np.ndarray, p: float, key: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
    words = np.array([philox(i, stream, key) for i in range(x.size)], np.int64).reshape(x.shape)
    kept = words >= round(p * 2**32)
    return masked(x, kept, p), kept


def masked(x: np.ndarray, kept: np.ndarray, p: float) -> np.ndarray:
    scale = x.dtype.type(1 / (1 - p)) if p < 1 else x.dtype.type(0)
    with np.errstate(invalid="ignore"):
        return np.where(kept, x * scale, x * x.dtype.type(0))


def assert_same(results: tuple[np.ndarray, np.ndarray], wanted: tuple[np.ndarray, np.ndarray]) -> None:
    for result, other in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, other)


def test_the_generator_is_philox() -> None:
    """Known answers of the authors' library, Random123."""
    assert philox(0, 0, 0) == 0xFF1DAE59
    assert philox(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) == 0x2C3F628B
    assert philox(0x243F6A88, 0x85A308D3, 0x13198A2E) == 0xDD7CE038


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (17,), (0, 3), (3, 5), (2, 3, 5, 7), (1, 4, 1, 3)], ids=str)
def test_dropout(kernel_set: Any, shape: tuple[int, ...], dtype: type) -> None:
    x = numbers(np.random.default_rng(0), shape, dtype)
    for p, key, stream in ((0.3, 7, 9), (1.0, 0, 0), (0.999, 2**32 - 1, 2**31)):
        y, kept = run(kernel_set.dropout, x, p, key, stream)
        assert_same((y, kept), dropped(x, p, key, stream))
        gx = run(kernel_set.dropout_grad, x, kept, p)
        np.testing.assert_array_equal(gx, masked(x, kept, p))
        assert gx.dtype == x.dtype


@textbook_at_night
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_several_tasks(kernel_set: Any, layout: str) -> None:
    x = LAYOUTS[layout](numbers(np.random.default_rng(0), (3, 35, 20, 21), np.float32))
    y, kept = kernel_set.dropout(x, 0.4, 1, 2)
    assert_same((y, kept), dropped(x, 0.4, 1, 2))
    for g in (x, x[..., ::-1], np.ascontiguousarray(x), x.swapaxes(1, 2).copy().swapaxes(1, 2)):
        for mask in (kept, kept[:, :, ::-1]):
            np.testing.assert_array_equal(run(kernel_set.dropout_grad, g, mask, 0.4), masked(g, mask, 0.4))


def test_any_order_of_the_axes(kernel_set: Any) -> None:
    x = numbers(np.random.default_rng(0), (2, 3, 4, 5), np.float32)
    wanted = dropped(x, 0.5, 3, 4)
    for order in permutations(range(4)):
        moved = x.transpose(order).copy().transpose(np.argsort(order))
        assert_same(kernel_set.dropout(moved, 0.5, 3, 4), wanted)


def test_nan_and_inf(kernel_set: Any) -> None:
    x = np.array([np.nan, np.inf, -np.inf] * 8, np.float32)
    y, kept = kernel_set.dropout(x, 0.5, 0, 0)
    assert_same((y, kept), dropped(x, 0.5, 0, 0))
    assert np.isnan(y[::3]).all()
    np.testing.assert_array_equal(kernel_set.dropout_grad(x, kept, 0.5), y)


def test_as_many_as_probable(kernel_set: Any) -> None:
    x = np.ones((256, 256), np.float32)
    for key in range(4):
        _, kept = kernel_set.dropout(x, 0.25, key, 99)
        assert abs(kept.mean() - 0.75) < 0.007
        assert abs((kept[:, 1:] & kept[:, :-1]).mean() - 0.75**2) < 0.01
        assert abs((kept[1:] & kept[:-1]).mean() - 0.75**2) < 0.01
