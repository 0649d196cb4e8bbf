"""Selection of the layers small enough for the page to get all of their entries and products."""

from __future__ import annotations

from typing import Any

from .document import as_dict, traces
from .explanation import Explanation

__all__ = ["is_small", "whole"]

_ENTRIES = 20_000  # of all arrays of a layer that is shown whole
_PRODUCTS = 40_000  # of all its sums
_TRACED = 4_000  # entries of a layer whose code is stepped through


def is_small(explanation: Explanation) -> bool:
    """Whether a layer's whole document is sent: all its entries, and all products."""
    if sum(array.values.size for array in explanation.arrays.values()) > _ENTRIES:
        return False
    products = 0
    for name, parts in explanation.sums.items():
        size = explanation.arrays[name].values.size
        if size:
            products += sum(len(each.of(size // 2)) for each in parts) * size
    return products <= _PRODUCTS


def whole(explanation: Explanation, with_code: bool = True) -> dict[str, Any]:
    """A small layer's document, as of an operator."""
    found = as_dict(explanation, whole=False)
    later = found.pop("later")
    if "traces" in later and sum(array.values.size for array in explanation.arrays.values()) <= _TRACED:
        found |= traces(explanation) if with_code else {"later": ["traces"]}
    return found
