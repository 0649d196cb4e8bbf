"""How the forward pass and the input gradient are cut into tasks: integers only, made once per shape.

A plan is one array of int64. Its first words are named here; behind them stand the phases and the tasks. All strides
are in bytes; a convolution in one or two dimensions is one in three with extents of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .microkernel import ROW_SLOTS, Tile, tile
from .plan import LARGE_WEIGHTS, MOST_TASKS, TASK_WORK, TASK_WORK_DEPTHWISE, Axis, micro_kernels

SOURCE = 0  # strides of the tensor that is read: N, D, H, W
EXTENT = 4  # its extents D, H, W
WEIGHT_ROW = 7  # from one row of the weights' matrices to the next
TARGET = 8  # stride along N of the tensor that is written
TARGET_GROUP = 9
SIZE, LANES, TILE_COLUMNS = 10, 11, 12
COLUMNS = 13  # channels written per group
DEPTH = 14  # channels read per group
ENTRY_STEP, PANEL_STEP, WEIGHT_GROUP = 15, 16, 17  # packed weights: from tap to tap, panel to panel, group to group
BLOCK = 18  # tiles whose address tables exist at one time
TASKS = 19  # where the tasks begin: (phase, first and last group, panel, tile) each
HEADER = 20
# ---- words of a phase, from its beginning
POSITIONS = 0  # how many along D, H, W
PIXELS, TILES = 3, 4
SOURCE_STEP = 5  # positions of the source between two positions of the phase
TARGET_STEP = 8  # bytes of the target between two positions of the phase
PHASE_TARGET = 11  # bytes to its first position
TAPS = 12  # how many along D, H, W
FIRST_TAP = 15  # its place among the packed taps
MICRO = 16  # micro-kernels, see ``micro_kernels``
LIST = 24  # the offsets of the taps along D, then H, then W

_SMALL_WEIGHTS = 1 << 15  # bytes of weights that stay in the first cache in any order


@dataclass(frozen=True, slots=True)
class Gather:
    """A plan of the forward pass or the input gradient."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: np.ndarray  # offset of each packed tap in the weights, in elements
    zeros: int  # elements of zero that the kernel reads
    direct: bool  # the weights are not packed


