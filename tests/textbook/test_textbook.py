"""The textbook kernels against answers worked out on paper."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from retrograd.formulas import optimizers
from retrograd.kernels import textbook
from retrograd.specs.geometry import Window, conv_transpose_window, conv_window, pool_window

inf, nan = np.inf, np.nan


def array(values: Any, *shape: int) -> np.ndarray:
    """float64 numbers, in ``shape`` if one is given."""
    return np.array(values, np.float64).reshape(shape or np.shape(values))


class TestConv:
    def test_one_dimension(self) -> None:
        # 1 + 2*10 + 3*100, 2 + 3*10 + 4*100
        x, w = array([1, 2, 3, 4], 1, 1, 4), array([1, 10, 100], 1, 1, 3)
        y = textbook.conv(x, w, None, conv_window((4,), 3))
        assert_array_equal(y, [[[321, 432]]])

    def test_stride_and_padding_in_front(self) -> None:
        # over 0 1 2 3 4: 0 + 1*10 + 2*100, 2 + 3*10 + 4*100
        window = conv_window((4,), 3, stride=2, padding=((1, 0),))
        y = textbook.conv(array([1, 2, 3, 4], 1, 1, 4), array([1, 10, 100], 1, 1, 3), None, window)
        assert_array_equal(y, [[[210, 432]]])

    def test_padding_behind(self) -> None:
        y = textbook.conv(
            array([1, 2], 1, 1, 2), array([1, 10], 1, 1, 2), None, conv_window((2,), 2, padding=((0, 2),))
        )
        assert_array_equal(y, [[[21, 2, 0]]])

    def test_dilation(self) -> None:
        # 1 + 3*10, 2 + 4*10
        window = conv_window((4,), 2, dilation=2)
        y = textbook.conv(array([1, 2, 3, 4], 1, 1, 4), array([1, 10], 1, 1, 2), None, window)
        assert_array_equal(y, [[[31, 42]]])

    def test_channels_are_summed_and_bias_is_added(self) -> None:
        x = array([1, 2, 3, 4], 1, 2, 2)
        w = array([1, 10, 100, 1000], 2, 2, 1)
        y = textbook.conv(x, w, array([0.5, -0.5]), conv_window((2,), 1))
        assert_array_equal(y, [[[31.5, 42.5], [3099.5, 4199.5]]])

    def test_groups(self) -> None:
        # channels 1, 2 make output 0, channels 3, 4 make output 1
        x, w = array([1, 2, 3, 4], 1, 4, 1), array([1, 10, 100, 1000], 2, 2, 1)
        assert_array_equal(textbook.conv(x, w, None, conv_window((1,), 1, groups=2)), [[[21], [4300]]])

    def test_depthwise_two_dimensions(self) -> None:
        x = array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]])
        w = array([[[[1, 10]]], [[[2, -1]]]])
        y = textbook.conv(x, w, None, conv_window((2, 2), (1, 2), groups=2))
        assert_array_equal(y, [[[[21], [43]], [[4], [6]]]])

    def test_three_dimensions(self) -> None:
        x = array(range(1, 9), 1, 1, 2, 2, 2)
        y = textbook.conv(x, array([1, 10], 1, 1, 2, 1, 1), None, conv_window((2, 2, 2), (2, 1, 1)))
        assert_array_equal(y, [[[[[51, 62], [73, 84]]]]])

    def test_batch(self) -> None:
        y = textbook.conv(array([[[1, 2]], [[3, 4]]]), array([[[1, 10]]]), None, conv_window((2,), 2))
        assert_array_equal(y, [[[21]], [[43]]])


class TestConvInputGrad:
    def test_stride(self) -> None:
        # 1*(1 10 100) at 0, 2*(1 10 100) at 2
        g, w = array([1, 2], 1, 1, 2), array([1, 10, 100], 1, 1, 3)
        gx = textbook.conv_input_grad(g, w, None, conv_window((5,), 3, stride=2))
        assert_array_equal(gx, [[[1, 10, 102, 20, 200]]])

    def test_input_that_no_output_reads(self) -> None:
        g, w = array([1, 2], 1, 1, 2), array([1, 10, 100], 1, 1, 3)
        window = conv_transpose_window((2,), 3, stride=2, output_padding=1)
        gx = textbook.conv_input_grad(g, w, array([0.5]), window)
        assert_array_equal(gx, [[[1.5, 10.5, 102.5, 20.5, 200.5, 0.5]]])

    def test_padding_is_dropped(self) -> None:
        g, w = array([1, 2], 1, 1, 2), array([1, 10, 100], 1, 1, 3)
        window = conv_window((4,), 3, stride=2, padding=((1, 0),))
        assert_array_equal(textbook.conv_input_grad(g, w, None, window), [[[10, 102, 20, 200]]])

    def test_dilation(self) -> None:
        g, w = array([1, 2], 1, 1, 2), array([1, 10], 1, 1, 2)
        gx = textbook.conv_input_grad(g, w, None, conv_window((4,), 2, dilation=2))
        assert_array_equal(gx, [[[1, 2, 10, 20]]])

    def test_groups_and_channels(self) -> None:
        # group 0: outputs 0, 1 made from input 0; group 1: outputs 2, 3 made from input 1
        g, w = array([1, 2, 3, 4], 1, 4, 1), array([1, 10, 100, 1000], 4, 1, 1)
        gx = textbook.conv_input_grad(g, w, None, conv_window((1,), 1, groups=2))
        assert_array_equal(gx, [[[21], [4300]]])

    def test_two_dimensions(self) -> None:
        g, w = array([[[[2]]]]), array([[[[1, 2], [3, 4]]]])
        window = conv_window((2, 3), 2, stride=2)
        assert_array_equal(textbook.conv_input_grad(g, w, None, window), [[[[2, 4, 0], [6, 8, 0]]]])


class TestConvWeightGrad:
    def test_one_dimension(self) -> None:
        # 1*x[r] + 10*x[r + 1]
        x, g = array([1, 2, 3, 4], 1, 1, 4), array([1, 10], 1, 1, 2)
        gw = textbook.conv_weight_grad(x, g, conv_window((4,), 3))
        assert_array_equal(gw, [[[21, 32, 43]]])

    def test_stride_padding_dilation(self) -> None:
        # over 0 1 2 3 4 5, g at 0 and 2, taps 2 apart: 1*0 + 10*2, 1*2 + 10*4
        window = conv_window((5,), 2, stride=2, padding=((1, 0),), dilation=2)
        gw = textbook.conv_weight_grad(array([1, 2, 3, 4, 5], 1, 1, 5), array([1, 10], 1, 1, 2), window)
        assert_array_equal(gw, [[[20, 42]]])

    def test_summed_over_the_batch(self) -> None:
        x, g = array([[[1, 2]], [[3, 4]]]), array([[[1]], [[10]]])
        assert_array_equal(textbook.conv_weight_grad(x, g, conv_window((2,), 2)), [[[31, 42]]])

    def test_groups(self) -> None:
        x, g = array([1, 2, 3, 4], 1, 4, 1), array([10, 100], 1, 2, 1)
        gw = textbook.conv_weight_grad(x, g, conv_window((1,), 1, groups=2))
        assert_array_equal(gw, [[[10], [20]], [[300], [400]]])

    def test_two_dimensions(self) -> None:
        x, g = array([[[[1, 2], [3, 4]]]]), array([[[[2]]]])
        assert_array_equal(textbook.conv_weight_grad(x, g, conv_window((2, 2), 2)), [[[[2, 4], [6, 8]]]])


WINDOWS = [
    conv_window((7,), 3, stride=2, padding=((2, 1),), dilation=2),
    conv_window((5, 6), (3, 2), stride=(1, 3), padding=((0, 2), (1, 0)), dilation=(2, 1), groups=2),
    conv_window((3, 4, 5), (2, 1, 3), stride=(2, 1, 1), padding=((1, 0), (0, 0), (1, 1)), groups=3),
    conv_transpose_window((3, 2), 3, stride=2, padding=1, output_padding=1),
    conv_transpose_window((3,), 3, stride=1, output_padding=2, dilation=3),
    conv_window((2,), 1, stride=3),
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("batch", [0, 2])
def test_conv_trio_shares_one_trilinear_form(window: Window, batch: int) -> None:
    """<conv(x, w), g> = <x, conv_input_grad(g, w)> = <w, conv_weight_grad(x, g)>, exact in integers."""
    random, G = np.random.default_rng(0), window.groups
    x = random.integers(-9, 10, (batch, 2 * G, *window.input)).astype(np.float64)
    w = random.integers(-9, 10, (3 * G, 2, *window.kernel)).astype(np.float64)
    g = random.integers(-9, 10, (batch, 3 * G, *window.output)).astype(np.float64)
    y = textbook.conv(x, w, None, window)
    gx = textbook.conv_input_grad(g, w, None, window)
    gw = textbook.conv_weight_grad(x, g, window)
    assert (y.shape, gx.shape, gw.shape) == (g.shape, x.shape, w.shape)
    assert np.vdot(y, g) == np.vdot(x, gx) == np.vdot(w, gw)
    assert batch == 0 or np.vdot(y, g) != 0


class TestMatmul:
    def test_by_hand(self) -> None:
        a, b = array([[1, 2], [3, 4]]), array([[5, 6, 0], [7, 8, 1]])
        assert_array_equal(textbook.matmul(a, b), [[19, 22, 2], [43, 50, 4]])
        assert_array_equal(textbook.matmul(a, b, array([1, 2, 3])), [[20, 24, 5], [44, 52, 7]])

    def test_leading_axes_are_broadcast(self) -> None:
        a, b = array([1, 2], 2, 1, 1, 1), array([10, 100, 1000], 3, 1, 1)
        assert_array_equal(textbook.matmul(a, b).reshape(2, 3), [[10, 100, 1000], [20, 200, 2000]])

    @pytest.mark.parametrize(("m", "k", "n"), [(0, 2, 3), (2, 0, 3), (2, 3, 0)])
    def test_extent_zero(self, m: int, k: int, n: int) -> None:
        c = textbook.matmul(np.ones((m, k)), np.ones((k, n)), np.ones(n))
        assert_array_equal(c, np.full((m, n), k + 1.0))


class TestElementwise:
    def test_arithmetic(self) -> None:
        x, y = array([1, -2, 3]), array([[2], [4]])
        assert_array_equal(textbook.add(x, y), [[3, 0, 5], [5, 2, 7]])
        assert_array_equal(textbook.sub(x, y), [[-1, -4, 1], [-3, -6, -1]])
        assert_array_equal(textbook.mul(x, y), [[2, -4, 6], [4, -8, 12]])
        assert_array_equal(textbook.div(x, y), [[0.5, -1, 1.5], [0.25, -0.5, 0.75]])
        assert_array_equal(textbook.neg(x), [-1, 2, -3])
        assert_array_equal(textbook.scale(x, -0.5), [-0.5, 1, -1.5])

    def test_powers(self) -> None:
        assert_array_equal(textbook.power(array([1, 2, -3]), 2.0), [1, 4, 9])
        assert_array_equal(textbook.power(array([4, 0, -1]), -0.5), [0.5, inf, nan])
        assert_array_equal(textbook.sqrt(array([0, 4, 2.25, -1])), [0, 2, 1.5, nan])
        assert_allclose(textbook.exp(array([0, 1, -inf])), [1, np.e, 0], rtol=1e-15)
        assert_allclose(textbook.log(array([1, np.e, 0, -1])), [0, 1, -inf, nan], rtol=1e-15)

    def test_relu(self) -> None:
        y = textbook.relu(array([-1, 0, 2, nan, -inf, inf]))
        assert_array_equal(y, [0, 0, 2, nan, 0, inf])
        assert_array_equal(textbook.relu_grad(array([1, 2, 3, 4, 5, inf]), y), [0, 0, 3, 4, 0, inf])

    def test_sigmoid(self) -> None:
        # log 3: 1 / (1 + 1/3) = 3/4
        y = textbook.sigmoid(array([0, np.log(3), -np.log(3), nan]))
        assert_allclose(y, [0.5, 0.75, 0.25, nan], rtol=1e-15)
        assert_allclose(textbook.sigmoid_grad(array([1, 16, -16, 1]), y), [0.25, 3, -3, nan], rtol=1e-14)

    def test_sigmoid_far_out(self) -> None:
        x = np.array([-1000, -80, 1000, -inf, inf], np.float32)
        assert_allclose(textbook.sigmoid(x), [0, np.exp(-80.0), 1, 0, 1], rtol=1e-6)

    def test_tanh(self) -> None:
        # log 2: (2 - 1/2) / (2 + 1/2) = 3/5
        y = textbook.tanh(array([0, np.log(2), -np.log(2), inf]))
        assert_allclose(y, [0, 0.6, -0.6, 1], rtol=1e-15)
        assert_allclose(textbook.tanh_grad(array([1, 25, -25, 1]), y), [1, 16, -16, 0], rtol=1e-14)


class TestReduction:
    def test_sum(self) -> None:
        x = array(range(1, 9), 2, 2, 2)
        assert_array_equal(textbook.sum(x, (0, 2), False), [1 + 2 + 5 + 6, 3 + 4 + 7 + 8])
        assert_array_equal(textbook.sum(x, (1,), True), [[[4, 6]], [[12, 14]]])
        assert_array_equal(textbook.sum(x, (0, 1, 2), False), 36)

    def test_sum_over_no_axis_is_a_copy(self) -> None:
        x = array([1, 2])
        y = textbook.sum(x, (), False)
        assert_array_equal(y, x)
        assert not np.shares_memory(x, y)

    def test_max(self) -> None:
        values, indices = textbook.max(array([[1, 3, 3], [-inf, -inf, -5]]), 1)
        assert_array_equal(values, [3, -5])
        assert_array_equal(indices, [1, 2])

    def test_first_nan_wins(self) -> None:
        values, indices = textbook.max(array([[1, inf], [nan, 0], [nan, nan]]), 0)
        assert_array_equal(values, [nan, nan])
        assert_array_equal(indices, [1, 2])


class TestMaxPool:
    def test_two_dimensions(self) -> None:
        x = array([[1, 2, 5, 3], [4, 0, 1, 9], [7, 7, 0, 0]], 1, 1, 3, 4)
        y, indices = textbook.max_pool(x, pool_window((3, 4), 2, 1))
        assert_array_equal(y[0, 0], [[4, 5, 9], [7, 7, 9]])
        assert_array_equal(indices[0, 0], [[4, 2, 7], [8, 9, 7]])  # 7 7: the first of equals

    def test_one_and_three_dimensions(self) -> None:
        y, indices = textbook.max_pool(array([3, 1, 2, 5], 1, 2, 2), pool_window((2,), 2))
        assert_array_equal((y[0, :, 0], indices[0, :, 0]), [[3, 5], [0, 1]])
        x = array([1, 8, 2, 7, 3, 6, 4, 5], 1, 1, 2, 2, 2)
        y, indices = textbook.max_pool(x, pool_window((2, 2, 2), (2, 1, 2)))
        assert_array_equal((y[0, 0, 0, :, 0], indices[0, 0, 0, :, 0]), [[8, 7], [1, 3]])

    def test_dilation_and_stride(self) -> None:
        # taps 0 2, 2 4
        y, indices = textbook.max_pool(array([1, 9, 3, 9, 2], 1, 1, 5), pool_window((5,), 2, 2, 0, 2))
        assert_array_equal((y[0, 0], indices[0, 0]), [[3, 3], [2, 2]])

    def test_padding_is_never_chosen(self) -> None:
        y, indices = textbook.max_pool(array([-5, -inf, -inf], 1, 1, 3), pool_window((3,), 2, 2, 1))
        assert_array_equal((y[0, 0], indices[0, 0]), [[-5, -inf], [0, 1]])
        y, indices = textbook.max_pool(array([-inf], 1, 1, 1), pool_window((1,), 3, 1, 1))
        assert_array_equal((y[0, 0], indices[0, 0]), [[-inf], [0]])

    def test_first_nan_wins(self) -> None:
        y, indices = textbook.max_pool(array([inf, nan, 2, nan], 1, 1, 4), pool_window((4,), 3, 1))
        assert_array_equal((y[0, 0], indices[0, 0]), [[nan, nan], [1, 1]])

    def test_grad_adds_where_windows_overlap(self) -> None:
        g, indices = array([1, 10, 100, 1000], 2, 1, 2), np.array([2, 2, 0, 1]).reshape(2, 1, 2)
        gx = textbook.max_pool_grad(g, indices, pool_window((3,), 2, 1))
        assert_array_equal(gx, [[[0, 0, 11]], [[100, 1000, 0]]])

    def test_gather(self) -> None:
        x, indices = array(range(10, 18), 2, 1, 2, 2), np.array([[3, 0], [1, 1]]).reshape(2, 1, 1, 2)
        assert_array_equal(textbook.max_pool_gather(x, indices), [[[[13, 10]]], [[[15, 15]]]])


class TestAvgPool:
    def test_two_dimensions(self) -> None:
        x = array([[1, 2, 3], [5, 6, 7]], 1, 1, 2, 3)
        assert_array_equal(textbook.avg_pool(x, pool_window((2, 3), 2, 1), True), [[[[3.5, 4.5]]]])

    @pytest.mark.parametrize(("count_include_pad", "expected"), [(True, [1, 3, 2]), (False, [1.5, 3, 3])])
    def test_padding(self, count_include_pad: bool, expected: list[float]) -> None:
        # 0 1 2, 6 1 2, 4 2 0
        x = array([1, 2, 6, 1, 2, 4, 2], 1, 1, 7)
        assert_array_equal(textbook.avg_pool(x, pool_window((7,), 3, 3, 1), count_include_pad), [[expected]])

    @pytest.mark.parametrize(("count_include_pad", "expected"), [(True, [6, 6, 4]), (False, [7, 7, 4])])
    def test_grad(self, count_include_pad: bool, expected: list[float]) -> None:
        # output 0 reads -1 0 1, output 1 reads 0 1 2: shares 6/3 or 6/2, and 12/3
        g, window = array([6, 12], 1, 1, 2), pool_window((3,), 3, 1, ((1, 0),))
        assert_array_equal(textbook.avg_pool_grad(g, window, count_include_pad), [[expected]])


class TestNormalization:
    """Channel 0 holds 1 3 5 7 (mean 4, variance 5), channel 1 is constant; eps = 4."""

    x = array([[[1, 3], [2, 2]], [[5, 7], [2, 2]]])
    weight, bias, mean, variance = array([6, 1]), array([1, 9]), array([4, 2]), array([5, 0])

    def test_batch_norm(self) -> None:
        y, mean, variance, inverse = textbook.batch_norm(self.x, self.weight, self.bias, 4.0)
        assert_allclose(y, [[[-5, -1], [9, 9]], [[3, 7], [9, 9]]], rtol=1e-15)
        assert_array_equal(mean, self.mean)
        assert_array_equal(variance, self.variance)
        assert_allclose(inverse, [1 / 3, 1 / 2], rtol=1e-15)

    def test_batch_norm_grad(self) -> None:
        # channel 0: h = -1 -1/3 1/3 1, gbias 1, gweight -1, gx = 2 (g - 1/4 + h/4)
        # channel 1: h = 0, gx = (g - 4/4) / 2
        g = array([[[1, 0], [4, 0]], [[0, 0], [0, 0]]])
        gx, gw, gb = textbook.batch_norm_grad(g, self.x, self.weight, self.mean, array([1 / 3, 1 / 2]))
        assert_allclose(gx, [[[1, -2 / 3], [1.5, -0.5]], [[-1 / 3, 0], [-0.5, -0.5]]], atol=1e-15)
        assert_array_equal(gw, [-1, 0])
        assert_array_equal(gb, [1, 4])
        sums = textbook.batch_norm_sums(g, self.x, self.mean, array([1 / 3, 1 / 2]))
        assert_array_equal(sums, [[1, 4], [-1, 0]])
        numbers = array([2, 1 / 2]), array([2 / 3 / 4, 0]), array([-2 / 4, -1 / 2])
        assert_allclose(textbook.batch_norm_input_grad(g, self.x, self.mean, *numbers), gx, atol=1e-15)

    def test_batch_norm_clamp(self) -> None:
        other = array([[[1, 2], [0, -9]], [[0, -2], [-4, np.nan]]])
        y, *_, coefficients = textbook.batch_norm_clamp(self.x, None, self.weight, self.bias, 4.0, 0.0, 6.0)
        assert_array_equal(y, [[[0, 0], [6, 6]], [[3, 6], [6, 6]]])
        assert_array_equal(coefficients, [[2, 1 / 2], [1, 9]])
        y, *_ = textbook.batch_norm_clamp(self.x, other, self.weight, self.bias, 4.0, 0.0, np.nan)
        assert_array_equal(y, [[[0, 1], [9, 0]], [[3, 5], [5, np.nan]]])
        # the gradient passes at the only 3: h = 12 there, gx = (12 - 3 - z) / 3, and (0 - 3 - z) / 3 elsewhere
        g = array([[[1, 5], [4, 0]], [[2, 7], [0, 3]]])
        given = self.x, self.weight, self.mean, array([1 / 3, 1 / 2]), coefficients, 0.0, 6.0
        gx, gw, gb = textbook.batch_norm_clamp_grad(g, *given)
        assert_allclose(gx, [[[-2 / 3, -8 / 9], [0, 0]], [[26 / 9, -4 / 3], [0, 0]]], atol=1e-15)
        assert_allclose(gw, [2 / 3, 0], rtol=1e-15)
        assert_array_equal(gb, [2, 0])

    def test_running_statistics(self) -> None:
        running = array([0, 8]), array([1, 2])
        textbook.running_statistics(running, array([4, 4]), array([2, 0]), 0.25, 2.0)
        assert_array_equal(running, [[1, 7], [1.75, 1.5]])

    def test_channel_affine(self) -> None:
        y = textbook.channel_affine(self.x, array([2, 10]), array([1, -1]))
        assert_array_equal(y, [[[3, 7], [19, 19]], [[11, 15], [19, 19]]])
        y = textbook.channel_affine(self.x, array([2, 10]), array([1, -1]), array([1, 2]))
        assert_array_equal(y, [[[1, 5], [-1, -1]], [[9, 13], [-1, -1]]])

        y = textbook.channel_affine_clamp(self.x, None, array([2, 10]), array([1, -1]), 4.0, 15.0)
        assert_array_equal(y, [[[4, 7], [15, 15]], [[11, 15], [15, 15]]])
        y = textbook.channel_affine_clamp(self.x, -self.x, array([2, 10]), array([1, -1]), np.nan, np.nan)
        assert_array_equal(y, [[[2, 4], [17, 17]], [[6, 8], [17, 17]]])

    def test_no_axes_but_batch_and_channels(self) -> None:
        y, mean, variance, _ = textbook.batch_norm(array([[1, 0], [3, 8]]), array([2, 5]), array([1, 2]), 3.0)
        assert_allclose(y, [[0, 2 - 20 / np.sqrt(19)], [2, 2 + 20 / np.sqrt(19)]], rtol=1e-15)
        assert_array_equal((mean, variance), [[2, 4], [1, 16]])


class TestSoftmax:
    def test_softmax(self) -> None:
        x = np.log(array([[1, 2, 5], [3, 3, 2]]))
        y = array([[1, 2, 5], [3, 3, 2]]) / 8
        assert_allclose(textbook.softmax(x, 1), y, rtol=1e-15)
        assert_allclose(textbook.softmax(x.T, 0), y.T, rtol=1e-15)
        assert_allclose(textbook.log_softmax(x, 1), np.log(y), rtol=1e-15)

    def test_far_out(self) -> None:
        x = np.array([1000, 1000, -1000], np.float32)
        assert_array_equal(textbook.softmax(x, 0), [0.5, 0.5, 0])
        assert_allclose(textbook.log_softmax(x, 0), [-np.log(2), -np.log(2), -2000 - np.log(2)], rtol=1e-6)

    def test_gradients(self) -> None:
        g, y = array([[4, 0]]), array([[0.25, 0.75]])
        assert_array_equal(textbook.softmax_grad(g, y, 1), [[0.75, -0.75]])
        assert_array_equal(textbook.softmax_grad(g.T, y.T, 0), [[0.75], [-0.75]])
        assert_allclose(textbook.log_softmax_grad(g, np.log(y), 1), [[3, -3]], rtol=1e-15)

    def test_cross_entropy(self) -> None:
        labels = np.array([1, 0])
        x = np.log(array([[1, 3], [1, 1]]))
        loss, tops, logs, _ = textbook.cross_entropy(x, labels, 0.0)
        assert_allclose(loss, [-np.log(0.75), np.log(2)], rtol=1e-15)
        assert_allclose((tops, logs), [[np.log(3), 0], [np.log(4 / 3), np.log(2)]], rtol=1e-15)
        gx = textbook.cross_entropy_grad(array([4, 2]), x, labels, 0.0, tops, logs)
        assert_allclose(gx, [[1, -1], [-1, 1]], rtol=1e-15)
        # a half of the label and a quarter of each class; the second place does not count
        loss, tops, logs, _ = textbook.cross_entropy(x, np.array([1, -1]), 0.5)
        assert_allclose(loss, [-0.75 * np.log(0.75) - 0.25 * np.log(0.25), 0], rtol=1e-14)
        gx = textbook.cross_entropy_grad(array([4, 2]), x, np.array([1, -1]), 0.5, tops, logs)
        assert_allclose(gx, [[0, 0], [0, 0]], atol=1e-15)
        loss, sums = textbook.nll_loss(array([[5, 7], [2, 3]]), np.array([1, -1]))
        assert_array_equal(loss, [-7, 0])
        assert_array_equal(sums, [-7, 1, 0])
        loss, sums = textbook.nll_loss(array([[5, 7], [2, 3], [4, 1]]), np.array([1, 2, 0]), 0, array([9, 3]))
        assert_array_equal(loss, [-21, 0, 0])
        assert_array_equal(sums, [-21, 3, 1])
        assert_array_equal(textbook.nll_loss_grad(array([4, 2]), x, np.array([1, -1])), [[0, -4], [0, 0]])


SGD = {"dampening": 0.0, "nesterov": False, "maximize": False}
ADAM = {"decoupled": False, "maximize": False}


class TestOptimizer:
    def test_sgd(self) -> None:
        p, q = array([1, 2]), array([[8]])
        gradients = [array([0.5, -1]), array([[4]])]
        textbook.update(optimizers.sgd, [p, q], gradients, lr=0.5, weight_decay=0.0, maximize=False)
        assert_array_equal(p, [0.75, 2.5])
        assert_array_equal(q, [[6]])

    def test_sgd_momentum_and_weight_decay(self) -> None:
        p, m, g = array([4]), array([0]), array([1])
        step = partial(textbook.update, optimizers.sgd_momentum, [p], [g], [m], **SGD)
        step(lr=0.5, momentum=0.5, weight_decay=0.25)  # d = m = 2
        assert (p[0], m[0], g[0]) == (3, 2, 1)
        step(lr=0.5, momentum=0.5, weight_decay=1.0)  # d = 4, m = 5
        assert (p[0], m[0], g[0]) == (0.5, 5, 1)

    def test_adam(self) -> None:
        p, m, v = array([4]), array([0]), array([0])
        constants = {**ADAM, "lr": 1.0, "beta1": 0.5, "beta2": 0.75, "eps": 2.0}
        step = partial(textbook.update, optimizers.adam, [p], [array([0])], [m], [v], **constants)
        # d = 2, m = 1, v = 1: 1/0.5 * 1 / (1/0.5 + 2)
        step(step=1, weight_decay=0.5)
        assert (p[0], m[0], v[0]) == (3.5, 1, 1)
        # d = 0, m = 1/2, v = 3/4: 1/0.75 * 0.5 / (sqrt(0.75/0.4375) + 2)
        step(step=2, weight_decay=0.0)
        assert (m[0], v[0]) == (0.5, 0.75)
        assert_allclose(p[0], 3.5 - 2 / 3 / (np.sqrt(12 / 7) + 2), rtol=1e-15)

    def test_steps_keep_float32(self) -> None:
        p, g, m, v = (np.ones(2, np.float32) for _ in range(4))
        textbook.update(optimizers.sgd_momentum, [p], [g], [m], lr=0.1, momentum=0.9, weight_decay=0.1, **SGD)
        constants = {**ADAM, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1}
        textbook.update(optimizers.adam, [p], [g], [m], [v], step=1, **constants)
        assert p.dtype == m.dtype == v.dtype == np.float32
        assert_array_equal(g, [1, 1])
