"""Weights of finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["difference_weights", "differences"]


def differences(x: np.ndarray) -> np.ndarray:
    """x[i + 1] - x[i] of a vector, in float64"""
    return np.diff(x.astype(np.float64))


@ieee
def difference_weights(distances: np.ndarray, order: int, dtype: np.dtype[Any]) -> tuple[np.ndarray, ...]:
    """The weights of values whose sum is the derivative at a point, for N points with N - 1 distances.

    (N - 2,) three times: of the point after, the point before (to be subtracted), and the point itself. Then, for the
    first and the last point, the weight (1,) of the difference to its neighbor, or for ``order`` 2 the weights (3,) of
    the first three and of the last three points from the end; the third and the second of them are to be subtracted.
    """
    a, b = distances[:-1], distances[1:]  # before and after each inner point
    after, before, middle = a / (b * (a + b)), b / (a * (a + b)), (b - a) / (a * b)
    if order == 1:
        start, end = 1 / distances[:1], 1 / distances[-1:]
    else:
        c, d = distances[0], distances[1]
        start = np.array([-(2 * c + d) / (c * (c + d)), (c + d) / (c * d), c / (d * (c + d))], like=distances)
        c, d = distances[-1], distances[-2]
        end = np.array([(2 * c + d) / (c * (c + d)), 1 / c + 1 / d, c / (d * (c + d))], like=distances)
    return tuple([np.asarray(each, dtype, like=distances) for each in (after, before, middle, start, end)])
