"""The linear layer: every entry of y is the product of a row of x and a row of w."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ops.product.matmul import linear
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from .im2col import linear_matrices, sums_of_linear
from .operator import VALUES, Operator, arguments, call_text, draw, leading

__all__ = ["OPERATORS"]

_MOST_AS_MATRICES = 6_000  # products; a layer of a model with more would be too large to send whole, see document.py
_SETTINGS = (
    Setting("batch", 2, (1, 2, 3, 4), "samples"),
    Setting("inputs", 4, (1, 2, 3, 4, 6), "numbers that each sample has before"),
    Setting("outputs", 3, (1, 2, 3, 4, 6), "numbers that each sample has after"),
    VALUES,
)


def _example(options: Mapping[str, Any]) -> Arrays:
    values, inputs, outputs = options["values"], options["inputs"], options["outputs"]
    return {
        "x": draw((options["batch"], inputs), values, 1, 0, 4),
        "w": draw((outputs, inputs), values, 2, -1, 2),
        "b": draw((outputs,), values, 3),
    }


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    arguments("linear", options, {}, _SETTINGS)
    x, w = inputs["x"], inputs["w"]
    lead = leading(x.ndim - 1)
    axes = {"x": f"{lead}c", "w": "kc", "b": "k"}
    about = {"x": "the input", "w": "the weights: a row for each output", "b": "the bias: one number for each output"}
    equations = Equations(
        (
            "y = x * w + b",
            "gx = gy * w",
            "gw = gy * x",
            "gb = gy",
        ),
        {name: axes[name] for name in inputs}
        | {f"g{name}": axes[name] for name in inputs}
        | dict.fromkeys(("y", "gy"), f"{lead}k"),
        dict(zip(f"{lead}ck", (*x.shape, w.shape[0]), strict=True)),
    )
    as_matrices = 0 < x.size * len(w) <= _MOST_AS_MATRICES
    return Case(
        name="linear",
        call=linear,
        inputs={
            name: Array(array, axes[name], "input" if name == "x" else "weight", about[name])
            for name, array in inputs.items()
        },
        output=(f"{lead}k", "the result"),
        sums=lambda arrays: equations.sums | (sums_of_linear(arrays) if as_matrices else {}),
        inner=lambda arrays: linear_matrices(arrays) if as_matrices else {},
        formulas=equations.formulas,
        source=call_text("F.linear", inputs, {}),
        step=1.0,
        rules={"x": "g @ w", "w": "g.T @ x", "b": "sum(g, 0)"} if x.ndim == 2 else {},
    )


OPERATORS = {"linear": Operator("linear", ("x", "w"), ("b",), _SETTINGS, _example, _case)}
