"""Power-average pooling, unpooling and adaptive pooling, beyond the conformance tests."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from ops.battery import kernels_of_backward, numbers
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name


def test_a_window_of_zeros_has_no_gradient_but_no_nan_either() -> None:
    x = Tensor(np.array([[[0.0, 0.0, 3.0, 4.0]]]), requires_grad=True)
    y = F.lp_pool1d(x, 2, 2)
    np.testing.assert_allclose(y.array, [[[0, 5]]])
    y.backward(Tensor(np.array([[[7.0, 10.0]]])))
    np.testing.assert_allclose(x.grad.array, [[[0, 0, 6, 8]]])


def test_a_minimum() -> None:
    x = Tensor(np.array([[[-3.0, 1.0, 2.0, -5.0]]]))
    np.testing.assert_array_equal(F.lp_pool1d(x, -np.inf, 2).array, [[[1, 2]]])


def test_one_extent_in_a_tuple_is_for_all_axes() -> None:
    x = Tensor(numbers(1, 2, 4, 4))
    np.testing.assert_array_equal(F.lp_pool2d(x, 2, (2,)).array, F.lp_pool2d(x, 2, 2).array)


def test_kernels_of_adaptive_pooling() -> None:
    x = (numbers(1, 2, 6, 6),)
    assert kernels_of_backward(lambda t: F.adaptive_avg_pool2d(t, 3), x, {0}) == ["avg_pool_grad"]
    assert kernels_of_backward(lambda t: F.adaptive_avg_pool2d(t, 4), x, {0}) == ["adaptive_avg_pool_grad"]
    assert kernels_of_backward(lambda t: F.adaptive_max_pool2d(t, 4), x, {0}) == ["max_pool_grad"]
    assert kernels_of_backward(lambda t: F.adaptive_avg_pool2d(t, 1), x, {0}) == ["scale"]


def test_unpooling_where_places_meet() -> None:
    x = Tensor(np.array([[[1.0, 2.0, 3.0]]]), requires_grad=True)
    y = F.max_unpool1d(x, Tensor(np.array([[[1, 1, 4]]])), 2)
    np.testing.assert_array_equal(y.array, [[[0, 2, 0, 0, 3, 0]]])
    y.backward(Tensor(np.arange(6.0).reshape(1, 1, 6)))
    np.testing.assert_array_equal(x.grad.array, [[[1, 1, 4]]])


def test_unpooling_undoes_pooling() -> None:
    x = numbers(2, 3, 5, 7)
    y, places = nn.MaxPool2d(2, return_indices=True)(Tensor(x))
    back = nn.MaxUnpool2d(2)(y, places, output_size=x.shape)
    assert back.shape == x.shape
    np.testing.assert_array_equal(F.max_pool2d(back, 2).array, np.maximum(y.array, 0))
    kept = back.array != 0
    np.testing.assert_array_equal(back.array[kept], x[kept])


X, PLACES = numbers(1, 1, 3), np.array([[[0, 2, 4]]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: F.max_unpool1d(x, x, 2), TypeError, "max_unpool1d: indices is float64, needs an int64 Tensor"),
        (
            lambda x, i: F.max_unpool1d(x, None, 2),
            TypeError,
            "max_unpool1d: indices is NoneType, needs an int64 Tensor",
        ),
        (
            lambda x, i: F.max_unpool1d(x, i[..., :2], 2),
            ValueError,
            "indices.shape=(1, 1, 2) must be input.shape=(1, 1, 3)",
        ),
        (
            lambda x, i: F.max_unpool1d(x, i + 2, 2),
            ValueError,
            "indices lie between 2 and 6, the output (6,) has indices 0 to 5",
        ),
        (
            lambda x, i: F.max_unpool1d(x, i, 2, output_size=(8,)),
            ValueError,
            "output_size=(8,) must lie between 4 and 8",
        ),
        (lambda x, i: F.max_unpool1d(x, i, 2, output_size=(5, 6)), ValueError, "output_size=(5, 6) has 2 entries"),
        (lambda x, i: F.max_unpool1d(x, i, 2, padding=3), ValueError, "the output would have extents (0,)"),
        (lambda x, i: F.max_unpool1d(x, i, 0), ValueError, "max_unpool1d: kernel_size=0 must be at least 1"),
        (lambda x, i: F.max_unpool1d(x[0, 0], i, 2), ValueError, "max_unpool1d: input has 1 axes, needs 3"),
        (lambda x, i: nn.MaxUnpool2d((2, 2, 2)), ValueError, "MaxUnpool2d: kernel_size=(2, 2, 2) has 3 entries"),
        (lambda x, i: nn.LPPool2d(2, 0), ValueError, "LPPool2d: kernel_size=0 must be at least 1"),
        (lambda x, i: nn.LPPool2d(2, 2, 0), ValueError, "LPPool2d: stride=0 must be at least 1"),
        (lambda x, i: nn.AdaptiveAvgPool2d(0), ValueError, "AdaptiveAvgPool2d: output_size=0 must be at least 1"),
        (lambda x, i: nn.AdaptiveMaxPool1d((1, 2)), ValueError, "AdaptiveMaxPool1d: output_size=(1, 2) has 2 entries"),
        (
            lambda x, i: nn.AdaptiveMaxPool1d("a"),
            TypeError,
            "AdaptiveMaxPool1d: output_size='a' must be an int or None",
        ),
    ],
)
def test_messages(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(X), Tensor(PLACES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_positions_have_the_same_rounding_for_every_dtype(dtype: type) -> None:
    x = Tensor(np.arange(11, dtype=dtype).reshape(1, 1, 11))
    # 3.5 / 0.7 is 5 in float32 and 4.9999... in float64; the result used to depend on the input's dtype
    assert F.interpolate(x, scale_factor=0.7, mode="nearest-exact").flatten().tolist() == [0, 2, 3, 5, 6, 7, 9]
    assert F.interpolate(x, scale_factor=0.6).flatten().tolist() == [0, 1, 3, 5, 6, 8]


@pytest.mark.parametrize(("axes", "mode"), [(1, "linear"), (2, "bilinear"), (3, "trilinear")])
def test_linear_modes_leave_an_axis_that_keeps_its_extent(axes: int, mode: str) -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((2, 1, *(3,) * axes)))
    assert np.array_equal(F.interpolate(x, scale_factor=1.3, mode=mode).numpy(), x.numpy())  # 3.9 becomes 3


@pytest.mark.parametrize("ndim", [2, 3])
def test_fractional_pooling_draws_its_windows(ndim: int) -> None:
    x, layer = Tensor(numbers(2, 3, *(9,) * ndim)), getattr(nn, f"FractionalMaxPool{ndim}d")
    pool = layer(2, output_ratio=0.5)
    retrograd.manual_seed(3)
    first, second = pool(x).array, pool(x).array
    retrograd.manual_seed(3)
    assert first.shape == (2, 3, *(4,) * ndim) and np.array_equal(pool(x).array, first)
    assert not np.array_equal(first, second) and np.isin(first, x.array).all()
    fixed = layer(2, 4, _random_samples=Tensor(np.full((2, 3, ndim), 0.5)))
    assert list(fixed.state_dict()) == ["_random_samples"] and np.array_equal(fixed(x).array, fixed(x).array)
    with pytest.raises(ValueError, match=rf"FractionalMaxPool{ndim}d: pass either output_size or output_ratio; got"):
        layer(2)
    with pytest.raises(ValueError, match=r"output_ratio=1.5 must be a number between 0 and 1"):
        layer(2, output_ratio=1.5)
    with_nan = x.array.copy()
    with_nan[0, 0] = np.nan
    assert np.isnan(fixed(Tensor(with_nan)).array[0, 0]).all()


@pytest.mark.parametrize("factor", [2.46, 1.1, 2.12, 1.24])
def test_nearest_uses_the_factor_along_every_axis(factor: float) -> None:
    """Even where the extent stays the same or doubles."""
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 3))
    wanted = x
    for axis in (2, 3):
        places = np.floor(np.arange(int(x.shape[axis] * factor)) / factor).astype(int)
        wanted = wanted.take(places, axis)
    found = F.interpolate(Tensor(x), scale_factor=factor, mode="nearest")
    np.testing.assert_array_equal(found.array, wanted)
