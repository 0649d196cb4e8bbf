from __future__ import annotations

import re

import numpy as np
import pytest

from ops.battery import away_from_kinks, check, kernels_of_backward, numbers
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.linalg import vector_norm
from retrograd.ops.product.products import tensordot
from retrograd.ops.reduce import reduction as r
from retrograd.ops.reduce.calculus import gradient

DIMS = [None, 0, 1, -1, (0, 2), (0, 1, 2), ()]


@pytest.mark.pairwise
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_sum_and_mean(dim, keepdim: bool) -> None:
    axis = None if dim == () else dim
    x = numbers(2, 3, 2)
    check(lambda t: t.sum(dim, keepdim), (x,), lambda a: a.sum(axis, keepdims=keepdim), linear=True)
    check(lambda t: t.mean(dim, keepdim), (x,), lambda a: a.mean(axis, keepdims=keepdim), linear=True)


def test_without_axes() -> None:
    check(lambda t: t.sum(), (numbers(),), lambda a: a, linear=True)
    check(lambda t: t.mean(), (numbers(),), lambda a: a, linear=True)
    check(lambda t: t.max(), (numbers(),), lambda a: a)


def test_empty() -> None:
    x = Tensor(np.zeros((0, 3)), requires_grad=True)
    np.testing.assert_array_equal(x.sum(0).array, [0, 0, 0])
    assert np.isnan(x.mean().item())
    x.sum().backward()
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_running_sums_and_products_in_a_type_that_is_asked_for(dtype: type) -> None:
    x = np.array([[3, 100, 90], [5, 120, 60]])
    narrow = x.astype(dtype)
    for t in (Tensor(x), Tensor(narrow)):
        for found, wanted in (
            (t.cumsum(1, dtype=dtype), np.cumsum(narrow, 1, dtype)),
            (t.cumprod(0, dtype=dtype), np.cumprod(narrow, 0, dtype)),
            (t[0, 1].cumsum(0, dtype=dtype), narrow[0, 1]),
        ):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.array, wanted)
    assert Tensor(narrow).cumsum(1).dtype == np.int64 and Tensor(narrow).cumprod(1).dtype == np.int64


def test_operators_that_keep_the_type_of_integers() -> None:
    x, index = np.array([[4, 7], [1, 9]], np.int32), Tensor(np.array([0, 0]))
    mean = Tensor(x).index_reduce(0, index, Tensor(x), "mean")
    assert mean.dtype == np.int32 and mean.array.tolist() == [[3, 7], [1, 9]]
    found = tensordot(Tensor(x), Tensor(x[:1]), ([0], [0]))  # the one row of the second counts for both of the first
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found.array, np.tensordot(x, x[[0, 0]], ([0], [0])))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_the_median_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    x = Tensor(np.zeros(shape), requires_grad=True)
    y = getattr(x, name)()
    assert np.isnan(y.item())
    y.backward(Tensor(np.array(3.0)))  # a warning is an error
    assert x.grad.shape == shape


def test_gradient_beside_an_infinity_and_at_equal_coordinates() -> None:
    x = Tensor(np.array([1.0, np.inf, 3.0, 4.0]))
    np.testing.assert_array_equal(gradient(x)[0].array, [np.inf, 1.0, -np.inf, 1.0])
    t = Tensor(np.array([1.0, 2.0, 5.0]), requires_grad=True)
    y = gradient(t, spacing=[Tensor(np.array([0.0, 0.0, 1.0]))])[0]  # a warning is an error
    np.testing.assert_array_equal(y.detach().array[[0, 2]], [np.inf, 3.0])


@pytest.mark.parametrize("order", [3, 0.5, -3, 2.0**40, -(2.0**40), np.int64(2**40)])
@pytest.mark.parametrize("factor", [1.0, 1e200, 1e-200])
def test_norms_whose_powers_would_overflow_or_vanish(order: float, factor: float) -> None:
    x, g = numbers(3, 4), numbers(3)
    size = abs(x)
    if abs(order) > 1e6:  # the extreme element decides, and the others do not count
        plain = size.max(1) if order > 0 else size.min(1)
        slope = np.sign(x) * (size == plain[:, None])
    else:
        plain = (size**order).sum(1) ** (1 / order)
        slope = np.sign(x) * (size / plain[:, None]) ** (order - 1)
    t = Tensor(x * factor, requires_grad=True)
    y = vector_norm(t, order, 1)
    np.testing.assert_allclose(y.array, plain * factor, rtol=1e-10)
    y.backward(Tensor(g))
    np.testing.assert_allclose(t.grad.array, g[:, None] * slope, rtol=1e-9)


