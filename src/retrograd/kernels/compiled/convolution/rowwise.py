"""Forward convolution row by row, for few input channels and 1x1 kernels.

All positions of a line share their taps if each tap reads another line, or if there is only one tap. Then one table of
addresses serves the whole line, whose positions are equally spaced in memory. There are two such cases: convolutions
with few input channels, for which ``axes.py`` makes the taps of a kernel row channels; and kernels of one tap, for
which an image is one long line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ....specs.geometry import Window, conv_window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_TASKS, PRODUCT, TASK_WORK, even_product, tile
from ..machine.record import record
from ..machine.scratch import cores, per_thread
from ..memory.layout import nested_strides, usual_strides
from ..memory.packing import pack_weights, packed_elements, zeros_of
from .axes import FIRST_LAST, LARGE_WEIGHTS, Axis, merge_window, three_axes, three_strides

# ---- The plan of a forward pass whose taps all lie in other lines ---------------------------------------------------

ROWWISE = record(
    size=1,  # bytes of an element
    x=4,
    extent=2,  # strides N, D, H, W of x in bytes; its extents D, H
    y=4,
    output=2,  # strides N, D, H, W of y in bytes; its extents D, H
    stride=2,
    padding=2,
    dilation=2,
    taps=2,  # along D, H
    step=1,  # bytes of x from one position of y to the next
    depth=1,  # channels of x
    product=PRODUCT.words,  # of a line of y
    pieces=1,
    piece=1,  # of a line; tiles in one
    units=1,
    tasks=1,  # the pieces of all lines; the tasks that share them
    low=1,
    line=1,  # elements before a line of x that its first position reads, and of the line
    segment=1,  # elements that a tile reads of a line, if one reads past the ends of a line, else 0
)

_PIECE = 16 << 10  # bytes of x that are read again for every panel of the weights


def rowwise_plan(
    axes: list[Axis],
    batch: int,
    depth: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    y: Sequence[int],
    low: int,
    line: int,
) -> np.ndarray:
    """The plan for a kernel that has one tap along the last axis; the padding there is in ``low``."""
    positions = axes[2].output
    shape = tile(dtype, "line", columns)
    product = even_product(dtype, "line", shape, positions)
    tiles = int(product[PRODUCT.tiles])
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel
    target_tasks = max(1, min(MOST_TASKS, lines * positions * taps * depth * columns // TASK_WORK))
    piece = -(-tiles // max(1, min(tiles, target_tasks // lines)))
    if shape.panels > 1:
        piece = min(piece, max(1, _PIECE // (shape.rows * axes[2].stride * x[3])))
    pieces = -(-tiles // piece)
    size = 4 if dtype == "f" else 8
    step = axes[2].stride * x[3] // size
    beyond = low > 0 or (positions - 1) * step - low + depth > line
    plane = axes[:2]
    return ROWWISE.pack(
        size=size,
        x=x,
        extent=[a.input for a in plane],
        y=y,
        output=[a.output for a in plane],
        stride=[a.stride for a in plane],
        padding=[a.low for a in plane],
        dilation=[a.dilation for a in plane],
        taps=[a.kernel for a in plane],
        step=axes[2].stride * x[3],
        depth=depth,
        product=product,
        pieces=pieces,
        piece=piece,
        units=lines * pieces,
        tasks=min(target_tasks, lines * pieces),
        low=low,
        line=line,
        segment=((positions - 1) // tiles * step + depth) if beyond else 0,
    )


# ---- Forward passes in which all positions of a line share their taps -----------------------------------------------

_conv = kernel("convolution.rowwise.conv")
_LEAST_WORK = 4 * TASK_WORK  # multiply-adds that pay for packing the weights


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    batch: int,
    w_shape: tuple[int, ...],
    w_strides: tuple[int, ...],
    dtype: str,
    x: tuple[int, ...],
    y: tuple[int, ...],
    low: int,
    line: int,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]:
    """The plan, the offsets of the taps, how the weights are packed (none: read in place), and a line of zeros."""
    columns, depth = w_shape[:2]
    size = 4 if dtype == "f" else 8
    words = rowwise_plan(
        three_axes(window), batch, depth, columns, dtype, three_strides(x), three_strides(y), low, line
    )
    column_step, depth_step, *steps = (stride // size for stride in w_strides)
    taps = [sum(r * s for r, s in zip(tap, steps, strict=True)) for tap in product(*map(range, window.kernel))]
    given = column_step == 1 and columns == depth_step == tile(dtype, "line", columns).width
    given = given and taps == [tap * depth * columns for tap in range(len(taps))]
    packing = () if given else (depth, columns, depth_step, column_step, 1, 0)
    zeros = max(columns, line, int(words[ROWWISE.segment]))
    return words, np.array(taps, np.int64), packing, zeros_of(zeros, dtype)


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray, window: Window, low: int = 0
) -> np.ndarray:
    """Fill ``y``, channels-last, from lines of x that are dense; w is in the form of ``axes.merge_weights``.

    ``low``: elements before a line of x that its first position reads, zeros as those after the line.
    """
    dtype, channels = x.dtype.char, x.shape[1]
    steps = (*x.strides[:-1], channels * x.itemsize)  # (NumPy's stride of an axis with one element may be any)
    line = channels * x.shape[-1]
    words, taps, packing, zeros = _plan(window, x.shape[0], w.shape, w.strides, dtype, steps, y.strides, low, line)
    if packing:
        w = pack_weights(w, taps, *packing)
    words_per_thread = 2 * len(taps) + 16
    scratch, segments = per_thread(words_per_thread, "i8"), per_thread(len(taps) * int(words[ROWWISE.segment]), dtype)
    init = zeros if bias is None else bias
    _conv[dtype](int(words[ROWWISE.tasks]), x, w, init, y, zeros, segments, words, scratch, words_per_thread)
    return y


def is_line(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> bool:
    """Whether a product with one tap is one long line, and large enough."""
    weights = inputs * outputs
    return (
        window.taps == window.groups == 1
        and set(window.stride) == {1}
        and all(sides == (0, 0) for sides in window.padding)
        and weights * (4 if dtype == "f" else 8) <= LARGE_WEIGHTS
        and batch * prod(window.input) * weights >= _LEAST_WORK
    )


@lru_cache(maxsize=4096)
def _line(positions: int) -> Window:
    return conv_window((positions,), 1)


def pointwise(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """Fill ``y`` with the product of every pixel of x and w (columns, channels of x, *1); both are channels-last."""
    positions = x.size // x.shape[1]
    source, target = (a.transpose(FIRST_LAST[a.ndim]).reshape(1, positions, -1).transpose(0, 2, 1) for a in (x, y))
    conv(source, w.reshape(*w.shape[:2], 1), bias, target, _line(positions))
    return y


def pointwise_bytes(inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory of ``pointwise``, at most: packed weights."""
    return packed_elements(1, inputs, outputs, 1, dtype) * (4 if dtype == "f" else 8)


def temporary(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory of a forward pass with few input channels: packed weights, and ends of lines."""
    size, seen, depth, last = 4 if dtype == "f" else 8, merge_window(window), window.kernel[-1] * inputs, window.ndim
    w_strides = nested_strides((*seen.kernel, depth, outputs), size, (last + 1, last, *range(last)))
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    low, line = window.padding[-1][0] * inputs, window.input[-1] * inputs
    words, taps, packing, _ = _plan(seen, batch, (outputs, depth, *seen.kernel), w_strides, dtype, x, y, low, line)
    packed = packed_elements(len(taps), depth, outputs, 1, dtype) if packing else 0
    return (packed + len(taps) * int(words[ROWWISE.segment]) * cores()) * size
