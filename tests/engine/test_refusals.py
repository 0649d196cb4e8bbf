"""What backward and grad refuse, and with which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Add, Exp, Mul, leaf, values
from retrograd.engine import Function, Tensor, backward, grad, is_grad_enabled, wrap


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
    """A Function of two arguments whose backward returns `gradients`."""

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
        ((Tensor(np.ones(2)),), RuntimeError, "Faulty: backward returned 1 gradients, expected 2"),
        ((None, None, Tensor(np.ones(2))), RuntimeError, "Faulty: backward returned 3 gradients, expected 2"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_what_backward_returns_is_checked(
    gradients: Any, error: type[Exception], text: str, deep: bool
) -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    arguments = (Add.apply(x, x), Add.apply(y, y)) if deep else (x, y)
    z = returning(*gradients).apply(*arguments)
    with pytest.raises(error, match=text):
        z.backward(Tensor(np.ones(2)))
    assert x.grad is None and y.grad is None


def test_extra_and_missing_nones_are_accepted() -> None:
    x, y = leaf(1, 2), Tensor(np.ones(2))
    returning(Tensor(np.ones(2)), None, None).apply(x, y).backward(Tensor(np.ones(2)))
    returning(Tensor(np.ones(2))).apply(x, y).backward(Tensor(np.ones(2)))
    assert values(x.grad) == [2, 2]


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
