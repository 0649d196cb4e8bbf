"""First values of weights: truncated normal and orthogonal ones, filters that pass their input on, sparse matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "clear_entries",
    "fill_dirac",
    "orthogonal_factor",
    "spectral_start",
    "truncated_normal",
    "with_signs",
]


@ieee
def truncated_normal(
    draw: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    mean: float,
    std: float,
    low: float,
    high: float,
) -> np.ndarray:
    """Draws from N(mean, std**2) between low and high; those outside are repeated.

    Where the normal distribution rarely falls between them, uniform draws are accepted in proportion to the density.
    """
    values = np.empty(shape, dtype)
    least, most = values.dtype.type(low), values.dtype.type(high)
    z = [(end - mean) / (std * math.sqrt(2.0)) for end in (low, high)]
    by_uniform = math.erf(z[1]) - math.erf(z[0]) < 0.6
    peak = (min(max(mean, low), high) - mean) / std
    missing = np.ones(shape, bool)
    while count := int(missing.sum()):
        if by_uniform:
            found = draw.uniform(low, high, count)
            kept = np.log1p(-draw.random(count)) <= 0.5 * (peak**2 - ((found - mean) / std) ** 2)
        else:
            found = draw.normal(mean, std, count)
            kept = np.ones(count, bool)
        values[missing] = found
        kept &= (values[missing] >= least) & (values[missing] <= most)
        missing[missing] = ~kept
    return values


def fill_dirac(y: np.ndarray, groups: int) -> None:
    """y (Co, Ci/groups, *R): 1 at the central tap from each input channel of a group to its output channel, else 0."""
    outputs, inputs, *taps = y.shape
    y[...] = 0
    own = outputs // groups
    same = np.arange(min(own, inputs), like=y)
    central: Any = tuple(extent // 2 for extent in taps)
    for group in range(groups):
        y[(group * own + same, same, *central)] = 1


def clear_entries(y: np.ndarray, rows: np.ndarray) -> None:
    """y[rows[c, k], c] = 0 in place for each column c of a matrix"""
    y[rows, np.arange(len(rows), like=y)[:, np.newaxis]] = 0


def orthogonal_factor(x: np.ndarray, gain: float) -> np.ndarray:
    """gain times the Q of the QR factorization of x (*, M, N) whose R has a positive diagonal, (*, M, min(M, N))."""
    q, r = np.linalg.qr(x)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(x.dtype) * x.dtype.type(gain)
    return np.ascontiguousarray(q * signs[..., None, :], like=x)


@ieee
def spectral_start(original: np.ndarray, weight: np.ndarray, matrix: np.ndarray, u: np.ndarray) -> np.ndarray:
    """v of the spectral norm of W, the matrix (M, N), whose u (M,) is known: W v = c u in the least-squares sense, with
    c such that uT W v is |original| / |weight|.
    """
    v = np.linalg.lstsq(matrix, u, rcond=None)[0]
    v *= np.linalg.norm(original) / np.linalg.norm(weight) / (u @ matrix @ v)
    return np.asarray(v, like=original)


def with_signs(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The reflections a (*, M, N) of a QR factorization, and on their diagonal the signs of R's, turned where a
    reflection is missing: its factor tau (*, N) is 0.
    """
    y = a.copy()
    line = np.einsum("...ii->...i", y[..., : tau.shape[-1], :])
    line[...] = np.where((line < 0) != (tau == 0), -1.0, 1.0)
    return y