def test_integers_sum_exactly() -> None:
    y = Tensor(np.array([[1, 2**53], [1, 1]])).sum(0)
    assert y.dtype == np.int64 and y.array.tolist() == [2, 2**53 + 1]
    assert Tensor(np.array([True, True])).sum().item() == 2


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_max_along(dim: int, keepdim: bool) -> None:
    x = away_from_kinks(3, 4, 2)
    check(lambda t: t.max(dim, keepdim)[0], (x,), lambda a: a.max(dim, keepdims=keepdim))
    found = Tensor(x).max(dim, keepdim)
    indices = found.indices
    assert found.values is found[0] and indices is found[1]
    assert indices.dtype == np.int64 and not indices.requires_grad
    np.testing.assert_array_equal(indices.array, x.argmax(dim, keepdims=keepdim))


def test_max_of_all() -> None:
    check(lambda t: t.max(), (away_from_kinks(3, 4),), np.max)


def test_ties() -> None:
    x = Tensor(np.array([[1.0, 3.0], [3.0, 2.0]]), requires_grad=True)
    x.max().backward(Tensor(np.array(6.0)))
    np.testing.assert_array_equal(x.grad.array, [[0, 3], [3, 0]])  # shared evenly
    y = Tensor(np.array([[3.0, 3.0], [1.0, 1.0]]), requires_grad=True)
    y.max(1)[0].backward(Tensor(np.array([5.0, 7.0])))
    np.testing.assert_array_equal(y.grad.array, [[5, 0], [7, 0]])  # to the first


def test_nan_is_the_maximum() -> None:
    x = Tensor(np.array([1.0, np.nan, 2.0]), requires_grad=True)
    y = x.max()
    assert np.isnan(y.item())
    y.backward()
    np.testing.assert_array_equal(x.grad.array, [0, 1, 0])
    assert Tensor(np.array([[1.0, np.nan, 2.0]])).max(1)[1].item() == 1


def test_max_of_integers() -> None:
    x = Tensor(np.array([[1, 5], [7, 2]]))
    assert x.max().item() == 7 and x.max(1)[0].array.tolist() == [5, 7] and x.max(1)[1].array.tolist() == [1, 0]


def test_argmax() -> None:
    x = away_from_kinks(3, 4)
    assert Tensor(x).argmax().item() == x.argmax()
    for keepdim in (False, True):
        y = Tensor(x, requires_grad=True).argmax(1, keepdim)
        assert y.dtype == np.int64 and not y.requires_grad
        np.testing.assert_array_equal(y.array, x.argmax(1, keepdims=keepdim))


def test_both_outputs_of_a_sweep_with_an_unused_maximum() -> None:
    x = Tensor(away_from_kinks(3, 4), requires_grad=True)
    assert gradcheck(lambda t: t.max(1)[0] * t.max(0)[0].sum(), [x])
    assert gradgradcheck(lambda t: t.max(1)[0] * t.max(0)[0].sum(), [x])


def test_one_kernel_per_reduction() -> None:
    assert kernels_of_backward(lambda t: t.sum(1), (numbers(2, 3),), {0}) == []
    assert kernels_of_backward(lambda t: t.mean(1), (numbers(2, 3),), {0}) == ["scale"]
    assert kernels_of_backward(lambda t: t.max(), (numbers(2, 3),), {0}) == ["mul", "mul", "reciprocal", "sum", "ties"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.sum(1.0), TypeError, "sum: dim=1.0 must be an int"),
        (lambda x: x.max("a"), TypeError, "max: dim='a' must be an int"),
        (lambda x: x.sum(2), IndexError, "sum: dim=2 is out of range; 2 axes allow -2 to 1"),
        (lambda x: x.mean((0, -2)), ValueError, "mean: dim=(0, -2) names an axis of a 2-d tensor twice"),
        (lambda x: x.long().mean(), TypeError, "mean: input is int64, needs float32 or float64"),
        (lambda x: x[:0].max(), ValueError, "max: input.shape=(0, 3) has no element to choose from"),
        (lambda x: x[:0].max(0), ValueError, "max: input.shape=(0, 3) has no element to choose from along dim=0"),
        (lambda x: x[:0].argmax(0), ValueError, "argmax: input.shape=(0, 3) has no element"),
        (lambda x: x.max(-3), IndexError, "max: dim=-3 is out of range"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.ones((2, 3))))


def test_a_list_of_axes() -> None:
    np.testing.assert_array_equal(r.sum(Tensor(np.ones((2, 3, 4))), [0, -1]).array, [8, 8, 8])
