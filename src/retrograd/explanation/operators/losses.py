"""Loss functions: cross-entropy, squared, absolute and binary cross-entropy losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...formulas.primitive import sigmoid
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from .gradient_bugs import CROSS_ENTROPY
from .operator import VALUES, Operator, arguments, call_text, differing, draw, leading
from .softmax import CLASSES, SAMPLES, softmax_of

__all__ = ["OPERATORS"]


# ---- The cross entropy of softmax(x) --------------------------------------------------------------------------------

_CROSS_ENTROPY_SETTINGS = (
    SAMPLES,
    CLASSES,
    Setting("reduction", "mean", ("mean", "sum", "none"), "how the losses of the samples are combined"),
    Setting("label_smoothing", 0.0, (0.0, 0.1, 0.3), "the part of the target that is spread over all classes"),
    VALUES,
)
_CROSS_ENTROPY_TEXTS = (
    "gx = scale * p * gy - scale * q * gy",
    "y = -scale * q * logp",
)


def _cross_entropy_example(options: Mapping[str, Any]) -> Arrays:
    N, C = options["batch"], options["classes"]
    return {"x": draw((N, C), options["values"], 1), "t": np.arange(1, N + 1, dtype=np.int64) * 2 % C}


def _cross_entropy_case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    x, t = inputs["x"], inputs["t"]
    defaults = {"reduction": "mean", "label_smoothing": 0.0, "ignore_index": -100}
    given = arguments("cross_entropy", options, defaults, _CROSS_ENTROPY_SETTINGS)
    if t.dtype.kind == "f" or (t == given["ignore_index"]).any():
        raise ValueError(
            "explain: cross_entropy can be explained only for targets that are classes, none of them ignored"
        )
    dim, letters = min(1, x.ndim - 1), leading(x.ndim - 1)
    axes = f"{letters[:dim]}k{letters[dim:]}"
    smoothing, reduction = given["label_smoothing"], given["reduction"]
    share = 1 / max(t.size, 1) if reduction == "mean" else 1.0
    of_result = letters if reduction == "none" else ""
    shapes = dict.fromkeys(("x", "gx", "p", "logp", "q"), axes) | dict.fromkeys(("y", "gy"), of_result)
    number = "1/N" if reduction == "mean" else "scale"
    texts = [
        text.replace("scale", "1/N") if reduction == "mean" else text.replace("scale * ", "")
        for text in _CROSS_ENTROPY_TEXTS
    ]
    equations = Equations(texts, shapes, dict(zip(axes, x.shape, strict=True)), {number: share})

    def inner(arrays: Arrays) -> dict[str, Array]:
        p, logp, _ = softmax_of(arrays["x"], dim)
        classes = np.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - dim - 1))
        q = (np.expand_dims(arrays["t"], dim) == classes) * (1 - smoothing) + smoothing / x.shape[dim]
        return {
            "p": Array(p, axes, "inner", "softmax(x): the probabilities of the classes"),
            "logp": Array(logp, axes, "inner", "the logarithm of p"),
            "q": Array(q, axes, "inner", "the target probabilities: 1 for the class of the target"),
        }

    return Case(
        name="cross_entropy",
        call=lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing),
        inputs={
            "x": Array(x, axes, "input", "the scores"),
            "t": Array(t, letters, "input", "the class of each sample"),
        },
        output=(of_result, "the loss"),
        sums=lambda arrays: equations.sums,
        formulas=equations.formulas,
        source=call_text("F.cross_entropy", inputs, differing(given, defaults)),
        inner=inner,
        bugs=CROSS_ENTROPY,
    )


_CROSS_ENTROPY_OPERATORS = {
    "cross_entropy": Operator(
        "cross_entropy", ("x", "t"), (), _CROSS_ENTROPY_SETTINGS, _cross_entropy_example, _cross_entropy_case
    )
}


# ---- Elementwise losses of the difference between prediction and target ---------------------------------------------

_SETTINGS = (
    Setting("batch", 2, (1, 2, 3, 4), "samples"),
    Setting("outputs", 3, (1, 2, 3, 4), "numbers that are predicted for each sample"),
    Setting("reduction", "mean", ("mean", "sum", "none"), "how the losses of the elements are combined"),
    VALUES,
)
Inner = Callable[[np.ndarray, np.ndarray], dict[str, tuple[np.ndarray, str]]]


def _squares(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {"d": (x - t, "how far the prediction is from the target")}


def _absolute(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {
        "d": (x - t, "how far the prediction is from the target"),
        "s": (np.sign(x - t), "the sign of d, the derivative of |d|"),
    }


def _binary(x: np.ndarray, t: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    return {
        "p": (sigmoid(x), "sigmoid(x): the probability"),
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
            raise ValueError(
                f"explain: {name} can be explained only for equal shapes; the shapes are {x.shape} and {t.shape}"
            )
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


OPERATORS = _CROSS_ENTROPY_OPERATORS | {
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
