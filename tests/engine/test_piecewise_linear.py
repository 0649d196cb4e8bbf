"""Piecewise linear Functions: their second derivative is 0, not missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Add, Exp, Mul, leaf, values
from retrograd.engine import Function, Tensor, grad, wrap


class Ramp(Function):
    """max(x, 0) with a gradient computed from a mask, as in the operators of this package."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.array > 0)
        return wrap(np.maximum(x.array, 0))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (mask,) = ctx.saved_tensors
        return Mul.apply(g, wrap(mask.astype(g.array.dtype)))


class Undeclared(Ramp):
    piecewise_linear = False


def test_the_second_derivative_is_0_and_not_missing() -> None:
    x = leaf(2, -3)
    (gx,) = grad(Ramp.apply(x), x, leaf(5, 7), create_graph=True)
    assert gx.requires_grad and values(gx) == [5, 0]
    (ggx,) = grad(gx, x, leaf(1, 1))
    assert values(ggx) == [0, 0] and ggx.dtype == x.dtype


def test_without_the_declaration_it_is_missing() -> None:
    x = leaf(2, -3)
    (gx,) = grad(Undeclared.apply(x), x, Tensor(np.ones(2)), create_graph=True)
    assert not gx.requires_grad
    (gx,) = grad(Undeclared.apply(x), x, leaf(5, 7), create_graph=True)
    with pytest.raises(RuntimeError, match=r"outputs do not depend on inputs\[0\]"):
        grad(gx, x, leaf(1, 1))


def test_nothing_is_joined_without_create_graph() -> None:
    x = leaf(2, -3)
    (gx,) = grad(Ramp.apply(x), x, leaf(5, 7))
    assert not gx.requires_grad and gx.grad_fn is None


def test_what_else_backward_records_is_kept() -> None:
    x, w = leaf(2, -3), leaf(4, 6)
    (gx,) = grad(Ramp.apply(Mul.apply(x, w)), x, leaf(1, 1), create_graph=True)  # w where x w > 0
    ggx, ggw = grad(gx, [x, w], leaf(5, 7))
    assert values(ggx) == [0, 0] and values(ggw) == [5, 0]


def test_results_get_it_too_and_the_upstream_gradient_its_own() -> None:
    x, g = leaf(2, -3), leaf(5, 7)
    y = Exp.apply(x)
    (gy,) = grad(Ramp.apply(y), y, g, create_graph=True)
    ggy, ggx, gg = grad(gy, [y, x, g], leaf(1, 2))
    assert values(ggy) == [0, 0] and values(ggx) == [0, 0] and values(gg) == [1, 2]


def test_backward_delivers_zeros_to_the_leaves_below_and_runs_no_backward_there() -> None:
    ran = []

    class Spy(Exp):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            ran.append(ctx)
            return Exp.backward(ctx, g)

    x, silent, unrelated = leaf(2, -3), leaf(1, 1), leaf(1, 1)
    silent.grad_req = "null"
    below = Add.apply(Spy.apply(x), silent)
    (gy,) = grad(Ramp.apply(below), below, leaf(5, 7), create_graph=True)
    gy.backward(leaf(1, 1))
    assert x.grad is not None and values(x.grad) == [0, 0]
    assert silent.grad is None and unrelated.grad is None and not ran


def test_zeros_add_nothing_to_a_gradient_that_is_there() -> None:
    x = leaf(2, -3)
    y = Ramp.apply(x)
    (gx,) = grad(y, x, leaf(5, 7), create_graph=True)
    total = Add.apply(Mul.apply(gx, x), y)
    (found,) = grad(total, x, leaf(1, 1))
    assert values(found) == [6, 0]


def test_a_third_derivative() -> None:
    x = leaf(2, -3)
    y = Ramp.apply(x)
    (gx,) = grad(Mul.apply(y, y), x, leaf(1, 1), create_graph=True)
    (ggx,) = grad(gx, x, leaf(1, 1), create_graph=True)
    (gggx,) = grad(ggx, x, leaf(1, 1))
    assert values(gx) == [4, 0] and values(ggx) == [2, 0] and values(gggx) == [0, 0]
