"""The oracle compared with results computed by hand and with finite differences of its forward functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import naive

NAN, INF = math.nan, math.inf


def row(*values: float) -> np.ndarray:
    """Return one image with one channel."""
    return np.array(values, np.float64)[None, None]


# ---------------------------------------------------------------- windows and convolution


@pytest.mark.parametrize(
    ("i", "r", "s", "padding", "d", "expected"),
    [
        (5, 3, 1, (0, 0), 1, 3),
        (5, 3, 2, (1, 1), 1, 3),
        (6, 3, 2, (1, 1), 1, 3),
        (6, 3, 2, (1, 2), 1, 4),
        (7, 3, 1, (0, 0), 3, 1),
        (5, 2, 4, (0, 0), 1, 1),
        (6, 2, 4, (0, 0), 1, 2),
        (1, 1, 1, (0, 0), 1, 1),
        (2, 3, 1, (0, 0), 1, 0),
    ],
)
def test_output_sizes(i: int, r: int, s: int, padding: tuple[int, int], d: int, expected: int) -> None:
    assert naive.outputs([i], [r], [s], [padding], [d]) == (expected,)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "expected"),
    [
        (1, (0, 0), 1, [21, 32, 43]),  # 1*1 + 2*10, 2*1 + 3*10, 3*1 + 4*10
        (2, (0, 0), 1, [21, 43]),
        (3, (0, 0), 1, [21]),
        (1, (1, 0), 1, [10, 21, 32, 43]),  # 0*1 + 1*10 first
        (1, (0, 1), 1, [21, 32, 43, 4]),
        (2, (1, 0), 1, [10, 32]),
        (1, (0, 0), 2, [31, 42]),  # 1*1 + 3*10, 2*1 + 4*10
        (1, (2, 2), 1, [0, 10, 21, 32, 43, 4, 0]),
    ],
)
def test_convolution_on_a_line(stride: int, padding: tuple[int, int], dilation: int, expected: list[int]) -> None:
    y = naive.conv(row(1, 2, 3, 4), row(1, 10), None, [stride], [padding], [dilation], 1)
    np.testing.assert_array_equal(y, row(*expected))


def test_convolution_in_a_plane() -> None:
    x = np.arange(1.0, 10).reshape(1, 1, 3, 3)
    w = np.array([1.0, 10, 100, 1000]).reshape(1, 1, 2, 2)
    y = naive.conv(x, w, np.array([0.5]), [1, 1], [(0, 0), (0, 0)], [1, 1], 1)
    # 1*1 + 2*10 + 4*100 + 5*1000 and so on
    np.testing.assert_array_equal(y, [[[[5421.5, 6532.5], [8754.5, 9865.5]]]])
    y = naive.conv(x, w, None, [2, 1], [(0, 1), (1, 0)], [1, 2], 1)
    # rows 0 and 2; columns -1 and 1, then 0 and 2; row 3 is padding
    np.testing.assert_array_equal(y, [[[[5020, 6431], [80, 97]]]])


def test_convolution_of_channels_and_groups() -> None:
    x = np.array([1.0, 2, 3, 4]).reshape(1, 4, 1)
    w = np.array([[1.0, 10], [100, 1000]]).reshape(2, 2, 1)
    one = {"stride": [1], "padding": [(0, 0)], "dilation": [1]}
    np.testing.assert_array_equal(naive.conv(x[:, :2], w, None, **one, groups=1).ravel(), [21, 2100])
    np.testing.assert_array_equal(naive.conv(x, w, np.array([5.0, 6]), **one, groups=2).ravel(), [26, 4306])
    depthwise = np.array([1.0, 10, 100, 1000]).reshape(4, 1, 1)
    np.testing.assert_array_equal(naive.conv(x, depthwise, None, **one, groups=4).ravel(), [1, 20, 300, 4000])
    wider = np.arange(1.0, 9).reshape(8, 1, 1)  # two outputs of every channel
    np.testing.assert_array_equal(naive.conv(x, wider, None, **one, groups=4).ravel(), [1, 2, 6, 8, 15, 18, 28, 32])


@pytest.mark.parametrize(
    ("inputs", "stride", "padding", "dilation", "expected"),
    [
        (4, 1, (0, 0), 1, [1, 12, 23, 30]),  # input 2 contributes 1*2 and 10*1
        (6, 2, (0, 0), 1, [1, 10, 2, 20, 3, 30]),
        (7, 2, (0, 0), 1, [1, 10, 2, 20, 3, 30, 0]),  # no window covers the last input
        (3, 1, (1, 0), 1, [12, 23, 30]),
        (2, 1, (1, 1), 1, [12, 23]),
        (5, 1, (0, 0), 2, [1, 2, 13, 20, 30]),
        (9, 3, (0, 0), 1, [1, 10, 0, 2, 20, 0, 3, 30, 0]),
    ],
)
def test_input_gradient(inputs: int, stride: int, padding: tuple[int, int], dilation: int, expected: list[int]) -> None:
    gx = naive.conv_input_grad(row(1, 2, 3), row(1, 10), None, [inputs], [stride], [padding], [dilation], 1)
    np.testing.assert_array_equal(gx, row(*expected))
    gx = naive.conv_input_grad(row(1, 2, 3), row(1, 10), np.array([0.5]), [inputs], [stride], [padding], [dilation], 1)
    np.testing.assert_array_equal(gx, row(*expected) + 0.5)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "expected"),
    [
        (1, (0, 0), 1, [14, 20]),  # 1*1 + 2*2 + 3*3, 1*2 + 2*3 + 3*4
        (1, (1, 0), 1, [8, 14]),  # 1*0 + 2*1 + 3*2
        (2, (0, 2), 1, [7, 10]),  # 1*1 + 2*3, 1*2 + 2*4
        (1, (0, 1), 2, [14, 11]),  # 1*3 + 2*4
    ],
)
def test_weight_gradient(stride: int, padding: tuple[int, int], dilation: int, expected: list[int]) -> None:
    gw = naive.conv_weight_grad(row(1, 2, 3, 4), row(1, 2, 3), [2], [stride], [padding], [dilation], 1)
    np.testing.assert_array_equal(gw, row(*expected))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_trilinear_form(ndim: int, groups: int) -> None:
    """Compare all three with the trilinear form, one sum over every index, on an explicitly padded input."""
    rng = np.random.default_rng(0)
    inputs, kernel, stride, dilation = (5, 4, 4)[:ndim], (2, 3, 1)[:ndim], (2, 1, 3)[:ndim], (2, 1, 1)[:ndim]
    padding = ((1, 2), (0, 1), (2, 0))[:ndim]
    geometry: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    N, Ci, Co = 2, 4, 6
    x, w = rng.normal(size=(N, Ci, *inputs)), rng.normal(size=(Co, Ci // groups, *kernel))
    y = naive.conv(x, w, None, **geometry)
    g = rng.normal(size=y.shape)
    padded = np.pad(x, [(0, 0), (0, 0), *padding])
    form = 0.0
    for n, k, *o in product(*map(range, g.shape)):
        for c, *r in product(*map(range, w.shape[1:])):
            at = (a * s + b * d for a, s, b, d in zip(o, stride, r, dilation, strict=True))
            form += padded[n, k // (Co // groups) * (Ci // groups) + c, *at] * w[k, c, *r] * g[n, k, *o]
    assert np.vdot(y, g) == pytest.approx(form, rel=1e-12)
    assert np.vdot(naive.conv_input_grad(g, w, None, inputs, **geometry), x) == pytest.approx(form, rel=1e-12)
    assert np.vdot(naive.conv_weight_grad(x, g, kernel, **geometry), w) == pytest.approx(form, rel=1e-12)


# ---------------------------------------------------------------- matmul, elementwise, reductions


def test_matmul() -> None:
    a, b = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[1.0, 10], [100, 1000], [1e4, 1e5]])
    product = np.array([[30201, 302010], [60504, 605040]])
    np.testing.assert_array_equal(naive.matmul(a, b), product)
    np.testing.assert_array_equal(naive.matmul(a, b, np.array([1.0, 2])), product + [1, 2])
    stacked = naive.matmul(np.stack([a, 2 * a])[:, None], np.stack([b, -b, 3 * b]))
    factors = np.array([[1, -1, 3], [2, -2, 6]])
    np.testing.assert_array_equal(stacked, factors[:, :, None, None] * product)
    np.testing.assert_array_equal(naive.matmul(np.ones((2, 0)), np.ones((0, 3)), np.arange(3.0)), [[0, 1, 2]] * 2)
    assert naive.matmul(np.ones((0, 2, 4)), np.ones((4, 5))).shape == (0, 2, 5)


def test_broadcasting() -> None:
    assert naive.broadcast_shape((3, 1), (2, 1, 4)) == (2, 3, 4)
    assert naive.broadcast_shape((), (0,)) == (0,)
    assert naive.broadcast_shape((0, 1), (1, 5)) == (0, 5)
    with pytest.raises(ValueError, match="do not broadcast"):
        naive.broadcast_shape((2,), (3,))
    x, y = np.array([[1.0], [2.0]]), np.array([10.0, 20.0, 30.0])
    np.testing.assert_array_equal(naive.add(x, y), [[11, 21, 31], [12, 22, 32]])
    np.testing.assert_array_equal(naive.sub(x, y), [[-9, -19, -29], [-8, -18, -28]])
    np.testing.assert_array_equal(naive.mul(x, y), [[10, 20, 30], [20, 40, 60]])
    np.testing.assert_array_equal(naive.div(y, x), [[10, 20, 30], [5, 10, 15]])


@pytest.mark.parametrize(
    ("f", "given", "expected"),
    [
        (naive.neg, [1, -INF, NAN], [-1, INF, NAN]),
        (naive.exp, [0, 1, -INF, 1000, NAN], [1, math.e, 0, INF, NAN]),
        (naive.log, [1, math.e, 0, -1, INF, NAN], [0, 1, -INF, NAN, INF, NAN]),
        (naive.sqrt, [4, 0, -1, INF, NAN], [2, 0, NAN, INF, NAN]),
        (naive.relu, [2, -2, 0, -INF, INF, NAN], [2, 0, 0, 0, INF, NAN]),
        (naive.sigmoid, [0, math.log(3), 1000, -1000, NAN], [0.5, 0.75, 1, 0, NAN]),
        (naive.tanh, [0, math.log(3), 1000, -1000, NAN], [0, 0.8, 1, -1, NAN]),
        (lambda x: naive.power(x, 2.0), [3, -3, -INF, NAN], [9, 9, INF, NAN]),
        (lambda x: naive.power(x, -1.0), [4, -4, 0.0, -0.0, INF], [0.25, -0.25, INF, -INF, 0]),
        (lambda x: naive.power(x, 0.5), [9, 0, -1, -INF], [3, 0, NAN, NAN]),
        (lambda x: naive.power(x, 0.0), [5, 0, NAN], [1, 1, 1]),
        (lambda x: naive.power(x, 3.0), [-1e200, 1e200], [-INF, INF]),
        (lambda x: naive.scale(x, -2.5), [2, INF, NAN], [-5, -INF, NAN]),
    ],
)
def test_functions_of_one_number(
    f: Callable[[np.ndarray], np.ndarray], given: list[float], expected: list[float]
) -> None:
    np.testing.assert_allclose(f(np.array(given)), expected, rtol=1e-15)


def test_division_by_zero() -> None:
    y = naive.div(np.array([1.0, -1, 1, 0, NAN, INF]), np.array([0.0, 0, -0.0, 0, 0, 0]))
    np.testing.assert_array_equal(y, [INF, -INF, -INF, NAN, NAN, INF])


def test_gradients_in_terms_of_the_result() -> None:
    g = np.array([3.0, 5, 7, NAN])
    np.testing.assert_array_equal(naive.relu_grad(g, np.array([1.0, 0, NAN, 0])), [3, 0, 7, 0])
    np.testing.assert_array_equal(naive.sigmoid_grad(g[:3], np.array([0.5, 0.75, 1])), [0.75, 0.9375, 0])
    np.testing.assert_array_equal(naive.tanh_grad(g[:3], np.array([0, 0.5, -1])), [3, 3.75, 0])


def test_sum() -> None:
    x = np.arange(1.0, 7).reshape(1, 2, 3)
    np.testing.assert_array_equal(naive.sum(x, (1,), False), [[5, 7, 9]])
    np.testing.assert_array_equal(naive.sum(x, (1,), True), [[[5, 7, 9]]])
    np.testing.assert_array_equal(naive.sum(x, (0, 2), False), [6, 15])
    np.testing.assert_array_equal(naive.sum(x, (), False), x)
    assert naive.sum(x, (0, 1, 2), False).shape == () and naive.sum(x, (0, 1, 2), False) == 21
    np.testing.assert_array_equal(naive.sum(np.ones((2, 0, 3)), (1,), False), np.zeros((2, 3)))
    np.testing.assert_array_equal(naive.sum(np.array([[INF, -INF], [INF, 1], [NAN, 1]]), (1,), False), [NAN, INF, NAN])
    # 0.1 ten times: the correctly rounded sum
    assert naive.sum(np.full(10, 0.1), (0,), False) == 1.0


def test_max() -> None:
    x = np.array([[1.0, 3, 3], [-INF, -INF, -INF], [5, NAN, NAN], [INF, 2, INF]])
    values, indices = naive.max(x, 1)
    np.testing.assert_array_equal(values, [3, -INF, NAN, INF])
    np.testing.assert_array_equal(indices, [1, 0, 1, 0])
    values, indices = naive.max(np.array([[1.0, 5], [4, 2]]), 0)
    np.testing.assert_array_equal(values, [4, 5])
    np.testing.assert_array_equal(indices, [1, 0])


# ---------------------------------------------------------------- pooling


def test_pooling_on_a_line() -> None:
    x = row(-4, -1, -3, -2, -5)
    geometry: dict[str, Any] = {"kernel": [3], "output": [3], "stride": [2], "padding": [(1, 1)], "dilation": [1]}
    y, indices = naive.max_pool(x, **geometry)
    np.testing.assert_array_equal(y, row(-1, -1, -2))  # never the padding's 0
    np.testing.assert_array_equal(indices, row(1, 1, 3))
    y = naive.avg_pool(x, **geometry, count_include_pad=True)
    np.testing.assert_allclose(y, row(-5 / 3, -2, -7 / 3), rtol=1e-15)
    y = naive.avg_pool(x, **geometry, count_include_pad=False)
    np.testing.assert_allclose(y, row(-2.5, -2, -3.5), rtol=1e-15)
    np.testing.assert_array_equal(naive.max_pool_grad(row(10, 20, 30), indices, [5]), row(0, 30, 0, 30, 0))
    np.testing.assert_array_equal(naive.max_pool_gather(x, indices), row(-1, -1, -2))
    del geometry["output"]
    gx = naive.avg_pool_grad(row(6, 12, 24), [5], **geometry, count_include_pad=True)
    np.testing.assert_array_equal(gx, row(2, 2 + 4, 4, 4 + 8, 8))
    gx = naive.avg_pool_grad(row(6, 12, 24), [5], **geometry, count_include_pad=False)
    np.testing.assert_array_equal(gx, row(3, 3 + 4, 4, 4 + 12, 12))


def test_max_pool_in_a_plane() -> None:
    x = np.array([[1.0, 7, 2], [7, 0, NAN], [-INF, 3, 4]])[None, None]
    y, indices = naive.max_pool(x, [2, 2], [2, 2], [1, 1], [(0, 0), (0, 0)], [1, 1])
    np.testing.assert_array_equal(y, [[[[7, NAN], [7, NAN]]]])
    np.testing.assert_array_equal(indices, [[[[1, 5], [3, 5]]]])  # the first of two sevens


# ---------------------------------------------------------------- batch norm


def test_batch_norm() -> None:
    x = np.array([[[1.0, 3], [10, 10]], [[1, 3], [14, 14]]])  # (N, C, I): channels 1 3 1 3 and 10 10 14 14
    y, mean, variance = naive.batch_norm(x, np.array([1.0, 3]), np.array([0.0, 100]), 0.0)
    np.testing.assert_array_equal(mean, [2, 12])
    np.testing.assert_array_equal(variance, [1, 4])
    np.testing.assert_array_equal(y, [[[-1, 1], [97, 97]], [[-1, 1], [103, 103]]])
    y, _, _ = naive.batch_norm(x, np.array([1.0, 3]), np.array([0.0, 100]), 3.0)
    np.testing.assert_allclose(y[:, 0], [[-0.5, 0.5]] * 2, rtol=1e-15)  # sqrt(1 + 3) = 2
    y = naive.channel_affine(x, np.array([2.0, -1]), np.array([1.0, 0]))
    np.testing.assert_array_equal(y, [[[3, 7], [-10, -10]], [[3, 7], [-14, -14]]])


def difference(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the gradient of <f(x), g> by central differences."""
    gx = np.empty_like(x)
    for at in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-5
        gx[at] = np.vdot(f(x + step) - f(x - step), g) / 2e-5
    return gx


