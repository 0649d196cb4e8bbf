"""The small arrays that a page begins with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..explanation import Setting

__all__ = ["VALUES", "distinct", "draw"]

VALUES = Setting("values", "integers", ("integers", "decimals"), "numbers to check in your head, or arbitrary ones")


def draw(shape: Sequence[int], values: str, seed: int, low: int = -2, high: int = 3) -> np.ndarray:
    """float32 numbers from low to high: the same for the same seed."""
    rng = np.random.default_rng(seed)
    if values == "integers":
        return rng.integers(low, high, shape, endpoint=True).astype(np.float32)
    return rng.uniform(low, high, shape).astype(np.float32)


def distinct(shape: Sequence[int], values: str, seed: int) -> np.ndarray:
    """float32 numbers of which no two are equal, so that each window has one largest."""
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) // 2
    return (numbers if values == "integers" else numbers / 7).astype(np.float32)
