"""Counter-based random numbers: each depends only on its index in the sequence.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011 (Philox-2x32 with ten rounds).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["dropout", "dropout_grad", "seeded_normal"]


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
