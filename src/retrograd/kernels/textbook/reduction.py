"""Reductions, scans, and finite differences along axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_extreme",
    "decisive",
    "difference_weights",
    "differences",
    "first_equal",
    "integer_amax",
    "integer_amin",
    "integer_cumprod",
    "integer_cumsum",
    "integer_prod",
    "integer_sum",
    "linear_scan",
    "logcumsumexp",
    "logsumexp",
    "logsumexp_grad",
    "max",
    "mean",
    "min",
    "moments",
    "moments_grad",
    "norm",
    "one_hot_argmax",
    "prod",
    "shift",
    "signed",
    "spread",
    "sum",
    "ties",
]


# ---- Reductions along axes ------------------------------------------------------------------------------------------


@ieee
def sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The sum over ``axes``, which get extent 1 if ``keepdims`` and are removed otherwise."""
    return np.sum(x, axis=axes, keepdims=keepdims)


@ieee
def mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The mean over ``axes``, NaN over no elements; see ``sum``."""
    count = math.prod(x.shape[axis] for axis in axes)
    return np.sum(x, axis=axes, keepdims=keepdims) * x.dtype.type(1 / count if count else np.nan)


@ieee
def prod(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The product over ``axes``; see ``sum``."""
    return np.prod(x, axis=axes, keepdims=keepdims)


def integer_sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> np.ndarray:
    """The sum of integers or booleans over ``axes`` in ``dtype``, where it wraps; for bool: whether any is not 0."""
    return np.asarray(x.sum(axis=axes, keepdims=keepdims, dtype=dtype), like=x)


