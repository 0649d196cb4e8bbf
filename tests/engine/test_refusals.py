"""Error messages of backward and grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from engine.functions import Add, Exp, Mul, leaf, values
from retrograd import override_backward
from retrograd.engine import Function, Tensor, backward, grad, is_grad_enabled, once_differentiable, wrap


def test_a_vector_needs_a_gradient() -> None:
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*pass gradient"):
        Exp.apply(leaf(1, 2)).backward()
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*pass grad_outputs"):
        x = leaf(1, 2)
        grad(Exp.apply(x), x)


def test_upstream_gradient_is_checked() -> None:
    y = Exp.apply(leaf(1, 2))
    with pytest.raises(RuntimeError, match=r"float64 of shape \(3,\), expected float64 of shape \(2,\)"):
        y.backward(Tensor(np.ones(3)))
    with pytest.raises(RuntimeError, match="float32 of shape .*expected float64"):
        y.backward(Tensor(np.ones(2, np.float32)))
    with pytest.raises(TypeError, match="ndarray, expected a Tensor"):
        y.backward(np.ones(2))
    with pytest.raises(RuntimeError, match="2 upstream gradients for 1 tensors"):
        backward([y], [None, None])
    with pytest.raises(ValueError, match="empty"):
        backward([])
    with pytest.raises(TypeError, match=r"tensors\[0\] is float"):
        backward([1.0])


def test_tensor_without_history() -> None:
    with pytest.raises(RuntimeError, match="does not require grad and has no grad_fn"):
        Tensor(np.ones(1)).backward()


def returning(*gradients: Any, name: str = "Faulty") -> type[Function]:
    """Return a Function of two arguments whose backward returns `gradients`."""

    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return wrap(x.array * 1)

    def backward(ctx: Any, g: Tensor) -> Any:
        return gradients if len(gradients) != 1 else gradients[0]

    return type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


@pytest.mark.parametrize(
    ("gradients", "error", "text"),
    [
        ((np.ones(2), None), TypeError, "Faulty: backward returned ndarray as gradient 0, expected a Tensor"),
        ((None, 1.0), TypeError, "Faulty: backward returned float as gradient 1"),
        (
            (None, Tensor(np.ones(3))),
            RuntimeError,
            r"Faulty: .*wrong shape for argument 1: got .*\(3,\), expected .*\(2,\)",
        ),
        (
            (Tensor(np.ones(2, np.float32)), None),
            RuntimeError,
            "Faulty: .*wrong dtype for argument 0: got float32 .*expected float64",
        ),
        ((Tensor(np.ones(2)),), RuntimeError, r"Faulty: .*returned 1 gradient, expected 2: .*\(x, y\), .*missing: y"),
        ((None, None, Tensor(np.ones(2))), RuntimeError, "Faulty: backward returned 3 gradients, expected 2"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_what_backward_returns_is_checked(gradients: Any, error: type[Exception], text: str, deep: bool) -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    arguments = (Add.apply(x, x), Add.apply(y, y)) if deep else (x, y)
    z = returning(*gradients).apply(*arguments)
    with pytest.raises(error, match=text):
        z.backward(Tensor(np.ones(2)))
    assert x.grad is None and y.grad is None


def test_extra_nones_are_accepted_and_missing_ones_are_not() -> None:
    x, y = leaf(1, 2), Tensor(np.ones(2))
    returning(Tensor(np.ones(2)), None, None).apply(x, y).backward(Tensor(np.ones(2)))
    assert values(x.grad) == [1, 1]
    with pytest.raises(RuntimeError, match="Faulty: backward returned 1 gradient, expected 2: .*missing: y"):
        returning(Tensor(np.ones(2))).apply(x, y).backward(Tensor(np.ones(2)))


class Scaled(Function):
    """x * scale, with a non-Tensor argument between the two; backward returns its gradients in the order `order`."""

    order: tuple[str, ...] = ("x", "none", "scale")

    @staticmethod
    def forward(ctx: Any, x: Tensor, levels: Any, scale: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale)
        return wrap(x.array * scale.array)

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Any:
        x, scale = ctx.saved_tensors
        gradients = {"x": wrap(g.array * scale.array), "scale": wrap((g.array * x.array).sum()), "none": None}
        return tuple([gradients[name] for name in cls.order])


class ScaledWithSetup(Scaled):
    """The same with a forward without ctx, and setup_context."""

    @staticmethod
    def forward(x: Tensor, levels: Any, scale: Tensor) -> Tensor:  # type: ignore[override]
        return wrap(x.array * scale.array)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[2])


MISPLACED = (
    "backward returned a Tensor as gradient 1, but the argument in this place, levels, is of type {} and has no "
    "gradient; return None there.*x, levels, scale"
)


@pytest.mark.parametrize("base", [Scaled, ScaledWithSetup])
@pytest.mark.parametrize("levels", [8, None, [Tensor(np.ones(2))], np.ones(2)])
@pytest.mark.parametrize("way", ["backward", "grad", "hooks", "once"])
def test_a_gradient_of_what_is_not_a_tensor_is_refused(base: Any, levels: Any, way: str) -> None:
    class Misordered(base):  # type: ignore[misc]
        order = ("x", "scale", "none")

    if way == "once":
        Misordered.backward = staticmethod(once_differentiable(Misordered.backward))  # type: ignore[method-assign]
    x, scale = leaf(1.5, -2.0), leaf(2.5)[0]
    y = Misordered.apply(x, levels, scale)
    if way == "hooks":
        y.register_hook(lambda g: None)
    with pytest.raises(RuntimeError, match="Misordered: " + MISPLACED.format(type(levels).__name__)):
        if way == "grad":
            grad(y, x, Tensor(np.array([0.3, -0.7])))
        else:
            y.backward(Tensor(np.array([0.3, -0.7])), create_graph=way == "once")
    assert x.grad is None

    right = base.apply(x, levels, scale)
    right.backward(Tensor(np.array([0.3, -0.7])))
    assert values(x.grad) == [0.75, -1.75]


@pytest.mark.parametrize("base", [Scaled, ScaledWithSetup])
def test_missing_gradients_are_refused_and_named(base: Any) -> None:
    class Short(base):  # type: ignore[misc]
        order = ("x",)

    x = leaf(1, 2)
    text = r"Short: backward returned 1 gradient, expected 3: .*\(x, levels, scale\).*missing: levels, scale"
    for scale in (leaf(2.0)[0], Tensor(np.array(2.0))):  # PyTorch also raises if the missing gradient is not needed
        with pytest.raises(RuntimeError, match=text):
            Short.apply(x, 8, scale).backward(Tensor(np.ones(2)))

    class Variadic(Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Tensor:
            return wrap(tensors[0].array * 2)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g

    with pytest.raises(RuntimeError, match=r"Variadic: .*expected 2: .*\(tensors\[0\], tensors\[1\]\).*missing"):
        Variadic.apply(x, x).backward(Tensor(np.ones(2)))


def test_a_gradient_of_the_wrong_type_is_refused_where_it_is_not_needed() -> None:
    x, y = leaf(1, 2), Tensor(np.ones(2))
    with pytest.raises(TypeError, match="Faulty: backward returned ndarray as gradient 1, expected a Tensor"):
        returning(Tensor(np.ones(2)), np.ones(2)).apply(x, y).backward(Tensor(np.ones(2)))


def test_a_rule_for_the_backward_of_a_function_is_checked_likewise() -> None:
    x, scale = leaf(1.5, -2.0), leaf(2.5)[0]

    def misordered(ctx: Any, g: Tensor) -> Any:
        return g, g, None

    def short(ctx: Any, g: Tensor) -> Any:
        return g

    with override_backward(Scaled, misordered):
        y = Scaled.apply(x, 8, scale)
    with pytest.raises(RuntimeError, match="Scaled: " + MISPLACED.format("int")):
        y.backward(Tensor(np.ones(2)))
    with override_backward(
        retrograd.nn.functional.leaky_relu, short
    ):  # the rule may omit gradients for numbers such as negative_slope
        z = retrograd.nn.functional.leaky_relu(x, 0.1)
    z.backward(Tensor(np.array([0.3, -0.7])))
    assert values(x.grad) == [0.3, -0.7]


def test_a_list_of_gradients_is_accepted() -> None:
    x = leaf(1, 2)
    returning([Tensor(np.ones(2)), None]).apply(x, x).backward(Tensor(np.ones(2)))
    assert values(x.grad) == [1, 1]


def test_an_error_in_backward_says_where_and_changes_nothing() -> None:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise ZeroDivisionError("oops")

    x, y = leaf(1), leaf(2)
    x.grad = Tensor(np.array([7.0]))
    z = Mul.apply(Broken.apply(x), Mul.apply(x, y))
    with pytest.raises(ZeroDivisionError) as caught:
        z.backward(create_graph=True)
    assert any("Broken" in note for note in caught.value.__notes__)
    assert values(x.grad) == [7] and y.grad is None
    assert is_grad_enabled()


def test_function_without_backward() -> None:
    class Only(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

    with pytest.raises(NotImplementedError, match="backward") as caught:
        Only.apply(leaf(1)).backward()
    assert any("Only" in note for note in caught.value.__notes__)
