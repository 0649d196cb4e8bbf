"""Numbers chosen by a condition, and the parts of a lower limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["choose", "clamp_parts", "shortfall"]


def choose(mask: np.ndarray, yes: float, no: float, dtype: np.dtype[Any]) -> np.ndarray:
    """The number ``yes`` where the mask is not 0, else ``no``, in this type."""
    return np.asarray(np.where(mask, yes, no), dtype, like=mask)


@ieee
def clamp_parts(x: np.ndarray, low: float) -> tuple[np.ndarray, np.ndarray]:
    """kept and added with x kept + added = max(x, low): 0 and ``low`` where x is below, else 1 and 0; in x's type."""
    below = x < low
    return np.asarray(1 - below, x.dtype, like=x), np.asarray(low * below, x.dtype, like=x)


@ieee
def shortfall(x: np.ndarray, low: float) -> np.ndarray:
    """low - x where x is below ``low``, else 0: what is to be added for max(x, low)."""
    return np.asarray(np.where(x < low, low - x, 0), x.dtype, like=x)
