"""Cumulative sums, products and extremes along an axis, and shifts."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_extreme",
    "integer_cumprod",
    "integer_cumsum",
    "linear_scan",
    "logcumsumexp",
    "shift",
]


@ieee
def cumsum(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[0] + ... + x[i] along ``axis``; from the end if ``reverse``"""
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)


@ieee
def cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    """y[i] = x[0] ... x[i] along ``axis``"""
    return np.cumprod(x, axis)


@ieee
def linear_scan(x: np.ndarray, factor: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """y[i] = x[i] + factor[i] y[i - 1] along ``axis``; from the end, with y[i + 1], if ``reverse``"""
    y = x.copy()
    along, factors = np.moveaxis(y, axis, 0), np.moveaxis(factor, axis, 0)
    if reverse:
        along, factors = along[::-1], factors[::-1]
    for i in range(1, len(along)):
        along[i] += factors[i] * along[i - 1]
    return y


def integer_cumsum(x: np.ndarray, axis: int) -> np.ndarray:
    """``cumsum`` of integers or truth values, in int64"""
    return np.cumsum(x, axis, np.int64)


def integer_cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    """``cumprod`` of integers or truth values, in int64"""
    return np.cumprod(x, axis, np.int64)


@ieee
def logcumsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    """y[i] = log(exp(x[0]) + ... + exp(x[i])) along ``axis``"""
    return np.asarray(np.logaddexp.accumulate(x, axis), like=x)


def cumulative_extreme(x: np.ndarray, axis: int, smallest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest (smallest) of x[0] ... x[i] along ``axis``, NaN if there is one, and its last index (int64)."""
    values = (np.minimum if smallest else np.maximum).accumulate(x, axis)
    places = np.arange(x.shape[axis], like=x).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    new = (x == values) | (x != x)
    return values, np.maximum.accumulate(np.where(new, places, 0), axis)


def shift(x: np.ndarray, axis: int, step: int, fill: float) -> np.ndarray:
    """x shifted by one position along ``axis``, to the end if ``step`` is 1, to the front if it is -1; then ``fill``"""
    y = np.full_like(x, fill)
    before, after = (slice(None),) * axis + (slice(None, -1),), (slice(None),) * axis + (slice(1, None),)
    target, source = (after, before) if step > 0 else (before, after)
    y[target] = x[source]
    return y
