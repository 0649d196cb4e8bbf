"""How a deformable convolution is cut into tasks: integers only, made once per shape, read by compiled/deformable.py.

Steps are in elements, positions are counted over the whole batch. Where the taps stand is only known when a task runs:
it reads x there into *columns*, one row of (taps, channels) for each position, as many rows at a time as stay in the
second-level cache (or in the window's workspace), and multiplies them before it reads the next ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ..geometry import Window
from .microkernel import MOST_ROWS, ROW_SLOTS, Tile, micro, tile
from .plan import MOST_TASKS, TASK_WORK, micro_kernels

INPUT = 0  # steps of x: N, H, W
EXTENT = 3
OUTPUT = 5
STRIDE = 7
OFFSET, MASK = 9, 13  # steps of offset and mask: N, C, H, W
MASKED = 17
TAPS = 18
CHANNELS = 19
SHARED = 20  # channels that share an offset
GROUPS, DEPTH, WIDE = 21, 22, 23  # groups, and the input and output channels of one
SIZE = 24
WIDTH, PANELS, TAIL = 25, 26, 27  # of the product: columns of a panel, panels, columns of the last vector
CHUNK = 28  # rows of columns that are in memory
TILE = 29  # rows of a tile (weight gradient: the least of them; EXTRA tiles have one row more)
EXTRA, TILES = 30, 31
MICRO = 32  # see ``micro_kernels``; the others use its first and third
BLOCK = 36  # channels of a task
PARTS = 37  # gradient: how many sums over channels make one of offset; weight gradient: over positions, one of w
PART = 38  # elements of such a partial result
TAP_CHUNK = 39  # forward: taps whose weights stay in the second-level cache
ENTRIES = 40  # forward: products that make one tile: 1, or one for each tap
TASKS = 41
MOVES = 42  # where tap r begins: r*dilation - lo, two words each

_COLUMNS = 384 << 10  # bytes
_WEIGHTS = 256 << 10  # bytes of packed weights beside them
_LEAST_TILES = 8  # for which weights from beyond that cache are read
_LEAST_CHANNELS = 32  # of a block: the places of its taps are found again for each block
_ENOUGH = 8  # tasks
_PARTS = 8
_LARGE = 256 << 10  # bytes of a partial sum of gw that would not stay in the second-level cache

Steps = Sequence[int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of one of the three kernels."""

    words: np.ndarray
    tasks: int
    columns: int  # elements per thread
    scratch: int  # words per thread
    parts: int = 1  # partial sums of what is summed over tasks
    blocks: int = 1  # of channels


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the three plans have in common."""

    window: Window
    batch: int
    channels: int
    outputs: int
    deformable: int  # groups of channels with their own offsets
    dtype: str
    x: Steps
    offset: Steps
    mask: Steps | None
    threads: int  # that share the workspace

    @property
    def size(self) -> int:
        return 4 if self.dtype == "f" else 8

    @property
    def positions(self) -> int:
        height, width = self.window.output
        return self.batch * height * width

    @property
    def work(self) -> int:
        """Multiply-adds of the product."""
        return self.positions * self.window.taps * self.channels * self.outputs // self.window.groups

    def head(self) -> list[int]:
        """The words before ``SIZE``."""
        window = self.window
        masks = (0, 0, 0, 0) if self.mask is None else self.mask
        return [
            *(self.x[0], *self.x[2:]), *window.input, *window.output, *window.stride, *self.offset, *masks,
            int(self.mask is not None), window.taps, self.channels, self.channels // self.deformable, window.groups,
            self.channels // window.groups, self.outputs // window.groups,
        ]  # fmt: skip

    def moves(self) -> list[int]:
        lows = [low for low, _ in self.window.padding]
        return [
            at * step - low
            for tap in product(*map(range, self.window.kernel))
            for at, step, low in zip(tap, self.window.dilation, lows, strict=True)
        ]

    def rows(self, width: int, multiple: int, most: int) -> int:
        """How many rows of ``width`` columns, of ``most``, are in memory: a multiple of a tile's rows, or what fits."""
        row, limit = width * self.size, self.window.workspace
        wanted = max(_LEAST_TILES, _COLUMNS // (row * multiple)) * multiple
        times = max(1, round(most / wanted))  # evenly, and no time for a few rows
        rows = -(-most // (times * multiple)) * multiple
        if limit is None:
            return rows
        fits = max(1, limit // (row * self.threads))
        return min(rows, fits // multiple * multiple or fits)


def _micros(dtype: str, shape: Tile) -> list[int]:
    """The micro-kernels of a whole panel and of the last one, where ``micro_kernels`` puts them."""
    whole = micro(dtype, "rows", shape.rows, shape.vectors) if shape.panels > 1 else 0
    return [whole, 0, micro(dtype, "rows", shape.rows, shape.last_vectors), 0]


def forward_plan(sizes: Sizes) -> Plan:
    """Plan of y; a task is a range of positions."""
    window = sizes.window
    depth, wide = sizes.channels // window.groups, sizes.outputs // window.groups
    shape = tile(sizes.dtype, "rows", wide)
    row = window.taps * sizes.channels
    near = row * wide * sizes.size <= _WEIGHTS * window.groups
    least = shape.rows * (1 if near else _LEAST_TILES)
    tasks = max(1, min(MOST_TASKS, sizes.work // TASK_WORK, round(sizes.positions / least)))
    chunk = sizes.rows(row, shape.rows, -(-sizes.positions // tasks))
    entries = 1 if window.groups == 1 else window.taps
    tap_chunk = max(1, min(window.taps, _WEIGHTS // (depth * shape.width * sizes.size)))
    words = [
        *sizes.head(), sizes.size, shape.width, shape.panels, shape.tail, chunk, shape.rows, 0, 0,
        *_micros(sizes.dtype, shape), sizes.channels, 1, 0, tap_chunk, entries, tasks, *sizes.moves(),
    ]  # fmt: skip
    tiles = -(-chunk // shape.rows)
    return Plan(np.array(words, np.int64), tasks, chunk * row, tiles * (entries + 1) * ROW_SLOTS)


def blocks_of(sizes: Sizes) -> int:
    """How many blocks of channels the gradient to x is cut into: an image is a task of its own, or several.

    A block holds whole groups, or all of it lies in one; and the same of the channels that share an offset.
    """
    channels, groups = sizes.channels, sizes.window.groups
    shared = channels // sizes.deformable
    found = 1
    for blocks in _divisors(channels):
        block = channels // blocks
        fits = (groups == 1 or block % (channels // groups) == 0) and (block % shared == 0 or shared % block == 0)
        if fits and found * sizes.batch < _ENOUGH and block >= _LEAST_CHANNELS:
            found = blocks
    return found


def _divisors(number: int) -> Iterator[int]:
    return (divisor for divisor in range(1, number + 1) if number % divisor == 0)


def grad_plan(sizes: Sizes) -> Plan:
    """Plan of the gradients to x, offset and mask; a task is a block of the channels of an image."""
    window, blocks = sizes.window, blocks_of(sizes)
    block, shared = sizes.channels // blocks, sizes.channels // sizes.deformable
    shape = tile(sizes.dtype, "rows", min(block, sizes.channels // window.groups))
    row = window.taps * block
    chunk = sizes.rows(row, shape.rows, sizes.positions // sizes.batch)
    parts = max(1, shared // block)
    words = [
        *sizes.head(), sizes.size, shape.width, shape.panels, shape.tail, chunk, shape.rows, 0, 0,
        *_micros(sizes.dtype, shape), block, parts, sizes.positions * sizes.deformable * window.taps, 0, 0,
        sizes.batch * blocks, *sizes.moves(),
    ]  # fmt: skip
    tiles = -(-chunk // shape.rows)
    scratch = tiles * 2 * ROW_SLOTS
    return Plan(np.array(words, np.int64), sizes.batch * blocks, chunk * row, scratch, parts, blocks)


def weight_grad_plan(sizes: Sizes) -> Plan:
    """Plan of gw.

    A task is a range of positions, for a partial sum of all of gw; where weights are large, a range of taps and
    channels, for all of the sum.
    """
    window = sizes.window
    depth, wide = sizes.channels // window.groups, sizes.outputs // window.groups
    elements = window.taps * depth * sizes.outputs
    wanted = max(1, min(MOST_TASKS, sizes.work // TASK_WORK))
    parts = taps = blocks = 1
    if elements * sizes.size <= _LARGE:
        parts = max(1, min(_PARTS, wanted, sizes.positions))
    elif wanted > 1:
        taps = min(window.taps, wanted)
        each = _divisors(sizes.channels) if window.groups == 1 else _divisors(window.groups)
        blocks = max(n for n in each if n == 1 or (sizes.channels // n >= 2 * _LEAST_CHANNELS and taps * n <= wanted))
    # As many positions are summed together whatever the workspace is, so that it changes no bit; in a small one, fewer
    # taps and channels are in memory.
    row = -(-window.taps // taps) * (sizes.channels // blocks)
    free = replace(sizes, window=replace(window, workspace=None))
    chunk = free.rows(row, 8, min(256, -(-sizes.positions // parts)))
    if window.workspace is not None:
        each = _divisors(sizes.channels) if window.groups == 1 else _divisors(window.groups)
        cuts = [(n, blocks) for n in range(taps, window.taps)] + [(window.taps, n) for n in each if n >= blocks]
        for taps, blocks in cuts:
            row = -(-window.taps // taps) * (sizes.channels // blocks)
            if chunk * row * sizes.size * sizes.threads <= window.workspace:
                break
    block = sizes.channels // blocks
    rows = min(block, depth)
    shape = tile(sizes.dtype, "dense", wide)
    tiles, micros = micro_kernels(sizes.dtype, "dense", rows, shape, True)
    tasks: list[int] = []
    for part, tap, at in product(range(parts), range(taps), range(blocks)):
        tasks += [part, tap * window.taps // taps, (tap + 1) * window.taps // taps, at * block]
        tasks += [part * sizes.positions // parts, (part + 1) * sizes.positions // parts]
    moves = sizes.moves()
    words = [
        *sizes.head(), sizes.size, shape.width, shape.panels, shape.tail, chunk, rows // tiles, rows % tiles, tiles,
        *micros, block, parts, elements, 0, 0, MOVES + len(moves), *moves, *tasks,
    ]  # fmt: skip
    return Plan(np.array(words, np.int64), parts * taps * blocks, chunk * row, MOST_ROWS + 2, parts, blocks)
