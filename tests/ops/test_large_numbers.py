"""The cost of a call depends on its arrays, not on numeric options such as strides, kernel sizes and piece counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from ops.sets import textbook_at_night
from retrograd import Tensor
from retrograd.kernels.compiled.convolution import depthwise, direct, direct_plan
from retrograd.nn import functional

# on a loaded machine that compiles kernels; costs that grew with the number took far longer, or all memory
SECONDS = 60.0


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


def drawn(*shape: int, requires_grad: bool = False) -> Tensor:
    return rg.tensor(np.random.default_rng(len(shape)).standard_normal(shape), requires_grad=requires_grad)


@textbook_at_night
@pytest.mark.parametrize("groups", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_long_stride(groups: int) -> None:
    """Four windows, far apart: the positions between them equal the bias and have no gradient."""
    s, x, w, b = 3000, drawn(1, 2, 2, 2), drawn(2, 2 // groups, 3, 3), drawn(2)
    y = functional.conv_transpose2d(x, w, b, stride=s, groups=groups).array
    between = np.ones(y.shape, bool)
    for i, j in np.ndindex(2, 2):
        point = x.array[0, :, i, j]
        wanted = np.einsum("g,gohw->gohw" if groups == 2 else "c,cohw->ohw", point, w.array).reshape(1, 2, 3, 3)
        part = np.s_[:, :, i * s : i * s + 3, j * s : j * s + 3]
        np.testing.assert_allclose(y[part], wanted + b.array.reshape(1, 2, 1, 1), rtol=1e-12, atol=1e-12)
        between[part] = False
    for c in range(2):
        np.testing.assert_array_equal(y[:, c][between[:, c]], b.array[c])
    big = rg.zeros((1, 2, s + 3, s + 3), dtype=rg.float64, requires_grad=True)
    g = drawn(1, 2, 2, 2)
    functional.conv2d(big, w, stride=s, groups=groups).backward(g)
    assert big.grad is not None
    back = functional.conv_transpose2d(g, w, stride=s, groups=groups).array
    np.testing.assert_allclose(big.grad.array, back, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_phases_that_are_left_out_keep_the_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if rg.active_kernels() != "compiled":
        pytest.skip("of the compiled kernels")
    random = np.random.default_rng(seed)
    ndim, groups = 1 + seed % 3, int(random.choice([1, 4]))
    outputs = 4 if groups == 4 else 8  # with 4 it is depthwise
    stride, dilation, padding = (int(random.integers(low, high)) for low, high in ((3, 8), (1, 4), (0, 2)))
    x, w = drawn(2, 4, *(3,) * ndim), drawn(4, outputs // groups, *(2,) * ndim)
    b = np.random.default_rng(seed).standard_normal(outputs)
    b[0] = -0.0
    call: Callable[..., Tensor] = getattr(functional, f"conv_transpose{ndim}d")
    found = []
    for most in (1, 10**9):
        monkeypatch.setattr(direct_plan, "MOST_PHASES", most)
        direct._gather_plan.cache_clear()
        depthwise._plan.cache_clear()
        options: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups}
        found.append(call(x, w, rg.tensor(b), **options, algorithm="direct").array.tobytes())
    monkeypatch.undo()
    direct._gather_plan.cache_clear()
    depthwise._plan.cache_clear()
    assert found[0] == found[1]


@pytest.mark.parametrize("integers", [False, True])
def test_a_kernel_much_longer_than_the_input(integers: bool) -> None:
    if rg.active_kernels() != "compiled" and not integers:
        pytest.skip("the textbook's mean writes its padding out")
    x = rg.tensor(np.array([[[3, -5, 8, 1, 2]]], np.int64 if integers else np.float64))
    r = 2 * 10**9
    y, places = functional.max_pool1d(x, r, stride=1, padding=r // 2, return_indices=True)
    line = x.array[0, 0]
    windows = [line[max(0, o - r // 2) : o + r // 2] for o in range(6)]
    np.testing.assert_array_equal(y.array[0, 0], [window.max() for window in windows])
    np.testing.assert_array_equal(places.array[0, 0], 2)
    mean = functional.avg_pool1d(x, r, stride=1, padding=r // 2, count_include_pad=False)
    np.testing.assert_array_equal(mean.array[0, 0], 1 if integers else 1.8)
    shared = functional.avg_pool1d(x, r, stride=1, padding=r // 2)
    np.testing.assert_array_equal(shared.array[0, 0], 0 if integers else 9 / r)


@pytest.mark.parametrize("seed", range(20))
def test_taps_that_meet_nothing_count_for_nothing(seed: int) -> None:
    """For any window, the result is the largest of the elements it covers, by a loop over positions."""
    random = np.random.default_rng(seed)
    x = rg.tensor(random.standard_normal((1, 1, int(random.integers(1, 6)))))
    size = x.array.shape[-1]
    kernel, dilation, stride = (int(random.integers(1, high)) for high in (9, 4, 4))
    extent = dilation * (kernel - 1) + 1
    padding = int(random.integers(0, extent // 2 + 1))
    try:
        y = functional.max_pool1d(x, kernel, stride, padding, dilation, ceil_mode=bool(seed % 2)).array[0, 0]
    except ValueError:
        return  # no window fits
    for o, value in enumerate(y):
        at = [o * stride + r * dilation - padding for r in range(kernel)]
        assert value == max(x.array[0, 0, i] for i in at if 0 <= i < size)


def test_a_mean_over_too_many_taps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"avg_pool3d: kernel_size=4194304 means 7\d* taps per window, which must be"):
        functional.avg_pool3d(drawn(1, 1, 3, 3, 3), 2**22, padding=2**21)


@textbook_at_night
def test_many_pieces() -> None:
    pieces = rg.tensor_split(drawn(5), 10**5)
    assert len(pieces) == 10**5 and sum(piece.array.size for piece in pieces) == 5


def test_views_that_are_gone_are_forgotten() -> None:
    x = drawn(4, requires_grad=True)
    kept = [x[:2] for _ in range(40)]
    for _ in range(10**4):
        x[1:]
    assert len(x._views) <= 2 * len(kept) + 32
