from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops.battery import check, check_requests, kernels_of_backward, numbers, recorded_kernels
from retrograd.autograd import grad, gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.normalization.batch_norm import BatchNorm, channel_affine
from retrograd.ops.normalization.layer_norm import norm_grad

SHAPES = [(4, 2), (3, 2, 2), (2, 2, 2, 2), (2, 1, 2, 1, 2)]
EPS = 1e-5


def normalized(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    axes = (0, *range(2, x.ndim))
    column = (slice(None), *(None,) * (x.ndim - 2))
    z = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPS)
    return z * w[column] + b[column]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape) -> None:
    x, w, b = numbers(*shape), numbers(shape[1], seed=1), numbers(shape[1], seed=2)
    check(lambda *t: BatchNorm.apply(*t, EPS, []), (x, w, b), normalized, rtol=1e-10, rounding=1e-13)
    statistics: list[np.ndarray] = []
    BatchNorm.apply(*map(Tensor, (x, w, b)), EPS, statistics)
    mean, variance = statistics
    axes = (0, *range(2, x.ndim))
    np.testing.assert_allclose(mean, x.mean(axes), atol=1e-12)
    np.testing.assert_allclose(variance, x.var(axes))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fused_gradient_equals_the_composed_one(shape) -> None:
    arrays = numbers(*shape), numbers(shape[1], seed=1), numbers(shape[1], seed=2)
    x, w, b = (Tensor(a, requires_grad=True) for a in arrays)
    g = Tensor(numbers(*shape, seed=3))
    fused = grad(BatchNorm.apply(x, w, b, EPS, []), (x, w, b), g)
    composed = grad(BatchNorm.apply(x, w, b, EPS, []), (x, w, b), g, create_graph=True)
    direct = norm_grad(g, x, w, EPS, (shape[0], shape[1], 1, math.prod(shape[2:])), (0, 3))
    for f, c, d in zip(fused, composed, direct, strict=True):
        assert not f.requires_grad
        np.testing.assert_allclose(f.array, c.array, rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(c.array, d.array)


def test_only_what_is_asked_for() -> None:
    function = lambda x, w, b: BatchNorm.apply(x, w, b, EPS, [])  # noqa: E731
    arrays = (numbers(4, 2), numbers(2), numbers(2))
    assert kernels_of_backward(function, arrays, {0, 1, 2}) == ["batch_norm_grad"]
    assert kernels_of_backward(function, arrays, {0}) == ["batch_norm_grad"]
    assert kernels_of_backward(function, arrays, {2}) == ["sum"]
    assert "batch_norm_grad" not in kernels_of_backward(function, arrays, {1, 2})
    x, w, b = Tensor(arrays[0]), Tensor(arrays[1], requires_grad=True), Tensor(arrays[2])
    function(x, w, b).backward(Tensor(numbers(4, 2, seed=3)))
    assert x.grad is None and b.grad is None
    z = normalized(arrays[0], np.ones(2), np.zeros(2))
    np.testing.assert_allclose(w.grad.array, (z * numbers(4, 2, seed=3)).sum(0))


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2, 2)], ids=str)
def test_channel_affine(shape) -> None:
    column = (slice(None), *(None,) * (len(shape) - 2))
    arrays = numbers(*shape), numbers(shape[1], seed=1), numbers(shape[1], seed=2)
    check(channel_affine, arrays, lambda x, s, t: x * s[column] + t[column], linear=True)
    assert kernels_of_backward(channel_affine, arrays, {0}) == ["mul"]
    assert kernels_of_backward(channel_affine, arrays, {2}) == ["sum"]


def test_running_statistics() -> None:
    x = numbers(4, 2, 3)
    mean, variance = Tensor(np.array([1.0, 2.0])), Tensor(np.array([3.0, 4.0]))
    held = mean.array
    y = F.batch_norm(Tensor(x), mean, variance, training=True, momentum=0.3)
    np.testing.assert_allclose(y.array, normalized(x, np.ones(2), np.zeros(2)))
    np.testing.assert_allclose(mean.array, 0.7 * np.array([1, 2]) + 0.3 * x.mean((0, 2)))
    np.testing.assert_allclose(variance.array, 0.7 * np.array([3, 4]) + 0.3 * x.var((0, 2), ddof=1))
    assert mean.array is held

    before = mean.array.copy()
    w, b = Tensor(numbers(2)), Tensor(numbers(2, seed=1))
    column = (slice(None), None)
    scale = w.array / np.sqrt(variance.array + EPS)
    z = F.batch_norm(Tensor(x), mean, variance, w, b)
    np.testing.assert_allclose(z.array, (x - mean.array[column]) * scale[column] + b.array[column])
    plain = (x - mean.array[column]) / np.sqrt(variance.array + EPS)[column]
    np.testing.assert_allclose(F.batch_norm(Tensor(x), mean, variance).array, plain)
    np.testing.assert_array_equal(mean.array, before)
    np.testing.assert_allclose(F.batch_norm(Tensor(x), None, None).array, y.array)


