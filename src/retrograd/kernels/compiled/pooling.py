"""Maximum and mean over windows in one to three dimensions, over channels-last memory.

Pooling in one or two dimensions is pooling in three with extents of 1. Kernels read the geometry from a record, made
once per shape.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ...specs.geometry import AdaptiveWindow, Window
from .convolution.axes import Axis, three_axes
from .machine.launch import kernel
from .machine.prepared import prepared
from .machine.record import record
from .machine.scratch import page_of, per_thread
from .memory.layout import CHUNK, Shape, channels_last, empty, memory_of

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_grad",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_grad",
    "max_pool",
    "max_pool_gather",
    "max_pool_grad",
    "max_pool_values",
    "max_unpool",
]

_MAX, _VALUES, _AVG, _MAX_GRAD, _AVG_GRAD = (
    kernel(f"pooling.{name}") for name in ("max_pool", "max_pool_values", "avg_pool", "max_pool_grad", "avg_pool_grad")
)
_MAX_GATHER, _UNPOOL = kernel("pooling.max_pool_gather"), kernel("pooling.max_unpool")
_INT64 = np.dtype(np.int64)

POOL = record(
    input=3,
    kernel=3,
    output=3,
    stride=3,
    dilation=3,
    low=3,  # of the axes D, H, W each
    step=4,  # in elements along N, D, H, W of x or gx
    channels=1,
    block=1,
    blocks=1,  # channels, those of a task, and the number of such blocks
    rows=1,
    rows_per_task=1,  # a row: all outputs at one (n, d, h)
    divisor=1,  # of every mean; 0: the number of taps inside of the input
    apart=1,  # 1: no two windows share an input
    whole=1,  # 1: every input is in a window
    compare=1,  # 1: scatter by comparing indices
)

_WORK = 2 * CHUNK  # elements that a task reads
_FEW_TAPS, _MANY_CHANNELS = 16, 16  # where comparing indices with the taps of their window pays
_FEWEST_CHANNELS = 64  # per block: a task should read and write long pieces of memory


class _Plan(NamedTuple):
    """The arguments of a launch over windows."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    memory: Shape  # extents of the result in the order of memory: N, *S, C


class _Places(NamedTuple):
    """The arguments of a launch over chosen positions."""

    tasks: int
    outputs: int  # positions of one image that the windows chose
    inputs: int  # positions of one image that they chose from
    channels: int
    block: int
    blocks: int


@prepared
def max_pool(x: np.ndarray, window: Window | AdaptiveWindow) -> tuple[np.ndarray, np.ndarray]:
    x = channels_last(x)
    words, tasks, scratch, memory = _plan(window, x.shape, False, True)
    y, indices = empty(memory, x.dtype, x), empty(memory, _INT64, x)
    if tasks:
        _MAX[x.dtype.char](tasks, x, y, indices, words, per_thread(scratch, "i8"), scratch)
    return y, indices


@prepared
def max_pool_values(x: np.ndarray, window: Window) -> np.ndarray:
    x = channels_last(x)
    words, tasks, scratch, memory = _plan(window, x.shape, False, True)
    y = empty(memory, x.dtype, x)
    if tasks:
        _VALUES[x.dtype.char](tasks, x, y, words, per_thread(scratch, "i8"), scratch)
    return y


@prepared
def max_pool_grad(g: np.ndarray, indices: np.ndarray, window: Window | AdaptiveWindow) -> np.ndarray:
    g, indices = channels_last(g), channels_last(indices)
    words, tasks, scratch, memory = _plan(window, g.shape, True, True)
    gx = empty(memory, g.dtype, g)
    if tasks:
        _MAX_GRAD[g.dtype.char](tasks, g, indices, gx, words, per_thread(scratch, "i8"), scratch)
    return gx


