"""Losses of single elements: what each entry of the prediction is away from its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...formulas.primitive import sigmoid
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measure import Arrays
from .equations import Equations
from .example import VALUES, draw
from .operator import Operator, arguments, call_text, differing, leading

__all__ = ["OPERATORS"]

_SETTINGS = (
    Setting("batch", 2, (1, 2, 3, 4), "samples"),
    Setting("outputs", 3, (1, 2, 3, 4), "numbers that are predicted for each sample"),
    Setting("reduction", "mean", ("mean", "sum", "none"), "what becomes of the losses of the elements"),
    VALUES,
)
Inner = Callable[[np.ndarray, np.ndarray], dict[str, tuple[np.ndarray, str]]]


def _squares(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {"d": (x - t, "how far the prediction is from the target")}


def _absolute(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {
        "d": (x - t, "how far the prediction is from the target"),
        "s": (np.sign(x - t), "the sign of d, the derivative of its size"),
    }


def _binary(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {
        "p": (sigmoid(x), "sigmoid(x): the probability that the score stands for"),
        "u": (np.logaddexp(0, x), "log(1 + exp(x))"),
    }


def _operator(
    name: str, texts: tuple[str, ...], inner: Inner, is_probability: bool, rules: tuple[str, str]
) -> Operator:
    function = getattr(F, name)

    def example(options: Mapping[str, Any]) -> Arrays:
        shape, values = (options["batch"], options["outputs"]), options["values"]
        t = draw(shape, values, 2, -2, 3) + np.float32(0.5)  # never equal to x, where l1_loss has a kink
        if is_probability:
            t = (t > 0).astype(np.float32)
        return {"x": draw(shape, values, 1), "t": t}

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        x, t = inputs["x"], inputs["t"]
        defaults = {"reduction": "mean"}
        given = arguments(name, options, defaults, _SETTINGS)
        if x.shape != t.shape:
            raise ValueError(f"explain: {name} is taken apart for equal shapes; these are {x.shape} and {t.shape}")
        reduction, axes = given["reduction"], leading(x.ndim)
        scale = 1 / max(x.size, 1) if reduction == "mean" else 1.0
        of_result = axes if reduction == "none" else ""
        letters = dict.fromkeys(("x", "t", "gx", "gt", "d", "s", "p", "u"), axes)
        letters |= dict.fromkeys(("y", "gy"), of_result)
        written = texts if reduction == "mean" else [text.replace("1/N * ", "") for text in texts]
        extents = dict(zip(axes, x.shape, strict=True))
        equations = Equations(written, letters, extents, {"1/N": scale, "2": 2.0})

        def between(arrays: Arrays) -> dict[str, Array]:
            found = inner(arrays["x"].astype(np.float64), arrays["t"].astype(np.float64))
            return {each: Array(values, axes, "inner", about) for each, (values, about) in found.items()}

        return Case(
            name=name,
            call=lambda x, t: function(x, t, reduction=reduction),
            inputs={
                "x": Array(x, axes, "input", "the prediction"),
                "t": Array(t, axes, "input", "the target"),
            },
            output=(of_result, "the loss"),
            sums=lambda arrays: equations.sums,
            formulas=equations.formulas,
            source=call_text(f"F.{name}", inputs, differing(given, defaults)),
            inner=between,
            rules={each: f"g * {text}{' / n' * (reduction == 'mean')}" for each, text in zip("xt", rules, strict=True)},
        )

    return Operator(name, ("x", "t"), (), _SETTINGS, example, case)


OPERATORS = {
    each.name: each
    for each in (
        _operator(
            "mse_loss",
            ("y = 1/N * d * d", "d = x - t", "gx = 1/N * 2 * d * gy", "gt = -1/N * 2 * d * gy"),
            _squares,
            False,
            ("2 * (x - t)", "-2 * (x - t)"),
        ),
        _operator(
            "l1_loss",
            ("y = 1/N * s * d", "d = x - t", "gx = 1/N * s * gy", "gt = -1/N * s * gy"),
            _absolute,
            False,
            ("sign(x - t)", "-sign(x - t)"),
        ),
        _operator(
            "binary_cross_entropy_with_logits",
            ("y = 1/N * u - 1/N * t * x", "gx = 1/N * p * gy - 1/N * t * gy", "gt = -1/N * x * gy"),
            _binary,
            True,
            ("(sigmoid(x) - t)", "-x"),
        ),
    )
}
