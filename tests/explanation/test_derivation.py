"""Derivations as text: each line runs in NumPy unchanged, and the last one gives the derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.sample import sampled
from retrograd.explanation.derivation import derivation
from retrograd.explanation.operators import find
from retrograd.formulas.registry import form

SAME = (
    *("exp", "log", "sqrt", "tanh", "sin", "cos", "where", "maximum", "minimum", "sign", "expm1", "log1p", "log2"),
    *("exp2", "floor", "ceil", "trunc", "full_like", "copysign", "absolute", "square"),
)
NUMPY: dict[str, Any] = {name: getattr(np, name) for name in SAME} | {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "normal_cdf": np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2),
    "exp_negative": np.exp,
    "inf": np.inf,
    "nan": np.nan,
}
DERIVED = [
    *("gelu", "silu", "mish", "softsign", "tanhshrink", "selu", "hardsigmoid", "hardswish", "elu", "celu"),
    *("relu6", "hardtanh", "softshrink", "hardshrink", "clamp", "mul", "div", "sub", "add", "maximum", "fmin", "abs"),
    *("leaky_relu", "softplus", "logsigmoid", "threshold", "xlogy"),
]


def run(found: dict[str, Any], inputs: dict[str, np.ndarray], gy: np.ndarray, numbers: dict[str, Any]) -> Any:
    """Return the gradients of the operands, computed by running the lines one after the other."""
    names: dict[str, Any] = {**NUMPY, **inputs, **numbers, "g": gy}
    for line in found["values"]:
        exec(line, names)
    for step in found["steps"]:
        assert step["value"] in found["values"] and step["rule"]
        for line in step["gives"]:
            target, _, value = line.partition(" += ")
            names[target] = names.get(target, 0) + eval(value, names)
    return {name: np.broadcast_to(names.get(f"g{name}", 0.0), gy.shape) for name in inputs}


@pytest.mark.parametrize("name", sampled(DERIVED, start=6))
def test_the_lines_lead_to_the_gradient(name: str) -> None:
    explanation = find(name).with_settings({})
    found = explanation.to_dict(whole=False)["derivation"]
    assert found["formula"].lstrip().startswith(("@", "def ")) and found["declared"] and not found["why_not"]
    arrays = {each: array.values.astype(np.float64) for each, array in explanation.case.inputs.items()}
    y = explanation.case.call(*[rg.tensor(array, requires_grad=True) for array in arrays.values()])
    written = y.grad_fn.function.formulas[0]
    called = [found["called"].get(each, each) for each in arrays]
    assert called == [*form(written).operands]
    numbers = dict(zip(form(written).numbers, getattr(y.grad_fn, "numbers", ()), strict=False))
    operands = dict(zip(called, arrays.values(), strict=True))
    with np.errstate(all="ignore"):
        gradients = run(found, operands, explanation.gy.astype(np.float64), numbers)
        names = dict(NUMPY)
        exec(found["derived"].replace(": float", ""), names)
        results = names[f"{written.__name__}_grad"](explanation.gy, *operands.values(), *numbers.values())
    results = results if isinstance(results, tuple) else (results,)
    for each, gradient, result in zip(arrays, gradients.values(), results, strict=True):
        numerical = explanation.numerical(f"g{each}").reshape(gradient.shape)
        np.testing.assert_allclose(gradient, numerical, rtol=1e-4, atol=1e-5, err_msg=each)
        np.testing.assert_allclose(np.broadcast_to(result, gradient.shape), gradient, rtol=1e-6, atol=1e-9)
    assert found["apart"] is None or found["apart"] < 64


def test_what_is_written_of_gelu() -> None:
    found = find("gelu").with_settings({}).to_dict(whole=False)["derivation"]
    assert found["values"] == ["u1 = normal_cdf(x)", "y = x * u1"]
    product, cdf = found["steps"]
    assert product["rule"].startswith("product rule") and product["gives"] == ["gx += g * u1", "g_u1 += g * x"]
    assert cdf["rule"] == "normal_cdf is a primitive with the gradient g exp(-x**2 / 2) / sqrt(2 pi)"
    assert found["derived"].startswith("def gelu_grad(g, x):\n")


def test_operands_with_the_name_of_the_result() -> None:
    found = find("mul").with_settings({}).to_dict(whole=False)["derivation"]
    assert found["called"] == {"a": "x", "b": "y"} and found["values"] == ["result = x * y"]
    assert found["steps"][0]["gives"] == ["gx += g * y", "gy += g * x"]


def test_other_shapes_are_not_compared() -> None:
    x, w = np.ones((2, 3, 4)), np.ones(3)
    found = rg.explain("prelu", x, w).to_dict(whole=False)["derivation"]
    assert found["apart"] is None and found["derived"]


def test_what_is_not_derived_says_why() -> None:
    exp = find("exp").with_settings({}).to_dict(whole=False)["derivation"]
    assert "this is a primitive" in exp["why_not"] and exp["declared"][0].endswith("return g * y\n")
    square = find("square").with_settings({}).to_dict(whole=False)["derivation"]
    assert "written for whole arrays" in square["why_not"] and not square["steps"] and square["formula"]
    assert "derivation" not in find("conv2d").with_settings({}).to_dict(whole=False)
    assert derivation(lambda x: x.detach(), {"x": np.ones(2, np.float32)}, np.ones(2, np.float32)) is None


def test_a_gradient_that_is_declared_instead() -> None:
    found = find("Sign").with_settings({}).to_dict(whole=False)["derivation"]
    assert found["apart"] > 1000 and "0.0" in found["derived"]


@rg.formula
def wave(x, rate: float = 2.0):
    return rg.sin(rate * x) * x


def test_a_formula_of_the_users() -> None:
    x = np.array([0.5, -1.0, 2.0])
    found = rg.explain(wave, x).to_dict(whole=False)["derivation"]
    gradients = run(found, {"x": x}, np.ones(3), {"rate": 2.0})
    np.testing.assert_allclose(gradients["x"], np.sin(2 * x) + 2 * x * np.cos(2 * x))
    assert found["declared"] == [] and found["derived"].startswith("def wave_grad(g, x, rate: float):")
