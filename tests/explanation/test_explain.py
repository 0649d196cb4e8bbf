"""retrograd.explain: names, functions, the user's arrays, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naive
import retrograd as rg
from retrograd.explanation.explanation import Explanation
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

RNG = np.random.default_rng(3)
X, W, B = RNG.standard_normal((2, 4, 7, 6)), RNG.standard_normal((6, 2, 3, 2)), RNG.standard_normal(6)
SIZES = (2, 1), ((1, 1), (0, 0)), (1, 2), 2
GY = RNG.standard_normal(naive.conv(X, W, B, *SIZES).shape)
OPTIONS: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}


def explained(operator: Any = "conv2d") -> Explanation:
    return rg.explain(operator, X, W, GY, b=B, **OPTIONS)


@pytest.mark.parametrize("operator", ["conv2d", "nn.Conv2d", F.conv2d])
def test_arrays_of_the_users_own(operator: Any) -> None:
    explanation = explained(operator)
    gw = naive.conv_weight_grad(X, GY, W.shape[2:], *SIZES)
    np.testing.assert_allclose(explanation.arrays["gw"].values, gw, atol=1e-12)
    entry = explanation.entry("gw", (3, 1, 2, 0))
    assert len(entry.products) == 2 * GY[0, 0].size
    assert entry.total == pytest.approx(gw[3, 1, 2, 0]) and entry.numerical == pytest.approx(gw[3, 1, 2, 0])
    for product in entry.products:
        (g_name, g_at, g), (x_name, x_at, x) = product.factors
        assert (g_name, x_name) == ("gy", "x") and g_at is not None and g == GY[g_at]
        assert x == (0 if x_at is None else X[x_at]) and product.value == pytest.approx(g * x)


def test_tensors_and_no_upstream_gradient() -> None:
    x = rg.tensor(X, requires_grad=True)
    explanation = rg.explain("relu", x)
    assert explanation.gy.shape == X.shape and np.abs(explanation.gy).max() > 0 and x.grad is None
    assert np.array_equal(explanation.arrays["gx"].values, explanation.gy * (X > 0))


def test_an_example() -> None:
    assert rg.explain("conv1d", stride=2).arrays["y"].values.ndim == 3


def test_a_function_of_the_users_own() -> None:
    def weighted(a: rg.Tensor, b: rg.Tensor) -> rg.Tensor:
        return (a * a).sum(0) * b

    a, b, gy = RNG.standard_normal((3, 2)), RNG.standard_normal(2), RNG.standard_normal(2)
    for explanation in (rg.explain(weighted, a, b, gy), rg.explain(weighted, a, b, gy=gy)):
        entry = explanation.entry("ga", (2, 1))
        assert entry.value == pytest.approx(2 * a[2, 1] * b[1] * gy[1]) == entry.total
        np.testing.assert_allclose(explanation.arrays["gb"].values, (a * a).sum(0) * gy)


def test_a_function_with_a_gradient_of_its_own() -> None:
    class Through(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
            return x.sign()

        @staticmethod
        def backward(ctx: Any, g: rg.Tensor) -> rg.Tensor:
            return g * 3.0

    entry = rg.explain(Through.apply, X[0, 0], X[1, 0]).entry("gx", (1, 2))
    assert entry.value == pytest.approx(entry.total) and abs(entry.numerical or 0) < 1e-6 < abs(entry.value)


def test_an_entry_as_text() -> None:
    explanation = rg.explain("conv1d", [[[1.0, 2.0]]], [[[3.0, 5.0]]], [[[7.0, 1.0, 1.0]]], padding=1)
    text = str(explanation.entry("gw", (0, 0, 0)))
    assert text.splitlines()[0] == "gw[0, 0, 0] = 3"
    assert "  +0 = gy[0, 0, 0] 7 * x[padding] 0" in text.splitlines() and "  sum 3" in text.splitlines()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    explanation = rg.explain("linear", X[0, 0], X[1, 0])
    explanation.save(path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "<iframe srcdoc=" in explanation._repr_html_()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rg.explain("conv4d", X), ValueError, "there is no operator 'conv4d' here; near: conv"),
        (lambda: rg.explain(3, X), TypeError, "operator is int, expected a name or a function of Tensors"),
        (lambda: rg.explain("conv2d", X), TypeError, r"takes 2 tensors \(x, w\), optionally followed by gy; got 1"),
        (lambda: rg.explain("conv2d", X, W, GY, GY), TypeError, "got 4"),
        (lambda: rg.explain("relu", X, X[0]), ValueError, r"gy has the shape \(4, 7, 6\), the result \(2, 4, "),
        (lambda: rg.explain("relu", np.array(["a"])), TypeError, "x has the dtype <U1, expected numbers"),
        (lambda: rg.explain(lambda x: x), TypeError, "pass the Tensors or arrays that the function is called with"),
        (lambda: explained().entry("x", (0, 0, 0, 0)), KeyError, "'x' is not one of the arrays that are sums"),
        (
            lambda: explained().entry("gw", (6, 0, 0, 0)),
            IndexError,
            r"has the shape \(6, 2, 3, 2\), so there is no entry",
        ),
        (lambda: explained().entry("gw", (0, 0)), IndexError, "no entry"),
        (lambda: rg.explain("conv2d", stride=7), ValueError, "stride=7 must be one of 1, 2, 3"),
        (lambda: rg.explain("conv2d", color=7), ValueError, "conv2d has no setting 'color'"),
        (lambda: rg.explain("conv2d", strid=2), ValueError, "has no setting 'strid'; .*; did you mean 'stride'"),
        (lambda: rg.explain("linear", X, X, strid=2), ValueError, "with strid cannot be explained; known are: none$"),
        (
            lambda: rg.explain("conv1d", X[None], X[None], strid=2),
            ValueError,
            "with strid cannot be explained; known are: stride, .*; did you mean 'stride'",
        ),
        (lambda: rg.explain(), TypeError, r"^explain\(\) missing a required argument: 'operator'"),
        (
            lambda: rg.explain(rg.nn.Linear(4, 2), X, los=1),
            TypeError,
            r"^explain\(\) got an unexpected keyword argument 'los'; did you mean 'loss'",
        ),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
