"""The plan of a forward pass whose taps all lie in other lines: one array of int64, whose words are named here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .microkernel import tile
from .plan import MOST_TASKS, TASK_WORK, Axis, micro_kernels

X, EXTENT = 0, 4  # strides N, D, H, W of x in bytes; its extents D, H
Y, OUTPUT = 6, 10  # strides N, D, H, W of y in bytes; its extents D, H
STRIDE, PADDING, DILATION, TAPS = 12, 14, 16, 18  # along D, H
STEP = 20  # bytes of x from one position of y to the next
COLUMNS, DEPTH, WIDTH, PANELS, TAIL = 21, 22, 23, 24, 25
LEAST, EXTRA, TILES = 26, 27, 28  # of a line of y
PIECES, PIECE = 29, 30  # of a line, and how many tiles there are in one
UNITS, TASKS = 31, 32  # the pieces of all lines, and how many tasks share them
SIZE = 33  # bytes of an element
LOW, LINE = 34, 35  # elements before a line of x that its first position reads, and of the line
SEGMENT = 36  # elements that a tile reads of a line, if one reads beyond the ends of a line, else 0
MICRO = 37  # see ``micro_kernels``

_PIECE = 16 << 10  # bytes of x that are read again for every panel of the weights


def by_line_plan(
    axes: list[Axis], batch: int, depth: int, columns: int, dtype: str, x: Sequence[int], y: Sequence[int], low: int,
    line: int,
) -> np.ndarray:  # fmt: skip
    """The plan for a kernel that has one tap along the last axis; the padding there is in ``low``."""
    positions = axes[2].output
    shape = tile(dtype, "line", columns)
    tiles, micros = micro_kernels(dtype, "line", positions, shape)
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel
    wanted = max(1, min(MOST_TASKS, lines * positions * taps * depth * columns // TASK_WORK))
    piece = -(-tiles // max(1, min(tiles, wanted // lines)))
    if shape.panels > 1:
        piece = min(piece, max(1, _PIECE // (shape.rows * axes[2].stride * x[3])))
    pieces = -(-tiles // piece)
    words = [*x, axes[0].input, axes[1].input, *y, axes[0].output, axes[1].output]
    for facts in zip(*((a.stride, a.low, a.dilation, a.kernel) for a in axes[:2]), strict=True):
        words += facts
    words += [axes[2].stride * x[3], columns, depth, shape.width, shape.panels, shape.tail]
    words += [positions // tiles, positions % tiles, tiles, pieces, piece, lines * pieces, min(wanted, lines * pieces)]
    size = 4 if dtype == "f" else 8
    step = axes[2].stride * x[3] // size
    beyond = low > 0 or (positions - 1) * step - low + depth > line
    words += [size, low, line, ((positions - 1) // tiles * step + depth) if beyond else 0]
    return np.array([*words, *micros], np.int64)
