"""Windows of signals: (count,) elements, n = 0 .. count - 1, which span 0 .. last.

last = count - 1 makes a window symmetric, last = count periodic; where it is 0, the only element is 1. Each is computed
in float64. Source: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing".
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "cosine_window",
    "exponential_window",
    "gaussian_window",
    "kaiser_window",
    "sine_window",
    "triangular_window",
    "window_function",
]


def triangular_window(count: int, last: int, dtype: np.dtype[Any]) -> np.ndarray:
    """1 - |2 n / last - 1|"""
    n = _positions(count)
    return (1 - np.abs(2 * n / last - 1) if last else np.ones_like(n)).astype(dtype)


def sine_window(count: int, last: int, dtype: np.dtype[Any]) -> np.ndarray:
    """sin(pi (n + 1/2) / (last + 1))"""
    values: np.ndarray = np.sin(np.pi * (_positions(count) + 0.5) / (last + 1))
    return values.astype(dtype)


def cosine_window(count: int, last: int, weights: tuple[float, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The sum over k of (-1)**k weights[k] cos(2 pi k n / last)"""
    n = _positions(count)
    if not last:
        return np.ones_like(n, dtype)
    total = sum((-1) ** k * a * np.cos(2 * np.pi * k * n / last) for k, a in enumerate(weights))
    return np.asarray(total).astype(dtype)


def exponential_window(count: int, center: float, tau: float, dtype: np.dtype[Any]) -> np.ndarray:
    """exp(-|n - center| / tau)"""
    values: np.ndarray = np.exp(-np.abs(_positions(count) - center) / tau)
    return values.astype(dtype)


def gaussian_window(count: int, center: float, std: float, dtype: np.dtype[Any]) -> np.ndarray:
    """exp(-((n - center) / std)**2 / 2)"""
    values: np.ndarray = np.exp(-(((_positions(count) - center) / std) ** 2) / 2)
    return values.astype(dtype)


def kaiser_window(count: int, last: int, beta: float, dtype: np.dtype[Any]) -> np.ndarray:
    """i0(beta sqrt(1 - (2 n / last - 1)**2)) / i0(beta), with the modified Bessel function i0"""
    n = _positions(count)
    inside = np.clip(1 - (2 * n / last - 1) ** 2, 0, None) if last else np.ones_like(n)
    values: np.ndarray = np.i0(beta * np.sqrt(inside)) / np.i0(beta)
    return values.astype(dtype)


def window_function(name: str, count: int, numbers: tuple[float, ...]) -> np.ndarray:
    """A symmetric window of ``count`` elements (float64): bartlett, blackman, hann, kaiser with its width; or hamming:
    alpha - beta cos(2 pi n / (count - 1)) for the numbers alpha and beta."""
    if name == "hamming":
        alpha, beta = numbers
        angles = 2 * np.pi * np.arange(count) / (count - 1) if count > 1 else None
        return np.ones(count) if angles is None else np.asarray(alpha - beta * np.cos(angles), np.float64)
    made: Any = {"bartlett": np.bartlett, "blackman": np.blackman, "hann": np.hanning, "kaiser": np.kaiser}[name]
    return np.asarray(made(count, *numbers), np.float64)


def _positions(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float64)
