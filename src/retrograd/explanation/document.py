"""An explanation as plain data, which the page is drawn from and the standalone file carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .curves import Curve, lines
from .sums import Products

if TYPE_CHECKING:
    from .explanation import Array, Explanation

__all__ = ["FORMAT", "as_dict", "numbers"]

FORMAT = 1


def as_dict(explanation: Explanation) -> dict[str, Any]:
    """``{"operator", "call", "settings", "arrays", "sums", "numerical", "agreement", ...}``"""
    case = explanation.case
    arrays = explanation.arrays
    gradients = [name for name, array in arrays.items() if array.role == "gradient"]
    found = {
        "format": FORMAT,
        "operator": case.name,
        "call": case.source,
        "exact": case.exact,
        "step": case.step,
        "settings": [
            {"name": s.name, "value": s.value, "choices": list(s.choices), "about": s.about}
            for s in explanation.settings
        ],
        "arrays": {name: _array(array) for name, array in arrays.items()},
        "sums": {
            name: {"formula": case.formulas.get(name, ""), "products": [_products(each) for each in found]}
            for name, found in explanation.sums.items()
        },
        "numerical": {name: numbers(explanation.numerical(name)) for name in gradients},
        "agreement": explanation.agreement,
    }
    if case.curve is not None:
        found["curves"] = _curves(case.curve, case.name)
    return found


def _array(array: Array) -> dict[str, Any]:
    return {
        "shape": list(array.values.shape),
        "axes": array.axes,
        "dtype": str(array.values.dtype),
        "role": array.role,
        "about": array.about,
        "padding": [list(pair) for pair in array.padding],
        "view": array.view,
        "copies": array.copies and {"array": array.copies[0], "index": array.copies[1].ravel().tolist()},
        "values": numbers(array.values),
    }


def _curves(curve: Curve, name: str) -> dict[str, Any]:
    found = lines(curve, name)
    return found | {"lines": [line | {"values": numbers(line["values"])} for line in found["lines"]]}


def _products(products: Products) -> dict[str, Any]:
    return {"factors": list(products.factors), "scale": products.scale, "index": products.index.ravel().tolist()}


def numbers(values: np.ndarray) -> list[Any]:
    """The entries as numbers that JSON has; "NaN", "Infinity" and "-Infinity" as these words."""
    flat = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [each if np.isfinite(each) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(each)]
                for each in flat]  # fmt: skip
    return flat