def integer_prod(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> np.ndarray:
    """The product of integers or booleans over ``axes``, as ``integer_sum``; for bool: whether none is 0."""
    return np.asarray(x.prod(axis=axes, keepdims=keepdims, dtype=dtype), like=x)


def integer_amax(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The largest integer or boolean over ``axes``."""
    return np.asarray(np.max(x, axes, keepdims=keepdims), like=x)


def integer_amin(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The smallest integer or boolean over ``axes``."""
    return np.asarray(np.min(x, axes, keepdims=keepdims), like=x)


def count_nonzero(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> np.ndarray:
    """The number of elements over ``axes`` that are not 0, in ``dtype``; NaN counts."""
    counted = x if x.dtype.kind == "b" else x != 0
    return np.asarray(counted.sum(axis=axes, keepdims=keepdims), dtype, like=x)


def all(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """Whether no element over ``axes`` is 0; over no axes: of each element."""
    return np.asarray(np.all(x, axis=axes, keepdims=keepdims), like=x)


def any(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """Whether some element over ``axes`` is not 0; over no axes: of each element."""
    return np.asarray(np.any(x, axis=axes, keepdims=keepdims), like=x)


@ieee
def amax(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The largest number over ``axes``, NaN if there is one; ValueError if there are no elements; see ``sum``."""
    return np.array(np.max(x, axis=axes, keepdims=keepdims), like=x)


@ieee
def amin(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The smallest number over ``axes``, NaN if there is one; ValueError if there are no elements; see ``sum``."""
    return np.array(np.min(x, axis=axes, keepdims=keepdims), like=x)


@ieee
def norm(x: np.ndarray, order: int, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """sum |x| (order 1) or sqrt(sum x^2) (order 2) over ``axes``; see ``sum``."""
    if order == 1:
        return np.sum(np.abs(x), axis=axes, keepdims=keepdims)
    return np.sqrt(np.sum(x * x, axis=axes, keepdims=keepdims))


@ieee
def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The maximum along ``axis``, which is removed, and its index (int64).

    Ties go to the first; if there is a NaN, the first NaN is the maximum. ValueError if there are no elements.
    """
    return _at(x, np.argmax(x, axis, keepdims=True), axis)


@ieee
def min(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The minimum along ``axis`` and its index; as ``max``."""
    return _at(x, np.argmin(x, axis, keepdims=True), axis)


def argmax(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
    """The index (int64) of the first maximum along ``axis``, or in C order; the first NaN is the maximum."""
    return np.asarray(np.argmax(x, axis, keepdims=keepdims), np.int64, like=x)


def argmin(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
    """The index of the first minimum; as ``argmax``."""
    return np.asarray(np.argmin(x, axis, keepdims=keepdims), np.int64, like=x)


def one_hot_argmax(x: np.ndarray, axis: int) -> np.ndarray:
    """1 at the first maximum along ``axis``, 0 elsewhere"""
    y = np.zeros_like(x)
    np.put_along_axis(y, np.expand_dims(x.argmax(axis), axis), 1.0, axis)
    return y


def first_equal(
    line: np.ndarray, value: np.ndarray, first: np.ndarray, shape: tuple[int, ...], order: tuple[int, ...]
) -> np.ndarray:
    """The least index in C order (int64) of an element that equals ``value``, or is NaN as well.

    line: the elements of an array of this shape, its axes in the given order; the first one there is at ``first``.
    """
    rest, memory = line[int(first) :], [shape[axis] for axis in order]
    places = np.flatnonzero(rest == value if value == value else rest != rest) + int(first)
    places_along = np.unravel_index(places, memory)
    back = tuple([places_along[order.index(axis)] for axis in range(len(shape))])
    return np.asarray(np.ravel_multi_index(back, shape).min(), like=line)


def decisive(size: np.ndarray, axes: tuple[int, ...], smallest: bool) -> np.ndarray:
    """The largest, or the smallest positive, element over ``axes``, which are kept; 1 where that is 0 or not finite."""
    if smallest:
        found = np.where(size == 0, np.inf, size).min(axes, keepdims=True, initial=np.inf)
    else:
        found = size.max(axes, keepdims=True, initial=0)
    return np.where((found > 0) & np.isfinite(found), found, 1).astype(size.dtype)


@ieee
def moments(x: np.ndarray, axes: tuple[int, ...], factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The mean over ``axes`` and the sum of squares about it times ``factor``; the axes get extent 1."""
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
    mean = np.sum(x, axis=axes, keepdims=True) / x.dtype.type(count)
    return mean, np.sum(np.square(x - mean), axis=axes, keepdims=True) * x.dtype.type(factor)


@ieee
def moments_grad(g: np.ndarray, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """gx = g (x - mean): the gradient of half the sum of squares about the mean"""
    return g * (x - mean)


@ieee
def logsumexp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """log sum exp(x) over ``axes``, which get extent 1; -inf over no elements."""
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))  # elsewhere nothing can overflow
    return np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top


@ieee
def logsumexp_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g exp(x - y), with y = logsumexp(x)"""
    return g * np.exp(x - y)


@ieee
def signed(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the sign of x"""
    return g * np.sign(x)


@ieee
def spread(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """x, which has extent 1 along some axes, repeated there: a new array of this shape in C order"""
    return np.broadcast_to(x, shape).copy()


@ieee
def ties(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """g where x equals y, or both are NaN, else 0"""
    return np.where((x == y) | ((x != x) & (y != y)), g, g.dtype.type(0))


def _at(x: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.take_along_axis(x, indices, axis)
    return values.squeeze(axis), indices.squeeze(axis).astype(np.int64, copy=False)


# ---- Cumulative sums, products and extremes along an axis, and shifts -----------------------------------------------


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
    """``cumsum`` of integers or booleans, in int64"""
    return np.cumsum(x, axis, np.int64)


def integer_cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    """``cumprod`` of integers or booleans, in int64"""
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


# ---- Weights of finite differences ----------------------------------------------------------------------------------


def differences(x: np.ndarray) -> np.ndarray:
    """x[i + 1] - x[i] of a vector, in float64"""
    return np.diff(x.astype(np.float64))


@ieee
def difference_weights(distances: np.ndarray, order: int, dtype: np.dtype[Any]) -> tuple[np.ndarray, ...]:
    """Finite-difference weights: a weighted sum of values is the derivative at each of N points with N - 1 distances.

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
