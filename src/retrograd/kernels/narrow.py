"""Convolutions with few input channels, seen as others that fill the micro-kernel's tile.

One product per tap has the depth of the input channels (forward) or their number of rows (weight gradient). Where that
is small, the taps of a kernel row take its place. The input gradient has its own way, see ``fold.py``.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ..geometry import Window
from .moves import copy
from .scratch import aligned

FIRST_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}  # (N, C, *S) seen as (N, *S, C)
WEIGHT = {3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}  # (*R, I, O) seen as (O, I, *R)
WEIGHT_LAST = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}  # (O, I, *R) seen as (*R, I, O)
_NARROW = 16  # up to so many channels are read together with the positions beside them


def is_narrow(channels: int, window: Window) -> bool:
    return window.groups == 1 and channels <= _NARROW and window.kernel[-1] > 1 and window.dilation[-1] == 1


@lru_cache(maxsize=4096)
def _narrow_window(window: Window, channels: int) -> tuple[Window, int, int, int, int]:
    """The window when a row of the kernel counts as one tap, the width that it reads, where x begins in that, where to
    begin in x, and how much of x there is."""
    stride, low = window.stride[-1], window.padding[-1][0]
    positions = (window.output[-1] - 1) * stride + 1
    width = positions + window.kernel[-1] - 1
    merged = Window(
        input=(*window.input[:-1], positions),
        kernel=(*window.kernel[:-1], 1),
        output=window.output,
        stride=window.stride,
        dilation=window.dilation,
        padding=(*window.padding[:-1], (0, 0)),
    )
    skip, start = max(0, -low), max(0, low)  # a residue's convolution may begin inside x: its padding is negative
    return merged, width, start, skip, max(0, min(window.input[-1] - skip, width - start))


def merge_row(x: np.ndarray, window: Window) -> tuple[np.ndarray, Window]:
    """``x`` seen with the taps of a kernel row as channels, (N, R*C, ...): in memory they are neighbours already.

    One channel alone would be a product of depth 1. Only padding along the last axis needs a copy.
    """
    batch, channels, size = x.shape[0], x.shape[1], x.itemsize
    seen, width, start, skip, count = _narrow_window(window, channels)
    space = x.shape[2:-1]
    dense = x.transpose(FIRST_LAST[x.ndim])
    if start or skip or width > x.shape[-1] or not dense.flags.c_contiguous:
        wide = aligned(batch * prod(space) * width * channels, x.dtype.char).reshape(batch, *space, width, channels)
        wide[..., :start, :] = 0
        copy(wide[..., start : start + count, :], dense[..., skip : skip + count, :])
        wide[..., start + count :, :] = 0
        dense = wide
    steps = dense.strides
    view = np.ndarray(
        (batch, window.kernel[-1] * channels, *space, seen.input[-1]),
        x.dtype,
        buffer=dense,
        strides=(steps[0], size, *steps[1:-2], channels * size),
    )
    return view, seen


def merge_weights(w: np.ndarray) -> np.ndarray:
    """``w`` (O, I, *R) as (O, R*I, *R', 1) for ``merge_row``."""
    last = np.ascontiguousarray(w.transpose(WEIGHT_LAST[w.ndim]))  # (*R', R, I, O): no copy in the usual order
    return last.reshape(*w.shape[2:-1], 1, w.shape[-1] * w.shape[1], w.shape[0]).transpose(WEIGHT[w.ndim])


def merged(window: Window, batch: int, channels: int, dtype: str) -> tuple[Window, int, int]:
    """The window of ``merge_row``, its input channels, and the bytes of the copy of x."""
    seen, width, start, skip, _ = _narrow_window(window, channels)
    copied = start or skip or width > window.input[-1]
    elements = batch * prod(window.input[:-1]) * width * channels if copied else 0
    return seen, window.kernel[-1] * channels, elements * (4 if dtype == "f" else 8)
