from __future__ import annotations

import re

import numpy as np
import pytest

from ops.battery import check, kernels_of_backward, numbers
from retrograd.engine.tensor import Tensor
from retrograd.ops.product.matmul import LinearWeightGrad, linear, matmul

PRODUCTS = [
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((2, 2, 3), (2, 3, 2)),
]


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_matmul(shapes) -> None:
    check(lambda x, y: x @ y, (numbers(*shapes[0]), numbers(*shapes[1])), np.matmul, linear=True)


@pytest.mark.parametrize("shape", [(2, 3), (3,), (2, 2, 3)], ids=str)
def test_linear(shape) -> None:
    x, w, b = numbers(*shape), numbers(4, 3), numbers(4)
    check(linear, (x, w, b), lambda x, w, b: x @ w.T + b, linear=True)
    check(linear, (x, w), lambda x, w: x @ w.T, linear=True)


@pytest.mark.parametrize("lead", [(2,), (2, 2)], ids=str)
def test_linear_weight_grad(lead) -> None:
    check(
        LinearWeightGrad.apply,
        (numbers(*lead, 3), numbers(*lead, 4)),
        lambda x, g: g.reshape(-1, 4).T @ x.reshape(-1, 3),
        linear=True,
    )


def test_adjoint_identity() -> None:
    """One trilinear form: <linear(x, w), g> = <x, matmul(g, w)> = <w, linear_weight_grad(x, g)>."""
    x, w, g = Tensor(numbers(5, 3)), Tensor(numbers(4, 3)), Tensor(numbers(5, 4))
    form = (linear(x, w).array * g.array).sum()
    np.testing.assert_allclose((x.array * matmul(g, w).array).sum(), form, rtol=1e-12)
    np.testing.assert_allclose((w.array * LinearWeightGrad.apply(x, g).array).sum(), form, rtol=1e-12)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((2, 0, 3), (3, 4))], ids=str)
def test_empty(shapes) -> None:
    x, y = (Tensor(numbers(*s), requires_grad=True) for s in shapes)
    z = x @ y
    np.testing.assert_array_equal(z.array, x.array @ y.array)
    z.backward(Tensor(np.ones(z.shape)))
    assert x.grad.shape == x.shape and y.grad.shape == y.shape
    b = Tensor(numbers(shapes[1][1]), requires_grad=True)
    v = linear(x, Tensor(y.array.T.copy(), requires_grad=True), b)
    v.backward(Tensor(np.ones(v.shape)))
    np.testing.assert_array_equal(b.grad.array, np.full(b.shape, np.prod(v.shape[:-1])))


def test_gradients_nobody_asked_for_are_not_computed() -> None:
    arrays = (numbers(2, 3), numbers(4, 3), numbers(4))
    assert kernels_of_backward(linear, arrays, {0}) == ["matmul"]
    assert kernels_of_backward(linear, arrays, {1}) == ["matmul"]
    assert kernels_of_backward(linear, arrays, {2}) == ["sum"]
    assert kernels_of_backward(linear, arrays, {0, 1, 2}) == ["matmul", "matmul", "sum"]
    assert kernels_of_backward(matmul, (numbers(2, 3), numbers(3, 4)), {0}) == ["matmul"]
    assert kernels_of_backward(matmul, (numbers(2, 2, 3), numbers(2, 3, 4)), {1}) == ["matmul"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: x @ x,
            ValueError,
            "matmul: the last axis of input has 3, the matching axis of other has 2; input.shape=(2, 3)",
        ),
        (lambda x: x @ x.sum(), ValueError, "matmul: input.shape=(2, 3), other.shape=(); each needs at least one axis"),
        (lambda x: x @ x.T.double(), TypeError, "matmul: input is float32, other is float64; both must be float32"),
        (lambda x: x @ [[1.0], [2.0], [3.0]], TypeError, "matmul: other is list, needs a Tensor"),
        (
            lambda x: x.expand(2, 2, 3) @ x.T.expand(3, 3, 2),
            ValueError,
            "matmul: shapes (2,) and (3,) do not broadcast",
        ),
        (
            lambda x: linear(x, x.T),
            ValueError,
            "linear: input has 3 features in its last axis, weight expects 2; input.shape=(2, 3)",
        ),
        (lambda x: linear(x, x, x), ValueError, "linear: bias.shape=(2, 3), weight.shape=(2, 3) expects (2,)"),
        (lambda x: linear(x, x.double()), TypeError, "linear: input is float32, weight is float64"),
        (lambda x: linear(x.long(), x), TypeError, "linear: input is int64, weight is float32"),
        (lambda x: linear(x.array, x), TypeError, "linear: input is ndarray, needs a Tensor"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.ones((2, 3), np.float32)))
