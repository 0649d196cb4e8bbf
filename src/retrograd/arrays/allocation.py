"""New arrays: empty, of one value, of a pattern, or of values of the host.

Every function takes ``like``, an array next to which the new one is made; without it, it is made on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .protocol import is_array

Array = np.ndarray
Shape = int | tuple[int, ...]
_range: Any = np.arange


def _next_to(like: Array | None) -> dict[str, Any]:
    """The argument by which NumPy hands the call to an array of another library."""
    return {} if like is None or type(like) is np.ndarray else {"like": like}


def empty(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """An array whose elements are not set."""
    if like is None or type(like) is np.ndarray:
        return np.empty(shape, dtype)
    return np.empty(shape, dtype, like=like)


def zeros(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """An array of zeros."""
    if like is None or type(like) is np.ndarray:
        return np.zeros(shape, dtype)
    return np.zeros(shape, dtype, like=like)


def ones(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """An array of ones."""
    if like is None or type(like) is np.ndarray:
        return np.ones(shape, dtype)
    return np.ones(shape, dtype, like=like)


def full(shape: Shape, value: Any, dtype: Any = None, *, like: Array | None = None) -> Array:
    """An array of one number."""
    return np.full(shape, value, dtype, **_next_to(like))


def empty_like(x: Array, dtype: Any = None, shape: Any = None, order: Any = "K") -> Array:
    """An array with the type, shape and order of axes in memory of x, but for what is given; order "C": in C order."""
    return np.empty_like(x, dtype, order, shape=shape)


def zeros_like(x: Array, dtype: Any = None, shape: Any = None) -> Array:
    """Zeros, otherwise as ``empty_like``."""
    return np.zeros_like(x, dtype, shape=shape)


def ones_like(x: Array, dtype: Any = None, shape: Any = None) -> Array:
    """Ones, otherwise as ``empty_like``."""
    return np.ones_like(x, dtype, shape=shape)


def full_like(x: Array, value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """One number everywhere, otherwise as ``empty_like``."""
    return np.full_like(x, value, dtype, shape=shape)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, like: Array | None = None) -> Array:
    """start, start + step, ... below stop; from 0 if there is one limit."""
    if stop is None:
        start, stop = 0, start
    if like is None or type(like) is np.ndarray:
        return _range(start, stop, step, dtype)
    return _range(start, stop, step, dtype, like=like)


def linspace(start: Any, stop: Any, count: int, dtype: Any = None, *, like: Array | None = None) -> Array:
    """``count`` numbers at equal distances, both ends among them."""
    return from_host(np.linspace(start, stop, count, dtype=dtype), like=like)


def eye(rows: int, columns: int | None = None, dtype: Any = np.float64, *, like: Array | None = None) -> Array:
    """The unit matrix."""
    return np.eye(rows, columns, dtype=dtype, **_next_to(like))


def from_host(values: Any, dtype: Any = None, *, like: Array | None = None) -> Array:
    """Numbers, nested lists or an array of NumPy as an array; an array of the right type stays itself."""
    if like is None or type(like) is np.ndarray:
        return np.asarray(values, dtype)
    return np.asarray(values, dtype, like=like)


def copied_from_host(values: Any, dtype: Any = None) -> Array:
    """As ``from_host``, always in memory of its own; of an array of another library, next to it."""
    return np.array(values, dtype, **_next_to(values if is_array(values) else None))


def from_buffer(buffer: Any, dtype: Any, count: int = -1, offset: int = 0) -> Array:
    """The bytes of bytes, a bytearray or the like as elements, in the same memory; from byte ``offset`` on."""
    return np.frombuffer(buffer, dtype, count, offset)


def from_dlpack(other: Any) -> Array:
    """The array of another library in the same memory, by the DLPack protocol."""
    return np.from_dlpack(other)
