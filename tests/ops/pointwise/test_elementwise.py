from __future__ import annotations

import math
import re

import numpy as np
import pytest

import retrograd
from ops.battery import away_from_kinks, check, kernels_of_backward, numbers
from retrograd import ops as e
from retrograd.engine.tensor import Tensor

SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((), (2, 2)), ((2, 2), ()), ((0, 3), (1, 3))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_linear_in_each_operand(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    x, y = (numbers(*s, seed=k) for k, s in enumerate(shapes))
    numpy_name = {"add": "add", "sub": "subtract", "mul": "multiply"}[name]
    check_all = check if x.size and y.size else values_only
    check_all(getattr(e, name), (x, y), getattr(np, numpy_name), linear=True)


@pytest.mark.parametrize("shapes", SHAPES[:-1], ids=str)
def test_div(shapes: tuple[tuple[int, ...], ...]) -> None:
    check(e.div, (numbers(*shapes[0]), numbers(*shapes[1], low=0.5)), np.divide)


def values_only(function, arrays, expected, linear) -> None:
    y = function(*map(Tensor, arrays))
    np.testing.assert_array_equal(y.array, expected(*arrays))
    for shape, a in zip([a.shape for a in arrays], arrays, strict=True):
        t = Tensor(a, requires_grad=True)
        others = [t if b is a else Tensor(b) for b in arrays]
        function(*others).backward(Tensor(np.ones(y.shape)))
        assert t.grad.shape == shape


SMOOTH = {
    "neg": (np.negative, None),
    "exp": (np.exp, None),
    "log": (np.log, 0.5),
    "sqrt": (np.sqrt, 0.5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), None),
    "tanh": (np.tanh, None),
}


@pytest.mark.parametrize("shape", [(2, 3), (), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name: str, shape: tuple[int, ...]) -> None:
    expected, low = SMOOTH[name]
    check(getattr(e, name), (numbers(*shape, low=low),), expected, linear=name == "neg", rtol=1e-11)


def test_relu() -> None:
    check(e.relu, (away_from_kinks(3, 4),), lambda x: np.maximum(x, 0))


def test_relu_at_zero_and_nan() -> None:
    x = Tensor(np.array([0.0, -0.0, np.nan, -1.0, 2.0]), requires_grad=True)
    y = e.relu(x)
    np.testing.assert_array_equal(y.array, [0, 0, np.nan, 0, 2])
    y.backward(Tensor(np.full(5, 3.0)))
    np.testing.assert_array_equal(x.grad.array, [0, 0, 3, 0, 3])  # at NaN as PyTorch


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 2.5])
def test_pow(exponent: float) -> None:
    check(lambda x: x**exponent, (numbers(2, 3, low=0.5),), lambda x: x**exponent, rtol=1e-11)


def test_pow_at_zero() -> None:
    for exponent, slope in ((0, 0.0), (1, 1.0), (2, 0.0), (3, 0.0)):
        x = Tensor(np.zeros(2), requires_grad=True)
        (x**exponent).backward(Tensor(np.ones(2)))
        np.testing.assert_array_equal(x.grad.array, [slope] * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1.5,
        lambda x: 1.5 + x,
        lambda x: x - 1.5,
        lambda x: 1.5 - x,
        lambda x: x * 1.5,
        lambda x: 1.5 * x,
        lambda x: x / 1.5,
        lambda x: 1.5 / x,
        lambda x: -x,
        lambda x: x + np.float64(1.5),
        lambda x: np.float64(1.5) * x,
        lambda x: x * np.int64(2) + np.float32(0.5),
    ],
)
def test_numbers_as_operands_keep_the_type(function) -> None:
    check(function, (numbers(2, 3, low=0.5),), function)


def test_a_number_is_not_read_as_its_negative_zero() -> None:
    x = Tensor(np.array([1.0]))
    assert (x / 0.0).item() == np.inf and (x / -0.0).item() == -np.inf


PROMOTIONS = [
    ("float32", (2,), "float64", (2,), "float64"),
    ("float32", (2,), "float64", (), "float32"),
    ("float32", (), "float64", (2,), "float64"),
    ("float32", (2,), "int64", (2,), "float32"),
    ("int64", (2,), "float64", (), "float64"),
    ("bool", (2,), "int64", (), "int64"),
    ("bool", (2,), "float32", (2,), "float32"),
    ("int64", (2,), "int64", (2,), "int64"),
]


@pytest.mark.parametrize(("left", "s", "right", "t", "result"), PROMOTIONS)
def test_promotion(left: str, s: tuple[int, ...], right: str, t: tuple[int, ...], result: str) -> None:
    x, y = Tensor(np.ones(s, left)), Tensor(np.ones(t, right))
    for a, b in ((x, y), (y, x)):
        for z in (a + b, a * b):
            assert z.dtype == result and z.array.max() in (1, 2)
        assert (a / b).dtype == ("float32" if result in ("int64", "bool") else result)


