"""Convolution with few output channels per group: vector lanes are positions.

Steps are in elements. x is the tensor read through the taps; "other" is y, gx or g, whose channels are few. A plane
holds the part of x that a task reads, channel by channel, with its padding; the task writes (or reads) its part of the
other tensor in the same way.

Called by convolution.py, for strides of 1. Each task copies its part of the input channel by channel, so that
positions are contiguous; then every row of the micro-kernel's tile is an output channel, every column a position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_ROWS, PRODUCT, dot, dot_tile, even_product, tile
from ..machine.record import record
from ..machine.scratch import cores, page_of, per_thread
from ..memory.finish import Finish
from ..memory.layout import usual_strides
from ..memory.packing import zeros_of
from .axes import Axis, three_axes, three_steps
from .borders import border_words, correct
from .direct import sum_parts

# ---- Plans that divide a convolution with few output channels per group into tasks ----------------------------------

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
    halved=1,  # 1: the target holds the maximum of every two by two positions
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
    halved: bool = False,
) -> Planar:
    """The plan for strides of 1. ``gradient``: x is g, read by the input gradient. ``sums``: of the weight gradient.

    ``halved``: the target holds the maximum of every two by two positions of H and W.
    """
    size = 4 if dtype == "f" else 8
    low, spans, moves = [], [], []
    for axis in axes:
        line = _moves(axis, gradient)
        low.append(min(line))
        spans.append(max(line) - min(line))
        moves.append([move - min(line) for move in line])
    inputs = [axis.output if gradient else axis.input for axis in axes]
    positions = [axis.input if gradient else axis.output for axis in axes]
    lanes = tile(dtype, "near", 1).lanes
    depths, reach = positions[0] + spans[0], positions[2] + spans[2]
    begin, left, count, pitch = _line(axes[2], gradient)
    group_block = _group_block(groups, x_channels, channels, lanes)
    line_bytes = group_block * depths * pitch * (x_channels + channels) * size
    block = _block(positions[1], spans[1], line_bytes)
    blocks = -(-positions[1] // block)
    if halved:
        block += block % 2
        blocks = -(-positions[1] // block)
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
    across = positions[2] // 2 if halved else positions[2]
    dense = other[2] == across * other[3] and (sums or halved or pitch == positions[2])
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
        words = GATHER.pack(planar=planar, width=width, halved=int(halved), product=tiles, offsets=taps)
        table = len(taps) * 2 + MOST_ROWS
    slack = width + (spans[0] * lines + spans[1]) * pitch + spans[2] + (2 * lanes if halved else 0)
    return Planar(
        words,
        (parts if sums else items) * -(-groups // group_block),
        page_of(group_block * (x_channels * plane + channels * other_plane) + slack, size),
        page_of(table),
        parts,
    )


def _moves(axis: Axis, gradient: bool) -> list[int]:
    """The positions read by all taps for position 0."""
    towards = axis.low if gradient else -axis.low
    step = -axis.dilation if gradient else axis.dilation
    return [towards + r * step for r in range(axis.kernel)]


def _line(axis: Axis, gradient: bool) -> tuple[int, int, int, int]:
    """A line of a plane: its first element in x, zeros in front, elements, and the step to the next line."""
    moves, extents = _moves(axis, gradient), (axis.input, axis.output)
    given, positions = reversed(extents) if gradient else extents
    begin, left, reach = max(0, min(moves)), max(0, -min(moves)), positions + max(moves) - min(moves)
    count = max(0, min(given - begin, reach - left))
    # the zeros before a line are those after the previous one
    return begin, left, count, max(positions, left + count, reach - left)


def _group_block(groups: int, x_channels: int, channels: int, lanes: int) -> int:
    """Groups of a task."""
    return min(groups, lanes // gcd(lanes, gcd(x_channels, channels)))


def _block(lines: int, span: int, line_bytes: int) -> int:
    """Lines of a task, which also reads ``span`` more, if each takes so many bytes of planes."""
    most = max(1, min(lines, _PLANES // line_bytes - span))
    return -(-lines // -(-lines // most))


def block_of(window: Window, gradient: bool, inputs: int, outputs: int, dtype: str) -> tuple[int, int, int]:
    """For the estimated time: lines of a task, further lines that it reads, and the step from line to line."""
    axes, lanes = three_axes(window), tile(dtype, "near", 1).lanes
    channels = inputs // window.groups, outputs // window.groups
    depth, lines, _ = (axis.input if gradient else axis.output for axis in axes)
    reach, span, _ = ((axis.kernel - 1) * axis.dilation for axis in axes)
    of_groups, pitch = _group_block(window.groups, *channels, lanes), _line(axes[2], gradient)[3]
    line_bytes = of_groups * (depth + reach) * pitch * sum(channels) * (4 if dtype == "f" else 8)
    return _block(lines, span, line_bytes), span, pitch


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


# ---- Convolutions whose groups have fewer output channels than a vector has lanes -----------------------------------

_gather = kernel("convolution.planar.gather")
_weight_grad = kernel("convolution.planar.weight_grad")
_borders = lru_cache(maxsize=4096)(border_words)
_SHORT = 7  # lines of fewer positions leave most lanes empty


@lru_cache(maxsize=4096)
def applies(channels: int, window: Window, gradient: bool, dtype: str) -> bool:
    """Whether positions fill a vector better than the ``channels`` per group written."""
    line = (window.input if gradient else window.output)[-1]
    return channels < tile(dtype, "near", 1).lanes and line >= _SHORT and all(stride == 1 for stride in window.stride)


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    x_channels: int,
    channels: int,
    dtype: str,
    x: tuple[int, ...],
    other: tuple[int, ...],
    sums: bool,
    halved: bool = False,
) -> Planar:
    groups = window.groups
    return planar_plan(
        three_axes(window),
        gradient,
        batch,
        groups,
        x_channels // groups,
        channels // groups,
        dtype,
        three_steps(x, dtype),
        three_steps(other, dtype),
        sums,
        halved,
    )


def gather(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    window: Window,
    gradient: bool,
    finish: Finish | None = None,
    halved: bool = False,
) -> np.ndarray:
    """Fill ``target`` with the forward pass or the input gradient; both tensors have contiguous channels.

    ``halved``: with the maximum of every two by two positions; the finish is then without residual and formula.
    """
    dtype, channels = x.dtype.char, target.shape[1]
    plan = _plan(window, gradient, x.shape[0], x.shape[1], channels, dtype, x.strides, target.strides, False, halved)
    by_tap = w.reshape(window.groups, w.shape[0] // window.groups, w.shape[1], -1)
    order = (0, 3, 1, 2) if gradient else (0, 3, 2, 1)
    weights = np.ascontiguousarray(by_tap.transpose(order), like=w)  # (G, taps, in, out)
    planes, table = per_thread(plan.planes, dtype), per_thread(plan.table, "i8")
    init = zeros_of(channels, dtype) if bias is None else bias
    _gather[dtype](
        plan.tasks,
        x,
        weights,
        init,
        target,
        planes,
        plan.planes,
        plan.words,
        table,
        plan.table,
        *(finish or (target, target)),
    )
    borders = _borders(window, gradient, x.shape[0], w.shape, w.strides, dtype, x.strides, target.strides, halved)
    if borders is not None:
        correct(borders, x, w, bias, target, finish)
    return target


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The weight gradient (taps, Ci/groups, Co)."""
    dtype = x.dtype.char
    plan = _plan(window, False, x.shape[0], x.shape[1], g.shape[1], dtype, x.strides, g.strides, True)
    partials = np.zeros((plan.parts, window.taps, x.shape[1] // window.groups, g.shape[1]), x.dtype, like=x)
    planes, table = per_thread(plan.planes, dtype), per_thread(plan.table, "i8")
    _weight_grad[dtype](plan.tasks, x, g, partials, planes, plan.planes, plan.words, table, plan.table)
    return sum_parts(partials, np.empty(partials.shape[1:], x.dtype, like=x))


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: planes, and weights in another order or partial sums."""
    size, gradient, sums = 4 if dtype == "f" else 8, job == "conv_input_grad", job == "conv_weight_grad"
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    if gradient:
        plan = _plan(window, True, batch, outputs, inputs, dtype, y, x, False)
    else:
        plan = _plan(window, False, batch, inputs, outputs, dtype, x, y, sums)
    weights = window.taps * inputs // window.groups * outputs
    return (plan.planes * cores() + weights * (plan.parts if sums else 1)) * size