def test_gradients_in_eval_mode() -> None:
    arrays = numbers(3, 2, 2), np.array([1.0, 2.0]), np.array([3.0, 4.0]), numbers(2), numbers(2, seed=1)
    inputs = [Tensor(a, requires_grad=True) for a in arrays]
    assert gradcheck(F.batch_norm, inputs) and gradgradcheck(F.batch_norm, inputs)
    check_requests(F.batch_norm, arrays)


def test_eval_mode_needs_few_kernels() -> None:
    arrays = numbers(3, 2, 2), np.array([1.0, 2.0]), np.array([3.0, 4.0]), numbers(2), numbers(2, seed=1)
    with recorded_kernels() as names:
        F.batch_norm(*(Tensor(a, requires_grad=True) for a in arrays))
    assert names == ["fixed_scale", "channel_affine"]
    assert kernels_of_backward(F.batch_norm, arrays, {0}) == ["mul"]
    assert kernels_of_backward(F.batch_norm, arrays, {4}) == ["sum"]


def test_statistics_that_move_before_the_sweep() -> None:
    x, w = Tensor(numbers(4, 2)), Tensor(numbers(2), requires_grad=True)
    mean, variance = Tensor(np.array([1.0, 2.0])), Tensor(np.array([3.0, 4.0]))
    g = numbers(4, 2, seed=3)
    y = F.batch_norm(x, mean, variance, w)
    expected = (g * (x.array - mean.array) / np.sqrt(variance.array + EPS)).sum(0)
    F.batch_norm(x, mean, variance, w, training=True)
    y.backward(Tensor(g))
    np.testing.assert_allclose(w.grad.array, expected)


@pytest.mark.filterwarnings("error")
def test_a_variance_of_zero_warns_of_nothing() -> None:
    zero = Tensor(np.zeros(2))
    y = F.batch_norm(Tensor(np.ones((3, 2))), zero, zero, eps=0.0)
    assert not np.isfinite(y.array).any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x, c: F.batch_norm(x, None, None, c[:1]),
            ValueError,
            "batch_norm: weight.shape=(1,), needs (2,), one per",
        ),
        (lambda x, c: F.batch_norm(x, c, None), ValueError, "batch_norm: running_var is missing; give both"),
        (lambda x, c: F.batch_norm(x, c, c.float()), TypeError, "batch_norm: input is float64, running_var is float32"),
        (lambda x, c: F.batch_norm(x[:1], c, c, training=True), ValueError, "each channel has 1 element to take"),
        (lambda x, c: F.batch_norm(c, c, c), ValueError, "batch_norm: input.shape=(2,) needs at least 2 axes"),
        (lambda x, c: F.batch_norm(x.long(), c, c), TypeError, "batch_norm: input is int64"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.ones((3, 2))), Tensor(np.ones(2)))


@pytest.mark.parametrize("eps", [None, "1e-5", {}, np.zeros(2), lambda: 1])
def test_eps_that_is_no_number_is_named(eps: Any) -> None:
    x, zero, one = Tensor(np.ones((2, 4, 3))), Tensor(np.zeros(4)), Tensor(np.ones(4))
    calls: dict[str, Callable[[], Any]] = {
        "batch_norm": lambda: F.batch_norm(x, zero, one, eps=eps),
        "instance_norm": lambda: F.instance_norm(x, eps=eps),
        "group_norm": lambda: F.group_norm(x, 2, eps=eps),
        "layer_norm": lambda: F.layer_norm(x, (3,), eps=eps),
        "normalize": lambda: F.normalize(x, eps=eps),
        "gaussian_nll_loss": lambda: F.gaussian_nll_loss(x, x, x, eps=eps),
        "poisson_nll_loss": lambda: F.poisson_nll_loss(x, x, eps=eps),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name}: eps"):
            call()
