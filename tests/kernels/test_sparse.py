"""A sparse matrix along an axis, against a loop over its entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparison import assert_sums, run
from kernels.sets import textbook_at_night
from strategies import DTYPES, LAYOUTS, Source, examples, numbers, shapes, sources


def product(x: np.ndarray, axis: int, starts: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    lines = np.moveaxis(x, axis, 0).astype(np.float64)
    y = np.zeros((starts.size - 1, *lines.shape[1:]))
    for row in range(starts.size - 1):
        for k in range(starts[row], starts[row + 1]):
            y[row] += float(weights[k]) * lines[indices[k]]
    return np.moveaxis(y, 0, axis).astype(x.dtype)


def check(kernels: Any, rng: np.random.Generator, x: np.ndarray, axis: int, counts: list[int]) -> None:
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    total = int(starts[-1]) if x.shape[axis] else 0
    if not x.shape[axis]:
        starts = np.zeros_like(starts)
    indices = rng.integers(0, max(1, x.shape[axis]), total)
    weights = numbers(rng, (total,), x.dtype.type)
    picked = np.stack([np.moveaxis(x, axis, 0)[i] for i in indices], axis) if total else x.take([], axis)
    np.testing.assert_array_equal(run(kernels.lines, x, indices, axis), picked)
    gaps = np.where(rng.integers(0, 3, total) == 0, -1, indices)
    np.moveaxis(picked, axis, 0)[gaps < 0] = -2.5
    np.testing.assert_array_equal(run(kernels.lines, x, gaps, axis, -2.5), picked)
    found = run(kernels.csr_product, x, axis, starts, indices, weights)
    assert_sums(found, product(x, axis, starts, indices, weights), max([1, *counts]))


@examples(60)
@given(shape=shapes(), source=sources, counts=st.lists(st.integers(0, 5), max_size=6), data=st.data())
def test_csr_product(kernel_set: Any, shape: Any, source: Source, counts: list[int], data: st.DataObject) -> None:
    if not shape:
        return
    axis = data.draw(st.integers(0, len(shape) - 1))
    (x,) = source.arrays(shape)
    check(kernel_set, np.random.default_rng(len(counts)), x, axis, counts)


@textbook_at_night
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_several_tasks(kernel_set: Any, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = LAYOUTS[layout](numbers(rng, (5, 37, 41, 19), dtype))
    for axis in range(4):
        check(kernel_set, rng, x, axis, [2, 0, 3] * 20)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "fortran", "every_other"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_along_two_axes(kernel_set: Any, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 5, 7, 18), (2, 40, 6, 33), (2, 3, 30, 1), (0, 3, 4, 5)):
        x = LAYOUTS[layout](numbers(rng, shape, dtype))
        for axis in range(3):
            matrices = []
            for extent, counts in ((shape[axis], [2, 0, 1, 3]), (shape[axis + 1], [1, 2] * 5)):
                starts = np.concatenate([[0], np.cumsum(counts)])
                total = int(starts[-1])
                if not extent:
                    starts, total = np.zeros_like(starts), 0
                matrices.append((starts, rng.integers(0, max(1, extent), total), numbers(rng, (total,), dtype)))
            found = run(kernel_set.csr_product_pair, x, axis, *matrices)
            expected = product(product(x.astype(np.float64), axis, *matrices[0]), axis + 1, *matrices[1])
            assert_sums(found, expected.astype(dtype), 6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_weight_of_one_keeps_every_bit(kernel_set: Any, dtype: type) -> None:
    x = np.array([[-0.0, np.inf, 3.5], [1e-40, -np.inf, np.nan]], dtype)
    for axis in (0, 1):
        count = x.shape[axis]
        y = kernel_set.csr_product(x, axis, np.arange(count + 1), np.arange(count), np.ones(count, dtype))
        if kernel_set.__name__ == "retrograd.kernels.compiled":  # NumPy's sums begin with 0, which loses the sign of -0
            assert np.array_equal(np.signbit(y), np.signbit(x))
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_of_any_strides(kernel_set: Any, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = numbers(rng, (4, 6), dtype)
    starts, indices, weights = np.array([0, 2, 3]), np.array([5, 1, 0]), numbers(rng, (3,), dtype)
    apart = [np.repeat(a, 2)[::2] for a in (starts, indices, weights)]
    np.testing.assert_array_equal(
        kernel_set.csr_product(x, 1, *apart), kernel_set.csr_product(x, 1, starts, indices, weights)
    )
