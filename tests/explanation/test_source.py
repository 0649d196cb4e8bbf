"""backward_source shows the source of the backward that runs."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from engine.functions import Exp, Mul, OnceSquare, leaf
from retrograd.engine import Function
from retrograd.engine.operator import OPERATORS
from retrograd.explanation.backward_source import backward_source
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

LAYER_NORM = "composed of operators, ops/normalization/layer_norm.py"


@pytest.mark.parametrize("thing", [Mul, Mul.apply, Mul.apply(leaf(1), leaf(2)), Mul.apply(leaf(1), leaf(2)).grad_fn])
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
    with pytest.raises(
        TypeError, match=r"got Linear; call the layer, and pass its result: backward_source\(layer\(x\)\)"
    ):
        rg.backward_source(rg.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="expected a Tensor, its grad_fn, an operator or a Function, got int"):
        backward_source(3)
    with pytest.raises(TypeError, match="Bare defines no backward"):
        backward_source(type("Bare", (Function,), {}))
    scope: dict[str, object] = {"Function": Function}
    exec("class Typed(Function):\n    @staticmethod\n    def backward(ctx, g): return g", scope)
    with pytest.raises(OSError, match=r"no source code for Typed.backward"):
        backward_source(scope["Typed"])


# ---- Operators, and the source of hand-written kernels ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "how", "mathematics"),
    [
        (F.softmax, "in plain NumPy, kernels/textbook/normalization.py", "y * (g - (g * y).sum(axis, keepdims=True))"),
        (F.cross_entropy, "in plain NumPy, kernels/textbook/loss.py", "(p - goal)"),
        (F.scaled_dot_product_attention, "in plain NumPy, kernels/textbook/attention.py", "gq = scale * (d @ "),
        (
            F.layer_norm,
            LAYER_NORM,
            "gx = (h - mean(h) - z * mean(h * z))",
        ),
        (
            F.batch_norm,
            LAYER_NORM,
            "gx = (h - mean(h) - z * mean(h * z))",
        ),
    ],
)
def test_the_mathematics_comes_before_the_kernel(operator: Any, how: str, mathematics: str) -> None:
    first, mark, second = rg.backward_source(operator).partition("# the backward that runs, ")
    assert f"# {how}:" in first and mathematics in first
    assert mark and "def backward(" in second


def test_of_a_layer_by_its_result() -> None:
    text = rg.backward_source(rg.nn.LSTM(2, 3)(rg.ones(2, 2, 2))[0])
    assert text.startswith("# in plain NumPy, kernels/textbook/recurrent.py:") and "def recurrent_grad(" in text


def test_a_composed_backward_is_the_mathematics() -> None:
    assert rg.backward_source(F.conv2d) == rg.backward_source(F.conv2d.operator.functions[0])
    assert rg.backward_source(F.conv2d).startswith("@staticmethod\ndef backward(")
    assert rg.backward_source(rg.exp).startswith("def exp_grad(g: Operand, y: Operand)")


def test_of_several_functions_each() -> None:
    text = rg.backward_source(rg.clamp)
    assert text.startswith("# Clamp: min(max(x, low), high); NaN is kept\n") and "# ClampTensors: " in text


def test_an_operator_that_is_made_of_others() -> None:
    with pytest.raises(ValueError, match="cosine_similarity is made of other operators, .* its source is retro"):
        rg.backward_source(F.cosine_similarity)


def test_every_operator_with_a_backward_has_a_text() -> None:
    shown = 0
    for operator in OPERATORS:
        if operator.functions and all(each.backward is not Function.backward for each in operator.functions):
            shown += "def " in rg.backward_source(operator.function)
    assert shown > 250
