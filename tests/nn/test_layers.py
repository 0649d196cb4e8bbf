"""Linear, Flatten, Identity, pooling, activations and dropout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor

RNG = np.random.default_rng(11)


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


# ---------------------------------------------------------------- linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("leading", [(5,), (2, 3), (), (0,)])
def test_linear(leading: tuple[int, ...], bias: bool) -> None:
    layer = nn.Linear(4, 3, bias=bias, dtype=np.float64)
    x, g = Tensor(random(*leading, 4), requires_grad=True), random(*leading, 3)
    w = layer.weight.array
    expected = x.array @ w.T + (layer.bias.array if bias else 0)
    y = layer(x)
    np.testing.assert_allclose(y.array, expected, rtol=1e-12)
    y.backward(Tensor(g))
    np.testing.assert_allclose(x.grad.array, g @ w, rtol=1e-12)
    rows, gradients = x.array.reshape(-1, 4), g.reshape(-1, 3)
    np.testing.assert_allclose(layer.weight.grad.array, gradients.T @ rows, rtol=1e-12, atol=1e-14)
    if bias:
        np.testing.assert_allclose(layer.bias.grad.array, gradients.sum(0), rtol=1e-12, atol=1e-14)
    else:
        assert layer.bias is None


def test_linear_weight_lies_in_the_order_that_kernels_read() -> None:
    layer = nn.Linear(4, 3)
    assert layer.weight.shape == (3, 4)
    assert layer.weight.array.T.flags.c_contiguous


def test_linear_is_checked() -> None:
    for argument in ("in_features", "out_features"):
        for value in (-1, 2.0, True):
            with pytest.raises(ValueError, match=f"Linear: {argument}={value!r} must be an int"):
                nn.Linear(**{"in_features": 2, "out_features": 2, argument: value})
    with pytest.raises(ValueError, match="in Linear.*linear: input has 3 features"):
        nn.Linear(4, 2)(Tensor(np.zeros((1, 3), np.float32)))
    with pytest.raises(TypeError, match="in Linear.*input is float64, weight is float32"):
        nn.Linear(4, 2)(Tensor(np.zeros((1, 4))))


def test_linear_without_inputs_gives_its_bias() -> None:
    with pytest.warns(UserWarning, match=r"shape \(2, 0\) has no elements"):
        layer = nn.Linear(0, 2)
    np.testing.assert_array_equal(layer(Tensor(np.zeros((3, 0), np.float32))).array, np.zeros((3, 2)))


def test_flatten_and_identity() -> None:
    x = Tensor(random(2, 3, 4, 5))
    np.testing.assert_array_equal(nn.Flatten()(x).array, x.array.reshape(2, 60))
    np.testing.assert_array_equal(nn.Flatten(2, 3)(x).array, x.array.reshape(2, 3, 20))
    assert nn.Identity(54, unused=1)(x) is x
    with pytest.raises(IndexError, match="in Flatten"):
        nn.Flatten(1, 7)(x)


# ---------------------------------------------------------------- pooling


MAX: dict[int, Any] = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
AVG: dict[int, Any] = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}


def windows(x: np.ndarray, kernel: int, stride: int, padding: int, dilation: int = 1) -> Any:
    """(output position, flattened windows with NaN for padding), loops over the definition."""
    ndim = x.ndim - 2
    padded = np.pad(x, ((0, 0), (0, 0)) + ((padding, padding),) * ndim, constant_values=np.nan)
    counts = [(n - dilation * (kernel - 1) - 1) // stride + 1 for n in padded.shape[2:]]
    for o in itertools.product(*map(range, counts)):
        box = tuple(slice(a * stride, a * stride + dilation * (kernel - 1) + 1, dilation) for a in o)
        yield o, padded[(slice(None), slice(None), *box)].reshape(*x.shape[:2], -1)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), (2, 1, 1)])
def test_pooling_values(ndim: int, kernel: int, stride: int | None, padding: int) -> None:
    x = random(2, 3, *(7, 5, 6)[:ndim])
    largest = MAX[ndim](kernel, stride, padding)
    with_padding = AVG[ndim](kernel, stride, padding)
    without = AVG[ndim](kernel, stride, padding, count_include_pad=False)
    for o, window in windows(x, kernel, stride or kernel, padding):
        place = (slice(None), slice(None), *o)
        np.testing.assert_array_equal(largest(Tensor(x)).array[place], np.nanmax(window, -1))
        np.testing.assert_allclose(with_padding(Tensor(x)).array[place], np.nansum(window, -1) / kernel**ndim)
        np.testing.assert_allclose(without(Tensor(x)).array[place], np.nanmean(window, -1))
    for layer in (largest, with_padding):
        np.testing.assert_array_equal(layer(Tensor(x[0])).array, layer(Tensor(x)).array[0])


def test_max_pool_dilation_ceil_mode_and_indices() -> None:
    x = random(2, 3, 7)
    y = nn.MaxPool1d(2, stride=1, dilation=3)(Tensor(x)).array
    np.testing.assert_array_equal(y, np.maximum(x[..., :4], x[..., 3:]))
    y = nn.MaxPool1d(2, ceil_mode=True)(Tensor(x)).array
    assert y.shape == (2, 3, 4)
    np.testing.assert_array_equal(y[..., 3], x[..., 6])
    image = random(1, 2, 4, 6)
    values, places = nn.MaxPool2d(2, return_indices=True)(Tensor(image))
    assert places.dtype == np.int64
    flat = np.take_along_axis(image.reshape(1, 2, 24), places.array.reshape(1, 2, -1), -1)
    np.testing.assert_array_equal(values.array, flat.reshape(values.shape))


def test_average_divisor() -> None:
    x = random(1, 1, 4, 4)
    y = nn.AvgPool2d(2, divisor_override=3)(Tensor(x)).array
    np.testing.assert_allclose(y, 4 / 3 * nn.AvgPool2d(2)(Tensor(x)).array, rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.MaxPool2d, nn.AvgPool2d])
def test_pooling_is_checked(kind: Any) -> None:
    name = kind.__name__
    with pytest.raises(ValueError, match=f"{name}: kernel_size=0 must be at least 1"):
        kind(0)
    with pytest.raises(ValueError, match=rf"{name}: stride=\(1, 2, 3\) has 3 entries"):
        kind(2, stride=(1, 2, 3))
    with pytest.raises(ValueError, match="padding=-1 must be at least 0"):
        kind(2, padding=-1)
    with pytest.raises(ValueError, match=f"in {name}.*at most half of the kernel"):
        kind(2, padding=2)(Tensor(random(1, 1, 4, 4)))
    with pytest.raises(ValueError, match=f"in {name}.*input has 2 axes"):
        kind(2)(Tensor(random(4, 4)))
    with pytest.raises(TypeError, match=f"in {name}.*needs float32 or float64"):
        kind(2)(Tensor(np.zeros((1, 1, 4, 4), np.bool_)))
    if kind is nn.MaxPool2d:
        with pytest.raises(ValueError, match="MaxPool2d: dilation=0 must be at least 1"):
            kind(2, dilation=0)


# ---------------------------------------------------------------- activations


def test_activations() -> None:
    x = np.array([[-3.0, -0.5, 0.0], [0.25, 2.0, 30.0]])
    shifted = np.exp(x - x.max(1, keepdims=True))
    probabilities = shifted / shifted.sum(1, keepdims=True)
    for layer, expected in (
        (nn.ReLU(), np.where(x > 0, x, 0)),
        (nn.Sigmoid(), 1 / (1 + np.exp(-x))),
        (nn.Tanh(), np.tanh(x)),
        (nn.Softmax(1), probabilities),
        (nn.Softmax(dim=-1), probabilities),
        (nn.LogSoftmax(1), np.log(probabilities)),
    ):
        np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-12, atol=1e-15)
    assert np.isnan(nn.ReLU()(Tensor([float("nan")])).array).all()


def test_activations_are_checked() -> None:
    for kind in (nn.Softmax, nn.LogSoftmax):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: dim='1' must be an int"):
            kind("1")
        with pytest.raises(IndexError, match=f"in {kind.__name__}"):
            kind(dim=2)(Tensor(random(2, 2)))
    with pytest.raises(TypeError, match="in SiLU.*needs float32 or float64"):
        nn.SiLU()(retrograd.tensor([1]))


# ---------------------------------------------------------------- dropout


def test_dropout_in_training_and_eval() -> None:
    layer = nn.Dropout(0.25)
    x = Tensor(np.ones((200, 200)), requires_grad=True)
    retrograd.manual_seed(3)
    y = layer(x)
    kept = y.array != 0
    np.testing.assert_allclose(y.array[kept], 1 / 0.75, rtol=1e-12)
    assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.25 * 0.75 / x.numel())
    g = random(200, 200)
    y.backward(Tensor(g))
    np.testing.assert_allclose(x.grad.array, np.where(kept, g / 0.75, 0), rtol=1e-12)
    retrograd.manual_seed(3)
    np.testing.assert_array_equal(layer(x).array, y.array)
    assert (layer(x).array != y.array).any()
    np.testing.assert_array_equal(layer.eval()(x).array, x.array)
    np.testing.assert_array_equal(nn.Dropout(0.0)(x).array, x.array)
    np.testing.assert_array_equal(nn.Dropout(1.0)(x).array, np.zeros((200, 200)))


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_dropout_is_checked(p: float) -> None:
    with pytest.raises(ValueError, match=f"Dropout: p={p} must be a probability"):
        nn.Dropout(p)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout, (40, 5)),
        (nn.Dropout1d, (20, 5, 2)),
        (nn.Dropout2d, (20, 5, 2, 2)),
        (nn.Dropout3d, (20, 5, 2, 1, 2)),
        (nn.AlphaDropout, (40, 5)),
        (nn.FeatureAlphaDropout, (20, 5, 2)),
    ],
)
def test_dropout_in_place(layer: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, g = Tensor(rng.normal(size=shape), requires_grad=True), Tensor(rng.normal(size=shape))
    results = []
    for inplace in (False, True):
        retrograd.manual_seed(5)
        z = x * 1.0
        y = layer(0.4, inplace)(z)
        assert (y is z) == inplace
        results.append((y.array.copy(), retrograd.autograd.grad(y, x, g)[0].array))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert not np.array_equal(results[0][0], x.array)
    rest = layer(0.4, True).eval()
    assert rest(z) is z
