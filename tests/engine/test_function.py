"""Function.apply: its checks, and that it builds a graph only if one is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import DivMod, Exp, Mul, leaf
from retrograd.autograd.function import InplaceFunction
from retrograd.engine import Function, Tensor, grad, wrap
from retrograd.engine.views import View


def test_an_instance_applies_its_class() -> None:
    """This works as in PyTorch, where it is deprecated."""

    class Power(Function):
        def __init__(self, exponent: float) -> None:
            self.exponent = exponent

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(x.array**3)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 3 * ctx.saved_tensors[0] ** 2

    class Joined(Power):
        @staticmethod
        def forward(x: Tensor) -> Tensor:  # type: ignore[override]
            return wrap(x.array**3)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*inputs)

    for kind in (Power, Joined):
        with pytest.warns(DeprecationWarning, match=rf"{kind.__name__}: a Function needs no instance.*write .*apply"):
            power = kind(3.0)
        assert power.exponent == 3.0
        x = leaf(2)
        y = power.apply(x)
        assert y.item() == 8 and grad(y * 5, x)[0].item() == 60
        with pytest.raises(RuntimeError, match=rf"{kind.__name__}: an instance.*cannot be called.*write .*apply"):
            power(x)
    with pytest.warns(DeprecationWarning, match="write Mul.apply"):
        assert Mul().apply(leaf(3), leaf(2)).item() == 6


def test_a_subclass_of_a_class_of_the_package_is_the_users() -> None:
    """Its backward gets aliases: overwriting them does not change the gradients of the sweep."""

    class Same(View):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array[:])

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            result = g * 2
            g.array = np.zeros(2)
            return result

    class SameInplace(InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        backward = Same.backward

    for kind in (Same, SameInplace):
        x = leaf(1, 1)
        y = kind.apply(x)
        y.retain_grad()
        y.backward(Tensor(np.array([3.0, 4.0])))
        assert x.grad.tolist() == [6.0, 8.0] and y.grad.tolist() == [3.0, 4.0]


def returns(value: Any) -> type[Function]:
    return type("Odd", (Function,), {"forward": staticmethod(lambda ctx, x: value)})


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "value", [np.ones(1), None, [Tensor([1.0])], (Tensor([1.0]), 2.0), (Tensor([1.0]), (Tensor([1.0]),))]
)
def test_forward_returns_tensors(value: Any, requires_grad: bool) -> None:
    with pytest.raises(TypeError, match="Odd: forward must return a Tensor or a tuple of Tensors, got"):
        returns(value).apply(Tensor([1.0], requires_grad=requires_grad))


def test_function_without_forward() -> None:
    with pytest.raises(NotImplementedError, match="forward"):
        type("Empty", (Function,), {}).apply(leaf(1))


def test_no_graph_without_need() -> None:
    y = Exp.apply(Tensor([1.0]))
    assert not y.requires_grad and y.grad_fn is None and y.is_leaf
    assert [item.requires_grad for item in DivMod.apply(Tensor([1.0]))] == [False] * 3


def test_integer_results_carry_no_gradient() -> None:
    class Round(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.astype(np.int64))

    assert not Round.apply(leaf(1.5)).requires_grad


def test_mark_non_differentiable() -> None:
    class Parts(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            whole, rest = wrap(np.floor(x.array)), wrap(x.array % 1)
            ctx.mark_non_differentiable(whole)
            ctx.save_for_backward(whole, rest)
            return whole, rest

        @staticmethod
        def backward(ctx: Any, g_whole: Tensor, g_rest: Tensor) -> Tensor:
            whole, rest = ctx.saved_tensors
            assert not whole.requires_grad and rest.requires_grad and not g_whole.array.any()
            return g_rest

    x = leaf(1.5)
    whole, rest = Parts.apply(x)
    assert not whole.requires_grad and rest.requires_grad
    rest.backward()
    assert x.grad is not None and x.grad.item() == 1

    class Single(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = wrap(np.floor(x.array))
            ctx.mark_non_differentiable(y)
            return y

    assert not Single.apply(x).requires_grad

    class Stranger(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_non_differentiable(wrap(x.array))
            return wrap(x.array)

    with pytest.raises(ValueError, match="Stranger: mark_non_differentiable .* does not return"):
        Stranger.apply(x)


def test_one_tensor_returned_twice() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            y = wrap(x.array.copy())
            return y, y

    with pytest.raises(ValueError, match="Double: forward returns one tensor twice; return a copy for output 1"):
        Double.apply(leaf(1))


def test_a_tuple_of_one() -> None:
    class One(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return (wrap(x.array * 2),)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return wrap(g.array * 2)

    x = leaf(1)
    (y,) = One.apply(x)
    y.backward()
    assert x.grad is not None and x.grad.item() == 2


def test_saved_argument_that_is_also_returned() -> None:
    class Pass(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.save_for_backward(x)
            return x, wrap(x.array * x.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor, g_square: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g + Mul.apply(g_square, x + x)

    x = leaf(3)
    same, square = Pass.apply(x)
    assert same.array is x.array and same is not x
    (g,) = grad(square, x, create_graph=True)
    assert g.item() == 6 and grad(g, x)[0].item() == 2


def test_subclass_of_tensor_as_argument_and_result() -> None:
    class Special(Tensor):
        pass

    class Make(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return Special(x.array * 2)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return Special(g.array * 2)

    x = Special(np.array([1.0]), requires_grad=True)
    y = Make.apply(x)
    assert type(y) is Special
    y.backward()
    assert type(x.grad) is Tensor and x.grad.item() == 2


def test_attributes_of_ctx() -> None:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            return wrap(x.array * factor)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return wrap(g.array * ctx.factor), None

    x = leaf(1)
    Scale.apply(x, 3.0).backward()
    assert x.grad is not None and x.grad.item() == 3
