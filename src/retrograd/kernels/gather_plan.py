"""How the forward pass and the input gradient are cut into tasks: integers only, made once per shape.

A plan is one array of int64. Its first words are named here; behind them stand the phases and the tasks. All strides
are in bytes; a convolution in one or two dimensions is one in three with extents of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from .microkernel import ROW_SLOTS, Tile, tile
from .plan import LARGE_WEIGHTS, MOST_TASKS, TASK_WORK, TASK_WORK_DEPTHWISE, Axis, micro_kernels

SOURCE = 0  # strides of the tensor that is read: N, D, H, W
EXTENT = 4  # its extents D, H, W
TARGET = 7  # step of the tensor that is written along N
SIZE, COLUMNS, DEPTH = 8, 9, 10  # bytes of an element; channels per group that are written and read
WIDTH, PANELS, TAIL = 11, 12, 13  # columns of a panel; panels of a group; columns of the last vector
ENTRY_STEP, PANEL_STEP, WEIGHT_GROUP, WEIGHT_ROW = 14, 15, 16, 17  # weights: from tap, panel, group, row to the next
CHUNKS = 18  # 1: a task goes through the weights in chunks and packs each; 2: it reads them where they are
TAP_CHUNK, DEPTH_CHUNK = 19, 20  # taps and channels of a chunk
DEPTH_STEP, COLUMN_STEP, GROUP_STEP = 21, 22, 23  # of the weights before they are packed, in elements
TASKS = 24  # where the tasks begin: (phase, first and last part, first and last tile), a part is a panel of a group
HEADER = 25
# ---- words of a phase, from its beginning
POSITIONS = 0  # how many along D, H, W
PIXELS, TILES = 3, 4
SOURCE_STEP = 5  # positions of the source between two positions of the phase
TARGET_STEP = 8  # bytes of the target between two positions of the phase
PHASE_TARGET = 11  # bytes to its first position
TAPS = 12  # how many along D, H, W
FIRST_TAP = 15  # its place among all taps
MICRO = 16  # micro-kernels, see ``micro_kernels``
LIST = 20  # the offsets of the taps along D, then H, then W

_SMALL_WEIGHTS = 1 << 15  # bytes of weights that stay in the first cache in any order
_CHUNK = 320 << 10  # bytes of weights that stay in the second cache while pixels stream by
_STREAMED_TILES, _STREAMED_DEPTH = 12, 128  # for so few tiles, packing costs more than rows of weights far apart
_PIXELS = 512  # so many make up for packing weights a second time
_MOST_PHASES = 64  # with more of them, the target is filled first, and those without taps are left out


@dataclass(frozen=True, slots=True)
class Gather:
    """A plan of the forward pass or the input gradient."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: np.ndarray  # offset of each packed tap in the weights, in elements
    zeros: int  # elements of zero that the kernel reads
    given: bool  # the kernel reads the weights as they are given
    packed: int  # elements per thread of the weights that a task packs
    filled: bool  # the kernel leaves out positions that no tap reaches: they hold the initial row before it runs


