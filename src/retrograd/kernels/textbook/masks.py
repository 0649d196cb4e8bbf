"""Elements that are not 0: their places, and values in place of those that a mask selects."""

from __future__ import annotations

import numpy as np

__all__ = ["argwhere", "masked_fill", "nonzero", "nonzero_static"]


def nonzero(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """For each axis, the indices (K,) of the elements that are not 0, in C order; a number counts as a vector."""
    return (x if x.ndim else x.reshape(1)).nonzero()


def argwhere(x: np.ndarray) -> np.ndarray:
    """The indices (K, axes of x) of the elements that are not 0, in C order."""
    return np.argwhere(x)


def nonzero_static(x: np.ndarray, size: int, fill_value: int) -> np.ndarray:
    """The first ``size`` rows of ``argwhere``, int64; rows of ``fill_value`` if there are fewer."""
    places = np.argwhere(x)[:size]
    found = np.full((size, x.ndim), fill_value, np.int64, like=x)
    found[: len(places)] = places
    return found


def masked_fill(x: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """v, without axes, where ``mask`` is True, else x, broadcast to the mask's shape; elements of any one type."""
    if x.shape != mask.shape:
        return np.where(mask, v, x)
    y = x.copy(order="K")
    np.copyto(y, v, where=mask)
    return y
