"""Writes static/rules.svg, the curves on the page "Change a backward"; run it after changing the rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

import retrograd as rg
from retrograd import rules
from retrograd.nn import functional

PICTURE = Path(__file__).resolve().parent / "static" / "rules.svg"
LINE, TRUE = "#d9480f", "#9aa5b1"


def gradient(rule: Any, operator: Callable[..., Any], x: np.ndarray, g: np.ndarray) -> np.ndarray:
    leaf = rg.tensor(x, requires_grad=True)
    with rg.override_backward(operator, rule):
        y = operator(leaf)
    return rg.autograd.grad(y, leaf, rg.tensor(g))[0].numpy()


def feedback(rule: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the true gradient of the input of a linear layer, and the gradient of the rule."""
    rng = np.random.default_rng(0)
    x, w, b = (rg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((10, 30), (10, 30), (10,)))
    with rg.override_backward(functional.linear, rule):
        y = functional.linear(x, w, b)
    g = rg.tensor(rng.standard_normal(y.shape))
    with rg.without_backward_rules():
        (true,) = rg.autograd.grad(y, x, g, retain_graph=True)
    return true.numpy().ravel(), rg.autograd.grad(y, x, g)[0].numpy().ravel()


def draw() -> None:
    mpl.rcParams.update({"svg.hashsalt": "rules", "svg.fonttype": "none", "font.size": 8})
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    x = np.linspace(-2, 2, 241)
    surrogates = rules.FastSigmoid(5.0), rules.Arctan(5.0), rules.Triangle(1.0)
    slopes = [rules.identity, rules.Clipped(), rules.polynomial, rules.SwishSign(), *surrogates]
    changes = [
        rules.guided,
        rules.Reversal(),
        rules.ClippedValue(),
        rules.ClippedNorm(9.0),
        rules.Noise(0.1),
        rules.Rounded(4),
    ]
    alignments = [rules.FeedbackAlignment(), rules.SignSymmetric(), direct]
    figure, axes = plt.subplots(4, 4, figsize=(9.6, 8.4), layout="constrained")
    places = iter(axes.ravel())
    for rule in slopes:
        ax = next(places)
        ax.plot(x, gradient(rule, rg.sign, x, np.ones_like(x)), color=LINE)
        ax.set(title=name(rule), xlabel="x", ylabel="gradient for g = 1", ylim=(min(0, ax.get_ylim()[0]), None))
    for rule in changes:
        ax = next(places)
        ax.plot(x, x, color=TRUE, lw=0.8)
        ax.plot(x, gradient(rule, functional.relu, np.ones_like(x), x), color=LINE)
        ax.set(title=name(rule), xlabel="g", ylabel="gradient")
    for rule in alignments:
        ax = next(places)
        true, found = feedback(rule)
        ax.plot(true, found, ".", ms=2, color=LINE)
        ax.set(title=name(rule), xlabel="true gradient of x", ylabel="gradient of the rule")
    figure.savefig(PICTURE, metadata={"Date": None}, transparent=False)


def direct(true: Any, g: Any) -> Any:
    return rules.DirectFeedbackAlignment().last(true, g)


def name(rule: Any) -> str:
    return "DirectFeedbackAlignment()" if rule is direct else rule.__name__


if __name__ == "__main__":
    draw()
