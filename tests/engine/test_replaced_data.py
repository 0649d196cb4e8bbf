"""``x.array = other`` between forward and backward, and in hooks: no backward reads unchecked arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor
from retrograd.autograd import Function, backward, grad
from retrograd.utils.checkpoint import checkpoint


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(normal(*shape, seed=seed), requires_grad=True)


def test_a_leaf_keeps_its_gradient_where_new_data_has_the_same_shape() -> None:
    x, g = leaf(3, 2), normal(3, 2, seed=1)
    before = x.array.copy()
    y = x * x * x
    x.array = normal(3, 2, seed=2)
    y.backward(Tensor(g))
    np.testing.assert_allclose(x.grad.array, 3 * before**2 * g, rtol=1e-12)


def test_second_derivatives_flow_to_the_leaf() -> None:
    x = leaf(4)
    before = x.array.copy()
    y = (x * x * x).sum()
    x.array = normal(4, seed=2)
    (g,) = grad(y, x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 3 * before**2, rtol=1e-12)
    v = normal(4, seed=3)
    (h,) = grad(g, x, Tensor(v))
    np.testing.assert_allclose(h.array, 6 * before * v, rtol=1e-12)


@pytest.mark.parametrize("other", [np.zeros((4, 4)), np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64)])
def test_a_leaf_of_another_shape_or_dtype_is_refused(other: np.ndarray) -> None:
    x = leaf(3, 2)
    y = (x * x).sum()
    x.array = other
    message = "Mul: backward returned a gradient of the wrong .*if another array was assigned to it after forward"
    with pytest.raises(RuntimeError, match=message):
        y.backward()
    assert x.grad is None


def test_a_shorter_batch_does_not_cut_the_weight_gradient() -> None:
    x, w = Tensor(normal(32, 5)), leaf(7, 5)
    wanted = normal(32, 7, seed=1).T @ x.array
    y = retrograd.nn.functional.linear(x, w)
    x.array = x.array[:8]
    y.backward(Tensor(normal(32, 7, seed=1)))
    np.testing.assert_allclose(w.grad.array, wanted, rtol=1e-12)


def test_the_root_itself() -> None:
    x = leaf(3)
    y = x * 2
    y.array = np.zeros((5, 5))
    y.backward(Tensor(normal(3, seed=1)))
    np.testing.assert_allclose(x.grad.array, 2 * normal(3, seed=1))
    total = (x * x).sum()
    total.array = np.zeros(4)
    total.backward()


def test_in_a_checkpointed_part() -> None:
    x, w = leaf(3, 4), leaf(4, 4, seed=1)
    a, b, g = x.array.copy(), w.array.copy(), normal(3, 4, seed=2)
    y = checkpoint(lambda x, w: (x @ w).tanh(), x, w, use_reentrant=False)
    x.array, w.array = normal(3, 4, seed=5), normal(4, 4, seed=6)
    y.backward(Tensor(g))
    slope = g * (1 - np.tanh(a @ b) ** 2)
    np.testing.assert_allclose(x.grad.array, slope @ b.T, rtol=1e-10)


def _assign(value: np.ndarray) -> Callable[[Tensor], None]:
    def hook(g: Tensor) -> None:
        g.array = value

    return hook


WRONG = [np.zeros((9, 9)), np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64)]


@pytest.mark.parametrize("other", WRONG)
@pytest.mark.parametrize("where", ["leaf", "result"])
def test_a_hook_that_assigns_what_does_not_fit(where: str, other: np.ndarray) -> None:
    x = leaf(3, 2)
    y = x.exp()
    (x if where == "leaf" else y).register_hook(_assign(other))
    with pytest.raises(RuntimeError, match=r"register_hook: the hook returned .* the gradient is float64 of shape"):
        (y * y).sum().backward()
    assert x.grad is None


def test_a_hook_that_assigns_no_array() -> None:
    x = leaf(3, 2)
    x.register_hook(_assign([1.0]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="register_hook: the hook returned a Tensor whose array is list"):
        x.sum().backward()


def test_a_hook_may_assign_data_that_fits() -> None:
    x = leaf(3, 2)
    x.register_hook(_assign(normal(3, 2, seed=4)))
    x.exp().sum().backward()
    np.testing.assert_array_equal(x.grad.array, normal(3, 2, seed=4))


def test_what_a_hook_assigns_reaches_no_other_operand() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    a, b = x * 1, y * 1
    a.register_hook(_assign(np.zeros(3)))
    (a + b).backward(Tensor(normal(3, seed=2)))  # both operands get the same gradient
    np.testing.assert_array_equal(x.grad.array, np.zeros(3))
    np.testing.assert_array_equal(y.grad.array, normal(3, seed=2))


@pytest.mark.parametrize("kind", ["hook", "function", "upstream", "module"])
def test_a_gradient_that_the_user_keeps_and_changes_later(kind: str) -> None:
    kept: list[Tensor] = []

    class Keeping(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return Tensor(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            kept.append(g)
            return g

    x = leaf(3, 2)
    early = x.exp()  # its backward runs last
    early.register_hook(lambda g: _spoil(kept))
    y = early
    if kind == "hook":
        y = y * 1
        y.register_hook(kept.append)
    elif kind == "function":
        y = Keeping.apply(y)
    elif kind == "module":
        layer = retrograd.nn.Identity()
        layer.register_full_backward_hook(lambda module, before, after: kept.extend((*before, *after)))
        y = layer(y)
    upstream = Tensor(normal(3, 2, seed=1))
    kept.extend([upstream] if kind == "upstream" else [])
    backward(y, upstream)
    assert kept
    np.testing.assert_allclose(x.grad.array, np.exp(x.array) * normal(3, 2, seed=1), rtol=1e-12)


def _spoil(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        tensor.array = np.zeros((1, 1, 1), np.int64)
