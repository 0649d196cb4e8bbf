"""Checks of arguments that many layers have."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_epsilon", "check_ints"]


def check_ints(name: str, least: int = 1, /, **values: Any) -> None:
    """Raise a ValueError unless every value is an int (NumPy's too) of at least ``least``; ``name`` is the layer's."""
    for argument, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name}: {argument}={value!r} must be an int of at least {least}")


def as_epsilon(name: str, eps: Any) -> float:
    """eps, which is added to a variance, as a float; a ValueError if it is negative or NaN."""
    if not eps >= 0:
        raise ValueError(f"{name}: eps={eps!r} must be a number of at least 0")
    return float(eps)
