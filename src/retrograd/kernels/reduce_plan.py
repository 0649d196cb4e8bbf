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
from .plan import LARGE_WEIGHTS, TASK_WORK, TASK_WORK_DEPTHWISE, Axis, micro_kernels

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
MICRO = 38  # see ``micro_kernels``: for a task's first tile, for the others
TASKS = 46  # (part, first and last group, panel, tap, tile, row) each
COPY, LOW, LINE = 47, 48, 49  # elements of a line of x with its padding, where lines are copied; zeros in front; of x
HEADER = 50
TASK_WORDS = 11

_TASKS = 8
_PARTIALS = 448 << 10  # bytes of partial sums beside two
_WORK_OF_BYTE, _ANY = 24, 1 << 62  # multiply-adds that make up for reading a byte of x or g; no bound
_NEAR = 16 << 10  # bytes of a panel of g that stay in the first cache while all tiles read them
_SHORT = 16  # lines of fewer positions do not fill the pipeline of a wide tile


@dataclass(frozen=True, slots=True)
class Reduce:
    """A plan of the weight gradient."""

    words: np.ndarray
    tasks: int
    scratch: int
    parts: int
    zeros: int
    copies: int  # elements per thread


def _reduce_words(axes: list[Axis], x_group: int, g_group: int, x: Sequence[int], g: Sequence[int]) -> list[int]:
    """The words of a weight gradient plan before ``SIZE``."""
    words = [*x, *(axis.input for axis in axes), x_group, *g, *(axis.output for axis in axes), g_group]
    words += [*(axis.stride for axis in axes), *(axis.low for axis in axes)]
    return words + [*(axis.dilation for axis in axes), *(axis.kernel for axis in axes)]


def depthwise_reduce_plan(axes: list[Axis], batch: int, channels: int, x: Sequence[int], g: Sequence[int]) -> Reduce:
    """Plan of the weight gradient with one channel per group; a task is (first and last row); strides in elements."""
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    lines = batch * axes[0].output * axes[1].output
    parts = max(1, min(_TASKS, lines, lines * axes[2].output * taps * channels // TASK_WORK_DEPTHWISE))
    words = _reduce_words(axes, 0, 0, x, g)
    words += [0, 0, 0, 0, 1, channels, *[0] * (TASKS - TILES), HEADER, 0, 0, 0]
    tasks = [bound for part in range(parts) for bound in (part * lines // parts, (part + 1) * lines // parts)]
    return Reduce(np.array(words + tasks, np.int64), parts, 3 * taps, parts, 0, 0)


def _cuts(
    wanted: int, groups: int, panels: int, taps: int, tiles: int, x_bytes: int, g_bytes: int, most: int
) -> tuple[int, int, int, int]:
    """Into how many ranges the groups, panels, taps and tiles of the gradient are cut, ``wanted`` pieces altogether.

    Every range of panels reads all of x, every range of tiles all of g: fewer pieces where that is ``most`` bytes.
    """
    of_groups = min(groups, wanted)
    found = of_groups, 1, 1, 1
    for pieces in range(2, -(-wanted // of_groups) + 1):
        ways = []
        for of_panels in range(1, min(panels, pieces) + 1):
            of_tiles = min(tiles, -(-pieces // of_panels))
            of_taps = min(taps, -(-pieces // (of_panels * of_tiles)))
            missing = max(0, pieces - of_panels * of_tiles * of_taps)
            ways.append((missing, x_bytes * of_panels + g_bytes * of_tiles, (of_groups, of_panels, of_taps, of_tiles)))
        _, read, cuts = min(ways)
        if read < most:
            found = cuts
    return found


def reduce_plan(
    axes: list[Axis], batch: int, groups: int, rows: int, columns: int, dtype: str,
    x: Sequence[int], g: Sequence[int], low: int = 0, line: int | None = None,
) -> Reduce:  # fmt: skip
    """Plan of the weight gradient for ``rows`` input and ``columns`` output channels per group.

    ``low``, ``line``: the rows are elements of a line of x, of which there are so many; see narrow.py.
    """
    size, width = 4 if dtype == "f" else 8, axes[2].output
    shape = tile(dtype, "dense", columns, 2 if width < _SHORT else 4)
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel * axes[2].kernel
    elements = taps * rows * columns * groups
    work = lines * width * elements
    wanted = max(1, min(_TASKS, work // TASK_WORK))
    panel_line = shape.width * size * width
    chunk = max(1, min(lines, _NEAR // panel_line))
    near = shape.panels > 1 and chunk * panel_line <= 2 * _NEAR
    # a task's first tile reads its part of g first; where there is one panel, every tile reads x first
    tiles, micros = micro_kernels(dtype, "dense", rows, shape, True)
    micros = micros + (micro_kernels(dtype, "near", rows, shape, True)[1] if near else micros)
    parts, most = 1, min(wanted, -(-lines // chunk), 2 + _PARTIALS // (elements * size))
    while elements * size <= LARGE_WEIGHTS and 2 * parts <= most:
        parts *= 2
    # the rows of neighbouring positions overlap in memory where the taps of a kernel row are rows, see narrow.py
    x_bytes = lines * width * min(rows * groups * size, x[3]) * axes[2].stride
    g_bytes = lines * width * columns * groups * size
    extents = groups, shape.panels, taps, tiles
    cuts = _cuts(-(-wanted // parts), *extents, x_bytes, g_bytes, work // _WORK_OF_BYTE if parts > 1 else _ANY)
    tasks: list[int] = []
    for part, *piece in product(range(parts), *map(range, cuts)):
        tasks.append(part)
        for i, n, c in (*zip(piece, extents, cuts, strict=True), (part, lines, parts)):
            tasks += [i * n // c, (i + 1) * n // c]
    words = _reduce_words(axes, rows * size, columns * size, x, g)
    words += [size, shape.width, shape.panels, shape.tail, rows, columns, tiles, columns * groups * size]
    words += [elements * size, chunk, *micros, HEADER]
    copy = 0
    if line is not None:
        reach = (width - 1) * axes[2].stride * x[3] // size + rows
        copy = reach if low != 0 or reach > line else 0
    words += [copy, low, line or 0]
    table = np.array(words + tasks, np.int64)
    scratch = MOST_ROWS + 2 * chunk
    return Reduce(table, len(tasks) // TASK_WORDS, scratch, parts, max(shape.rows, shape.width), chunk * copy)
