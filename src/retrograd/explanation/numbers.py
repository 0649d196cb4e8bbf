"""Arrays as lists of numbers that JSON has."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["numbers"]


def numbers(values: np.ndarray) -> list[Any]:
    """The entries as numbers that JSON has; "NaN", "Infinity" and "-Infinity" as these words."""
    flat = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [each if np.isfinite(each) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(each)]
                for each in flat]  # fmt: skip
    return flat
