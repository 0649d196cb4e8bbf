"""Sequences of numbers: progressions and powers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["powers_of_number", "progression"]


def progression(start: float, step: float, count: int) -> np.ndarray:
    """start, start + step, start + 2 step, ...; int64 for integers, else float64"""
    return np.asarray(start + step * np.arange(count))


def powers_of_number(exponents: np.ndarray, base: float, dtype: np.dtype[Any]) -> np.ndarray:
    """base**exponent, computed in the type of the exponents; too large a number becomes inf"""
    with np.errstate(over="ignore"):
        return np.asarray(base**exponents, like=exponents).astype(dtype)
