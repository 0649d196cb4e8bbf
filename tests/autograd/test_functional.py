"""Products with Jacobians and Hessians, compared with finite differences in NumPy and with formulas."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd import Tensor, tensor
from retrograd.autograd import grad, no_grad
from retrograd.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

RNG = np.random.default_rng(3)
A, B = RNG.uniform(0.5, 1.5, (2, 3)), RNG.uniform(0.5, 1.5, (3,))
U, V, W = RNG.standard_normal((2, 3)), RNG.standard_normal((3,)), RNG.standard_normal((2,))


def t(array: Any, requires_grad: bool = False) -> Tensor:
    return Tensor(np.array(array, np.float64), requires_grad)


def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(2,) and (3,) from (2, 3) and (3,)"""
    return (x * y).sigmoid().sum(1), x[0].exp() * y * y


def g(x: Tensor, y: Tensor) -> Tensor:
    return ((x * x * y).sum(1).tanh() * 2.0).sum()


def numeric(func: Callable[..., np.ndarray], arrays: list[np.ndarray], which: int, eps: float = 1e-6) -> np.ndarray:
    """Return the Jacobian (\\*Y, \\*X) of func(*arrays) with respect to one of the arrays."""
    x = arrays[which]
    columns = []
    for index in np.ndindex(x.shape):
        value = x[index]
        x[index] = value + eps
        high = func(*arrays)
        x[index] = value - eps
        columns.append((high - func(*arrays)) / (2 * eps))
        x[index] = value
    return np.stack(columns, -1).reshape(*np.shape(columns[0]), *x.shape)


