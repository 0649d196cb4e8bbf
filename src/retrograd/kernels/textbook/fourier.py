"""Discrete Fourier transforms; complex numbers are pairs, real and imaginary part, in a last axis of extent 2."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["complex_fft", "fft_frequencies", "half_sum", "half_weights", "real_fft", "rfft_frequencies"]


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
    """For how many of n frequencies each of k = 0 .. n // 2 stands: 2 between the ends, (n // 2 + 1,)"""
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
