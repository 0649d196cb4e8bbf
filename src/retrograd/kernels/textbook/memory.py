"""Copies, casts, concatenation, strided rearrangement, and arithmetic progressions."""

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
    "powers_of_number",
    "progression",
    "rearranged",
    "reshaped",
]


# ---- Copies: strided, of another shape or type, into a part of a larger array; arithmetic in place ------------------

_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide}


def copy(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x in place, x broadcast to y's shape; both of one type, with any strides and no shared memory."""
    np.copyto(y, x)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    """y[...] = x in place, x broadcast and converted to y's type; they may share memory."""
    with np.errstate(over="ignore"):  # a float64 that is too large for float32 becomes inf
        np.copyto(y, x, casting="unsafe")


def fill(y: np.ndarray, number: np.ndarray) -> None:
    """Set every element of y to ``number``, a 0-d array."""
    y.fill(number)


def duplicate(x: np.ndarray) -> np.ndarray:
    """A copy of x, with its order of axes in memory."""
    return x.copy(order="K")


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of x in another shape, the elements in C order."""
    return x.copy("C").reshape(shape)


def cast(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """x in another dtype, in its memory order; conversions to integers truncate and wrap."""
    if x.dtype.kind != "f":
        return x.astype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and dtype.itemsize < 4:  # numbers outside the range wrap, as in other libraries
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


# ---- Elements at positions given by strides -------------------------------------------------------------------------
# A layout (shape, stride, start) has element (i, j, ...) at the position start + i stride[0] + j stride[1] + ...

Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def rearranged(x: np.ndarray, source: Layout, target: Layout, added: bool, shared: Layout | None) -> np.ndarray:
    """The elements of x, written to the positions of ``source`` and read at those of ``target``; 0 where not written.

    added: several elements at one position are summed, else one of them remains. shared: a layout; each position is
    divided by the number of its elements there.
    """
    layouts = [layout for layout in (source, target, shared) if layout is not None]
    bounds = [_bounds(*layout) for layout in layouts]
    low = min(first for first, _ in bounds)
    line = np.zeros(max(last for _, last in bounds) - low + 1, x.dtype, like=x)
    places = _places(x, *source) - low
    if added:
        np.add.at(line, places, x)
    else:
        line[places] = x
    if shared is not None:
        counts = np.bincount((_places(x, *shared) - low).ravel(), minlength=line.size)
        if counts.max(initial=0) > 1:
            line /= np.maximum(counts, 1).astype(line.dtype)
    return np.asarray(line[_places(x, *target) - low], like=x)


def _places(x: np.ndarray, shape: tuple[int, ...], stride: tuple[int, ...], start: int) -> np.ndarray:
    """The positions of a layout, as an array on x's device."""
    found = np.full((), start, np.int64, like=x)
    for extent, step in zip(shape, stride, strict=True):
        found = np.asarray(np.add.outer(found, np.arange(extent, like=x) * step), like=x)
    return found


def _bounds(shape: tuple[int, ...], stride: tuple[int, ...], start: int) -> tuple[int, int]:
    """The lowest and the highest position; both are ``start`` if there are no elements."""
    if 0 in shape:
        return start, start
    ends = [(extent - 1) * step for extent, step in zip(shape, stride, strict=True)]
    return start + sum(end for end in ends if end < 0), start + sum(end for end in ends if end > 0)


# ---- Sequences of numbers: progressions and powers ------------------------------------------------------------------


def progression(start: float, step: float, count: int) -> np.ndarray:
    """start, start + step, start + 2 step, ...; int64 for integers, else float64"""
    return np.asarray(start + step * np.arange(count))


def powers_of_number(exponents: np.ndarray, base: float, dtype: np.dtype[Any]) -> np.ndarray:
    """base**exponent, computed in the type of the exponents; too large a number becomes inf"""
    with np.errstate(over="ignore"):
        return np.asarray(base**exponents, like=exponents).astype(dtype)
