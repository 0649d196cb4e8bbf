"""Plans that divide a convolution with few output channels per group into tasks: integers, made once per shape.

Steps are in elements. x is the tensor read through the taps; "other" is y, gx or g, whose channels are few. A plane
holds the part of x that a task reads, channel by channel, with its padding; the task writes (or reads) its part of the
other tensor in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from ..machine.microkernel import MOST_ROWS, dot, dot_tile, tile
from ..machine.product import PRODUCT, even_product
from ..machine.record import record
from .plan import Axis

PLANAR = record(
    x=4,
    extent=3,  # strides N, D, H, W of x; its extents D, H, W
    low=2,  # where in x the plane of the first output begins, along D, H
    begin=1,
    left=1,
    count=1,
    right=1,  # of a line: its first element in x, zeros in front, elements, zeros after them
    depths=1,
    lines=1,
    pitch=1,
    plane=1,  # of a plane: extents D, H, W, and the step to the next one
    other=4,
    positions=3,  # strides N, D, H, W of the other tensor; its extents D, H, W
    other_plane=1,  # step from one of its channels to the next
    block=1,
    blocks=1,  # its lines in a task, tasks along H
    run=1,  # its contiguous lines, there and in the planes
    groups=1,
    group_block=1,  # of the convolution, of a task
    x_channels=1,
    other_channels=1,  # per group
    taps=1,
)
GATHER = record(
    planar=PLANAR.words,
    width=1,  # columns of a panel
    product=PRODUCT.words,
    offsets=0,  # of every tap in a plane
)
SUMS = record(  # of the weight gradient
    planar=PLANAR.words,
    parts=1,
    items=1,  # partial sums; (image, block of lines) pairs
    row_tiles=1,
    column_tiles=1,  # tiles of the channels and of the (tap, channel of x) pairs
    dots=4,  # kernels: fewest rows and columns, one column more, one row more, both
    offsets=0,
)

_PLANES = 96 << 10  # bytes of planes that stay in L2
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
    axes: list[Axis],
    gradient: bool,
    batch: int,
    groups: int,
    x_channels: int,
    channels: int,
    dtype: str,
    x: Sequence[int],
    other: Sequence[int],
    sums: bool,
) -> Planar:
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
    # the zeros before a line are those after the previous one
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
    if plane * size % 2048 == 0:  # channels must not map to the same lines of L1
        plane += lanes
    dense = other[2] == positions[2] * other[3] and (sums or pitch == positions[2])
    planar = PLANAR.pack(
        x=x,
        extent=inputs,
        low=low[:2],
        begin=begin,
        left=left,
        count=count,
        right=reach - pitch,
        depths=depths,
        lines=lines,
        pitch=pitch,
        plane=plane,
        other=other,
        positions=positions,
        other_plane=other_plane,
        block=block,
        blocks=blocks,
        run=block if dense else 1,
        groups=groups,
        group_block=group_block,
        x_channels=x_channels,
        other_channels=channels,
        taps=len(taps),
    )
    parts, items = 1, batch * blocks
    if sums:
        parts = max(1, min(_PARTS, items))
        words = SUMS.pack(
            planar=planar, parts=parts, items=items, offsets=taps, **_dots(dtype, channels, len(taps) * x_channels)
        )
        table = len(taps) * x_channels * 2 + MOST_ROWS
    else:
        tiles = even_product(dtype, "near", shape.whole_vectors(), channels)  # the planes have room for these
        words = GATHER.pack(planar=planar, width=width, product=tiles, offsets=taps)
        table = len(taps) * 2 + MOST_ROWS
    slack = width + (spans[0] * lines + spans[1]) * pitch + spans[2]
    return Planar(
        words,
        (parts if sums else items) * -(-groups // group_block),
        group_block * (x_channels * plane + channels * other_plane) + slack,
        table,
        parts,
    )


def _dots(dtype: str, rows: int, columns: int) -> dict[str, Any]:
    """The tiles of the sums, cut evenly, and the kernels for them."""
    row_tiles, column_tiles = (-(-extent // most) for extent, most in zip((rows, columns), dot_tile(), strict=True))
    kernels = [
        dot(dtype, rows // row_tiles + i, columns // column_tiles + j)
        if i <= rows % row_tiles and j <= columns % column_tiles
        else 0
        for i, j in product((0, 1), (0, 1))
    ]
    return {"row_tiles": row_tiles, "column_tiles": column_tiles, "dots": kernels}
