"""Copies between strided arrays, against NumPy's assignment; nothing outside y is written."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import retrograd.kernels.compiled.memory.moves
from retrograd.kernels.compiled.memory.moves import DEINTERLEAVE, FILL, INTERLEAVE, OUTER, RUN, STEPS, TILES, move_plan
from strategies import DTYPES, LAYOUTS

Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def _kernels_for_small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrograd.kernels.compiled.memory.moves, "_SMALL", 1)


def some(shape: Shape, dtype: type, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).integers(-1000, 1000, shape), dtype)


def ordered(x: np.ndarray, order: Shape) -> np.ndarray:
    """x with its axes in memory in this order."""
    return x.transpose(order).copy().transpose(np.argsort(order))


def guarded(x: np.ndarray, order: Shape) -> tuple[np.ndarray, np.ndarray]:
    """A copy of x inside of a larger array, and that array."""
    larger = np.full([x.shape[a] + 2 for a in order], 77, x.dtype)
    inside = larger[(..., *(slice(1, -1),) * x.ndim)].transpose(np.argsort(order))
    inside[...] = x
    return inside, larger


def check(kernels: Any, x: np.ndarray, shape: Shape, order: Shape) -> None:
    for name in ("copy", "accumulate"):
        y, larger = guarded(some(shape, x.dtype.type, 1), order)
        expected = larger.copy()
        inside = expected[(..., *(slice(1, -1),) * len(shape))].transpose(np.argsort(order))
        inside[...] = x if name == "copy" else inside + x
        before = x.copy()
        assert getattr(kernels, name)(y, x) is None
        np.testing.assert_array_equal(larger, expected)
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", [*DTYPES, np.int64])
def test_every_order_of_axes_to_every_other(kernel_set: Any, dtype: type) -> None:
    for shape in ((3, 17, 35), (2, 3, 5, 18)):
        x, own = some(shape, dtype), tuple(range(len(shape)))
        for order in permutations(own):
            check(kernel_set, x, shape, order)
            check(kernel_set, ordered(x, order), shape, own)


# (shape, axes of x in memory, axes of y in memory) -> kind
KINDS: dict[tuple[Shape, Shape, Shape], int] = {
    ((3, 5, 67), (0, 1, 2), (1, 0, 2)): RUN,
    ((70000,), (0,), (0,)): RUN,
    ((41, 500), (0, 1), (1, 0)): TILES,
    ((500, 41), (0, 1), (1, 0)): TILES,
    ((9, 4000), (0, 1), (1, 0)): TILES,
    ((3, 501), (0, 1), (1, 0)): INTERLEAVE,
    ((501, 3), (0, 1), (1, 0)): DEINTERLEAVE,
    ((5, 7, 33, 2, 2), (0, 1, 2, 3, 4), (0, 3, 1, 4, 2)): DEINTERLEAVE,
    ((5, 2, 7, 2, 33), (0, 1, 2, 3, 4), (0, 2, 4, 1, 3)): INTERLEAVE,
    ((6, 5, 7), (0, 1, 2), (2, 1, 0)): STEPS,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("case", "kind"), KINDS.items(), ids=str)
def test_kinds_of_loops(kernel_set: Any, case: Any, kind: int, dtype: type) -> None:
    shape, x_order, y_order = case
    x, y = ordered(some(shape, dtype), x_order), ordered(np.full(shape, 77, dtype), y_order)
    kernel_set.copy(y, x)
    np.testing.assert_array_equal(y, x)
    plan = move_plan(shape, y.strides, shape, x.strides, y.itemsize, True)
    dealt = {DEINTERLEAVE, INTERLEAVE, STEPS}  # how many are dealt out depends on the registers
    assert plan is not None and plan.kind in (dealt if kind in dealt else {kind})
    check(kernel_set, x, shape, y_order)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_sources_of_any_strides(kernel_set: Any, layout: str, dtype: type) -> None:
    for shape in ((2, 19, 6, 33), (1, 1), (3, 0, 4), ()):
        x = LAYOUTS[layout](some(shape, dtype))
        check(kernel_set, x, shape, tuple(range(len(shape))))


def test_rows_of_every_width(kernel_set: Any) -> None:
    for width in range(1, 70):
        check(kernel_set, some((2, 3, width), np.float32), (2, 3, width), (0, 1, 2))


def test_flipped_repeated_and_stepped(kernel_set: Any) -> None:
    x, y = some((5, 12, 40), np.float32), np.zeros((5, 12, 40), np.float32)
    for steps in product((1, -1, 2, -3), repeat=3):
        part = tuple(slice(None, None, step) for step in steps)
        expected = np.zeros_like(y)
        y[...] = 0
        expected[part] = x[part][::-1, :, ::-1]
        kernel_set.copy(y[part], x[part][::-1, :, ::-1])
        np.testing.assert_array_equal(y, expected)
    for source in (x[:1], x[:, :1], x[..., :1], x[0], x[0, 0, :1], x[0, 0, 0, ...]):
        check(kernel_set, source, x.shape, (0, 1, 2))
        check(kernel_set, source, x.shape, (2, 0, 1))
    plan = move_plan(x.shape, x.strides, (1,), (4,), 4, True)
    assert plan is not None and plan.kind == FILL


def test_what_numpy_does_itself(kernel_set: Any) -> None:
    """Elements of other sizes, steps that are no whole elements, and more axes than loops."""
    for dtype in (np.bool_, np.int8, np.float16):
        x, y = some((7, 300), dtype), np.zeros((300, 7), dtype).T
        kernel_set.copy(y, x)
        np.testing.assert_array_equal(y, x)
    record = np.zeros(30, np.dtype([("a", np.int8), ("b", np.float32)]))
    kernel_set.copy(record["b"], some((30,), np.float32))
    np.testing.assert_array_equal(record["b"], some((30,), np.float32))
    shape = (2, 3) * ((OUTER + 3) // 2 + 1)
    check(kernel_set, some(shape, np.float32), shape, tuple(range(len(shape)))[::-1])
    counts = np.zeros(50, np.int64)
    kernel_set.accumulate(counts, np.arange(50))
    kernel_set.accumulate(counts, np.ones(1, np.int64))
    np.testing.assert_array_equal(counts, np.arange(1, 51))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_is_moved(kernel_set: Any, dtype: type) -> None:
    bits = np.random.default_rng(0).integers(0, 256, 40 * 41 * np.dtype(dtype).itemsize, np.uint8)
    x = bits.view(dtype).reshape(40, 41)  # NaN with messages, numbers near 0
    for y in (np.empty((40, 41), dtype), np.empty((41, 40), dtype).T, np.empty((41, 80), dtype)[:, ::2].T):
        kernel_set.copy(y, x)
        assert y.tobytes() == x.tobytes()
