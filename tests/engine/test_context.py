"""The ctx methods other than saving: setup_context, mark_dirty, set_materialize_grads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Add, DivMod, Exp, Mul, leaf, values
from retrograd.engine import Function, Tensor, View, grad, no_grad, wrap
from retrograd.explanation.backward_source import backward_source


class Power(Function):
    """x**n, with a forward that takes no ctx."""

    @staticmethod
    def forward(x: Tensor, n: int) -> Tensor:
        return wrap(x.array**n)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.n = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, _ = ctx.saved_tensors
        if ctx.n == 1:
            return g, None
        slope = Mul.apply(wrap(np.full_like(x.array, ctx.n)), Power.apply(x, ctx.n - 1))
        return Mul.apply(g, slope), None


def test_setup_context() -> None:
    x = leaf(2, 3)
    assert values(Power.forward(x, 2)) == [4, 9]  # the original forward can be called
    y = Power.apply(x, 3)
    assert repr(y.grad_fn) == "<PowerBackward>" and values(y) == [8, 27]
    y.grad_fn.name = "shadows the method, as ctx.name = ... in a forward does"
    assert repr(y.grad_fn) == "<PowerBackward>"
    (g,) = grad(y, x, wrap(np.array([1.0, 2.0])), create_graph=True)
    assert values(g) == [12, 54]
    assert values(grad(g, x, wrap(np.array([1.0, 10.0])))[0]) == [12, 360]
    assert not Power.apply(Tensor([2.0]), 2).requires_grad
    assert "slope" in backward_source(Power) and "slope" in backward_source(Power.apply)


def test_setup_context_is_inherited() -> None:
    class Scaled(Power):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return wrap(g.array * 100), None

    class Other(Power):
        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.saw = inputs, output

    x = leaf(2)
    y = Scaled.apply(x, 2)
    y.backward()
    assert values(x.grad) == [100] and repr(y.grad_fn) == "<ScaledBackward>"
    z = Other.apply(x, 2)
    assert z.grad_fn.saw[0][0] is x and z.grad_fn.saw[1] is z
    assert values(Power.apply(x, 2)) == [4]


def test_setup_context_runs_without_recording() -> None:
    seen = []

    class Watched(Power):
        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            seen.append((inputs[1], ctx.needs_input_grad))

    Watched.apply(Tensor([2.0]), 3)
    with no_grad():
        Watched.apply(leaf(2), 4)
    assert seen == [(3, (False, False)), (4, (False, False))]


def test_subclasses_of_a_built_in_function() -> None:
    """Most built-in operators have a forward without ctx; a subclass may use either form."""
    multiply: Any = (leaf(1) * leaf(1)).grad_fn.function  # type: ignore[union-attr]

    class Doubled(multiply):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g, None, None

    class Kept(Doubled):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.seen = x
            return wrap(x.array * y.array * 2)

    class Apart(Kept):
        @staticmethod
        def forward(x: Tensor, y: Tensor) -> Tensor:
            return wrap(x.array * y.array * 3)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.seen = inputs[1]

    x, y = leaf(2), leaf(5)
    for function, value, seen in ((Doubled, 10, None), (Kept, 20, x), (Apart, 30, y)):
        for requires_grad in (True, False):
            result = function.apply(x if requires_grad else x.detach(), y.detach())
            assert values(result) == [value] and result.requires_grad is requires_grad
        x.grad = None
        result = function.apply(x, y)
        assert seen is None or result.grad_fn.seen is seen
        result.backward(leaf(7).detach())
        assert values(x.grad) == [7]
    assert values(x * y) == [10]


def test_setup_context_of_a_view_with_several_outputs() -> None:
    class Ends(View):
        @staticmethod
        def forward(x: Tensor) -> Any:
            return wrap(x.array[:1]), wrap(x.array[1:])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
            return wrap(np.concatenate([first.array, second.array]))

    first, second = Ends.apply(leaf(1, 2))
    assert first.requires_grad and not second.requires_grad


class Double(Function):
    """x * 2 in x's memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.array *= 2
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return wrap(g.array * 2)


def test_mark_dirty() -> None:
    x = leaf(1, 2)
    y = Add.apply(x, x)
    history = y.grad_fn
    z = Double.apply(y)
    assert z is y and y.grad_fn is not history and values(y) == [4, 8]
    y.backward(wrap(np.array([3.0, -0.5])))
    assert values(x.grad) == [12, -2]


def test_a_dirty_argument_is_a_change_in_place() -> None:
    x = leaf(1, 2)
    y = Add.apply(x, x)
    z = Mul.apply(y, y)
    Double.apply(y)
    with pytest.raises(RuntimeError, match=r"(?s)^Mul: .*was changed in.*changed by Double at .*Double.apply\(y\)"):
        z.backward(wrap(np.ones(2)))
    constant = Tensor(np.ones(2))
    z = Mul.apply(x, constant)
    assert Double.apply(constant) is constant and not constant.requires_grad
    with pytest.raises(RuntimeError, match="was changed in place"):
        z.backward(wrap(np.ones(2)))


def test_a_dirty_leaf_is_refused() -> None:
    x = leaf(1)
    with pytest.raises(RuntimeError, match="Double: a leaf that requires a gradient cannot change while"):
        Double.apply(x)
    with no_grad():
        before = x.array[0]
        assert Double.apply(x) is x and x.array[0] == 2 * before and x.is_leaf


def test_a_dirty_argument_may_be_saved_as_it_is_now() -> None:
    class ExpInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            np.exp(x.array, out=x.array)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (y,) = ctx.saved_tensors
            return Mul.apply(g, y)

    x = leaf(1, 2)
    y = ExpInPlace.apply(Add.apply(x, x))
    v, w = np.array([3.0, -0.5]), np.array([0.7, 2.0])
    (g,) = grad(y, x, wrap(v), create_graph=True)
    np.testing.assert_allclose(g.array, 2 * v * np.exp(2 * x.array))
    np.testing.assert_allclose(grad(g, x, wrap(w))[0].array, 4 * v * w * np.exp(2 * x.array))


def test_dirty_must_be_returned() -> None:
    class Lost(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return wrap(x.array * 2)

    with pytest.raises(ValueError, match="Lost: mark_dirty was given a tensor that forward does not return"):
        Lost.apply(Exp.apply(leaf(1)))


@pytest.mark.parametrize("materialize", [True, False])
def test_set_materialize_grads(materialize: bool) -> None:
    seen: list[Any] = []

    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(materialize)
            kept = wrap(x.array.astype(np.int64))
            ctx.mark_non_differentiable(kept)
            return wrap(x.array * 2), wrap(x.array.astype(np.float32)), kept

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Tensor:
            seen.extend(grads)
            return wrap(grads[0].array * 2)

    x = leaf(1, 2)
    Pair.apply(x)[0].backward(wrap(np.array([3.0, 4.0])))
    assert values(x.grad) == [6, 8] and values(seen[0]) == [3, 4]
    if materialize:
        assert [(g.shape, g.dtype, g.array.any()) for g in seen[1:]] == [
            ((2,), np.float32, False),
            ((2,), np.int64, False),
        ]
    else:
        assert seen[1:] == [None, None]
    assert len(DivMod.apply(x)) == 3
