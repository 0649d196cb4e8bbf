"""Signal processing: discrete Fourier transforms and window functions."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "complex_fft",
    "cosine_window",
    "exponential_window",
    "fft_frequencies",
    "gaussian_window",
    "half_sum",
    "half_weights",
    "kaiser_window",
    "real_fft",
    "rfft_frequencies",
    "sine_window",
    "triangular_window",
    "window_function",
]


# ---- Discrete Fourier transforms ------------------------------------------------------------------------------------


def complex_fft(x: np.ndarray, axes: tuple[int, ...], inverse: bool, factor: float) -> np.ndarray:
    """factor times the sum over j of (pairs x[j]) exp(-2 pi i j k / n) along each of the axes, +2 if ``inverse``"""
    z = _complex(x)
    y = np.fft.ifftn(z, axes=axes, norm="forward") if inverse else np.fft.fftn(z, axes=axes)
    return _pairs(y, x.dtype, factor)


def real_fft(x: np.ndarray, axis: int, inverse: bool, factor: float) -> np.ndarray:
    """The half k = 0 .. n // 2 of the transform of real x along an axis, as pairs; see ``complex_fft``."""
    z = np.fft.rfft(x, axis=axis)
    return _pairs(z.conj() if inverse else z, x.dtype, factor)


def half_sum(g: np.ndarray, axis: int, n: int, inverse: bool, factor: float) -> np.ndarray:
    """factor times the real part of the sum over k = 0 .. n // 2 of (pairs g[k]) exp(2 pi i j k / n), j = 0 .. n - 1

    -2 if ``inverse``: it is the transpose of ``real_fft``.
    """
    z = np.moveaxis(_complex(g), axis, -1)
    full = np.zeros((*z.shape[:-1], n), z.dtype, like=g)
    full[..., : z.shape[-1]] = z
    y = (np.fft.fft(full) if inverse else np.fft.ifft(full, norm="forward")).real * factor
    return np.ascontiguousarray(np.moveaxis(y, -1, axis).astype(g.dtype), like=g)


def half_weights(n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """How many of the n frequencies each of k = 0 .. n // 2 represents, 2 between the ends: (n // 2 + 1,)"""
    weight = np.full(n // 2 + 1, 2.0, dtype)
    weight[0] = 1
    if n % 2 == 0:
        weight[-1] = 1
    return weight


def fft_frequencies(n: int, d: float, dtype: np.dtype[Any]) -> np.ndarray:
    """(n,): 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1 over (n d)"""
    return np.fft.fftfreq(n, d).astype(dtype)


def rfft_frequencies(n: int, d: float, dtype: np.dtype[Any]) -> np.ndarray:
    """(n // 2 + 1,): 0, 1, ..., n // 2 over (n d)"""
    return np.fft.rfftfreq(n, d).astype(dtype)


def _complex(pairs: np.ndarray) -> np.ndarray:
    kind = np.complex64 if pairs.dtype == np.float32 else np.complex128
    return np.ascontiguousarray(pairs, like=pairs).view(kind)[..., 0]


def _pairs(z: np.ndarray, dtype: Any, factor: float) -> np.ndarray:
    z = np.ascontiguousarray(z, np.complex64 if dtype == np.float32 else np.complex128, like=z)
    pairs = z[..., np.newaxis].view(dtype)
    return pairs * np.asarray(factor, dtype, like=z) if factor != 1 else pairs


# ---- Windows of signals: (count,) elements, n = 0 .. count - 1, which span 0 .. last --------------------------------
# last = count - 1 makes a window symmetric, last = count periodic; where it is 0, the only element is 1. Each is
# computed in float64. Source: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing".


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
