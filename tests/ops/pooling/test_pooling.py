from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from ops.battery import away_from_kinks, check, kernels_of_backward, numbers
from retrograd.autograd import gradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.pooling import AvgPool, AvgPoolGrad, MaxPool, MaxPoolGather, MaxPoolGrad
from retrograd.specs.geometry import Window, pool_window

# input, kernel, stride, padding, dilation
GEOMETRIES = {
    "1-D": ((6,), 2, None, 0, 1),
    "overlapping": ((5, 4), 3, (2, 1), 1, 1),
    "asymmetric": ((5, 4), (2, 3), 2, ((1, 0), (0, 1)), 1),
    "gaps": ((5, 5), 1, 2, 0, 1),
    "3-D": ((2, 3, 4), (1, 2, 2), 1, 0, 1),
}
DILATED = {"dilated": ((6, 5), 2, 1, 1, 2)}


def windows(name: str) -> Window:
    size, *others = (GEOMETRIES | DILATED)[name]
    return pool_window(size, *others)


def places(window: Window) -> Any:
    """Yield each output position with the positions of its taps inside the input."""
    for o in itertools.product(*map(range, window.output)):
        found = []
        for r in itertools.product(*map(range, window.kernel)):
            i = tuple(
                a * s + b * d - low
                for a, b, s, d, (low, _) in zip(o, r, window.stride, window.dilation, window.padding, strict=True)
            )
            if all(0 <= a < size for a, size in zip(i, window.input, strict=True)):
                found.append(i)
        yield o, found


def pooled(x: np.ndarray, window: Window, reduce: Any) -> np.ndarray:
    y = np.zeros((*x.shape[:2], *window.output))
    for o, inside in places(window):
        y[(..., *o)] = reduce(np.stack([x[(..., *i)] for i in inside], -1))
    return y


@pytest.mark.parametrize("name", GEOMETRIES | DILATED)
def test_max_pool(name: str) -> None:
    window = windows(name)
    x = away_from_kinks(2, 2, *window.input)
    check(lambda t: MaxPool.apply(t, window, False), (x,), lambda a: pooled(a, window, lambda v: v.max(-1)))


@pytest.mark.pairwise
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_avg_pool(name: str, count_include_pad: bool) -> None:
    window = windows(name)

    def mean(values: np.ndarray) -> np.ndarray:
        return values.sum(-1) / (window.taps if count_include_pad else values.shape[-1])

    x = numbers(2, 2, *window.input)
    check(lambda t: AvgPool.apply(t, window, count_include_pad), (x,), lambda a: pooled(a, window, mean), linear=True)
    g = numbers(2, 2, *window.output)
    back = AvgPoolGrad.apply(Tensor(g), window, count_include_pad).array
    assert gradcheck(lambda t: AvgPoolGrad.apply(t, window, count_include_pad), [Tensor(g, requires_grad=True)])
    np.testing.assert_allclose((pooled(x, window, mean) * g).sum(), (x * back).sum(), rtol=1e-12)


def test_max_pool_is_closed_under_differentiation() -> None:
    window = windows("overlapping")
    x = away_from_kinks(2, 2, *window.input)
    _, indices = F.max_pool2d(Tensor(x), 3, (2, 1), 1, return_indices=True)
    places_ = indices.array
    g, v = numbers(*indices.shape), numbers(*x.shape)
    back = MaxPoolGrad.apply(Tensor(g), places_, window).array
    forth = MaxPoolGather.apply(Tensor(v), places_, window).array
    np.testing.assert_allclose((back * v).sum(), (g * forth).sum(), rtol=1e-12)
    exact = {"eps": 1.0, "atol": 1e-11, "rtol": 1e-11}
    assert gradcheck(lambda t: MaxPoolGrad.apply(t, places_, window), [Tensor(g, requires_grad=True)], **exact)
    assert gradcheck(lambda t: MaxPoolGather.apply(t, places_, window), [Tensor(v, requires_grad=True)], **exact)


def test_indices_ties_and_nan() -> None:
    x = Tensor(np.array([[[1.0, 1.0, np.nan, 5.0, -np.inf, -np.inf]]]), requires_grad=True)
    y, indices = F.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y.array, [[[1, np.nan, -np.inf]]])
    np.testing.assert_array_equal(indices.array, [[[0, 2, 4]]])
    assert indices.dtype == np.int64 and not indices.requires_grad
    y.backward(Tensor(np.array([[[1.0, 2.0, 3.0]]])))
    np.testing.assert_array_equal(x.grad.array, [[[1, 0, 2, 0, 3, 0]]])


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_functions_of_all_dimensions(ndim: int) -> None:
    size = (5, 4, 4)[:ndim]
    x = away_from_kinks(2, 3, *size)
    window = pool_window(size, 2, 1, 1)
    largest, average = getattr(F, f"max_pool{ndim}d"), getattr(F, f"avg_pool{ndim}d")
    y = pooled(x, window, lambda v: v.max(-1))
    np.testing.assert_array_equal(largest(Tensor(x), 2, 1, 1).array, y)
    np.testing.assert_array_equal(largest(Tensor(x[1]), 2, 1, 1).array, y[1])
    one, indices = largest(Tensor(x[1]), [2] * ndim, [1] * ndim, [1] * ndim, return_indices=True)
    np.testing.assert_array_equal(one.array, y[1])
    np.testing.assert_array_equal(
        np.take_along_axis(x[1].reshape(3, -1), indices.array.reshape(3, -1), 1), y[1].reshape(3, -1)
    )
    z = pooled(x, window, lambda v: v.mean(-1))
    np.testing.assert_allclose(average(Tensor(x), 2, 1, 1, count_include_pad=False).array, z)
    np.testing.assert_allclose(average(Tensor(x[1]), 2, 1, 1, count_include_pad=False).array, z[1])


