"""Random choices from numbers that a generator has drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ieee import ieee

__all__ = ["bernoulli", "count_positive", "multinomial_distinct", "multinomial_repeated", "scaled_noise"]


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
    """The first index at which the running sum of weights exceeds ``drawn`` times their sum, which lies in [0, 1).

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
