"""The same memory with other axes, and whether two arrays share memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray


def broadcast_to(x: Array, shape: Any) -> Array:
    """x repeated, without a copy; not to be written into."""
    return np.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in the shape to which they broadcast together; not to be written into."""
    return tuple(np.broadcast_arrays(*arrays))


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    """x with axes in other places, the rest in their order."""
    return np.moveaxis(x, source, destination)


def diagonal(x: Array, offset: int = 0, first: int = -2, second: int = -1) -> Array:
    """A diagonal of two axes, which becomes the last axis; not to be written into."""
    return np.diagonal(x, offset, first, second)


def as_strided(x: Array, shape: Any, strides: Any, writeable: bool = True) -> Array:
    """The memory of x with any shape and strides in bytes. The caller has checked that it stays in that memory."""
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=writeable)


def shares_memory(a: Array, b: Array, most: int | None = None) -> bool:
    """Whether an element of a is an element of b; true if a search of ``most`` steps does not tell."""
    if most is None:
        return np.shares_memory(a, b)
    try:
        return np.shares_memory(a, b, max_work=most)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlap(a: Array, b: Array) -> bool:
    """Whether a and b may share an element: their bounds in memory meet."""
    return np.may_share_memory(a, b)


def flip(x: Array, axes: Any) -> Array:
    """x reversed along axes."""
    return np.flip(x, axes)


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """``broadcast_to`` without new axes, and faster; not to be written into."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    y: Array = np.ndarray(shape, x.dtype, x, 0, _steps(x.shape, x.strides))
    y.flags.writeable = False
    return y


@lru_cache(maxsize=4096)
def _steps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides that repeat an array along its axes of extent 1."""
    return tuple(0 if n == 1 else step for n, step in zip(shape, strides, strict=True))


def of_bytes(memory: Array, shape: Any, dtype: Any, start: int, strides: Any) -> Array:
    """Elements in a vector of bytes, from byte ``start`` on, with strides in bytes. The caller has checked them."""
    return np.ndarray(shape, dtype, memory, start, strides)
