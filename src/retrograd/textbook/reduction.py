"""Reductions along axes, and the kernels of their gradients. Axes are non-negative; a tuple of them is sorted."""

from __future__ import annotations

import math

import numpy as np

from .ieee import ieee

__all__ = [
    "amax",
    "amin",
    "logsumexp",
    "logsumexp_grad",
    "max",
    "mean",
    "min",
    "moments",
    "moments_grad",
    "norm",
    "prod",
    "signed",
    "spread",
    "sum",
    "ties",
]


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


@ieee
def amax(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The largest number over ``axes``, NaN if there is one, ValueError over nothing; see ``sum``."""
    return np.array(np.max(x, axis=axes, keepdims=keepdims), like=x)


@ieee
def amin(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The smallest number over ``axes``, NaN if there is one, ValueError over nothing; see ``sum``."""
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

    Ties go to the first; if there is a NaN, the first NaN is the maximum. ValueError over nothing.
    """
    return _at(x, np.argmax(x, axis, keepdims=True), axis)


@ieee
def min(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The minimum along ``axis`` and its index; as ``max``."""
    return _at(x, np.argmin(x, axis, keepdims=True), axis)


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
