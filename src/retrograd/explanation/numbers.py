"""Arrays as lists of numbers that JSON has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["number", "numbers"]


def numbers(values: np.ndarray) -> list[Any]:
    """The entries as numbers that JSON has; "NaN", "Infinity" and "-Infinity" as these words."""
    flat: list[Any] = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [number(each) for each in flat]
    return flat


def number(value: float) -> Any:
    """The value, or its word."""
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
