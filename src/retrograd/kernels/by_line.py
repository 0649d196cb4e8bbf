"""The forward pass of convolutions with few input channels, after ``narrow.py``: the taps of a kernel row are channels.

What is left of the kernel lies in other lines, so that all positions of a line share their taps: one table of addresses
serves the line, and its positions are equally far apart in memory.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..geometry import Window
from .launch import kernel
from .by_line_plan import TASKS, by_line_plan
from .microkernel import tile
from .packing import pack_weights, zeros_of
from .plan import three_axes, three_strides
from .scratch import per_thread

_conv = kernel("by_line.conv")


@lru_cache(maxsize=4096)
def _plan(
    window: Window, batch: int, depth: int, columns: int, dtype: str, x: tuple[int, ...], y: tuple[int, ...]
) -> tuple[np.ndarray, int, np.ndarray | None, int]:
    """The plan, its tasks, the places of the taps where weights must be packed, and elements of zero that are read."""
    words = by_line_plan(three_axes(window), batch, depth, columns, dtype, three_strides(x), three_strides(y))
    taps = None if columns == tile(dtype, "line", columns).width else np.arange(window.taps) * (depth * columns)
    line = (window.output[-1] - 1) * window.stride[-1] * x[-1] // (4 if dtype == "f" else 8) + depth
    return words, int(words[TASKS]), taps, max(line, columns)


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window) -> np.ndarray:
    """Fill ``y``, channels-last. x and w are those of ``narrow.merge_row`` and ``narrow.merge_weights``."""
    columns, depth, dtype = w.shape[0], w.shape[1], x.dtype.char
    words, tasks, taps, zeros = _plan(window, x.shape[0], depth, columns, dtype, x.strides, y.strides)
    if taps is not None:
        w = pack_weights(w, taps, depth, columns, columns, 1, 1, 0)
    nothing = zeros_of(zeros, dtype)
    words_per_thread = 2 * window.taps + 16
    scratch = per_thread(words_per_thread, "q")
    _conv[dtype](tasks, x, w, nothing if bias is None else bias, y, nothing, words, scratch, words_per_thread)
    return y
