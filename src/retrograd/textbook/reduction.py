"""Sum and maximum along axes. Axes are non-negative; those of sum are sorted."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["max", "sum"]


@ieee
def sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The sum over ``axes``, which have extent 1 afterwards if ``keepdims`` and are removed if not."""
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims))


@ieee
def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The maximum along ``axis``, which is removed, and its index (int64).

    Of equal maxima the first one counts; if there is a NaN, the first NaN is the maximum.
    """
    indices = np.argmax(x, axis, keepdims=True)
    values = np.take_along_axis(x, indices, axis)
    return values.squeeze(axis), indices.squeeze(axis).astype(np.int64, copy=False)
