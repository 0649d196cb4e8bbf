"""How a convolution with few output channels per group is cut into tasks: integers only, made once per shape.

A plan is one array of int64, whose words are named here. Steps are in elements. x is what is read through the taps;
"other" is y, gx or g, whose channels are few. A plane holds the part of x that a task reads, one channel after the
other, with its padding; the task writes (or reads) its part of the other tensor in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np

from .microkernel import MOST_ROWS, dot, dot_tile, tile
from .plan import Axis, micro_kernels

X, EXTENT = 0, 4  # strides N, D, H, W of x; its extents D, H, W
LOW = 7  # where in x the plane of the first output begins, along D, H
BEGIN, LEFT, COUNT, BEHIND = 9, 10, 11, 12  # of a line: its first element in x, zeros in front, elements, zeros behind
DEPTHS, LINES, PITCH, PLANE = 13, 14, 15, 16  # of a plane: extents D, H, W, and the step to the next one
OTHER, POSITIONS = 17, 21  # strides N, D, H, W of the other tensor; its extents D, H, W
OTHER_PLANE = 24  # step from one of its channels to the next
BLOCK, BLOCKS = 25, 26  # its lines in a task, tasks along H
RUN = 27  # its lines that stand side by side, there and in the planes
GROUPS, GROUP_BLOCK = 28, 29  # of the convolution, of a task
X_CHANNELS, OTHER_CHANNELS = 30, 31  # per group
TAPS = 32
WIDTH, TILES, MICRO = 33, 34, 35  # gather: columns of a panel, tiles of the channels, see ``micro_kernels``
COLUMNS = 39  # gather: of all panels, whose last one is narrower than the others
PARTS, ITEMS = 39, 40  # weight gradient: partial sums; (image, block of lines) pairs
ROW_TILES, COLUMN_TILES = 41, 42  # tiles of the channels and of the (tap, channel of x) pairs
DOTS = 43  # four kernels: fewest rows and columns, one column more, one row more, both
LIST = 47  # offset of every tap in a plane

_PLANES = 96 << 10  # bytes of planes that stay in the second cache
_PARTS = 8


@dataclass(frozen=True, slots=True)
class Planar:
    """A plan of the forward pass, the input gradient or the weight gradient."""

    words: np.ndarray
    tasks: int
    planes: int  # elements per thread
    table: int  # words per thread
    parts: int


def planar_plan(
    axes: list[Axis], gradient: bool, batch: int, groups: int, x_channels: int, channels: int, dtype: str,
    x: Sequence[int], other: Sequence[int], sums: bool,
) -> Planar:  # fmt: skip
    """The plan for strides of 1. ``gradient``: x is g, read by the input gradient. ``sums``: of the weight gradient."""
    size = 4 if dtype == "f" else 8
    low, spans, moves = [], [], []
    for axis in axes:
        towards = axis.low if gradient else -axis.low
        step = -axis.dilation if gradient else axis.dilation
        line = [towards + r * step for r in range(axis.kernel)]
        low.append(min(line))
        spans.append(max(line) - min(line))
        moves.append([move - min(line) for move in line])
    inputs = [axis.output if gradient else axis.input for axis in axes]
    positions = [axis.input if gradient else axis.output for axis in axes]
    lanes = tile(dtype, "near", 1).lanes
    depths, reach = positions[0] + spans[0], positions[2] + spans[2]
    begin, left = max(0, low[2]), max(0, -low[2])
    count = max(0, min(inputs[2] - begin, reach - left))
    # the zeros in front of a line are those behind the line before it
    pitch = max(positions[2], left + count, reach - left)
    group_block = min(groups, lanes // gcd(lanes, gcd(x_channels, channels)))
    line_bytes = group_block * depths * pitch * (x_channels + channels) * size
    block = max(1, min(positions[1], _PLANES // line_bytes - spans[1]))
    blocks = -(-positions[1] // block)
    block = -(-positions[1] // blocks)
    lines = block + spans[1]
    taps = [(a * lines + b) * pitch + c for a, b, c in product(*moves)]
    if sums:
        width, other_plane = 0, positions[0] * block * positions[2]
    else:
        shape = tile(dtype, "near", block * pitch, 4 if channels <= 6 else 3 if channels <= 8 else 2)
        width = shape.width
        other_plane = -(-block * pitch // width) * width
    plane = -(-(depths * lines * pitch + max(0, reach - pitch)) // lanes) * lanes
    if plane * size % 2048 == 0:  # channels must not fall into the same lines of the first cache
        plane += lanes
    words = [*x, *inputs, *low[:2], begin, left, count, reach - pitch, depths, lines, pitch, plane]
    words += [*other, *positions, other_plane, block, blocks]
    dense = other[2] == positions[2] * other[3] and (sums or pitch == positions[2])
    words += [block if dense else 1, groups, group_block, x_channels, channels, len(taps)]
    parts, items = 1, batch * blocks
    if sums:
        parts = max(1, min(_PARTS, items))
        words += [0] * (PARTS - WIDTH)
        words += [parts, items, *_dot_words(dtype, channels, len(taps) * x_channels)]
        table = len(taps) * x_channels * 2 + MOST_ROWS
    else:
        tiles, micros = micro_kernels(dtype, "near", channels, shape)
        micros[:2] = micro_kernels(dtype, "near", channels, tile(dtype, "near", width))[1][2:]  # a short block's, too
        words += [width, tiles, *micros, shape.panels * width - width + shape.last_vectors * lanes]
        words += [0] * (LIST - PARTS - 1)
        table = len(taps) * 2 + MOST_ROWS
    slack = width + (spans[0] * lines + spans[1]) * pitch + spans[2]
    return Planar(
        np.array([*words, *taps], np.int64),
        (parts if sums else items) * -(-groups // group_block),
        group_block * (x_channels * plane + channels * other_plane) + slack,
        table,
        parts,
    )


def _dot_words(dtype: str, rows: int, columns: int) -> list[int]:
    """The tiles of the sums, cut evenly, and the kernels for them."""
    counts, leasts, more = [], [], []
    for extent, most in zip((rows, columns), dot_tile(), strict=True):
        tiles = -(-extent // most)
        counts.append(tiles)
        leasts.append(extent // tiles)
        more.append(extent % tiles != 0)
    kernels = []
    for i, j in product((0, 1), (0, 1)):
        used = (i == 0 or more[0]) and (j == 0 or more[1])
        kernels.append(dot(dtype, leasts[0] + i, leasts[1] + j) if used else 0)
    return [*counts, *kernels]
