"""Optimisers' updates: the formulas, run on the arrays themselves, which are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["norm_of_all", "update"]

Arrays = Sequence[np.ndarray]


@ieee
def update(formula: Callable[..., Any], *columns: Arrays, keep: dict[str, Any] | None = None, **numbers: float) -> None:
    """Run an optimiser's update over lists of arrays: parameters, gradients and, for each state, a list.

    The results overwrite parameters and states; an update of one list overwrites it. ``keep`` is unused here; the
    compiled set caches in it what it finds out about the arrays.
    """
    for arrays in zip(*columns, strict=True):
        results = formula(*arrays, **numbers)
        changed = arrays[:1] + arrays[2:]
        for array, result in zip(changed, results if isinstance(results, tuple) else (results,), strict=True):
            array[...] = result


@ieee
def norm_of_all(arrays: Arrays, *, largest: bool) -> float:
    """The Euclidean norm of all elements of all arrays, or the largest absolute value; NaN if one of them is NaN."""
    if largest:
        return float(np.max([np.abs(x).max(initial=0) for x in arrays], initial=0))
    return sqrt(sum(np.square(x).sum(dtype=np.float64) for x in arrays))