def test_batch_norm_gradient() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 3, 2, 2)), rng.normal(size=(2, 3, 2, 2))
    weight, bias = rng.normal(size=3), rng.normal(size=3)
    _, mean, variance = naive.batch_norm(x, weight, bias, 0.1)
    gx, gweight, gbias = naive.batch_norm_grad(g, x, weight, mean, 1 / np.sqrt(variance + 0.1))
    np.testing.assert_allclose(gx, difference(lambda v: naive.batch_norm(v, weight, bias, 0.1)[0], x, g), atol=1e-8)
    np.testing.assert_allclose(
        gweight, difference(lambda v: naive.batch_norm(x, v, bias, 0.1)[0], weight, g), atol=1e-8
    )
    np.testing.assert_allclose(gbias, difference(lambda v: naive.batch_norm(x, weight, v, 0.1)[0], bias, g), atol=1e-8)


# ---------------------------------------------------------------- softmax and cross entropy


def test_softmax() -> None:
    x = np.array([[0.0, math.log(3)], [1e4, 1e4], [0, -INF], [-1e4, 1e4]])
    np.testing.assert_allclose(naive.softmax(x, 1), [[0.25, 0.75], [0.5, 0.5], [1, 0], [0, 1]], rtol=1e-15)
    logs = [[-math.log(4), math.log(0.75)], [-math.log(2)] * 2, [0, -INF], [-2e4, 0]]
    np.testing.assert_allclose(naive.log_softmax(x, 1), logs, rtol=1e-15)
    np.testing.assert_allclose(naive.softmax(x.T, 0), naive.softmax(x, 1).T)
    for lost in ([-INF, -INF], [INF, 0.0], [NAN, 0.0]):
        assert np.isnan(naive.softmax(np.array([lost]), 1)).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_gradients(axis: int) -> None:
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    gx = naive.softmax_grad(g, naive.softmax(x, axis), axis)
    np.testing.assert_allclose(gx, difference(lambda v: naive.softmax(v, axis), x, g), atol=1e-9)
    gx = naive.log_softmax_grad(g, naive.log_softmax(x, axis), axis)
    np.testing.assert_allclose(gx, difference(lambda v: naive.log_softmax(v, axis), x, g), atol=1e-9)


