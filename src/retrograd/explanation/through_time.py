"""One unit of one sequence of a large recurrent layer at every step: what the picture of its steps shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explanation import Explanation
from .numbers import numbers
from .taking import rows_of

__all__ = ["through_time", "unit_of"]


def through_time(explanation: Explanation, sequence: int, unit: int, first: int) -> dict[str, Any]:
    """The entries of every step by array, and what comes over each way of the gradient.

    first: of the numbers of the input that are among them, four

    Raises:
        ValueError: the layer is not recurrent, or there is no such sequence, unit or input.
    """
    diagram = explanation.case.diagram
    if diagram is None:
        raise ValueError(f"explain: {explanation.case.name} has no steps in time")
    arrays = explanation.arrays
    steps, batch, units = arrays["y"].values.shape
    inputs = arrays["x"].values.shape[-1]
    for name, place, extent in (("sequence", sequence, batch), ("unit", unit, units), ("input", first, inputs)):
        if not 0 <= place < extent:
            raise ValueError(f"explain: there is no {name} {place}; there are {extent}")
    found: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        if array.axes == "tnh":
            found[name] = numbers(array.values[:, sequence, unit])
        elif array.axes == "tni":
            found[name] = numbers(array.values[:, sequence, first : first + 4])
        elif array.axes == "dnh":
            found[name] = numbers(array.values[:, sequence, unit])
    ways = [[_over(explanation, way, step, (sequence, unit)) for step in range(-1, steps)] for way in diagram["ways"]]
    return {"sequence": sequence, "unit": unit, "input": first, "values": found, "ways": ways}


def unit_of(explanation: Explanation, name: str, flat: int) -> tuple[int, int]:
    """The sequence and unit that the first product of an entry is of."""
    for products, rows, _ in rows_of(explanation, name, flat):
        for column, factor in enumerate(products.factors):
            array = explanation.arrays[factor]
            if array.axes == "tnh" and len(rows):
                _, sequence, unit = np.unravel_index(rows[0, column], array.values.shape)
                return int(sequence), int(unit)
    return 0, 0


def _over(explanation: Explanation, way: dict[str, Any], step: int, place: tuple[int, int]) -> float:
    """Return what one path adds to a state's gradient at a step; step -1 is the state before the first step."""
    name, index = (way["to"], (step, *place)) if step >= 0 else (f"{way['to']}0", (0, *place))
    if name not in explanation.sums:
        return 0.0
    flat = int(np.ravel_multi_index(index, explanation.arrays[name].values.shape))
    return sum(
        float(values.sum())
        for products, _, values in rows_of(explanation, name, flat)
        if set(way["sources"]) & set(products.factors)
    )
