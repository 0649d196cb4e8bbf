"""Copies: strided, of another shape or type, into a part of a larger array; arithmetic in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "accumulate",
    "arithmetic",
    "assign",
    "cast",
    "concatenate",
    "copy",
    "duplicate",
    "fill",
    "pad_slice",
    "reshaped",
]

_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide}


def copy(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x in place, x broadcast to y's shape; both of one type, with any strides and no shared memory."""
    np.copyto(y, x)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x in place, x broadcast and converted to y's type; they may share memory."""
    with np.errstate(over="ignore"):  # a float64 that is too large for float32 becomes inf
        np.copyto(y, x, casting="unsafe")


def fill(y: np.ndarray, number: np.ndarray) -> None:
    """Every element of y becomes ``number``, which has no axes, in place."""
    y.fill(number)


def duplicate(x: np.ndarray) -> np.ndarray:
    """A copy of x, with its order of axes in memory."""
    return x.copy(order="K")


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of x in another shape, the elements in C order."""
    return x.copy("C").reshape(shape)


def cast(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """x in another type, in its order of memory: numbers are truncated to integers, which wrap."""
    if x.dtype.kind != "f":
        return x.astype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and dtype.itemsize < 4:  # as other libraries do it, for numbers outside the type
            x = x.astype(np.int64)
        return x.astype(dtype)


def concatenate(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """The arrays one after the other along ``axis``."""
    return np.concatenate(arrays, axis)


def pad_slice(g: np.ndarray, shape: tuple[int, ...], index: Any) -> np.ndarray:
    """Zeros of this shape, with g at ``[index]``; in g's order of axes, if it has as many."""
    y = np.zeros_like(g, shape=shape)
    y[index] = g
    return y


@ieee
def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] += x in place, as ``copy``; y has no overlapping elements."""
    np.add(y, x, out=y)


def arithmetic(y: np.ndarray, x: np.ndarray | float, operation: str) -> None:
    """y = y + x ("add"), y - x ("sub"), y x ("mul") or y / x ("div") in place; x is a number, or broadcasts to y."""
    with np.errstate(all="ignore"):  # as the kernels
        _ARITHMETIC[operation](y, x, out=y)
