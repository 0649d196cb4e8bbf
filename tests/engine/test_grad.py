"""grad(), create_graph, and second derivatives, which are either correct or raise an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Exp, Mul, OnceSquare, leaf, values
from retrograd.engine import Function, Tensor, grad, is_grad_enabled, no_grad, wrap

# ---- grad() ------------------------------------------------------------------------------------------------


def test_grad_of_results_and_leaves() -> None:
    x = leaf(2)
    y = Mul.apply(x, x)
    z = Mul.apply(y, x)
    gz, gy, gx = grad(z, [z, y, x])
    assert (values(gz), values(gy), values(gx)) == ([1], [2], [12])
    assert x.grad is None and y.grad is None


def test_grad_computes_only_what_is_asked_for() -> None:
    asked = []

    class Spy(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            return wrap(x.array * w.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            asked.append(ctx.needs_input_grad)
            return g, g

    x, w, v = leaf(2), leaf(3), leaf(4)
    y = Spy.apply(Spy.apply(x, w), v)
    grad(y, v)
    grad(y, w)
    y.backward()
    assert asked == [(False, True), (True, False), (False, True), (True, True), (True, True)]


def test_grad_of_a_result_does_not_run_beyond_it() -> None:
    x = leaf(2)
    y = Mul.apply(x, x)
    z = Exp.apply(y)
    grad(z, y)
    grad(y, x)  # the saved tensors of y's node are still there


def test_unused_input() -> None:
    x, y = leaf(2), leaf(3)
    z = Exp.apply(x)
    with pytest.raises(RuntimeError, match=r"inputs\[1\].*allow_unused=True"):
        grad(z, [x, y], retain_graph=True)
    gx, gy = grad(z, [x, y], allow_unused=True)
    assert gx is not None and gy is None


def test_input_without_requires_grad() -> None:
    x = leaf(2)
    with pytest.raises(RuntimeError, match=r"inputs\[0\] does not require"):
        grad(Exp.apply(x), Tensor(np.ones(1)))


# ---- create_graph ------------------------------------------------------------------------------------------


def test_recording_is_off_unless_create_graph() -> None:
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            seen.append(is_grad_enabled())
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            seen.append(is_grad_enabled())
            return g

    x = leaf(1)
    Look.apply(x).backward()
    with no_grad():
        assert not Look.apply(x).requires_grad
    y = Look.apply(x)
    with no_grad():
        y.backward(create_graph=True)
        assert not is_grad_enabled()
    assert seen == [False, False, False, False, True]


def test_derivatives_of_x_to_the_fourth() -> None:
    x = leaf(2, -3)
    square = Mul.apply(x, x)
    y = Mul.apply(square, square)
    one = Tensor(np.ones(2))
    (first,) = grad(y, x, one, create_graph=True)
    (second,) = grad(first, x, one, create_graph=True)
    (third,) = grad(second, x, one, create_graph=True)
    (fourth,) = grad(third, x, one)
    assert values(first) == [4 * 8, 4 * -27]
    assert values(second) == [12 * 4, 12 * 9]
    assert values(third) == [24 * 2, 24 * -3]
    assert values(fourth) == [24, 24]
    assert x.grad is None


def test_second_derivative_through_a_saved_output() -> None:
    x = leaf(0.5)
    y = Exp.apply(x)
    for _ in range(4):
        (y,) = grad(y, x, create_graph=True)
    assert values(y) == pytest.approx([np.exp(0.5)])


def test_backward_with_create_graph_leaves_a_differentiable_grad() -> None:
    x = leaf(3)
    Mul.apply(x, Mul.apply(x, x)).backward(create_graph=True)
    first = x.grad
    assert first is not None and first.requires_grad
    x.grad = None
    first.backward()
    assert values(x.grad) == [18]


def test_create_graph_adds_differentiably() -> None:
    x = leaf(3)
    Mul.apply(x, x).backward(create_graph=True)
    Mul.apply(x, Mul.apply(x, x)).backward(create_graph=True)
    total = x.grad
    assert values(total) == [6 + 27]
    (second,) = grad(total, x)
    assert values(second) == [2 + 18]


def test_gradient_with_history_is_followed_only_with_create_graph() -> None:
    x, v = leaf(3), leaf(5)
    (g,) = grad(Mul.apply(x, x), x, v, create_graph=True)
    assert values(grad(g, v)[0]) == [6]
    (g,) = grad(Mul.apply(x, x), x, v)
    assert not g.requires_grad


# ---- Functions without a second derivative raise instead of returning a wrong one --------------------------


def test_once_differentiable() -> None:
    x = leaf(3)
    assert values(grad(OnceSquare.apply(x), x)[0]) == [6]
    (g,) = grad(OnceSquare.apply(x), x, create_graph=True)
    assert values(g) == [6] and g.requires_grad
    with pytest.raises(RuntimeError, match="OnceSquare: .*once_differentiable.*no second derivative"):
        grad(g, x)
    (g,) = grad(OnceSquare.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="OnceSquare"):
        Mul.apply(g, g).backward()


def test_once_differentiable_with_respect_to_the_upstream_gradient() -> None:
    x, v = leaf(3), leaf(5)
    (g,) = grad(OnceSquare.apply(x), x, v, create_graph=True)
    with pytest.raises(RuntimeError, match="OnceSquare"):
        grad(g, v)


class Sigmoid(Function):
    """1 / (1 + exp(-x)); `what` is saved for backward: an intermediate tensor or its array."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, what: str) -> Tensor:
        e = wrap(np.exp(-x.array))
        ctx.save_for_backward(e if what == "tensor" else e.array, None)
        return wrap(1 / (1 + e.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        e, nothing = ctx.saved_tensors
        assert nothing is None
        e = e if isinstance(e, Tensor) else wrap(e)
        inner = wrap(1 / (1 + e.array) ** 2)
        return Mul.apply(Mul.apply(g, e), inner), None


def test_saved_intermediate_gives_the_first_derivative() -> None:
    x = leaf(0.5)
    for what in ("tensor", "array"):
        x.grad = None
        Sigmoid.apply(x, what).backward()
        s = 1 / (1 + np.exp(-0.5))
        assert values(x.grad) == pytest.approx([s * (1 - s)])


def test_saved_intermediate_refuses_the_second_derivative() -> None:
    x = leaf(0.5)
    (g,) = grad(Sigmoid.apply(x, "tensor"), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Sigmoid: .*saved tensor that forward made itself.*further output"):
        grad(g, x)


def test_saved_array_is_a_constant() -> None:
    x, v = leaf(0.5), leaf(1)
    (g,) = grad(Sigmoid.apply(x, "array"), x, v, create_graph=True)
    gx, gv = grad(g, [x, v], allow_unused=True)
    assert gx is None and gv is not None


def test_saved_tensor_from_outside_keeps_its_history() -> None:
    w = leaf(3)

    class Hidden(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return wrap(x.array * w.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return Mul.apply(g, ctx.saved_tensors[1])

    x = leaf(2)
    (g,) = grad(Hidden.apply(x), x, create_graph=True)
    assert values(grad(g, w)[0]) == [1]


def test_only_tensors_and_arrays_are_saved() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x, 3)
            return wrap(x.array.copy())

    with pytest.raises(TypeError, match="Wrong: save_for_backward takes .*argument 1 is int; set it as an attribute"):
        Wrong.apply(leaf(1))
