"""How the weight gradient is cut into tasks: integers only, made once per shape.

A plan is one array of int64. Its first words are named here; behind them stand the tasks. All strides are in bytes;
a convolution in one or two dimensions is one in three with extents of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .microkernel import MOST_ROWS, tile
from .plan import LARGE_WEIGHTS, MOST_TASKS, TASK_WORK, TASK_WORK_DEPTHWISE, Axis, micro_kernels

INPUT = 0  # strides of x: N, D, H, W
EXTENT = 4
INPUT_GROUP = 7
GRAD = 8  # strides of g: N, D, H, W
OUTPUT = 12
GRAD_GROUP = 15
STRIDE, PADDING, DILATION, KERNEL = 16, 19, 22, 25
SIZE = 28
WIDTH, PANELS, TAIL = 29, 30, 31  # columns of a panel, panels of a group, columns of the last vector
ROWS, COLUMNS = 32, 33  # input and output channels per group
TILES = 34
ROW_STEP = 35  # of the target, from one input channel to the next
PARTIAL = 36  # from one partial result to the next
CHUNK = 37  # rows of the output that are summed before the next tile
MICRO = 38  # see ``micro_kernels``
TASKS = 42  # (part, first and last group, panel, tap, row) each
HEADER = 43

_PARTS = 8
# Bytes of x and g that are read again for every tile of the weight gradient: for one tap, for several, on short lines.
_CHUNK_OF_TAP, _CHUNK, _CHUNK_OF_SHORT = 256 << 10, 480 << 10, 640 << 10
_SHORT = 16  # lines of fewer positions do not fill the pipeline of a wide tile


@dataclass(frozen=True, slots=True)
class Reduce:
    """A plan of the weight gradient."""

    words: np.ndarray
    tasks: int
    scratch: int
    parts: int
    zeros: int


def _reduce_words(axes: list[Axis], x_group: int, g_group: int, x: Sequence[int], g: Sequence[int]) -> list[int]:
    """The words of a weight gradient plan before ``SIZE``."""
    words = [*x, *(axis.input for axis in axes), x_group, *g, *(axis.output for axis in axes), g_group]
    words += [*(axis.stride for axis in axes), *(axis.low for axis in axes)]
    return words + [*(axis.dilation for axis in axes), *(axis.kernel for axis in axes)]


def depthwise_reduce_plan(axes: list[Axis], batch: int, channels: int, x: Sequence[int], g: Sequence[int]) -> Reduce:
    """Plan of the weight gradient with one channel per group; a task is (first and last row); strides in elements."""
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    lines = batch * axes[0].output * axes[1].output
    parts = max(1, min(_PARTS, lines, lines * axes[2].output * taps * channels // TASK_WORK_DEPTHWISE))
    words = _reduce_words(axes, 0, 0, x, g)
    words += [0, 0, 0, 0, 1, channels, *[0] * (TASKS - TILES), HEADER]
    tasks = [bound for part in range(parts) for bound in (part * lines // parts, (part + 1) * lines // parts)]
    return Reduce(np.array(words + tasks, np.int64), parts, 3 * taps, parts, 0)


def reduce_plan(
    axes: list[Axis], batch: int, groups: int, rows: int, columns: int, dtype: str,
    x: Sequence[int], g: Sequence[int],
) -> Reduce:  # fmt: skip
    """Plan of the weight gradient for ``rows`` input and ``columns`` output channels per group."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "dense", columns, 2 if axes[2].output < _SHORT else 4)
    panels = shape.panels
    tiles, micros = micro_kernels(dtype, "dense", rows, shape, True)
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    lines = batch * axes[0].output * axes[1].output
    elements = taps * rows * columns * groups
    # (the rows of neighbouring positions overlap in memory where the taps of a kernel row are rows, see narrow.py)
    line_bytes = axes[2].output * (min(rows * groups * size, x[3]) * axes[2].stride + columns * groups * size)
    budget = _CHUNK_OF_TAP if taps == 1 else _CHUNK_OF_SHORT if axes[2].output < _SHORT else _CHUNK
    chunk = max(1, min(lines, budget // max(1, line_bytes)))
    work = lines * axes[2].output * taps * rows * columns * groups
    wanted = max(1, min(MOST_TASKS, work // TASK_WORK))
    tasks: list[list[int]] = []
    if elements * size <= LARGE_WEIGHTS and wanted > 1:
        parts = max(1, min(_PARTS, wanted, -(-lines // chunk)))
        for part in range(parts):
            tasks.append([part, 0, groups, 0, panels, 0, taps, part * lines // parts, (part + 1) * lines // parts])
    else:  # large weights: no copies of them, each task sums all rows of its panels and taps
        parts = 1
        group_cuts = min(groups, wanted)
        panel_cuts = min(panels, -(-wanted // group_cuts))
        tap_cuts = min(taps, -(-wanted // (group_cuts * panel_cuts)))
        for q, p, t in product(range(group_cuts), range(panel_cuts), range(tap_cuts)):
            cuts = ((q, groups, group_cuts), (p, panels, panel_cuts), (t, taps, tap_cuts))
            tasks.append([0, *(bound for i, n, c in cuts for bound in (i * n // c, (i + 1) * n // c)), 0, lines])
    words = _reduce_words(axes, rows * size, columns * size, x, g)
    words += [size, shape.width, panels, shape.tail, rows, columns, tiles, columns * groups * size]
    words += [elements * size, chunk]
    words += [*micros, HEADER]
    table = np.array(words + [word for task in tasks for word in task], np.int64)
    return Reduce(table, len(tasks), MOST_ROWS + 2 * chunk, parts, max(shape.rows, shape.width))