def test_cross_entropy() -> None:
    x, labels = np.array([[0.0, math.log(3)], [0, math.log(3)], [5, 5]]), np.array([0, 1, 1])
    loss = naive.cross_entropy(x, labels, 0.0)
    np.testing.assert_allclose(loss, [math.log(4), math.log(4 / 3), math.log(2)], rtol=1e-15)
    gx = naive.cross_entropy_grad(np.array([1.0, 2, -4]), x, labels, 0.0)
    np.testing.assert_allclose(gx, [[-0.75, 0.75], [0.5, -0.5], [-2, 2]], rtol=1e-15)
    # half of the target is uniform: 3/4 and 1/4
    smooth = naive.cross_entropy(x, labels, 0.5)
    expected = [0.75 * math.log(4) + 0.25 * math.log(4 / 3), 0.25 * math.log(4) + 0.75 * math.log(4 / 3), math.log(2)]
    np.testing.assert_allclose(smooth, expected, rtol=1e-15)
    gx = naive.cross_entropy_grad(np.array([1.0, 2, -4]), x, labels, 0.5)
    np.testing.assert_allclose(gx, [[-0.5, 0.5], [0, 0], [-1, 1]], rtol=1e-15, atol=1e-15)
    assert not naive.cross_entropy(x, np.array([-1, -1, -1]), 0.5).any()