@pytest.mark.parametrize("batched", [True, False])
def test_gradients_through_the_functions(batched: bool) -> None:
    x = away_from_kinks(2, 2, 5)
    x = x if batched else x[0]
    check(lambda t: F.max_pool1d(t, 2), (x,), lambda a: F.max_pool1d(Tensor(a), 2).array)
    check(lambda t: F.avg_pool1d(t, 2), (x,), lambda a: F.avg_pool1d(Tensor(a), 2).array, linear=True)


# size, kernel, stride, padding -> outputs with ceil_mode
CEIL = [
    (5, 2, 2, 0, 3),
    (6, 2, 2, 0, 3),
    (5, 3, 2, 0, 2),
    (6, 3, 2, 0, 3),
    (4, 2, 3, 1, 2),
    (5, 2, 4, 0, 2),
    (3, 2, 3, 1, 2),
    (2, 3, 2, 0, 1),
    (1, 6, 3, 2, 1),
    (3, 5, 4, 0, 1),
]


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "outputs"), CEIL)
def test_ceil_mode(size: int, kernel: int, stride: int, padding: int, outputs: int) -> None:
    x = away_from_kinks(1, 1, size)
    starts = [o * stride - padding for o in range(outputs)]
    parts = [x[0, 0, max(0, s) : s + kernel] for s in starts]
    y = F.max_pool1d(Tensor(x), kernel, stride, padding, ceil_mode=True)
    np.testing.assert_array_equal(y.array[0, 0], [p.max() for p in parts])
    z = F.avg_pool1d(Tensor(x), kernel, stride, padding, ceil_mode=True, count_include_pad=False)
    np.testing.assert_allclose(z.array[0, 0], [p.mean() for p in parts])
    if not padding:  # padding added by ceil_mode lies outside x and its padding, and is not counted
        z = F.avg_pool1d(Tensor(x), kernel, stride, ceil_mode=True)
        np.testing.assert_allclose(z.array[0, 0], [p.mean() for p in parts])


def test_divisor_override() -> None:
    x = numbers(1, 2, 5, 5)
    ours = F.avg_pool2d(Tensor(x), 3, 2, 1, divisor_override=4)
    np.testing.assert_allclose(ours.array, F.avg_pool2d(Tensor(x), 3, 2, 1).array * 9 / 4)


def test_empty_batch() -> None:
    x = Tensor(np.zeros((0, 2, 4)), requires_grad=True)
    for y in (F.max_pool1d(x, 2), F.avg_pool1d(x, 2)):
        assert y.shape == (0, 2, 2)
        y.backward(Tensor(np.zeros((0, 2, 2))))
    assert x.grad.shape == x.shape


def test_one_kernel_per_backward() -> None:
    x = (away_from_kinks(1, 1, 4, 4),)
    assert kernels_of_backward(lambda t: F.max_pool2d(t, 2), x, {0}) == ["max_pool_grad"]
    assert kernels_of_backward(lambda t: F.avg_pool2d(t, 2), x, {0}) == ["avg_pool_grad"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: F.max_pool2d(x, 2, padding=2),
            ValueError,
            "max_pool2d: padding=(2, 2) on axis 0 must be at most half",
        ),
        (lambda x: F.max_pool2d(x, 7), ValueError, "max_pool2d: no output on axis 0"),
        (lambda x: F.max_pool2d(x[0, 0], 2), ValueError, "max_pool2d: input has 2 axes, needs 4 (batch, channels, 2"),
        (lambda x: F.max_pool2d(x, (2, 2, 2)), ValueError, "max_pool2d: kernel_size=(2, 2, 2) has 3 entries"),
        (lambda x: F.max_pool2d(x.bool(), 2), TypeError, "max_pool2d: input is bool, needs float32 or float64"),
        (lambda x: F.avg_pool2d(x, 2, 0), ValueError, "avg_pool2d: stride=0 must be at least 1"),
        (lambda x: F.avg_pool2d(x, 2.0), TypeError, "avg_pool2d: kernel_size=2.0 must be an int"),
        (
            lambda x: F.avg_pool2d(x, 2, divisor_override=0),
            ValueError,
            "avg_pool2d: divisor_override=0 divides by zero",
        ),
        (lambda x: F.avg_pool2d(x, 2, divisor_override="4"), TypeError, "divisor_override='4' must be a number"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    for _ in range(2):
        with pytest.raises(error, match=re.escape(message)):
            call(Tensor(np.ones((1, 1, 6, 6))))
