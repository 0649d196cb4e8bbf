"""Copies of arrays, with the same memory order, that recordings work on; see ``nn/replay.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..specs.array_spec import ArrayInterface
from .allocation import fresh_from
from .protocol import address

Array = np.ndarray


def strided(x: Array, strides: tuple[int, ...]) -> Array:
    """Return an array with the shape and type of x, and these strides, which are not negative; no element is set."""
    last = sum((extent - 1) * step for extent, step in zip(x.shape, strides, strict=True)) if x.size else 0
    return np.lib.stride_tricks.as_strided(np.empty(last // x.itemsize + 1, x.dtype), x.shape, strides)


def same_layout(x: Array) -> Array:
    """Return a copy with the strides of x, also where elements share memory."""
    y = strided(x, x.strides)
    np.copyto(y, x)
    return y


def other_numbers(x: Array) -> Array:
    """Return an array like ``same_layout(x)`` with the elements in another order, and floats closer to the middle."""
    y = strided(x, x.strides)
    flat = _line(y)
    if flat is not None:  # dense: without copies
        turned = x.ravel("K")[::-1]
        if x.dtype.kind == "f":
            np.multiply(turned, x.dtype.type(0.75), out=flat)
            flat += x.dtype.type(0.125)
        else:
            flat[...] = turned
        return y
    turned = np.ascontiguousarray(x).reshape(-1)[::-1].reshape(x.shape)
    np.copyto(y, turned * 0.75 + 0.125 if x.dtype.kind == "f" else turned, casting="same_kind")
    return y


_draw = np.random.default_rng(7)
_SMALL, _BEGIN, _END = 1 << 14, 1 << 12, 1 << 10  # elements of an array, and at the ends of one that is not small
NUMBERS, OTHERS = _draw.standard_normal((2, _SMALL)) * _draw.choice([0.1, 1.0, 10.0], (2, _SMALL))


def made_up(count: int, dtype: np.dtype[Any], numbers: Array) -> Array:
    """Return so many bytes as elements, which are the numbers; those in the middle of a large array are not set.

    So most of the memory of a large array need not exist.
    """
    with fresh_from(_SMALL * dtype.itemsize):
        y = np.empty(-(-count // dtype.itemsize), dtype)
    for part in ends(y):
        part[...] = numbers[-part.size :]
    return y


def ends(x: Array) -> list[Array]:
    """Return views of the first and last elements of a large dense array, in the order of memory; else the array."""
    line = None if x.size <= _SMALL else _line(x)
    return [x] if line is None else [line[:_BEGIN], line[-_END:]]


def _line(x: Array) -> Array | None:
    """Return a view of all elements in the order of memory; None if x is not dense."""
    flat = x.ravel("K")
    return flat if flat.base is not None and np.may_share_memory(flat, x) else None


def duplicate(x: Array) -> Array:
    """Return a dense copy in the order of x."""
    return x.copy("K")


def put(y: Array, x: Array) -> None:
    """y[...] = x, without a step of a recording."""
    np.copyto(y, x)


def same_bits(x: Array, y: Array) -> bool:
    """Return whether two arrays of one type have the same elements."""
    return x.shape == y.shape and x.tobytes() == y.tobytes()


def about_equal(x: Array, y: Array) -> bool:
    """Return whether the elements differ by rounding only, or by a thousandth of the largest one."""
    largest = np.abs(y[np.isfinite(y)]).max(initial=0)
    return bool(np.allclose(x, y, 1e-3, 1e-3 * largest, equal_nan=True))


def scaled(x: Array, factors: Array, axis: int) -> Array:
    """Return x times a factor for each place along an axis, in the memory order of x."""
    sides = [1] * x.ndim
    sides[axis] = -1
    with np.errstate(all="ignore"):
        return np.multiply(x, factors.reshape(sides), out=np.empty_like(x))


def same_view(x: Array, array: Array, other: Array) -> Array:
    """Return the view of ``other`` that x is of ``array``, which has the same layout."""
    if (x.shape, x.strides, x.dtype) == (array.shape, array.strides, array.dtype) and address(x) == address(array):
        return other
    place = address(other) + address(x) - address(array)
    interface = {"data": (place, False), "shape": x.shape, "strides": x.strides, "typestr": x.dtype.str, "version": 3}
    return np.asarray(ArrayInterface(interface, other))