def test_promotion_with_numbers() -> None:
    i, b = Tensor(np.array([1, 2])), Tensor(np.array([True, False]))
    assert (i + 1).dtype == np.int64 and (i + 1.5).dtype == np.float32 and (i / 2).dtype == np.float32
    assert (b + 1).dtype == np.int64 and (b * True).dtype == np.bool_
    np.testing.assert_array_equal((i - 3).array, [-2, -1])
    np.testing.assert_array_equal((-i).array, [-1, -2])


def test_gradient_flows_through_promotion() -> None:
    x, y = Tensor(np.float32([1, 2]), requires_grad=True), Tensor(np.array([3.0, 4.0]), requires_grad=True)
    (x * y).backward(Tensor(np.array([1.0, 10.0])))
    assert x.grad.dtype == np.float32 and y.grad.dtype == np.float64
    np.testing.assert_array_equal(x.grad.array, [3, 40])
    np.testing.assert_array_equal(y.grad.array, [1, 20])


def test_gradients_nobody_asked_for_are_not_computed() -> None:
    arrays = (numbers(2, 3), numbers(2, 3, low=0.5))
    assert kernels_of_backward(e.mul, arrays, {0}) == ["mul"]
    assert kernels_of_backward(e.mul, arrays, {0, 1}) == ["mul_grad"]
    assert kernels_of_backward(e.sub, arrays, {0}) == []
    assert kernels_of_backward(e.sub, arrays, {1}) == ["neg"]
    assert kernels_of_backward(e.div, arrays, {0}) == ["div"]
    assert kernels_of_backward(e.add, (numbers(2, 3), numbers(3)), {0}) == []
    assert kernels_of_backward(e.add, (numbers(2, 3), numbers(3)), {1}) == ["sum"]
    assert kernels_of_backward(lambda x: x * 2.0, (numbers(2),), {0}) == ["scale"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x + Tensor(np.ones((2, 4))), ValueError, "add: shapes (2, 3) and (2, 4) do not broadcast: axis -1"),
        (lambda x: x * [1.0], TypeError, "mul: other is list, needs a Tensor or a number"),
        (lambda x: [1.0] * x, TypeError, "mul: input is list, needs a Tensor or a number"),
        (lambda x: x * np.ones(3, complex), TypeError, "Tensor: dtype complex128 is not supported"),
        (lambda x: x + "a", TypeError, "add: other is str"),
        (lambda x: e.add(2, 3.5), TypeError, "add: input=2 and other=3.5 are both numbers, but one must be a Tensor"),
        (lambda x: e.exp(3.0), TypeError, "exp: input is float, needs a Tensor"),
        (lambda x: e.exp([1.0]), TypeError, "exp: input is list, needs a Tensor; make one with"),
        (lambda x: x ** "2", TypeError, "pow: exponent is str, needs a Tensor or a number"),
        (lambda x: Tensor(np.array([2])) ** -2, ValueError, "pow: an integer has no negative integer power"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.ones((2, 3))))


def test_comparisons_give_truth_values() -> None:
    x = retrograd.tensor([1.0, 2.0, 3.0])
    y = retrograd.tensor([3.0, 2.0, 1.0], requires_grad=True)
    np.testing.assert_array_equal((x < y).array, [True, False, False])
    np.testing.assert_array_equal((x <= y).array, [True, True, False])
    np.testing.assert_array_equal((x > 2).array, [False, False, True])
    np.testing.assert_array_equal((x >= 2).array, [False, True, True])
    np.testing.assert_array_equal((x == y).array, [False, True, False])
    np.testing.assert_array_equal((x != y).array, [True, False, True])
    assert not (x == y).requires_grad and (x == y).any() and not (x == y).all()
    assert (x == y).sum().item() == 1
    assert (x == None) is False and x in {x} and hash(x) != hash(y)  # noqa: E711
    with pytest.raises(ValueError, match=re.escape("eq: shapes (3,) and (2,) do not broadcast")):
        assert x == retrograd.tensor([1.0, 2.0])
    with pytest.raises(TypeError):
        assert x < "a"


def test_gradients_of_zeta() -> None:
    rng = np.random.default_rng(0)
    x, q = (Tensor(rng.uniform(0.5, 1.5, shape), requires_grad=True) for shape in ((3,), (2, 3)))
    with pytest.raises(NotImplementedError, match="zeta: the gradient with respect to input is not"):
        retrograd.special.zeta(x + 2, 1.5).sum().backward()
    g = np.random.default_rng(2).normal(size=(2, 3))
    retrograd.special.zeta(x.detach() + 2, q).backward(Tensor(g))
    step = 1e-5
    s = x.detach() + 2
    ends = [retrograd.special.zeta(s, q.detach() + d).array for d in (step, -step)]
    np.testing.assert_allclose(q.grad.array, g * (ends[0] - ends[1]) / (2 * step), rtol=1e-8)
    with pytest.raises(TypeError, match="zeta: other is str, needs a Tensor or a number"):
        retrograd.special.zeta(s, "a")


def hurwitz(s: float, q: float) -> float:
    """Sum the first terms, and add three terms of the Euler-Maclaurin formula for the rest."""
    end = q + 100_000
    rest = end ** (1 - s) / (s - 1) + end**-s / 2 + s / 12 * end ** (-s - 1)
    return math.fsum((q + k) ** -s for k in range(100_000)) + rest


