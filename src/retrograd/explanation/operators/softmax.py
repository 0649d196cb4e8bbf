"""Softmax and its logarithm: p = exp(x) / the sum of exp(x)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from .gradient_bugs import SOFTMAX, of_kernel
from .operator import VALUES, Operator, arguments, call_text, draw, leading

__all__ = ["CLASSES", "OPERATORS", "SAMPLES", "softmax_of"]

SAMPLES = Setting("batch", 2, (1, 2, 3, 4), "samples")
CLASSES = Setting("classes", 4, (2, 3, 4, 6), "numbers of a sample, one for each class")


def softmax_of(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p, its logarithm, and exp(x) divided by that of the largest x, in float64."""
    shifted = x.astype(np.float64) - x.max(axis, keepdims=True)
    exponential = np.exp(shifted)
    total = exponential.sum(axis, keepdims=True)
    return exponential / total, shifted - np.log(total), exponential


def _example(options: Mapping[str, Any]) -> Arrays:
    return {"x": draw((options["batch"], options["classes"]), options["values"], 1)}


def _along(
    name: str, texts: tuple[str, ...], inner: Callable[[Arrays, int], dict[str, tuple[np.ndarray, str]]]
) -> Operator:
    """Return softmax or log_softmax; inner: makes arrays in the shape of x, or with extent 1 along the summed axis."""
    function, settings = getattr(F, name), (SAMPLES, CLASSES, VALUES)

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        x = inputs["x"]
        dim = arguments(name, options, {"dim": -1}, settings)["dim"] % x.ndim
        letters = leading(x.ndim - 1)
        axes, kept = f"{letters[:dim]}k{letters[dim:]}", letters

        def made(arrays: Arrays) -> dict[str, Array]:
            return {
                each: Array(
                    values if values.shape == x.shape else values.squeeze(dim),
                    axes if values.shape == x.shape else kept,
                    "inner",
                    about,
                )
                for each, (values, about) in inner(arrays, dim).items()
            }

        shapes = dict.fromkeys(("x", "y", "gx", "gy", "p", "e"), axes)
        shapes |= dict.fromkeys(("inverse", "dot", "logsum", "total"), kept)
        equations = Equations(texts, shapes, dict(zip(axes, x.shape, strict=True)))
        return Case(
            name=name,
            call=lambda x: function(x, dim),
            inputs={"x": Array(x, axes, "input", "the scores")},
            output=(axes, "the result"),
            sums=lambda arrays: equations.sums,
            formulas=equations.formulas,
            source=call_text(f"F.{name}", inputs, {"dim": dim}),
            inner=made,
            bugs=of_kernel(SOFTMAX, f"{name}_grad"),
        )

    return Operator(name, ("x",), (), settings, _example, case)


def _of_softmax(arrays: Arrays, dim: int) -> dict[str, tuple[np.ndarray, str]]:
    _, _, e = softmax_of(arrays["x"], dim)
    dot = (arrays["y"].astype(np.float64) * arrays["gy"]).sum(dim, keepdims=True)
    return {
        "e": (e, "exp(x), divided by that of the largest x, so that nothing overflows"),
        "inverse": (1 / e.sum(dim, keepdims=True), "1 / the sum of e"),
        "dot": (dot, "the sum of gy · y: what all entries lose together, since they always add up to 1"),
    }


def _of_log_softmax(arrays: Arrays, dim: int) -> dict[str, tuple[np.ndarray, str]]:
    p, log, _ = softmax_of(arrays["x"], dim)
    gy = arrays["gy"].astype(np.float64)
    return {
        "p": (p, "softmax(x), the exponential of y"),
        "logsum": ((arrays["x"] - log).max(dim, keepdims=True), "the logarithm of the sum of exp(x)"),
        "total": (gy.sum(dim, keepdims=True), "the sum of gy"),
    }


OPERATORS = {
    each.name: each
    for each in (
        _along("softmax", ("y = e * inverse", "dot = gy * y", "gx = y * gy - y * dot"), _of_softmax),
        _along("log_softmax", ("y = x - logsum", "total = gy", "gx = gy - p * total"), _of_log_softmax),
    )
}
