"""One entry taken apart, as plain data: for layers whose arrays are too large to be sent whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .explanation import Explanation
from .numbers import number, numbers
from .sums import Products

__all__ = ["block", "outline", "rows_of", "taken"]

_MOST = 200  # products that are listed
_EDGE = 32  # entries along an edge of a block


def rows_of(explanation: Explanation, name: str, flat: int) -> Iterator[tuple[Products, np.ndarray, np.ndarray]]:
    """The products of an entry: for each part of its sum the rows and the values."""
    values = {each: array.values for each, array in explanation.arrays.items()}
    for products in explanation.sums[name]:
        rows = products.of(flat)
        yield products, rows, products.values(rows, values)


def taken(explanation: Explanation, name: str, flat: int) -> dict[str, Any]:
    """An entry, its 200 largest products in their order, and what the others add up to.

    Raises:
        ValueError: the array is no sum of products, or has no such entry.
    """
    if name not in explanation.sums:
        raise ValueError(f"explain: {name} is not one of the arrays that are sums: {', '.join(explanation.sums)}")
    array = explanation.arrays[name]
    if not 0 <= flat < array.values.size:
        raise ValueError(f"explain: {name} has {array.values.size} entries, and no entry {flat}")
    parts = [*rows_of(explanation, name, flat)]
    every = np.concatenate([values for *_, values in parts]) if parts else np.zeros(0)
    kept = np.zeros(len(every), bool)
    kept[np.argsort(-np.abs(every), kind="stable")[:_MOST]] = True
    listed, first = [], 0
    for products, rows, values in parts:
        for place in np.flatnonzero(kept[first : first + len(values)]):
            factors = [
                [factor, int(at), 0.0 if at < 0 else float(explanation.arrays[factor].values.ravel()[at])]
                for factor, at in zip(products.factors, rows[place], strict=True)
            ]
            listed.append({"factors": factors, "scale": products.scale, "value": float(values[place])})
        first += len(values)
    return {
        "array": name,
        "index": flat,
        "value": numbers(array.values.ravel()[flat : flat + 1])[0],
        "count": len(every),
        "sum": numbers(every.sum(keepdims=True))[0],
        "rest": numbers(every[~kept].sum(keepdims=True))[0],
        "products": listed,
    }


def outline(explanation: Explanation) -> dict[str, Any]:
    """The arrays of a layer without their entries, and the formulas of those that are sums."""
    return {
        "operator": explanation.case.name,
        "call": explanation.case.source,
        "exact": explanation.case.exact,
        "arrays": {
            name: {
                "shape": [*array.values.shape],
                "axes": array.axes,
                "dtype": str(array.values.dtype),
                "role": array.role,
                "about": array.about,
                "padding": [[*pair] for pair in array.padding],
                "largest": number(float(np.abs(array.values).max(initial=0))),
            }
            for name, array in explanation.arrays.items()
        },
        "sums": {name: explanation.case.formulas.get(name, "") for name in explanation.sums},
    }


def block(array: np.ndarray, at: tuple[int, ...], row: int, column: int) -> dict[str, Any]:
    """A part of at most 32x32 entries of the plane of the last two axes; at: the place on the axes before.

    Raises:
        ValueError: there is no such place.
    """
    lead = array.shape[:-2] if array.ndim > 1 else ()
    if len(at) != len(lead) or any(not 0 <= i < extent for i, extent in zip(at, lead, strict=True)):
        raise ValueError(f"explain: an array of shape {array.shape} has no plane at {at}")
    plane = array[at] if array.ndim > 1 else array.reshape(1, -1)
    part = plane[max(row, 0) : max(row, 0) + _EDGE, max(column, 0) : max(column, 0) + _EDGE]
    return {"row": max(row, 0), "column": max(column, 0), "shape": [*part.shape], "values": numbers(part)}
