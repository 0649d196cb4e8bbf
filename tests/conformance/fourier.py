"""Fourier transforms: against their sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.table import Op, Refusal, normal
from retrograd import fft

X, Z = normal(3, 5, 4), normal(3, 5, 4, 2)


def resized(x: np.ndarray, axis: int, n: int | None) -> np.ndarray:
    n = x.shape[axis] if n is None else n
    cut = np.moveaxis(np.moveaxis(x, axis, 0)[:n], 0, axis)
    width = [(0, n - cut.shape[axis] if a == axis % x.ndim else 0) for a in range(x.ndim)]
    return np.pad(cut, width)


def summed(z: np.ndarray, axes: Any, sign: int) -> np.ndarray:
    """y[k] = sum over j of z[j] exp(sign 2 pi i j k / n), axis after axis."""
    for axis in axes:
        n = z.shape[axis]
        j = np.arange(n)
        z = np.moveaxis(np.moveaxis(z, axis, -1) @ np.exp(sign * 2j * np.pi * np.outer(j, j) / n), -1, axis)
    return z


def transform(sign: int, axes: Any, real: bool = False, power: float = 0) -> Any:
    """The oracle: extents, the sums, the factor; of real numbers the half."""

    def of(x: np.ndarray, s: Any = None, dim: Any = None, norm: Any = None) -> np.ndarray:
        z = x + 0j if real else x[..., 0] + 1j * x[..., 1]
        extents = s if isinstance(s, tuple) else (s,) * len(axes)
        for axis, n in zip(axes, extents, strict=True):
            z = resized(z, axis, n)
        count = np.prod([z.shape[axis] for axis in axes])
        y = summed(z, axes, sign) * float(count) ** (-0.5 if norm == "ortho" else power)
        if real:
            y = np.moveaxis(np.moveaxis(y, axes[-1], -1)[..., : y.shape[axes[-1]] // 2 + 1], -1, axes[-1])
        return np.stack((y.real, y.imag), -1)

    return of


def of_half(sign: int, axes: Any, power: float) -> Any:
    """The oracle of results that are real: the other half are the conjugates, the ends count as real."""

    def of(x: np.ndarray, s: Any = None, dim: Any = None, norm: Any = None) -> np.ndarray:
        z = x[..., 0] + 1j * x[..., 1]
        last = axes[-1]
        n = (s[-1] if isinstance(s, tuple) else s) or 2 * (z.shape[last] - 1)
        z = summed(z, axes[:-1], sign)
        z = np.moveaxis(resized(z, last, n // 2 + 1), last, -1)
        full = np.zeros((*z.shape[:-1], n), complex)
        full[..., 0] = z[..., 0].real
        for k in range(1, n // 2 + 1):
            full[..., k] += z[..., k] / (2 if 2 * k == n else 1)
            full[..., n - k] += z[..., k].conj() / (2 if 2 * k == n else 1)
        y = summed(np.moveaxis(full, -1, last), (last,), sign).real
        count = n * np.prod([y.shape[axis] for axis in axes[:-1]])
        return y * float(count) ** (-0.5 if norm == "ortho" else power)

    return of


def cropped(oracle: Any, extents: Any) -> Any:
    """The oracle, of the last axes cropped to the extents first."""

    def of(z: np.ndarray, s: Any) -> np.ndarray:
        return oracle(z[:, : extents[0], : extents[1]], s)

    return of


ALL = (0, 1, 2)
REFUSALS = [
    Refusal(ValueError, "must end in 2, the real and the imaginary part; retrograd.stack((re, im), -1) makes", X),
    Refusal(ValueError, "norm='both' must be None, 'forward', 'backward' or 'ortho'", Z, norm="both"),
]

OPERATORS = [
    Op("fft.fft", fft.fft, Z, oracle=transform(-1, (-1,)), batch=(0,), errors=[
        *REFUSALS, Refusal(ValueError, "fft: n=0 must be at least 1", Z, 0),
        Refusal(IndexError, "fft: dim=3 is out of range", Z, dim=3),
    ]),
    Op("fft.fft: cut", fft.fft, Z, 3, 1, "ortho", batch=(0,), oracle=transform(-1, (1,)), linear=True),
    Op("fft.ifft", fft.ifft, Z, 6, oracle=transform(1, (-1,), power=-1), linear=True),
    Op("fft.fft2", fft.fft2, Z, oracle=transform(-1, (1, 2)), linear=True),
    Op("fft.ifft2", fft.ifft2, Z, (3, 5), oracle=transform(1, (1, 2), power=-1), linear=True),
    Op("fft.fftn", fft.fftn, Z, batch=(), oracle=transform(-1, ALL), linear=True, errors=[
        Refusal(ValueError, "fftn: s=(2, 2) must name as many extents as there are axes, dim=(0,)", Z, (2, 2), (0,)),
    ]),
    Op("fft.ifftn", fft.ifftn, Z, batch=(), oracle=transform(1, ALL, power=-1), linear=True),
    Op("fft.rfft", fft.rfft, X, oracle=transform(-1, (-1,), True), linear=True, errors=[
        Refusal(ValueError, "rfft: input.shape=() has no axis to transform", normal()),
    ]),
    Op("fft.rfft: odd", fft.rfft, X, 7, 1, "ortho", oracle=transform(-1, (1,), True), linear=True),
    Op("fft.rfft2", fft.rfft2, X, oracle=transform(-1, (1, 2), True), linear=True),
    Op("fft.rfftn", fft.rfftn, X, batch=(), oracle=transform(-1, ALL, True), linear=True),
    Op("fft.ihfft", fft.ihfft, X, oracle=transform(1, (-1,), True, -1), linear=True),
    Op("fft.irfft", fft.irfft, Z, oracle=of_half(1, (-1,), -1), linear=True, errors=[
        *REFUSALS, Refusal(ValueError, "irfft: input.shape=(3, 5, 1, 2) gives a result without elements", Z[:, :, :1]),
    ]),
    Op("fft.irfft: odd", fft.irfft, Z, 9, 1, "ortho", oracle=of_half(1, (1,), -1), linear=True),
    Op("fft.irfft2", fft.irfft2, Z, oracle=of_half(1, (1, 2), -1), linear=True),
    Op("fft.irfftn", fft.irfftn, Z, batch=(), oracle=of_half(1, ALL, -1), linear=True),
    Op("fft.hfft", fft.hfft, Z, oracle=of_half(-1, (-1,), 0), linear=True),
    Op("fft.hfft2", fft.hfft2, Z, oracle=of_half(-1, (1, 2), 0), linear=True, errors=[
        REFUSALS[1], Refusal(ValueError, "hfft2: input.shape=(3, 5, 4) must end in 2, the real and", X),
    ]),
    Op("fft.hfft2: extents", fft.hfft2, Z, (4, 5), oracle=cropped(of_half(-1, (1, 2), 0), (4, None)), linear=True),
    Op("fft.hfftn", fft.hfftn, Z, batch=(), kwargs={"norm": "ortho"}, oracle=of_half(-1, ALL, 0), linear=True),
    Op("fft.ihfft2", fft.ihfft2, X, oracle=transform(1, (1, 2), True, -1), linear=True),
    Op("fft.ihfft2: extents", fft.ihfft2, X, (3, 7), (1, 2), "ortho", oracle=transform(1, (1, 2), True), linear=True),
    Op("fft.ihfftn", fft.ihfftn, X, batch=(), oracle=transform(1, ALL, True, -1), linear=True, errors=[
        Refusal(ValueError, "ihfftn: s=(2, 2) must name as many extents as there are axes, dim=(0,)", X, (2, 2), (0,)),
    ]),
    Op("fft.fftshift", fft.fftshift, X, (1, 2), linear=True,
       oracle=lambda x, d: x[:, [3, 4, 0, 1, 2]][:, :, [2, 3, 0, 1]]),
    Op("fft.ifftshift", fft.ifftshift, X, 1, linear=True, oracle=lambda x, d: x[:, [2, 3, 4, 0, 1]]),
]  # fmt: skip
