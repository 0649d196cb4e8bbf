"""Matrices that NumPy's LAPACK refuses: singular ones, or those without a factorization.

A kernel then returns the index of the first of them, counted over the leading axes, and NaN in place of all results.
Where there is none, the index is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

none_refused: Callable[[], np.ndarray] = np.array(-1, np.int64).copy  # the index that says so, a new array


def first_refused(function: Callable[..., Any], matrices: np.ndarray, *others: Any) -> np.ndarray:
    """The index of the first matrix that ``function(matrix, *others)`` of NumPy refuses; it refuses them together."""
    for index, matrix in enumerate(matrices.reshape(prod(matrices.shape[:-2]), *matrices.shape[-2:])):
        if refused(function, matrix, *others):
            return np.array(index, np.int64, like=matrices)
    return np.array(0, np.int64, like=matrices)


def refused(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether NumPy refuses one matrix."""
    try:
        function(*arguments)
    except np.linalg.LinAlgError:
        return True
    return False
