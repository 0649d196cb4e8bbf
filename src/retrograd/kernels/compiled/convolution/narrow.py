"""Convolutions with few input channels, seen as ones that fill the micro-kernel's tile.

One product per tap has the depth of the input channels (forward) or their number of rows (weight gradient). Where that
is small, the taps of a kernel row replace it. For the input gradient see ``fold.py``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window

FIRST_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}  # (N, C, *S) seen as (N, *S, C)
WEIGHT = {3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}  # (*R, I, O) seen as (O, I, *R)
WEIGHT_LAST = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}  # (O, I, *R) seen as (*R, I, O)
_NARROW = 16  # most channels that are read together with the adjacent positions


def is_narrow(channels: int, window: Window) -> bool:
    return window.groups == 1 and channels <= _NARROW and window.kernel[-1] > 1 and window.dilation[-1] == 1


@lru_cache(maxsize=4096)
def merge_window(window: Window) -> Window:
    """The window in which a row of the kernel is one tap, whose channels are already contiguous.

    A single channel would be a product of depth 1. The kernels handle the padding along the last axis: they copy
    the parts that read past the ends of a line.
    """
    return Window(
        input=(*window.input[:-1], (window.output[-1] - 1) * window.stride[-1] + 1),
        kernel=(*window.kernel[:-1], 1),
        output=window.output,
        stride=window.stride,
        dilation=window.dilation,
        padding=(*window.padding[:-1], (0, 0)),
    )


def merge_weights(w: np.ndarray) -> np.ndarray:
    """``w`` (O, I, *R) as (O, R*I, *R', 1) for ``merge_window``."""
    last = np.ascontiguousarray(w.transpose(WEIGHT_LAST[w.ndim]), like=w)  # (*R', R, I, O): no copy in the usual order
    return last.reshape(*w.shape[2:-1], 1, w.shape[-1] * w.shape[1], w.shape[0]).transpose(WEIGHT[w.ndim])
