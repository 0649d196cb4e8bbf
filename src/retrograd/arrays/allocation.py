"""Array creation: empty, constant or patterned arrays, arrays from host values, and the memory of freed ones.

Most functions take ``like``, an array on whose device the new one is made; without it, the host is used.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .protocol import is_array

Array = np.ndarray
Shape = int | tuple[int, ...]
_range: Any = np.arange


def _like_keyword(like: Array | None) -> dict[str, Any]:
    """Return the keyword argument with which NumPy dispatches the call to another array library."""
    return {} if like is None or type(like) is np.ndarray else {"like": like}


def empty(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """Return an array with uninitialized elements."""
    if like is None or type(like) is np.ndarray:
        return np.empty(shape, dtype)
    return np.empty(shape, dtype, like=like)


def zeros(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """Return an array of zeros."""
    if like is None or type(like) is np.ndarray:
        return np.zeros(shape, dtype)
    return np.zeros(shape, dtype, like=like)


def ones(shape: Shape, dtype: Any, *, like: Array | None = None) -> Array:
    """Return an array of ones."""
    if like is None or type(like) is np.ndarray:
        return np.ones(shape, dtype)
    return np.ones(shape, dtype, like=like)


def full(shape: Shape, value: Any, dtype: Any = None, *, like: Array | None = None) -> Array:
    """Return an array filled with one number."""
    return np.full(shape, value, dtype, **_like_keyword(like))


def empty_like(x: Array, dtype: Any = None, shape: Any = None, order: Any = "K") -> Array:
    """Return an uninitialized array like x, or with another dtype, shape or order ("K": the memory order of x)."""
    return np.empty_like(x, dtype, order, shape=shape)


def zeros_like(x: Array, dtype: Any = None, shape: Any = None) -> Array:
    """Return zeros; otherwise like ``empty_like``."""
    return np.zeros_like(x, dtype, shape=shape)


def ones_like(x: Array, dtype: Any = None, shape: Any = None) -> Array:
    """Return ones; otherwise like ``empty_like``."""
    return np.ones_like(x, dtype, shape=shape)


def full_like(x: Array, value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Return an array filled with one number; otherwise like ``empty_like``."""
    return np.full_like(x, value, dtype, shape=shape)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, like: Array | None = None) -> Array:
    """Return start, start + step, ... below stop; with a single limit, start from 0."""
    if stop is None:
        start, stop = 0, start
    if like is None or type(like) is np.ndarray:
        return _range(start, stop, step, dtype)
    return _range(start, stop, step, dtype, like=like)


def linspace(start: Any, stop: Any, count: int, dtype: Any = None, *, like: Array | None = None) -> Array:
    """Return ``count`` evenly spaced numbers, including both ends."""
    return from_host(np.linspace(start, stop, count, dtype=dtype), like=like)


def eye(rows: int, columns: int | None = None, dtype: Any = np.float64, *, like: Array | None = None) -> Array:
    """Return the identity matrix."""
    return np.eye(rows, columns, dtype=dtype, **_like_keyword(like))


def from_host(values: Any, dtype: Any = None, *, like: Array | None = None) -> Array:
    """Convert numbers, nested lists or a NumPy array to an array; an array of the right dtype is returned as it is."""
    if like is None or type(like) is np.ndarray:
        return np.asarray(values, dtype)
    return np.asarray(values, dtype, like=like)


def copied_from_host(values: Any, dtype: Any = None) -> Array:
    """Like ``from_host``, but always a copy; a copy of another library's array is made on its device."""
    return np.array(values, dtype, **_like_keyword(values if is_array(values) else None))


def from_buffer(buffer: Any, dtype: Any, count: int = -1, offset: int = 0) -> Array:
    """Return the bytes of a bytes-like object from ``offset`` on as elements that share its memory."""
    return np.frombuffer(buffer, dtype, count, offset)


def from_dlpack(other: Any) -> Array:
    """Return an array that shares the memory of another library's array, by the DLPack protocol."""
    return np.from_dlpack(other)


# ---- Arrays whose elements never change ------------------------------------------------------------------------------

_constants: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()  # by id


def as_constant(x: Array) -> Array:
    """Return x, which the package keeps in a cache: its elements never change, so that recordings may refer to it."""
    owner = x
    while isinstance(owner, np.ndarray):
        _constants[id(owner)] = owner
        owner = owner.base  # type: ignore[assignment]
    return x


def is_constant(x: Array) -> bool:
    """Return whether x, or the array whose memory it covers, was given to ``as_constant``."""
    return _constants.get(id(x)) is x


# ---- Memory of freed arrays ------------------------------------------------------------------------------------------

_KEPT = 128 << 20  # bytes of the largest block that is kept when it is freed
_SETTINGS = "MALLOC_MMAP_", "MALLOC_TRIM_", "MALLOC_TOP_", "GLIBC_TUNABLES"


def _c_function(name: str) -> Any:
    """Return a function of the C library, which only glibc has; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt(3)
_is_own = not any(name.startswith(_SETTINGS) for name in os.environ)  # whether the environment leaves it to us
_set_option = _c_function("mallopt") if _is_own else None


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks for the next arrays, unless the environment sets its thresholds.

    By default it returns large blocks to the system, and then every page of the next step's arrays faults: a fifth of
    the time of a training step of MobileNetV2. It keeps blocks of up to ``_KEPT`` bytes from now on, and returns the
    end of its heap when more than twice as much is free there.
    """
    if _set_option is not None:
        if not _set_option(_MMAP_THRESHOLD, _KEPT):
            _set_option(_MMAP_THRESHOLD, 32 << 20)  # the most that earlier versions accept
        _set_option(_TRIM_THRESHOLD, 2 * _KEPT)


@contextmanager
def fresh_from(least: int) -> Iterator[None]:
    """Within the block, give arrays of at least so many bytes fresh memory, of which pages exist once they are touched.

    Otherwise, such arrays get freed memory if there is some.
    """
    if _set_option is not None:
        _set_option(_MMAP_THRESHOLD, least)
    try:
        yield
    finally:
        keep_freed_memory()


def return_freed_memory() -> None:
    """Return to the system what glibc keeps, before memory of another kind is needed."""
    if (trim := _c_function("malloc_trim")) is not None:
        trim(0)


keep_freed_memory()
