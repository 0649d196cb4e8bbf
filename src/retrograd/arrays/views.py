"""The same memory with other axes, and whether two arrays share memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray
Ints = tuple[int, ...]
_sliding: Any = np.lib.stride_tricks.sliding_window_view


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


def as_strided(x: Array, shape: Any, strides: Any) -> Array:
    """The memory of x with any shape and strides in bytes. The caller has checked that it stays in that memory."""
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def windows(x: Array, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Array:
    """All windows over ``axes``: x (..., I, ...) -> y (..., O, ..., *sizes); not to be written into.

    y[..., o, ..., r] = x[..., o*step + r*dilation, ...]. The caller has checked that there is a window.
    """
    if not isinstance(x, np.ndarray):  # NumPy hands windows over to other libraries, but no strides
        spans = tuple([dilation * (size - 1) + 1 for size, dilation in zip(sizes, dilations, strict=True)])
        index = [slice(None)] * x.ndim + [slice(None, None, dilation) for dilation in dilations]
        for a, step in zip(axes, steps, strict=True):
            index[a] = slice(None, None, step)
        found: Array = _sliding(x, spans, axes)[tuple(index)]
        return found
    shape, strides = list(x.shape), list(x.strides)
    for a, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        shape[a] = (x.shape[a] - dilation * (size - 1) - 1) // step + 1
        strides[a] = x.strides[a] * (step if shape[a] > 1 else 1)  # one window: any step
    shape += sizes
    spread = zip(axes, sizes, dilations, strict=True)
    strides += [x.strides[a] * (dilation if size > 1 else 1) for a, size, dilation in spread]
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


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
    """Elements in a vector of bytes, from byte ``start`` on, with strides in bytes. The caller has checked them.

    The strides are whole elements, and not negative.
    """
    if isinstance(memory, np.ndarray):
        return np.ndarray(shape, dtype, memory, start, strides)
    width = dtype.itemsize
    line = memory[start % width :][: (memory.size - start % width) // width * width].view(dtype)
    if 0 in shape:
        return line[:0].reshape(shape)
    spans = tuple([(n - 1) * step // width + 1 for n, step in zip(shape, strides, strict=True)])
    steps = [slice(None, None, max(step // width, 1)) for step in strides]
    found: Array = _sliding(line, spans, (0,) * len(spans), writeable=True)[(start // width, *steps, ...)]
    return found if found.shape == tuple(shape) else np.broadcast_to(found, shape)  # steps of 0