def _phases(axis: Axis, gradient: bool, filled: bool) -> list[tuple[int, int, int, int, list[tuple[int, int]]]]:
    """Along one axis: (positions, source step, target start, target step, [(source offset, kernel index)])."""
    if not gradient:
        return [(axis.output, axis.stride, 0, 1, [(r * axis.dilation - axis.low, r) for r in range(axis.kernel)])]
    count = min(axis.stride, axis.input)
    taps: dict[int, list[tuple[int, int]]] = {} if filled else {residue: [] for residue in range(count)}
    for r in range(axis.kernel):
        residue = (r * axis.dilation - axis.low) % axis.stride
        if residue < count:  # of o*stride = i + low - r*dilation
            taps.setdefault(residue, []).append(((residue + axis.low - r * axis.dilation) // axis.stride, r))
    return [
        (-(-(axis.input - residue) // axis.stride), 1, residue, axis.stride, taps[residue]) for residue in sorted(taps)
    ]


@dataclass(frozen=True, slots=True)
class _Phase:
    """The positions that share their taps."""

    words: list[int]
    pixels: int
    tiles: int
    taps: int


def _phase_words(
    axes: list[Axis], gradient: bool, batch: int, dtype: str, shape: Tile | None, target: Sequence[int],
    weight_taps: Sequence[int], masked: bool = False,
) -> tuple[list[_Phase], list[int], bool]:  # fmt: skip
    """The phases, the offset of every tap in the weights in the order of the phases, and ``Gather.filled``."""
    found: list[_Phase] = []
    taps: list[int] = []
    filled = gradient and prod(min(axis.stride, axis.input) for axis in axes) > _MOST_PHASES
    for phase in product(*(_phases(axis, gradient, filled) for axis in axes)):
        positions = [p[0] for p in phase]
        pixels = batch * positions[0] * positions[1] * positions[2]
        if pixels == 0:
            continue
        tiles, micros = micro_kernels(dtype, "rows", pixels, shape, masked) if shape else (1, [0] * 4)
        lists = [p[4] for p in phase]
        words = [*positions, pixels, tiles, *(p[1] for p in phase)]
        words += [p[3] * step for p, step in zip(phase, target[1:], strict=True)]
        words += [sum(p[2] * step for p, step in zip(phase, target[1:], strict=True))]
        words += [*(len(entries) for entries in lists), len(taps), *micros]
        words += [move for entries in lists for move, _ in entries]
        here = [sum(r * s for (_, r), s in zip(tap, weight_taps, strict=True)) for tap in product(*lists)]
        found.append(_Phase(words, pixels, tiles, len(here)))
        taps += here
    reached = sum(phase.pixels for phase in found)
    return found, taps, filled and reached < batch * prod(axis.input for axis in axes)


def depthwise_plan(
    axes: list[Axis], gradient: bool, batch: int, channels: int, dtype: str,
    source: Sequence[int], target: Sequence[int], weight_taps: Sequence[int],
) -> Gather:  # fmt: skip
    """Plan of both with one channel per group; a task is (phase, first and last row). Strides are in elements."""
    found, taps, filled = _phase_words(axes, gradient, batch, dtype, None, target, weight_taps)
    body = [word for phase in found for word in phase.words]
    words = [*source, *(axis.output if gradient else axis.input for axis in axes), target[0]]
    words += [4 if dtype == "f" else 8, channels, 1, *[0] * (TASKS - WIDTH), HEADER + len(body)]
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
        0,
        filled,
    )


def gather_plan(
    axes: list[Axis], gradient: bool, batch: int, groups: int, depth: int, columns: int, dtype: str,
    source: Sequence[int], target: Sequence[int], weight_taps: Sequence[int], depth_step: int, column_step: int,
    group_step: int,
) -> Gather:  # fmt: skip
    """Plan of the forward pass, or (``gradient``) of the input gradient.

    ``depth`` and ``columns`` are the channels per group that are read and written; ``source`` and ``target`` the
    strides N, D, H, W in bytes; ``weight_taps`` the strides of the weights along the kernel's axes in elements,
    ``depth_step``, ``column_step`` and ``group_step`` those along the channels. Small weights are read where they are,
    if they can be; large ones are packed by each task, a chunk at a time, so that they never leave the second cache.
    """
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "rows", columns)
    width, panels = shape.width, shape.panels
    kernel = [axis.kernel for axis in axes]
    nested = [weight_taps[2] * kernel[2] * kernel[1], weight_taps[2] * kernel[2], weight_taps[2]]
    even = all(r == 1 or step == wanted for r, step, wanted in zip(kernel, weight_taps, nested, strict=True))
    weights = kernel[0] * kernel[1] * kernel[2] * depth * panels * width * size
    direct = not gradient and column_step == 1 and depth_step > 0 and even and weights <= _SMALL_WEIGHTS
    large = weights > LARGE_WEIGHTS
    pixels = batch * axes[0].output * axes[1].output * axes[2].output
    streamed = large and not gradient and column_step == 1 and depth_step > 0 and pixels <= _STREAMED_TILES * shape.rows
    masked = direct or streamed
    found, taps, filled = _phase_words(axes, gradient, batch, dtype, shape, target, weight_taps, masked)
    longest = max([1, *(phase.taps for phase in found)])
    extents = [axis.output if gradient else axis.input for axis in axes]
    row_bytes = width * size
    words: list[int] = [*source, *extents, target[0], size, columns, depth, width, panels, shape.tail]
    if direct:
        entry_step = weight_taps[2] * size
        if kernel[2] == 1:  # the step of the innermost axis that has one
            entry_step = (weight_taps[1] if kernel[1] > 1 else weight_taps[0]) * size
        words += [entry_step, row_bytes, columns * size, depth_step * size]
    else:
        panel_step = len(taps) * depth * row_bytes
        words += [depth * row_bytes, panel_step, panels * panel_step, row_bytes]
    depth_chunk = -(-depth // -(-depth * row_bytes // _CHUNK))
    tap_chunk = max(1, _CHUNK // (depth * row_bytes))
    tap_chunk = -(-longest // -(-longest // tap_chunk))
    if streamed:
        tap_chunk, depth_chunk = 1, min(depth, _STREAMED_DEPTH)
    words += [int(large) + int(streamed), tap_chunk, depth_chunk, depth_step, column_step, group_step]
    body = [word for phase in found for word in phase.words]
    words += [HEADER + len(body)]
    tasks: list[int] = []
    start = HEADER
    parts = groups * panels
    for phase in found:
        wanted = max(1, min(MOST_TASKS, phase.pixels * max(1, phase.taps) * depth * columns * groups // TASK_WORK))
        part_cuts = min(parts, wanted) if large else 1
        tile_cuts = min(phase.tiles, -(-wanted // part_cuts))
        if large:
            tile_cuts = max(1, min(tile_cuts, phase.pixels // _PIXELS))
        for p, t in product(range(part_cuts), range(tile_cuts)):
            tasks += [start, p * parts // part_cuts, (p + 1) * parts // part_cuts]
            tasks += [t * phase.tiles // tile_cuts, (t + 1) * phase.tiles // tile_cuts]
        start += len(phase.words)
    return Gather(
        np.array(words + body + tasks, np.int64),
        len(tasks) // 5,
        (5 + longest) * ROW_SLOTS,
        np.array(taps or [0], np.int64),
        groups * (depth + columns) + width,
        direct or large,
        tap_chunk * depth_chunk * width if large and not streamed else 0,
        filled,
    )