def max_pool_gather(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    x, indices = channels_last(x), channels_last(indices)
    tasks, *numbers = _places(indices.shape, x.shape[2:])
    y = empty(memory_of(indices.shape), x.dtype, x)
    if tasks:
        _MAX_GATHER[x.dtype.char](tasks, x, indices, y, *numbers)
    return y


def max_unpool(x: np.ndarray, indices: np.ndarray, size: Shape) -> np.ndarray:
    x, indices = channels_last(x), channels_last(indices)
    tasks, *numbers = _places(x.shape, size)
    y = empty((x.shape[0], *size, x.shape[1]), x.dtype, x)
    if tasks:
        _UNPOOL[x.dtype.char](tasks, x, indices, y, *numbers)
    return y


@prepared
def avg_pool(x: np.ndarray, window: Window | AdaptiveWindow, count_include_pad: bool) -> np.ndarray:
    x = channels_last(x)
    words, tasks, scratch, memory = _plan(window, x.shape, False, count_include_pad)
    y = empty(memory, x.dtype, x)
    if tasks:
        _AVG[x.dtype.char](tasks, x, y, words, per_thread(scratch, "i8"), scratch)
    return y


@prepared
def avg_pool_grad(g: np.ndarray, window: Window | AdaptiveWindow, count_include_pad: bool) -> np.ndarray:
    g = channels_last(g)
    words, tasks, scratch, memory = _plan(window, g.shape, True, count_include_pad)
    gx = empty(memory, g.dtype, g)
    if tasks:
        _AVG_GRAD[g.dtype.char](tasks, g, gx, words, per_thread(scratch, "i8"), scratch)
    return gx


@prepared
def adaptive_max_pool(x: np.ndarray, window: AdaptiveWindow) -> tuple[np.ndarray, np.ndarray]:
    return max_pool(x, window)


@prepared
def adaptive_avg_pool(x: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    return avg_pool(x, window, False)


@prepared
def adaptive_avg_pool_grad(g: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    return avg_pool_grad(g, window, False)


@lru_cache(maxsize=4096)
def _plan(window: Window | AdaptiveWindow, shape: Shape, gradient: bool, count_include_pad: bool) -> _Plan:
    """The plan of a pass from x to y, or (``gradient``) from g to gx; ``shape`` is that of the array read."""
    (batch, channels), axes = shape[:2], three_axes(window)
    memory = (batch, *(window.input if gradient else window.output), channels)
    if 0 in memory:
        return _Plan(np.empty(0, np.int64), 0, 0, memory)
    depth, height, width = (axis.input for axis in axes)
    row = window.output[-1] * window.taps  # elements read, or written, for one channel
    rows = prod(window.output[:-1])  # of an image
    if gradient:  # windows may overlap, so a task is at least an image and a block of channels
        block, blocks = _blocks(channels, batch, rows * row * channels)
        per_task = rows
    else:
        block, blocks = _blocks(channels, batch * rows, row * channels)
        per_task = _WORK // (row * block) or 1
    apart = all(map(_apart, axes))
    uneven = isinstance(window, AdaptiveWindow)
    inside = uneven or (not count_include_pad and any(map(any, window.padding)))
    words = POOL.pack(
        input=[axis.input for axis in axes],
        kernel=[axis.kernel for axis in axes],
        output=[axis.output for axis in axes],
        stride=[axis.stride for axis in axes],
        dilation=[axis.dilation for axis in axes],
        low=[axis.low for axis in axes],
        step=[depth * height * width * channels, height * width * channels, width * channels, channels],
        channels=channels,
        block=block,
        blocks=blocks,
        rows=batch * rows,
        rows_per_task=per_task,
        divisor=0 if inside else window.taps,
        apart=apart,
        whole=all(map(_whole, axes)),
        compare=apart and window.taps <= _FEW_TAPS and channels >= _MANY_CHANNELS,
    )
    tasks = blocks * -(-batch * rows // per_task)
    listed = prod(min(axis.kernel, -(-axis.input // axis.dilation)) for axis in axes)  # taps inside, at most
    return _Plan(words, tasks, page_of(2 * listed), memory)


def _apart(axis: Axis) -> bool:
    """Whether no two windows share a position."""
    return axis.output == 1 or axis.stride > (axis.kernel - 1) * axis.dilation


def _whole(axis: Axis) -> bool:
    """Whether every position is in a window."""
    gapless = axis.kernel == 1 or axis.dilation == 1
    gapless = gapless and (axis.output == 1 or axis.stride <= axis.kernel)
    return gapless and (axis.output - 1) * axis.stride + axis.kernel >= axis.input + axis.low


def _blocks(channels: int, others: int, work: int) -> tuple[int, int]:
    """Channels per block, and blocks: one if ``others`` suffice for all threads, else more."""
    target_blocks = 1 if others >= 8 else max(1, min(work // _WORK, channels // _FEWEST_CHANNELS))
    if target_blocks == 1:
        return channels, 1
    block = -(-channels // target_blocks // _FEWEST_CHANNELS) * _FEWEST_CHANNELS
    return block, -(-channels // block)


@lru_cache(maxsize=4096)
def _places(shape: Shape, input: Shape) -> _Places:
    """A launch over outputs of this shape: by image, and by blocks of channels if images are few."""
    (batch, channels), outputs, inputs = shape[:2], prod(shape[2:]), prod(input)
    if 0 in shape or inputs == 0:
        return _Places(0, outputs, inputs, channels, channels, 1)
    block, blocks = _blocks(channels, batch, (inputs + outputs) * channels)
    return _Places(batch * blocks, outputs, inputs, channels, block, blocks)
