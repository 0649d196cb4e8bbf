"""Mutations of a backward: each changes the result, gradcheck finds it, and the source is restored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.sample import sampled
from retrograd.explanation.mutation_testing import Mutation
from retrograd.explanation.operators import find

# the backward returns g unchanged, and has no line to mutate
PASSED_ON = {"add", "neg", "frac", "ceil", "floor", "round", "trunc", "sign", "Int8", "TWN", "DeepShiftQ"}


@pytest.mark.parametrize("name", sampled(start=5))
def test_every_operator_has_lines_to_break(name: str) -> None:
    explanation = find(name).with_settings({})
    before = explanation.result("textbook")
    outcomes = explanation.outcomes()
    assert len({each.fault.name for each in outcomes}) == len(outcomes)
    assert bool(outcomes) != (name in PASSED_ON)
    wide = {
        each: array.values.astype(np.float64) if array.values.dtype.kind == "f" else array.values
        for each, array in explanation.case.inputs.items()
    }
    right = rg.explanation.measurements.gradients(explanation.case.call, wide, explanation.gy, "textbook")
    for each in outcomes:
        if isinstance(each.fault, Mutation):
            assert each.wrong and each.diagnosis and each.report.startswith("gradcheck"), each.fault.name
            assert "failed" in each.report.partition("\n")[0]
            assert each.fault.before != each.fault.after and each.fault.about
            for gradient, values in each.wrong.items():
                assert not np.allclose(values, right[gradient], equal_nan=True)
    again = find(name).with_settings({}).result("textbook")
    assert all(np.array_equal(before[each], again[each]) for each in before)


def kinds(name: str) -> set[str]:
    return {each.fault.name.partition(" (")[0].partition(" in ")[0] for each in find(name).with_settings({}).outcomes()}


def test_they_are_of_many_kinds() -> None:
    assert {"forget gy", "wrong sign"} <= kinds("gelu")
    assert {"forget the condition", "swap the branches"} <= kinds("Sign")
    assert {"forget gy", "keep one sample"} <= kinds("linear")
    assert {"forget gy", "forget factor"} <= kinds("mse_loss")
    assert {"forget to divide", "overwrite, do not add"} <= kinds("adaptive_avg_pool2d")
    assert "overwrite, do not add" in kinds("embedding")


class Scaled(rg.autograd.Function):
    """3 x, and its gradient."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
        return g * 3


def test_names_tell_them_apart() -> None:
    found = [each.fault.name for each in find("linear").with_settings({}).outcomes()]
    assert found == ["forget gy in gx", "keep one sample", "forget gy in gw", "forget gy in gb"]
    found = [each.fault.name for each in find("max_pool2d").with_settings({}).outcomes()]
    assert "overwrite, do not add" in found and "overwrite, do not add (2)" not in found


def test_of_a_function_of_the_users() -> None:
    explanation = rg.explain(Scaled.apply, np.array([[1.0, 2.0], [3.0, -4.0]]))
    found = {each.fault.after: each for each in explanation.outcomes()}
    assert list(found) == ["return g"]
    assert found["return g"].diagnosis == "Every entry of `gx` is 1/3 times the right one."
    np.testing.assert_array_equal(found["return g"].wrong["gx"], explanation.gy)


def test_a_formula_of_the_users() -> None:
    explanation = rg.explain(cubed, np.array([1.0, -2.0, 0.5]))
    before = cubed(rg.tensor([2.0])).numpy()
    found = explanation.outcomes()
    assert found and all(each.wrong and each.fault.kernel == "cubed_grad" for each in found)
    assert np.array_equal(cubed(rg.tensor([2.0])).numpy(), before)
    x = rg.tensor([2.0, 3.0], requires_grad=True)
    cubed(x).sum().backward()
    assert x.grad.numpy().tolist() == [12.0, 27.0]


@rg.formula
def cubed(x):
    return x * x * x


def test_a_mistake_ends_with_its_block() -> None:
    x = rg.tensor([0.5, -0.5], dtype=rg.float64, requires_grad=True)
    (outcome, *_) = find("linear").with_settings({}).outcomes()
    assert isinstance(outcome.fault, Mutation)
    code = outcome.fault.function.__code__
    with pytest.raises(ZeroDivisionError), outcome.fault.in_place():
        assert outcome.fault.function.__code__ is not code
        raise ZeroDivisionError
    assert outcome.fault.function.__code__ is code
    assert rg.autograd.gradcheck(lambda x: rg.nn.functional.linear(x, rg.ones(1, 2, dtype=rg.float64)), [x])


def test_large_arrays_are_not_checked() -> None:
    for name, arrays in (("exp", [np.ones((50, 50))]), ("conv1d", [np.ones((1, 4, 500)), np.ones((2, 4, 3))])):
        assert rg.explain(name, *arrays).outcomes() == []
