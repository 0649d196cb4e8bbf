"""Embedding lookup: the gradient of each row is the sum over all uses of the row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Products
from .operator import VALUES, Operator, arguments, call_text, draw, leading

__all__ = ["OPERATORS"]

_SETTINGS = (
    Setting("steps", 5, (1, 2, 3, 5, 6), "rows that are looked up"),
    Setting("words", 4, (1, 2, 3, 4, 6), "rows of the table"),
    Setting("features", 3, (1, 2, 3, 4), "numbers in each row"),
    VALUES,
)


def _example(options: Mapping[str, Any]) -> Arrays:
    words = options["words"]
    index = np.random.default_rng(1).integers(0, words, options["steps"])
    return {"x": index, "w": draw((words, options["features"]), options["values"], 2)}


def _rows(index: np.ndarray, features: int, of_table: bool, entry: int | None) -> np.ndarray:
    """Return the pairs of an entry of the table and of the result, in the order (target, factor)."""
    used, places = index.ravel(), np.arange(index.size)
    columns = np.arange(features)
    if entry is not None:
        row, column = divmod(entry, features)
        places = np.flatnonzero(used == row) if of_table else np.array([row])
        columns = np.array([column])
    table = (used[places, None] * features + columns).ravel()
    result = (places[:, None] * features + columns).ravel()
    return np.stack((table, result) if of_table else (result, table), 1)


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    arguments("embedding", options, {}, _SETTINGS)
    x, w = inputs["x"], inputs["w"]
    if x.dtype.kind not in "iu":
        raise ValueError(f"explain: embedding takes integer indices; x has the dtype {x.dtype}")
    lead = leading(x.ndim)
    at = ", ".join(lead)
    return Case(
        name="embedding",
        call=F.embedding,
        inputs={
            "x": Array(x, lead, "input", "which rows are looked up"),
            "w": Array(w, "ke", "weight", "the table: one row for each word"),
        },
        output=(f"{lead}e", "the rows that were looked up"),
        sums=lambda arrays: {
            "y": [Products(("w",), partial(_rows, x, w.shape[1], False))],
            "gw": [Products(("gy",), partial(_rows, x, w.shape[1], True))],
        },
        formulas={
            "y": f"y[{at}, e] = w[x[{at}], e]",
            "gw": f"gw[k, e] = Σ gy[{at}, e]   over {at}, where x[{at}] = k",
        },
        source=call_text("F.embedding", inputs, {}),
        step=1.0,
    )


OPERATORS = {"embedding": Operator("embedding", ("x", "w"), (), _SETTINGS, _example, _case)}
