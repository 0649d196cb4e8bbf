"""Counter-based random numbers, dropout, sampling, and weight initialization.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011 (Philox-2x32 with ten rounds).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "bernoulli",
    "clear_entries",
    "count_positive",
    "dropout",
    "dropout_grad",
    "fill_dirac",
    "multinomial_distinct",
    "multinomial_repeated",
    "orthogonal_factor",
    "scaled_noise",
    "seeded_normal",
    "spectral_start",
    "truncated_normal",
    "with_signs",
]


# ---- Counter-based random numbers: each depends only on its index in the sequence -----------------------------------


def philox(number: np.ndarray, stream: int, key: int) -> np.ndarray:
    """The first of the two 32-bit words of Philox-2x32-10 for each counter (number, stream)."""
    word, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = number.astype(np.uint64)
    low, high = counter & word, (counter >> shift) ^ np.uint64(stream)
    for _ in range(10):
        product = low * np.uint64(0xD256D193)
        low, high = (product >> shift) ^ np.uint64(key) ^ high, product & word
        key = (key + 0x9E3779B9) & 0xFFFFFFFF
    return low


@ieee
def dropout(x: np.ndarray, p: float, key: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
    """x * mask, each element of the mask 0 with probability p and 1 / (1 - p) otherwise; and where it is not 0.

    The element with index i in C order is kept if the first word of Philox-2x32-10 with this ``key`` and the counter
    (i, ``stream``) is at least p 2^32; key and stream have 32 bits.
    """
    words = philox(np.arange(x.size, like=x).reshape(x.shape), stream, key)
    kept = words >= np.uint64(round(p * 2.0**32))
    return dropout_grad(x, kept, p), kept


@ieee
def dropout_grad(g: np.ndarray, kept: np.ndarray, p: float) -> np.ndarray:
    """g * mask; ``kept``: where the mask of ``dropout`` is not 0."""
    return g * np.where(kept, 1.0 / (1.0 - p) if p < 1.0 else 0.0, 0.0).astype(g.dtype)


def seeded_normal(seed: int, shape: tuple[int, ...], fan: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Normal numbers of the variance 1 / fan: always the same for a seed and a shape."""
    drawn = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return np.asarray(drawn / np.sqrt(fan)).astype(dtype)


# ---- Random choices from numbers that a generator has drawn ---------------------------------------------------------


@ieee
def scaled_noise(noise: np.ndarray, mean: np.ndarray, std: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """noise std + mean, broadcast, in this type."""
    return np.asarray(noise * std + mean, dtype, like=noise)


def bernoulli(uniform: np.ndarray, probability: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """1 where ``uniform``, from [0, 1), is below the probability, else 0; broadcast, in this type."""
    return np.asarray(uniform < probability, dtype, like=uniform)


def count_positive(x: np.ndarray) -> np.ndarray:
    """The number of elements above 0 in each row: (M, N) -> (M,) int64"""
    return (x > 0).sum(1, dtype=np.int64)


@ieee
def multinomial_repeated(weights: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The first index at which the running sum of weights exceeds ``drawn``, from [0, 1), times their sum.

    weights (M, N), drawn (M, K) -> (M, K) int64; an index has a probability proportional to its weight.
    """
    ends = np.cumsum(weights, 1)
    drawn = drawn * ends[:, -1:]
    places = np.array([np.searchsorted(e, d, side="right") for e, d in zip(ends, drawn, strict=True)], like=ends)
    # rounding must not go past the last weight above 0
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(1)
    places = np.minimum(places, last[:, np.newaxis])
    return places.reshape(drawn.shape).astype(np.int64)


@ieee
def multinomial_distinct(weights: np.ndarray, times: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` first indices in the order of times / weights, for exponential ``times``: no index occurs twice.

    weights, times (M, N) -> (M, count) int64; an index comes first with a probability proportional to its weight.
    """
    places = np.argsort(times / weights, 1, kind="stable")[:, :count]
    return places.reshape(len(weights), count).astype(np.int64)


# ---- Initialization of weights --------------------------------------------------------------------------------------


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
    """Draws from N(mean, std**2) between low and high; draws outside are repeated.

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
    """The Householder vectors a (*, M, N) of a QR factorization with signs on their diagonal: 1 or -1, the sign of R's
    diagonal, reversed where there is no reflection (its factor tau (*, N) is 0).
    """
    y = a.copy()
    line = np.einsum("...ii->...i", y[..., : tau.shape[-1], :])
    line[...] = np.where((line < 0) != (tau == 0), -1.0, 1.0)
    return y