def f_numpy(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (1 / (1 + np.exp(-x * y))).sum(1), np.exp(x[0]) * y * y


def g_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray((np.tanh((x * x * y).sum(1)) * 2).sum())


J = [[numeric(lambda x, y, i=i: f_numpy(x, y)[i], [A.copy(), B.copy()], j) for j in range(2)] for i in range(2)]


def slope(x: np.ndarray, y: np.ndarray, which: int) -> np.ndarray:
    d = 2 * (1 - np.tanh((x * x * y).sum(1)) ** 2)[:, None]
    return (d * 2 * x * y, (d * x * x).sum(0))[which]


H = [[numeric(lambda x, y, i=i: slope(x, y, i), [A.copy(), B.copy()], j) for j in range(2)] for i in range(2)]


def close(actual: Tensor, expected: np.ndarray) -> None:
    assert not actual.requires_grad
    np.testing.assert_allclose(actual.array, expected, rtol=1e-7, atol=1e-8)


def test_jacobian() -> None:
    result = jacobian(f, (t(A), t(B)))
    for i in range(2):
        for j in range(2):
            close(result[i][j], J[i][j])
    close(jacobian(lambda x: f(x, t(B))[0], t(A)), J[0][0])
    close(jacobian(lambda x: f(x, t(B)), t(A))[1], J[1][0])
    close(jacobian(lambda x, y: f(x, y)[1], [t(A), t(B)])[1], J[1][1])


def test_vjp() -> None:
    outputs, (gx, gy) = vjp(f, (t(A), t(B)), (t(W), t(V)))
    np.testing.assert_allclose(outputs[0].array, f_numpy(A, B)[0])
    close(gx, np.tensordot(W, J[0][0], 1) + np.tensordot(V, J[1][0], 1))
    close(gy, W @ J[0][1] + V @ J[1][1])
    close(vjp(lambda x: g(x, t(B)), t(A))[1], slope(A, B, 0))  # v is implied for one element


def test_jvp() -> None:
    _, (d0, d1) = jvp(f, (t(A), t(B)), (t(U), t(V)))
    close(d0, np.tensordot(J[0][0], U, 2) + J[0][1] @ V)
    close(d1, np.tensordot(J[1][0], U, 2) + J[1][1] @ V)


@pytest.mark.parametrize("product", [hvp, vhp])
def test_hessian_products(product: Any) -> None:
    value, (hx, hy) = product(g, (t(A), t(B)), (t(U), t(V)))
    assert value.item() == pytest.approx(g_numpy(A, B))
    close(hx, np.tensordot(H[0][0], U, 2) + H[0][1] @ V)
    close(hy, np.tensordot(H[1][0], U, 2) + H[1][1] @ V)


def test_hessian() -> None:
    result = hessian(g, (t(A), t(B)))
    for i in range(2):
        for j in range(2):
            close(result[i][j], H[i][j])
    close(hessian(lambda x: g(x, t(B)), t(A)), H[0][0])


def test_create_graph() -> None:
    x = t([1.0, 2.0, 3.0], requires_grad=True)
    cube = lambda x: x * x * x  # noqa: E731
    j = jacobian(cube, x, create_graph=True)
    np.testing.assert_allclose(grad(j.sum(), x)[0].array, 6 * x.array)
    h = hessian(lambda x: cube(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(grad(h.sum(), x)[0].array, [6, 6, 6])
    v = t([1.0, -1.0, 2.0], requires_grad=True)
    for product in (vjp, jvp):
        y, p = product(cube, x, v, create_graph=True)
        gx, gv = grad(p.sum(), (x, v), retain_graph=True)
        np.testing.assert_allclose(gx.array, 6 * x.array * v.array)
        np.testing.assert_allclose(gv.array, 3 * x.array**2)
        np.testing.assert_allclose(grad(y.sum(), x)[0].array, 3 * x.array**2)
    _, p = hvp(lambda x: cube(x).sum(), x, v, create_graph=True)
    np.testing.assert_allclose(grad(p.sum(), x)[0].array, 6 * v.array)


def test_inputs_are_left_alone() -> None:
    x = t(A, requires_grad=True)
    with no_grad():
        jacobian(lambda x: x.exp(), x)
        hvp(lambda x: (x * x).sum(), x, t(U))
    assert x.grad is None and x.is_leaf
    np.testing.assert_array_equal(x.array, A)


def test_independent_outputs_are_zero() -> None:
    x, c = t(B), t(V)
    for func in (lambda x: c * 2.0, lambda x: c):
        assert not jacobian(func, x).array.any() and jacobian(func, x).shape == (3, 3)
        assert not vjp(func, x, c)[1].array.any() and not jvp(func, x, c)[1].array.any()
    assert not hessian(lambda x: x.sum(), x).array.any() and not hvp(lambda x: x.sum(), x, c)[1].array.any()
    assert not hessian(lambda x: c.sum(), x).array.any()
    first, second = jacobian(lambda x, y: x * 2.0, (x, c))
    assert first.array.any() and not second.array.any()


def test_empty() -> None:
    x = t(np.zeros((0, 2)))
    assert jacobian(lambda x: x * 2.0, x).shape == (0, 2, 0, 2)
    assert jacobian(lambda x: x.sum(1), x).shape == (0, 0, 2)


def test_strict() -> None:
    x, c = t(B), t(V)
    for product in (vjp, jvp):
        with pytest.raises(RuntimeError, match=f"{product.__name__}: output 0 of func does not depend on the inputs"):
            product(lambda x: c, x, c, strict=True)
        with pytest.raises(RuntimeError, match="with create_graph"):
            product(lambda x: x * 2.0, x, c, create_graph=True, strict=True)
    with pytest.raises(RuntimeError, match="vjp: entry 1 of the product does not depend"):
        vjp(lambda x, y: x * 2.0, (x, c), c, strict=True)
    with pytest.raises(RuntimeError, match=re.escape("jacobian: output 0 does not depend on inputs[1], and strict")):
        jacobian(lambda x, y: x * 2.0, (x, c), strict=True)
    with pytest.raises(RuntimeError, match=re.escape("vhp: the output does not depend on inputs[1]")):
        vhp(lambda x, y: (x * x).sum(), (x, c), (c, c), strict=True)
    with pytest.raises(RuntimeError, match="vhp: entry 0 of the product does not depend"):
        vhp(lambda x: x.sum(), x, c, strict=True)
    with pytest.raises(RuntimeError, match="hessian: the output does not depend"):
        hessian(lambda x, y: (x * x).sum(), (x, c), strict=True)


def test_messages() -> None:
    x = t(B)
    with pytest.raises(TypeError, match="vjp: inputs must be a Tensor or a tuple of Tensors, got tuple of"):
        vjp(lambda x: x, (x, 1.0))
    with pytest.raises(TypeError, match="jacobian: the result of func must be .*, got ndarray"):
        jacobian(lambda x: x.array, x)
    with pytest.raises(TypeError, match="inputs must be float32 or float64, got int64"):
        jvp(lambda x: x, tensor([1, 2]))
    with pytest.raises(ValueError, match="vjp: v may be left out only if func's output is one Tensor with one"):
        vjp(lambda x: x, x)
    with pytest.raises(ValueError, match=re.escape("jvp: v has shapes [(2,)], inputs has [(3,)]")):
        jvp(lambda x: x, x, t(W))
    with pytest.raises(RuntimeError, match=r"vhp: func must return one Tensor with one element, got a Tensor of"):
        hvp(lambda x: x, x, x)
    with pytest.raises(RuntimeError, match="hessian: func must return one Tensor with one element, got tuple of"):
        hessian(lambda x: (x, x), x)
    for function in (jacobian, hessian):
        with pytest.raises(ValueError, match="vectorize=True is not supported"):
            function(lambda x: x.sum(), x, vectorize=True)
