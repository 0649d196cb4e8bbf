"""PyTorch's choices at kinks, ties and NaN, and equality of fused and composed gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional

NAN, INF = np.nan, np.inf


def gradients(function: Callable[..., Tensor], *arrays: list[float]) -> list[list[float]]:
    """Return the gradients for the upstream gradient 2, 3, 4, ..., divided by it."""
    tensors = [Tensor(np.array(array), requires_grad=True) for array in arrays]
    y = function(*tensors)
    g = np.arange(2.0, 2 + y.array.size).reshape(y.shape)
    return [(grad.array / g).tolist() for grad in retrograd.autograd.grad(y, tensors, Tensor(g))]


@pytest.mark.parametrize(
    ("function", "x", "slope"),
    [
        (retrograd.abs, [0.0, -0.0, 2.0, -2.0], [0, 0, 1, -1]),
        (retrograd.relu, [0.0, 1.0, -1.0], [0, 1, 0]),
        (retrograd.frac, [1.0, -1.5], [1, 1]),
        *[
            (f, [0.5, 1.0, -1.7], [0, 0, 0])
            for f in (retrograd.sign, retrograd.ceil, retrograd.floor, retrograd.round, retrograd.trunc)
        ],
        (lambda x: x.clamp(-1, 1), [-1.0, 1.0, 0.5, 1.5, -1.5, NAN], [1, 1, 1, 0, 0, 0]),
        (lambda x: x.clamp(max=1), [-9.0, 1.0, 1.5], [1, 1, 0]),
        (retrograd.nan_to_num, [1.0, NAN, INF, -INF], [1, 0, 0, 0]),
        (lambda x: x**0, [0.0, 2.0], [0, 0]),
        (lambda x: x // 0.3, [0.0, 2.0], [0, 0]),
        (functional.relu6, [0.0, 6.0, 3.0, 7.0], [0, 0, 1, 0]),
        (functional.hardtanh, [-1.0, 1.0, 0.999, NAN], [0, 0, 1, 1]),
        (functional.hardshrink, [0.5, -0.5, 0.6, -0.6], [0, 0, 1, 1]),
        (functional.softshrink, [0.5, -0.5, 0.6, -0.6], [0, 0, 1, 1]),
        (functional.hardswish, [-3.0, 3.0, 0.0], [0, 1, 0.5]),
        (functional.leaky_relu, [0.0, 1.0, -1.0], [0.01, 1, 0.01]),
        (lambda x: functional.threshold(x, 0.5, 9.0), [0.5, 0.6], [0, 1]),
        (functional.elu, [0.0, 1.0], [1, 1]),
    ],
)
def test_slopes_at_kinks(function: Callable[..., Tensor], x: list[float], slope: list[float]) -> None:
    (found,) = gradients(function, x)
    np.testing.assert_allclose(found, slope, rtol=1e-14)


@pytest.mark.parametrize(
    ("function", "gx", "gy"),
    [  # of 1 and 1, 1 and 2, 2 and 1, NaN and 1, 1 and NaN
        (retrograd.maximum, [0.5, 0, 1, 1, 1], [0.5, 1, 0, 1, 1]),
        (retrograd.minimum, [0.5, 1, 0, 1, 1], [0.5, 0, 1, 1, 1]),
        (retrograd.fmax, [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]),
        (retrograd.fmin, [1, 1, 0, 0, 1], [0, 0, 1, 1, 0]),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_ties(function: Callable[..., Tensor], gx: list[float], gy: list[float], create_graph: bool) -> None:
    x, y = (Tensor(np.array(a), requires_grad=True) for a in ([1.0, 1, 2, NAN, 1], [1.0, 2, 1, 1, NAN]))
    z = function(x, y)
    found = retrograd.autograd.grad(z, (x, y), Tensor(np.ones(5)), create_graph=create_graph)
    np.testing.assert_array_equal([g.array for g in found], [gx, gy])


def test_clamp_between_tensors() -> None:
    """A limit gets the gradient where it is the result and x is not; if the limits cross, the upper one does."""
    x, low, high = [0.0, 1.0, 2.0, 3.0, 1.5], [1.0, 1.0, 3.0, 1.0, 0.0], [2.0, 2.0, 2.0, 3.0, 1.0]
    found = gradients(retrograd.clamp, x, low, high)
    np.testing.assert_array_equal(found, [[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 1]])


def test_powers_of_zero() -> None:
    gx, gy = gradients(retrograd.pow, [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0])
    np.testing.assert_allclose(gx, [0, 1, 0, 0])
    np.testing.assert_allclose(gy, [0, 0, 0, np.log(2)])


def test_special_values() -> None:
    x = Tensor(np.array([NAN, INF, -INF, -0.0, 1.5]))
    np.testing.assert_array_equal(retrograd.sign(x).array, [0, 1, -1, 0, 1])
    np.testing.assert_array_equal(x.isnan().array, [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(x.isinf().array, [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(x.isfinite().array, [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(x.clamp(-1, 1).array, [NAN, 1, -1, 0, 1])
    np.testing.assert_array_equal(x.nan_to_num(7, 8).array, [7, 8, -np.finfo(float).max, 0, 1.5])
    np.testing.assert_array_equal(
        retrograd.xlogy(Tensor(np.zeros(3)), Tensor(np.array([0.0, -1, NAN]))).array, [0, 0, NAN]
    )
    np.testing.assert_array_equal(retrograd.logaddexp(x, x).array[:3], [NAN, INF, -INF])
    np.testing.assert_array_equal(
        retrograd.hypot(Tensor(np.array([INF, 1e300])), Tensor(np.array([1.0, 1e300]))).array[0], INF
    )
    assert retrograd.hypot(Tensor(np.array(3e200)), Tensor(np.array(4e200))).item() == pytest.approx(5e200, rel=1e-15)
    np.testing.assert_array_equal(retrograd.round(Tensor(np.array([0.5, 1.5, 2.5]))).array, [0, 2, 2])
    np.testing.assert_array_equal(
        (Tensor(np.array([7.0, -7.0, 7.0])) % Tensor(np.array([3.0, 3.0, -3.0]))).array, [1, 2, -2]
    )
    np.testing.assert_array_equal(
        (Tensor(np.array([7.0, -7.0, 1.0])) // Tensor(np.array([3.0, 3.0, 0.0]))).array, [2, -3, INF]
    )


def test_operators_of_python() -> None:
    i, b = Tensor(np.array([5, -7])), Tensor(np.array([True, False]))
    assert (
        (i % 3).array.tolist() == [2, 2]
        and (7 // i).array.tolist() == [1, -1]
        and (2 ** Tensor(np.array([3]))).item() == 8
    )
    assert (~i).array.tolist() == [-6, 6] and (~b).array.tolist() == [False, True]
    assert (
        (b & True).array.tolist() == [True, False]
        and (i | 2).array.tolist() == [7, -5]
        and (1 ^ i).array.tolist() == [4, -8]
    )
    assert abs(i).array.tolist() == [5, 7] and (+i) is i and (i == "a") is False


def test_closeness() -> None:
    x, y = Tensor(np.array([1.0, NAN, INF])), Tensor(np.array([1.0 + 1e-6, NAN, INF]))
    assert retrograd.isclose(x, y).array.tolist() == [True, False, True] and retrograd.allclose(x, y, equal_nan=True)
    assert (
        not retrograd.allclose(x, y)
        and not retrograd.equal(x, x)
        and retrograd.equal(y[:1], y[:1])
        and not retrograd.equal(x, y[:1])
    )
    with pytest.raises(TypeError, match=re.escape("isclose: input is float64, other is int64")):
        retrograd.isclose(x, Tensor(np.array([1, 2, 3])))
    with pytest.raises(TypeError, match=re.escape("equal: other is float, needs a Tensor")):
        retrograd.equal(x, 1.0)
    with pytest.raises(TypeError, match=re.escape("eq: other is str, needs a Tensor or a number")):
        retrograd.eq(x, "a")


SMOOTH = (
    *("exp", "exp2", "expm1", "sigmoid", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc"),
    *(
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "square",
        "abs",
        "logit",
        "asin",
        "acos",
        "atanh",
    ),
    *("silu", "mish", "gelu", "softplus", "logsigmoid", "softsign", "tanhshrink", "elu", "selu", "celu", "hardswish"),
)


@pytest.mark.parametrize("name", SMOOTH)
def test_fused_gradients_are_the_composed_ones(name: str) -> None:
    function = getattr(retrograd, name, None) or getattr(functional, name)
    x = Tensor(np.random.default_rng(0).uniform(0.1, 0.9, (7, 9)), requires_grad=True)
    g = Tensor(np.random.default_rng(1).standard_normal((7, 9)))
    y = function(x)
    (fused,) = retrograd.autograd.grad(y, x, g, retain_graph=True)
    (composed,) = retrograd.autograd.grad(y, x, g, create_graph=True)
    np.testing.assert_allclose(fused.array, composed.array, rtol=1e-12)


@pytest.mark.parametrize("name", ["mul", "div", "pow", "hypot", "atan2", "logaddexp", "xlogy", "fmod", "remainder"])
@pytest.mark.parametrize("shapes", [((7, 9), (7, 9)), ((7, 9), (9,)), ((7, 1), (1, 9))], ids=str)
def test_fused_gradients_of_two(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    function, rng = getattr(retrograd, name), np.random.default_rng(0)
    x, y = (Tensor(rng.uniform(0.5, 4, shape), requires_grad=True) for shape in shapes)
    z = function(x, y)
    g = Tensor(rng.standard_normal(z.shape))
    for wanted in ((x, y), (x,), (y,)):
        fused = retrograd.autograd.grad(z, wanted, g, retain_graph=True)
        composed = retrograd.autograd.grad(z, wanted, g, create_graph=True)
        for a, b in zip(fused, composed, strict=True):
            np.testing.assert_allclose(a.array, b.array, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "elu", "hardswish", "softplus"])
def test_slopes_of_activations_at_the_largest_numbers(name: str, dtype: str) -> None:
    top = np.finfo(dtype).max
    x = Tensor(np.array([-top, -top / 4, top / 4, top], dtype), requires_grad=True)
    (g,) = retrograd.autograd.grad(getattr(functional, name)(x).sum(), x)
    np.testing.assert_allclose(g.array, [0, 0, 1, 1], rtol=1e-6)


def test_gumbel_softmax_hard() -> None:
    """The value is the hard choice; the gradient is that of the soft sample."""
    x = Tensor(np.random.default_rng(0).standard_normal((4, 5)), requires_grad=True)
    results = []
    for hard in (False, True):
        retrograd.manual_seed(3)
        y = functional.gumbel_softmax(x, 0.5, hard, dim=0)
        results.append((y.array, retrograd.autograd.grad(y, x, Tensor(np.arange(20.0).reshape(4, 5)))[0].array))
    (soft, g), (chosen, g_hard) = results
    np.testing.assert_array_equal(chosen, soft == soft.max(0))
    np.testing.assert_array_equal(g, g_hard)


def test_rrelu_draws_between_its_limits() -> None:
    x = Tensor(-np.ones((100, 100)), requires_grad=True)
    y = functional.rrelu(x, 0.2, 0.4, training=True)
    assert -0.4 <= y.array.min() < -0.39 and -0.21 < y.array.max() <= -0.2 and abs(y.array.mean() + 0.3) < 0.01
    np.testing.assert_array_equal(retrograd.autograd.grad(y, x, Tensor(np.ones((100, 100))))[0].array, -y.array)


def test_inplace_activations_change_their_input() -> None:
    x = Tensor(np.array([-1.0, 2.0]), requires_grad=True)
    for function in (
        functional.relu,
        functional.silu,
        functional.elu,
        functional.hardtanh,
        functional.leaky_relu,
        functional.selu,
        functional.hardswish,
        functional.mish,
        functional.celu,
        functional.relu6,
    ):
        z = x * 1.0
        y = function(z, inplace=True)
        assert y is z
        np.testing.assert_array_equal(y.array, function(x).array)
        (g,) = retrograd.autograd.grad(y, x, Tensor(np.array([2.0, 3.0])))
        (expected,) = retrograd.autograd.grad(function(x), x, Tensor(np.array([2.0, 3.0])))
        np.testing.assert_allclose(g.array, expected.array)


@pytest.mark.pairwise
@pytest.mark.parametrize("low", [3, np.float32(3), np.full((1, 4), 3, np.float32), np.full(4, 3), np.full((3, 1), 3.0)])
@pytest.mark.parametrize("high", [None, 9, np.float64(9), np.full((3, 4), 9.0), np.full(4, 9, np.float32)])
@pytest.mark.parametrize("x", [2, np.float32(2), np.full((3, 1), 2), np.full((3, 4), 2, np.float32)])
def test_clamp_of_mixed_types(x: Any, low: Any, high: Any) -> None:
    given = [v if v is None or isinstance(v, (int, float)) else Tensor(np.asarray(v)) for v in (low, high)]
    for kernels in ("compiled", "textbook"):
        with retrograd.use_kernels(kernels):
            y = retrograd.clamp(Tensor(np.asarray(x)), *given)
        shape = np.broadcast_shapes(*[np.shape(v) for v in (x, low, high) if v is not None])
        assert y.shape == shape and (y.array == 3).all()


def test_where_logit_is_not_defined_its_gradient_is_a_constant() -> None:
    x = retrograd.tensor([-0.5, 0.25, 1.5], dtype=np.float64, requires_grad=True)
    g = retrograd.tensor([2.0, 3.0, 4.0], dtype=np.float64, requires_grad=True)
    (gx,) = retrograd.autograd.grad(retrograd.logit(x), x, g, create_graph=True)
    np.testing.assert_allclose(gx.array, [np.nan, 16, np.nan])
    ggx, gg = retrograd.autograd.grad(gx, [x, g], retrograd.ones_like(x))
    np.testing.assert_allclose(ggx.array, [0, -3 * 0.5 / 0.1875**2, 0])
    np.testing.assert_allclose(gg.array, [0, 1 / 0.1875, 0])


def test_the_text_of_a_backward_is_what_runs() -> None:
    """Tested for an operator made from formulas, and for a class with its own backward."""
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    assert "def silu_grad(g: Operand, x: Operand)" in retrograd.backward_source(functional.silu(x))
    silu = functional.silu(x).grad_fn.function

    class Straight(silu):  # type: ignore[valid-type, misc]
        @staticmethod
        def backward(ctx, g):
            return g * 3.0

    y = Straight.apply(x)
    assert "return g * 3.0" in retrograd.backward_source(y)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, [3.0, 3.0])
    text = retrograd.backward_source(retrograd.hypot(x, x))
    assert "def hypot_grad_x" in text and "def hypot_grad_y" in text
