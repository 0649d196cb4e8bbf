"""backward_source shows the text of the backward that runs."""

from __future__ import annotations

import pytest

from engine.functions import Exp, Mul, OnceSquare, leaf
from retrograd.engine import Function
from retrograd.engine.source import backward_source


@pytest.mark.parametrize(
    "thing", [Mul, Mul.apply, Mul.apply(leaf(1), leaf(2)), Mul.apply(leaf(1), leaf(2)).grad_fn]
)
def test_source(thing: object) -> None:
    text = backward_source(thing)
    assert text.startswith("@staticmethod\ndef backward(ctx: Any, g: Tensor)")
    assert text.rstrip().endswith("return gx, gy")


def test_the_decorated_backward_is_shown() -> None:
    text = backward_source(OnceSquare)
    assert "@once_differentiable" in text and "2 * x.array * g.array" in text


def test_an_inherited_backward() -> None:
    class Special(Exp):
        pass

    assert backward_source(Special) == backward_source(Exp)


def test_nothing_to_show() -> None:
    with pytest.raises(ValueError, match="is not the result of a recorded operation, so it has no backward"):
        backward_source(leaf(1))
    with pytest.raises(TypeError, match="expected a Tensor, its grad_fn or a Function, got int"):
        backward_source(3)
    with pytest.raises(TypeError, match="Bare defines no backward"):
        backward_source(type("Bare", (Function,), {}))
    scope: dict[str, object] = {"Function": Function}
    exec("class Typed(Function):\n    @staticmethod\n    def backward(ctx, g): return g", scope)
    with pytest.raises(OSError, match=r"no source text of Typed.backward"):
        backward_source(scope["Typed"])