@pytest.mark.parametrize("s", [2, 3, 4, 7, 20])
def test_zeta_of_negative_numbers(s: int) -> None:
    q = np.array([-0.5, -2.5, -0.25, -7.75, -77.125, -1e-8, -1 + 2.0**-20])
    wanted = np.array([hurwitz(s, number) for number in q])
    error = abs(retrograd.special.zeta(s, Tensor(q)).array - wanted)
    largest = abs(q - np.round(q)) ** -float(s)  # the largest term: terms of both signs cancel
    assert (error <= 1e-15 * s * largest).all()
    single = retrograd.special.zeta(s, Tensor(q[:5].astype(np.float32)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.array, wanted[:5], rtol=1e-6)
    x, g = Tensor(q[:4], requires_grad=True), np.random.default_rng(s).normal(size=4)
    retrograd.special.zeta(s, x).backward(Tensor(g))
    slopes = -s * np.array([hurwitz(s + 1, number) for number in q[:4]])
    assert (abs(x.grad.array / g - slopes) <= 1e-14 * s**2 * abs(q - np.round(q))[:4] ** -float(s + 1)).all()


def test_zeta_at_its_edges() -> None:
    half = retrograd.special.zeta(Tensor(np.array([2.0, 3.0])), -0.5)
    np.testing.assert_allclose(half.array, [4 + np.pi**2 / 2, -8 + 7 * 1.2020569031595942], rtol=1e-14)
    s = np.array([1.5, 2.5, 0, -2, 1, 2, 2, np.nan, 2])
    q = np.array([-0.5, -3.25, -0.5, -0.5, -0.5, -3, 0, -0.5, np.nan])
    wanted = [np.nan] * 4 + [np.inf] * 3 + [np.nan] * 2
    np.testing.assert_array_equal(retrograd.special.zeta(Tensor(s), Tensor(q)).array, wanted)
    far = retrograd.special.zeta(4, Tensor(np.array([-1e6 - 0.5])))  # nearly a sum over all integers
    np.testing.assert_allclose(far.array, [np.pi**4 / 3], rtol=1e-14)


def test_nextafter_passes_gradients_on() -> None:
    rng = np.random.default_rng(0)
    x, y = (Tensor(rng.normal(size=shape), requires_grad=True) for shape in ((2, 3), (3,)))
    g = np.random.default_rng(3).normal(size=(2, 3))
    for change in (x.nextafter(y), (x * 1).nextafter_(y)):
        np.testing.assert_array_equal(change.detach().array, np.nextafter(x.array, y.array))
        found = retrograd.autograd.grad(change, (x, y), Tensor(g))
        np.testing.assert_array_equal(found[0].array, g)
        np.testing.assert_array_equal(found[1].array, np.zeros(3))


NUMBERS = {
    "maximum": (np.maximum, [1.5, 3.0]),
    "minimum": (np.minimum, [1.5, 3.0]),
    "fmax": (np.fmax, [1.5, 3.0]),
    "fmin": (np.fmin, [1.5, 3.0]),
    "atan2": (np.arctan2, [1.5, 3.0]),
    "hypot": (np.hypot, [1.5, 3.0]),
    "logaddexp": (np.logaddexp, [1.5, 3.0]),
    "copysign": (np.copysign, [1.5, -3.0]),
    "fmod": (np.fmod, [1.5, 3.0]),
    "ldexp": (lambda x, y: x * 2.0**y, [1.5, 3.0]),
    "gcd": (np.gcd, [12, 30]),
    "lcm": (np.lcm, [12, 30]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_for_either_operand(name: str) -> None:
    """PyTorch requires tensors here; docs/how_to/from_pytorch.md documents that numbers are accepted."""
    oracle, values = NUMBERS[name]
    x = np.array(values)
    for left, right in ((x, 2), (2, x)):
        found = getattr(retrograd, name)(*(Tensor(v) if v is x else v for v in (left, right)))
        wanted = oracle(left, right)
        np.testing.assert_allclose(found.array, wanted, rtol=1e-12)
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_ldexp_of_extreme_operands(kind: str) -> None:
    """Results that are finite where 2**other is not, as Python's; and the inverse of frexp."""
    limits = np.finfo(kind)
    numbers = [limits.tiny, 3 * limits.tiny, limits.smallest_subnormal, 1.5, limits.max, -1.25, 0.0, -math.inf]
    for exponent in (2 * limits.maxexp - 9, limits.maxexp, 1, -3, limits.minexp, 2 * limits.minexp, 5000, -5000):
        with np.errstate(over="ignore", under="ignore"):
            wanted = np.ldexp(np.array(numbers, kind), exponent)
        found = retrograd.ldexp(retrograd.tensor(np.array(numbers, kind)), retrograd.tensor(exponent))
        np.testing.assert_array_equal(found.numpy(), wanted, err_msg=str(exponent))
    x = retrograd.tensor(np.array(numbers[:-1], kind))
    np.testing.assert_array_equal(retrograd.ldexp(*retrograd.frexp(x)).numpy(), x.numpy())
