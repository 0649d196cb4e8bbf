"""Gradients typed in by the reader: results and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.explanation.document import as_dict
from retrograd.explanation.gradient_expressions import FUNCTIONS, as_gradient, retyped
from retrograd.explanation.operators import binary, find


def test_an_expression_is_evaluated_as_python_would() -> None:
    rng = np.random.default_rng(0)
    g, x = rng.standard_normal((2, 3, 4))
    for text, expected in (
        ("g * (abs(x) <= 1)", g * (np.abs(x) <= 1)),
        ("g*exp(-x**2) + 1", g * np.exp(-(x**2)) + 1),
        ("g * where(x > 0, 1, 0.1)", g * np.where(x > 0, 1, 0.1)),
        ("g * ((-1 < x < 1) | (x > 2)) / pi", g * (((x > -1) & (x < 1)) | (x > 2)) / np.pi),
        ("minimum(g, 0.5) - maximum(x, e)", np.minimum(g, 0.5) - np.maximum(x, np.e)),
        ("clamp(g, -0.5, 0.5)", np.clip(g, -0.5, 0.5)),
        ("3", np.full_like(g, 3)),
        ("x != x", np.zeros_like(g)),
        ("+g * (x == x)", g),
    ):
        found = as_gradient(text)(rg.tensor(g), rg.tensor(x))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, err_msg=text)


def test_every_function_is_known_to_numpy_or_computes_a_number() -> None:
    one = rg.tensor([0.5], dtype=rg.float64)
    for name, (count, _) in FUNCTIONS.items():
        text = f"{name}({', '.join(['x > 0' if name == 'where' else 'x', 'g', '1'][:count])})"
        assert np.isfinite(as_gradient(text)(one, one).numpy()).all(), text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('true')", "is unknown"),
        ("x.array", "'x.array' is unknown"),
        ("[g for g in x]", "is unknown"),
        ("lambda: g", "is unknown"),
        ("g if x else 1", "is unknown"),
        ("'text'", "is unknown"),
        ("True", "is unknown"),
        ("y", "'y' is unknown; known are g, x, numbers, and abs"),
        ("exp(g, x)", "exp takes 1 argument$"),
        ("where(x, g)", "where takes 3 arguments"),
        ("clamp(x, low=1, high=2)", "clamp takes 3 arguments"),
        ("g.", "'g.' is not an expression such as"),
        ("", "is not an expression"),
        ("(" * 150, "is not an expression"),
        ("g" * 201, "has 201 characters, the limit is 200"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_gradient(text)


def test_a_tower_of_powers_does_not_hang() -> None:
    one = rg.tensor([1.0])
    assert np.isinf(as_gradient("9**9**9**9")(one, one).numpy()).all()


@pytest.mark.parametrize("name", ["relu", "Sign", "hardtanh", "BWN"])
def test_the_page_shows_the_typed_gradient(name: str) -> None:
    explanation = retyped(find(name).with_settings({}), "g * (abs(x) <= 0.5) * 2")
    x, gx = explanation.arrays["x"].values, explanation.arrays["gx"].values
    np.testing.assert_allclose(gx, explanation.gy * (np.abs(x) <= 0.5) * 2, rtol=1e-6)
    totals = np.zeros(gx.size)
    values = {each: array.values for each, array in explanation.arrays.items()}
    for products in explanation.sums["gx"]:
        products.add_to(totals, values)
    np.testing.assert_allclose(totals, gx.ravel(), rtol=1e-6)
    document: dict[str, Any] = as_dict(explanation)
    assert document["typed"] == "g * (abs(x) <= 0.5) * 2" and not document["exact"] and document["gradcheck"] is None
    (declared,) = [line["values"] for line in document["curves"]["lines"] if line["kind"] == "declared"]
    np.testing.assert_allclose(declared, 2.0 * (np.abs(document["curves"]["x"]) <= 0.5))
    if document["python"] is not None:
        names: dict[str, Any] = {}
        exec(document["python"], names)
        np.testing.assert_allclose(names["x"].grad.numpy(), gx, rtol=1e-6)


def test_a_rule_that_is_not_linear_in_g_is_shown_without_products() -> None:
    explanation = retyped(find("relu").with_settings({}), "sign(g)")
    assert np.array_equal(explanation.arrays["gx"].values, np.sign(explanation.gy))
    assert "gx" not in explanation.sums


def test_what_takes_no_rule() -> None:
    explanation = find("conv2d").with_settings({})
    assert "typed" not in as_dict(explanation)
    with pytest.raises(ValueError, match="for elementwise functions, linear and losses, not for conv2d"):
        retyped(explanation, "g")


# ---- several arrays


SEVERAL = sorted([*binary.OPERATORS, "linear", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits"])


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("changed", [False, True])
def test_its_own_gradients_typed_are_its_own(name: str, changed: bool) -> None:
    operator = find(name)
    settings = {"b": "row"} if name in binary.OPERATORS else {} if name == "linear" else {"reduction": "sum"}
    given = operator.with_settings(settings if changed else {})
    text = "; ".join(f"g{each} = {rule}" for each, rule in given.case.rules.items())
    typed = retyped(given, text)
    for each in given.case.rules:
        own, found = given.arrays[f"g{each}"].values, typed.arrays[f"g{each}"].values
        np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5, err_msg=each)
        totals = np.zeros(found.size)
        values = {key: array.values for key, array in typed.arrays.items()}
        for products in typed.sums[f"g{each}"]:
            products.add_to(totals, values)
        np.testing.assert_allclose(totals, found.ravel(), rtol=1e-4, atol=1e-4)
    document = as_dict(typed)
    assert document["typed"] == text and document["python"] is None and document["gradcheck"] is None
    assert document["rules"] == {f"g{each}": rule for each, rule in given.case.rules.items()}


def test_one_gradient_is_typed_and_the_others_stay() -> None:
    given = find("linear").with_settings({})
    x, w, g = given.arrays["x"].values, given.arrays["w"].values, given.gy
    typed = retyped(given, "gw = sign(g).T @ abs(x) - 1")
    rounding = 2 * max(len(g), len(w)) * np.finfo(g.dtype).eps  # BLAS may add in another order
    np.testing.assert_allclose(typed.arrays["gw"].values, np.sign(g).T @ np.abs(x) - 1, atol=rounding * np.abs(x).sum())
    np.testing.assert_allclose(typed.arrays["gx"].values, g @ w, atol=rounding * (np.abs(g) @ np.abs(w)).max())
    np.testing.assert_array_equal(typed.arrays["gb"].values, g.sum(0))
    assert not typed.sums  # not linear in g
    halves = retyped(given, "gx = g @ w / 2; gb = g")
    np.testing.assert_allclose(halves.arrays["gx"].values, g @ w / 2, atol=rounding * (np.abs(g) @ np.abs(w)).max())
    np.testing.assert_array_equal(halves.arrays["gb"].values, g.sum(0))  # summed as b was repeated
    assert np.abs(halves.numerical("gx") - 2 * halves.arrays["gx"].values.ravel()).max() < 1e-4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mul", "g * a", "'g \\* a' does not declare a gradient, or declares it again; write ga = ...; gb = ..."),
        ("mul", "ga = g; ga = g", "'ga = g' does not declare a gradient, or declares it again"),
        ("mul", "gc = g", "'gc = g' does not declare a gradient"),
        ("mul", "a = g", "'a = g' does not declare a gradient"),
        ("mul", ";", "';' declares no gradient"),
        ("mul", "ga = __import__('os')", "is unknown; known are g, a, b, n, numbers, and abs"),
        ("mul", "ga = g.array", "'g.array' is unknown"),
        ("mul", "ga = g; gb = g[0]", "'g\\[0\\]' is unknown"),
        ("linear", "gx = x @ w", "'x @ w' cannot be computed"),
        ("linear", "gw = sum(g)", "sum takes 2 arguments"),
        ("linear", "gw = sum(g, n)", "sum takes a value and the number of its axis"),
        ("linear", "gw = sum(g, 7)", "cannot be computed"),
        ("linear", "gw = g", "'g' cannot be computed"),
        ("linear", "gw = " + "g" * 201, "has 202 characters, the limit is 200"),
    ],
)
def test_gradients_of_several_arrays_that_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_dict(retyped(find(name).with_settings({}), text))


def test_one_array_may_be_named() -> None:
    given = find("relu").with_settings({})
    named, plain = retyped(given, "gx = g * (x == x)"), retyped(given, "g * (x == x)")
    np.testing.assert_array_equal(named.arrays["gx"].values, plain.arrays["gx"].values)
    assert as_dict(named)["python"] is None
