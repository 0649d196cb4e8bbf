"""Sequences of numbers: progressions, powers, window functions."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["powers_of_number", "progression", "window_function"]


def progression(start: float, step: float, count: int) -> np.ndarray:
    """start, start + step, start + 2 step, ...; int64 for integers, else float64"""
    return np.asarray(start + step * np.arange(count))


def powers_of_number(exponents: np.ndarray, base: float, dtype: np.dtype[Any]) -> np.ndarray:
    """base**exponent, computed in the type of the exponents; too large a number becomes inf"""
    with np.errstate(over="ignore"):
        return np.asarray(base**exponents, like=exponents).astype(dtype)


def window_function(name: str, count: int, numbers: tuple[float, ...]) -> np.ndarray:
    """A symmetric window of ``count`` elements (float64): bartlett, blackman, hann, kaiser with its width; or hamming:
    alpha - beta cos(2 pi n / (count - 1)) for the numbers alpha and beta."""
    if name == "hamming":
        alpha, beta = numbers
        angles = 2 * np.pi * np.arange(count) / (count - 1) if count > 1 else None
        return np.ones(count) if angles is None else np.asarray(alpha - beta * np.cos(angles), np.float64)
    made: Any = {"bartlett": np.bartlett, "blackman": np.blackman, "hann": np.hanning, "kaiser": np.kaiser}[name]
    return np.asarray(made(count, *numbers), np.float64)
