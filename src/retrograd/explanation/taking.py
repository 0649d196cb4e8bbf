"""One entry taken apart, as plain data: for layers whose arrays are too large to be sent whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .explanation import Explanation
from .numbers import number, numbers
from .sums import Products

__all__ = ["block", "first", "outline", "rows_of", "start_of", "taken", "window"]

_MOST = 200  # products that are listed
_WHOLE, _PART = 32, 16  # entries along an edge of a block: of an axis that is no longer than _WHOLE, else


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
    """The arrays of a layer without their entries, and of those that are sums the formula and the factors.

    window: the extent of the blocks in which an array is shown; first: the entry that the page begins with
    """
    name, at = first(explanation)
    return {
        "operator": explanation.case.name,
        "call": explanation.case.source,
        "exact": explanation.case.exact,
        "first": {"name": name, "at": at},
        "diagram": explanation.case.diagram,
        "arrays": {
            name: {
                "shape": [*array.values.shape],
                "window": window(array.values.shape),
                "axes": array.axes,
                "dtype": str(array.values.dtype),
                "role": array.role,
                "about": array.about,
                "padding": [[*pair] for pair in array.padding],
                "view": array.view,
                "largest": _largest(array.values),
            }
            for name, array in explanation.arrays.items()
        },
        "sums": {
            name: {
                "formula": explanation.case.formulas.get(name, ""),
                "factors": [[*each.factors] for each in products],
            }
            for name, products in explanation.sums.items()
        },
    }


def first(explanation: Explanation) -> tuple[str, int]:
    """The entry that the page begins with: the largest of the weight's gradient, or of another gradient."""
    gradients = [
        name for name, array in explanation.arrays.items() if name in explanation.sums and array.role == "gradient"
    ]
    weights = [name for name in gradients if explanation.arrays[name[1:]].role == "weight"]
    name = next(iter([*weights, *gradients, *explanation.sums, "y"]))
    values = explanation.arrays[name].values
    return name, int(np.nanargmax(np.abs(values))) if values.size and not np.isnan(values).all() else 0


def window(shape: tuple[int, ...]) -> list[int]:
    """The extent of a block of an array: of the last two axes at most 32, of those before as many as are readable."""
    extents = [extent if extent <= _WHOLE else _PART for extent in shape[-2:]]
    cells = int(np.prod(extents, dtype=int))
    panels = 16 if cells <= 16 else 4 if cells <= 36 else 1
    side = int(panels**0.5)
    lead = [1] * len(shape[:-2])
    for axis in reversed(range(len(lead))):
        lead[axis] = min(shape[axis], side, panels)
        panels //= max(lead[axis], 1)
    for axis in reversed(range(len(lead))):  # what is left, where another axis did not need its share
        more = max(min(shape[axis], lead[axis] * panels, 4), lead[axis])
        panels //= max(more // max(lead[axis], 1), 1)
        lead[axis] = more
    return [*lead, *extents]


def start_of(shape: tuple[int, ...], flat: int) -> tuple[int, ...]:
    """Return the start of the block in which an entry is shown."""
    place = np.unravel_index(flat, shape) if shape else ()
    return tuple(
        max(min(int(i) // size * size, extent - size), 0)
        for i, size, extent in zip(place, window(shape), shape, strict=True)
    )


def block(array: np.ndarray, start: tuple[int, ...]) -> dict[str, Any]:
    """A part of an array, as large as its window.

    Raises:
        ValueError: there is no such place.
    """
    inside = len(start) == array.ndim and all(0 <= i < max(n, 1) for i, n in zip(start, array.shape, strict=True))
    if not inside:
        raise ValueError(f"explain: an array of shape {array.shape} has no block that begins at {start}")
    part = array[tuple(slice(i, i + size) for i, size in zip(start, window(array.shape), strict=True))]
    return {"start": [*start], "shape": [*part.shape], "values": _short(part)}


def _short(values: np.ndarray) -> list[Any]:
    """The entries with no more digits than tell them from their neighbours: a float32 has fewer than a float64."""
    if values.dtype != np.float32:
        return numbers(values)
    return [number(float(str(each))) for each in values.ravel()]


def _largest(values: np.ndarray) -> float:
    """The magnitude of the largest finite entry."""
    if not values.size:
        return 0.0
    ends = abs(float(values.min())), abs(float(values.max()))
    if np.isfinite(ends).all():
        return max(ends)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))
