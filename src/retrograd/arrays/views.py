"""Views of arrays, and tests for shared memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray
Ints = tuple[int, ...]
_sliding: Any = np.lib.stride_tricks.sliding_window_view


def broadcast_to(x: Array, shape: Any) -> Array:
    """Return x broadcast to a shape, without a copy; do not write into it."""
    return np.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays broadcast to their common shape; do not write into them."""
    return tuple(np.broadcast_arrays(*arrays))


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    """Return x with some axes moved and the others in their order."""
    return np.moveaxis(x, source, destination)


def diagonal(x: Array, offset: int = 0, first: int = -2, second: int = -1) -> Array:
    """Return a diagonal of two axes, which becomes the last axis; do not write into it."""
    return np.diagonal(x, offset, first, second)


def as_strided(x: Array, shape: Any, strides: Any) -> Array:
    """View the memory of x with any shape and strides in bytes. The caller checks that the view stays within it."""
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def windows(x: Array, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Array:
    """View all windows over ``axes``: x (..., I, ...) -> y (..., O, ..., *sizes); do not write into the result.

    y[..., o, ..., r] = x[..., o*step + r*dilation, ...]. The caller checks that there is at least one window.
    """
    if not isinstance(x, np.ndarray):  # NumPy dispatches sliding windows to other libraries, but not strides
        spans = tuple([dilation * (size - 1) + 1 for size, dilation in zip(sizes, dilations, strict=True)])
        index = [slice(None)] * x.ndim + [slice(None, None, dilation) for dilation in dilations]
        for a, step in zip(axes, steps, strict=True):
            index[a] = slice(None, None, step)
        found: Array = _sliding(x, spans, axes)[tuple(index)]
        return found
    shape, strides = list(x.shape), list(x.strides)
    for a, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        shape[a] = (x.shape[a] - dilation * (size - 1) - 1) // step + 1
        strides[a] = x.strides[a] * (step if shape[a] > 1 else 1)  # any step fits one window
    shape += sizes
    spread = zip(axes, sizes, dilations, strict=True)
    strides += [x.strides[a] * (dilation if size > 1 else 1) for a, size, dilation in spread]
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def shares_memory(a: Array, b: Array, most: int | None = None) -> bool:
    """Return whether a and b share an element; True if ``most`` search steps do not decide it."""
    if most is None:
        return np.shares_memory(a, b)
    try:
        return np.shares_memory(a, b, max_work=most)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlap(a: Array, b: Array) -> bool:
    """Return whether a and b may share an element, that is, whether their bounds in memory overlap."""
    return np.may_share_memory(a, b)


def flip(x: Array, axes: Any) -> Array:
    """Return x reversed along axes."""
    return np.flip(x, axes)


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """Return x broadcast to a shape with as many axes, faster than ``broadcast_to``; do not write into the result."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    y: Array = np.ndarray(shape, x.dtype, x, 0, _steps(x.shape, x.strides))
    y.setflags(write=False)  # half the time of ``y.flags.writeable = False``
    return y


@lru_cache(maxsize=4096)
def _steps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides that repeat an array along its axes of extent 1."""
    return tuple(0 if n == 1 else step for n, step in zip(shape, strides, strict=True))


def of_bytes(memory: Array, shape: Any, dtype: Any, start: int, strides: Any) -> Array:
    """View part of a byte vector as an array from byte ``start`` on; strides in bytes. The caller checks the bounds.

    The strides must be multiples of the element size and not negative.
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
    return found if found.shape == tuple(shape) else np.broadcast_to(found, shape)  # strides of 0