def _phases(axis: Axis, gradient: bool) -> list[tuple[int, int, int, int, list[tuple[int, int]]]]:
    """Along one axis: (positions, source step, target start, target step, [(source offset, kernel index)])."""
    if not gradient:
        return [(axis.output, axis.stride, 0, 1, [(r * axis.dilation - axis.low, r) for r in range(axis.kernel)])]
    phases = []
    for residue in range(min(axis.stride, axis.input)):
        taps = []
        for r in range(axis.kernel):
            move = residue + axis.low - r * axis.dilation  # of o*stride = i + low - r*dilation
            if move % axis.stride == 0:
                taps.append((move // axis.stride, r))
        phases.append((-(-(axis.input - residue) // axis.stride), 1, residue, axis.stride, taps))
    return phases


@dataclass(frozen=True, slots=True)
class _Phase:
    """The positions that share their taps."""

    words: list[int]
    pixels: int
    tiles: int
    taps: int


def _phase_words(
    axes: list[Axis], gradient: bool, batch: int, dtype: str, form: str, shape: Tile, columns: int,
    target: Sequence[int], weight_taps: Sequence[int], masked: bool = False,
) -> tuple[list[_Phase], list[int]]:  # fmt: skip
    """The phases, and the offset of every tap in the weights in the order of the phases."""
    found: list[_Phase] = []
    taps: list[int] = []
    for phase in product(*(_phases(axis, gradient) for axis in axes)):
        positions = [p[0] for p in phase]
        pixels = batch * positions[0] * positions[1] * positions[2]
        if pixels == 0:
            continue
        tiles, micros = micro_kernels(dtype, form, pixels, shape, columns, masked) if form else (1, [0] * 8)
        lists = [p[4] for p in phase]
        words = [*positions, pixels, tiles, *(p[1] for p in phase)]
        words += [p[3] * step for p, step in zip(phase, target[1:], strict=True)]
        words += [sum(p[2] * step for p, step in zip(phase, target[1:], strict=True))]
        words += [*(len(entries) for entries in lists), len(taps), *micros]
        words += [move for entries in lists for move, _ in entries]
        here = [sum(r * s for (_, r), s in zip(tap, weight_taps, strict=True)) for tap in product(*lists)]
        found.append(_Phase(words, pixels, tiles, len(here)))
        taps += here
    return found, taps


def depthwise_plan(
    axes: list[Axis], gradient: bool, batch: int, channels: int, dtype: str,
    source: Sequence[int], target: Sequence[int], weight_taps: Sequence[int],
) -> Gather:  # fmt: skip
    """Plan of both with one channel per group; a task is (phase, first and last row)."""
    shape, size = tile(dtype), 4 if dtype == "f" else 8
    found, taps = _phase_words(axes, gradient, batch, dtype, "", shape, channels, target, weight_taps)
    body = [word for phase in found for word in phase.words]
    words = [*source, *(axis.output if gradient else axis.input for axis in axes), 0, target[0], 0]
    words += [size, shape.lanes, shape.columns, channels, 1, 0, 0, 0, 1, HEADER + len(body)]
    tasks: list[int] = []
    start = HEADER
    for phase in found:
        rows = phase.pixels // phase.words[POSITIONS + 2]
        cuts = max(1, min(rows, MOST_TASKS, phase.pixels * max(1, phase.taps) * channels // TASK_WORK_DEPTHWISE))
        for cut in range(cuts):
            tasks += [start, cut * rows // cuts, (cut + 1) * rows // cuts]
        start += len(phase.words)
    return Gather(
        np.array(words + body + tasks, np.int64),
        len(tasks) // 3,
        3 * max(1, len(taps)),
        np.array(taps or [0], np.int64),
        0,
        True,
    )


def gather_plan(
    axes: list[Axis], gradient: bool, batch: int, groups: int, depth: int, columns: int, dtype: str,
    source: Sequence[int], target: Sequence[int], weight_taps: Sequence[int], depth_step: int, column_step: int,
) -> Gather:  # fmt: skip
    """Plan of the forward pass, or (``gradient``) of the input gradient.

    ``depth`` and ``columns`` are the channels per group that are read and written; ``source`` and ``target`` the
    strides N, D, H, W in bytes; ``weight_taps`` the strides of the weights along the kernel's axes in elements,
    ``depth_step`` and ``column_step`` those along the channels. Weights that are read few times are read where they
    are, if they can be.
    """
    shape, size = tile(dtype), 4 if dtype == "f" else 8
    width = shape.width(columns)
    panels = -(-columns // width)
    entry_step = depth * width * size
    extents = [axis.output if gradient else axis.input for axis in axes]
    kernel = [axis.kernel for axis in axes]
    nested = [weight_taps[2] * kernel[2] * kernel[1], weight_taps[2] * kernel[2], weight_taps[2]]
    even = all(r == 1 or step == wanted for r, step, wanted in zip(kernel, weight_taps, nested, strict=True))
    small = kernel[0] * kernel[1] * kernel[2] * depth * columns * size <= _SMALL_WEIGHTS
    direct = not gradient and column_step == 1 and depth_step > 0 and even and small
    row_step = depth_step * size if direct else width * size
    words: list[int] = [*source, *extents, row_step, target[0], columns * size]
    words += [size, shape.lanes, width, columns, depth]
    found, taps = _phase_words(axes, gradient, batch, dtype, "rows", shape, columns, target, weight_taps, direct)
    longest = max([1, *(phase.taps for phase in found)])
    body = [word for phase in found for word in phase.words]
    panel_step = len(taps) * entry_step
    group_step = panels * panel_step
    if direct:
        entry_step, panel_step, group_step = weight_taps[2] * size, width * size, columns * size
        if kernel[2] == 1:  # the step of the innermost axis that has one
            entry_step = (weight_taps[1] if kernel[1] > 1 else weight_taps[0]) * size
    large = panels * len(taps) * depth * width * size > LARGE_WEIGHTS
    block = max(1, min(32, 4096 // longest)) if large else 1
    words += [entry_step, panel_step, group_step, block, HEADER + len(body)]
    tasks = []
    start = HEADER
    for phase in found:
        wanted = max(1, min(MOST_TASKS, phase.pixels * max(1, phase.taps) * depth * columns * groups // TASK_WORK))
        panel_cuts = min(panels, wanted) if large else 1
        tile_cuts = min(phase.tiles, -(-wanted // panel_cuts))
        for p, t in product(range(panel_cuts), range(tile_cuts)):
            tasks.append([start, 0, groups, p * panels // panel_cuts, (p + 1) * panels // panel_cuts])
            tasks[-1] += [t * phase.tiles // tile_cuts, (t + 1) * phase.tiles // tile_cuts]
        start += len(phase.words)
    scratch = (4 + block + block * longest) * ROW_SLOTS
    table = np.array(words + body + [word for task in tasks for word in task], np.int64)
    return Gather(
        table, len(tasks), scratch, np.array(taps, np.int64), groups * (depth + columns) + shape.columns, direct
    )