# ---------------------------------------------------------------- optimizers


def test_sgd() -> None:
    assert naive.sgd_step(1.0, 0.5, 7.0, lr=0.25, momentum=0.0, weight_decay=0.0) == (0.875, 7.0)
    assert naive.sgd_step(1.0, 0.5, 7.0, lr=0.25, momentum=0.0, weight_decay=0.5) == (0.75, 7.0)
    # d = 0.5 + 0.5*1 = 1, m = 0.5*2 + 1 = 2, p = 1 - 0.25*2
    assert naive.sgd_step(1.0, 0.5, 2.0, lr=0.25, momentum=0.5, weight_decay=0.5) == (0.5, 2.0)


def test_adam() -> None:
    settings = {"lr": 0.25, "beta1": 0.5, "beta2": 0.75, "eps": 0.0}
    # the first step of Adam has length lr, whatever the gradient
    assert naive.adam_step(1.0, 8.0, 0.0, 0.0, step=1, weight_decay=0.0, **settings) == (0.75, 4.0, 16.0)
    # g = 2 + 0.5*4 = 4, m = 0.5*1 + 0.5*4, v = 0.75*7 + 0.25*16; corrected by 1 - 1/4 and 1 - 9/16
    p, m, v = naive.adam_step(4.0, 2.0, 1.0, 7.0, step=2, weight_decay=0.5, **settings)
    assert (m, v) == (2.5, 9.25)
    assert p == pytest.approx(4 - 0.25 * (2.5 / 0.75) / math.sqrt(9.25 / 0.4375), rel=1e-15)
    p, _, _ = naive.adam_step(1.0, 8.0, 0.0, 0.0, step=1, weight_decay=0.0, **{**settings, "eps": 8.0})
    assert p == 1 - 0.25 * 8 / (8 + 8)
