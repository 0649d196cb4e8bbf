"""The cross entropy of softmax(x): its gradient is what the probabilities exceed the wanted ones by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measure import Arrays
from .equations import Equations
from .example import VALUES, draw
from .mistakes import CROSS_ENTROPY
from .operator import Operator, arguments, call_text, differing, leading
from .softmax import CLASSES, SAMPLES, softmax_of

__all__ = ["OPERATORS"]

_SETTINGS = (
    SAMPLES,
    CLASSES,
    Setting("reduction", "mean", ("mean", "sum", "none"), "what becomes of the losses of the samples"),
    Setting("label_smoothing", 0.0, (0.0, 0.1, 0.3), "the part of the target that all classes share"),
    VALUES,
)
_TEXTS = (
    "gx = scale * p * gy - scale * q * gy",
    "y = -scale * q * logp",
)


def _example(options: Mapping[str, Any]) -> Arrays:
    N, C = options["batch"], options["classes"]
    return {"x": draw((N, C), options["values"], 1), "t": np.arange(1, N + 1, dtype=np.int64) * 2 % C}


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    x, t = inputs["x"], inputs["t"]
    defaults = {"reduction": "mean", "label_smoothing": 0.0, "ignore_index": -100}
    given = arguments("cross_entropy", options, defaults, _SETTINGS)
    if t.dtype.kind == "f" or (t == given["ignore_index"]).any():
        raise ValueError("explain: cross_entropy is taken apart for targets that are classes, none of them ignored")
    dim, letters = min(1, x.ndim - 1), leading(x.ndim - 1)
    axes = f"{letters[:dim]}k{letters[dim:]}"
    smoothing, reduction = given["label_smoothing"], given["reduction"]
    share = 1 / max(t.size, 1) if reduction == "mean" else 1.0
    of_result = letters if reduction == "none" else ""
    shapes = dict.fromkeys(("x", "gx", "p", "logp", "q"), axes) | dict.fromkeys(("y", "gy"), of_result)
    number = "1/N" if reduction == "mean" else "scale"
    texts = [text.replace("scale", "1/N") if reduction == "mean" else text.replace("scale * ", "") for text in _TEXTS]
    equations = Equations(texts, shapes, dict(zip(axes, x.shape, strict=True)), {number: share})

    def inner(arrays: Arrays) -> dict[str, Array]:
        p, logp, _ = softmax_of(arrays["x"], dim)
        classes = np.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - dim - 1))
        q = (np.expand_dims(arrays["t"], dim) == classes) * (1 - smoothing) + smoothing / x.shape[dim]
        return {
            "p": Array(p, axes, "inner", "softmax(x): the probabilities that the scores stand for"),
            "logp": Array(logp, axes, "inner", "the logarithm of p"),
            "q": Array(q, axes, "inner", "the wanted probabilities: 1 for the class of the target"),
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
        faults=CROSS_ENTROPY,
    )


OPERATORS = {"cross_entropy": Operator("cross_entropy", ("x", "t"), (), _SETTINGS, _example, _case)}
