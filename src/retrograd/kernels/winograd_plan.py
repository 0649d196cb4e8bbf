"""How a convolution by Winograd's transforms is cut into tiles and blocks: integers only, made once per shape.

The output is cut into tiles of 4 positions along H and W, and a few of 3 and 2 where 4 does not divide it (for two taps
along H and W: of 3 positions, the last one of what is left). A tile of m positions needs the values of its product at
m + 2 points, which are the first m + 2 of (0, 5/8, -5/8, infinity, 3/2, -3/2): the points of a small tile are points of
a large one, so that all tiles share the same transformed weights, and all tiles that need a pair of points (one along
each axis) are rows of the same matrix product. The taps along D, where there are any, are entries of that product.

A plan is one array of int64, whose words are named here. A line is all tiles side by side, a slice all lines of one
position along D of one image. A block is some lines of some slices, whose transformed input and output fit the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .microkernel import MOST_ROWS, Tile, micro, tile
from .plan import Axis

POINTS = 6  # along an axis, at most
PAIRS = POINTS * POINTS
POINTS_OF_TWO = 16  # pairs of points that a tile of two taps uses
SLOTS = 8  # addresses of a line of an input tile: at least POINTS, whole vectors of addresses

X, EXTENT, LOW = 0, 4, 7  # strides N, D, H, W of x in bytes; its extents D, H, W; zeros in front of them
Y = 10  # strides N, D, H, W of y (or its gradient) in elements
SIZE, DEPTH, DEPTH_STEP = 14, 15, 16  # bytes of an element; channels of x; elements of a row of transformed input
COLUMNS, COLUMN_STEP = 17, 18  # channels of y; elements of a row of transformed output
WIDTH, PANELS, TAP_STEP = 19, 20, 21  # of the weights, as the micro-kernel reads them; elements of those of a tap
SLICES, TAPS = 22, 23  # positions of y along D; taps along D
ALONE = 24  # 1: a slice of y reads the same slice of x, no other
INPUT_STEP, PRODUCT_STEP = 25, 26  # elements from one matrix of transformed input or output to the next
LINES = 27  # of a slice
COUNTS_H, COUNTS_W = 28, 31  # tiles that need 4, 5, 6 points along H, and along W
SIDE = 34  # taps along H and W: 3 or 2
ROWS, MICRO = 35, 36  # rows of the micro-kernel's tile; micro-kernels of a whole panel with 1, 2, ... rows, of the last
BLOCKS = MICRO + 2 * MOST_ROWS  # where the blocks begin: first and last slice, first and last line
LIST = BLOCKS + 1  # of every tile along H, then along W: its first position, its positions

_BLOCK_BYTES = 448 << 10  # transformed input and output of a block that stay in the second cache of a core
_SHARED_BYTES = 6 << 20  # the same of a block that all cores share
_LARGE = 1 << 20  # bytes of transformed weights that would have to come from memory for each small block
_LARGE_SUMS = 640 << 10  # bytes of their gradient that do not stay in the second cache beside a block
_PARTS, _SUMS_BYTES = 4, 5 << 20  # partial sums: more keep the error small


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of some slices of the output, and the slices of the input that these read."""

    first: int
    last: int
    line_first: int
    line_last: int
    inputs: int  # slices of the input

    @property
    def lines(self) -> int:
        """Lines of a slice."""
        return self.line_last - self.line_first


@dataclass(frozen=True, slots=True)
class Transformed:
    """A plan of the forward pass and the input gradient, or of the weight gradient.

    ``shared``: all threads work on one block at a time, so that each pair's weights are read once for many tiles, and
    slices that several others read are transformed once; else a task makes its blocks by itself.
    """

    words: np.ndarray
    blocks: list[Block]
    shared: bool
    work: int  # elements per thread, or of the block that threads share
    table: int  # words per thread
    weights: int  # elements of the transformed weights, or of all their partial sums
    parts: list[tuple[int, int]]  # weight gradient: first and last block of every partial sum


def tiles_of(extent: int) -> list[int]:
    """``extent`` positions, at least 2, as tiles of 4, 3 and 2, the larger ones first.

    >>> tiles_of(14), tiles_of(13), tiles_of(7)
    ([4, 4, 4, 2], [4, 4, 3, 2], [4, 3])
    """
    whole, rest = divmod(extent, 4)
    if rest == 1:
        return [4] * (whole - 1) + [3, 2]
    return [4] * whole + [rest] * (rest > 0)


def _listed(axis: Axis) -> tuple[list[int], list[int]]:
    """The words of the tiles along an axis, and how many need 4, 5, 6 points."""
    if axis.kernel == 2:
        sizes = [min(3, axis.output - begin) for begin in range(0, axis.output, 3)]
        counts = [len(sizes), 0, 0]
    else:
        sizes = tiles_of(axis.output)
        counts = [sum(size + 2 > points for size in sizes) for points in (3, 4, 5)]
    words, begin = [], 0
    for size in sizes:
        words += [begin, size]
        begin += size
    return words, counts


def _cut(count: int, most: int) -> list[tuple[int, int]]:
    """``count`` in ranges of at most ``most``, about equally long."""
    cuts = -(-count // max(1, most))
    return [(cut * count // cuts, (cut + 1) * count // cuts) for cut in range(cuts)]


def _blocks(depth: Axis, batch: int, lines: int, across: int, tile_bytes: list[int], budget: int) -> list[Block]:
    """Whole slices, of several images if no tap reaches into another slice, or a part of the lines of one."""
    alone, line_bytes = _alone(depth), across * sum(tile_bytes)
    if lines * line_bytes > budget and alone:
        cuts = _cut(lines, budget // line_bytes)
        return [Block(s, s + 1, first, last, 1) for s in range(batch * depth.output) for first, last in cuts]
    if alone:
        slices = _cut(batch * depth.output, budget // (lines * line_bytes))
        return [Block(first, last, 0, lines, last - first) for first, last in slices]
    found = []
    # of two slices in a block, so that little of the input is transformed twice, to all
    reach = depth.kernel - 1
    some = max(1, min(depth.output, (budget // (lines * across) - reach * tile_bytes[0]) // sum(tile_bytes)))
    cuts = _cut(lines, budget // (across * (sum(tile_bytes) + reach * tile_bytes[0])) if some == 1 else lines)
    for image in range(batch):
        for first, last in _cut(depth.output, some):
            begin, end = inputs_of(depth, first, last)
            for line_first, line_last in cuts:
                origin = image * depth.output
                found.append(Block(origin + first, origin + last, line_first, line_last, end - begin))
    return found


def _alone(depth: Axis) -> bool:
    return depth.kernel == 1 and depth.low == 0 and depth.input == depth.output


def inputs_of(depth: Axis, first: int, last: int) -> tuple[int, int]:
    """The slices of the input that the slices of the output from ``first`` to ``last`` read."""
    begin = min(max(0, first - depth.low), depth.input)
    return begin, max(begin, min(depth.input, last - 1 - depth.low + depth.kernel))


def _micro_words(dtype: str, form: str, shape: Tile, rows: set[int]) -> list[int]:
    found = []
    for vectors, used in ((shape.vectors, shape.panels > 1), (shape.last_vectors, True)):
        found += [micro(dtype, form, n, vectors) if used and n in rows else 0 for n in range(1, MOST_ROWS + 1)]
    return found


def _rows_of_tiles(count: int, most: int) -> set[int]:
    """Into how many rows ``count`` rows are cut when no tile may have more than ``most``."""
    if count == 0:
        return set()
    tiles = -(-count // most)
    return {count // tiles, -(-count // tiles)}


@dataclass(frozen=True, slots=True)
class _Begin:
    """The beginning of a plan, up to the micro-kernels, and what the rest is made of."""

    words: list[int]
    listed: list[int]
    blocks: list[Block]
    counts_h: list[int]
    counts_w: list[int]

    def finish(self, micros: list[int]) -> np.ndarray:
        words = [*self.words, *micros, LIST + len(self.listed), *self.listed]
        for block in self.blocks:
            words += [block.first, block.last, block.line_first, block.line_last]
        return np.array(words, np.int64)


def _begin(
    axes: list[Axis], batch: int, depth: int, columns: int, shape: Tile, x: Sequence[int], y: Sequence[int],
    size: int, shared: bool,
) -> _Begin:  # fmt: skip
    listed_h, counts_h = _listed(axes[1])
    listed_w, counts_w = _listed(axes[2])
    steps = [-(-channels // shape.lanes) * shape.lanes for channels in (depth, columns)]
    across = counts_w[0]
    budget = _SHARED_BYTES if shared else _BLOCK_BYTES
    blocks = _blocks(axes[0], batch, counts_h[0], across, [PAIRS * step * size for step in steps], budget)
    words = [*x, *(axis.input for axis in axes), *(axis.low for axis in axes), *y]
    words += [size, depth, steps[0], columns, steps[1], shape.width, shape.panels]
    words += [PAIRS * shape.panels * depth * shape.width, axes[0].output, axes[0].kernel, int(_alone(axes[0]))]
    # one more vector: at multiples of 4096 bytes the matrices would share the same few lines of the first cache
    words += [max(block.inputs * block.lines for block in blocks) * across * steps[0] + shape.lanes]
    words += [max((block.last - block.first) * block.lines for block in blocks) * across * steps[1] + shape.lanes]
    words += [counts_h[0], *counts_h, *counts_w, axes[1].kernel, shape.rows]
    return _Begin(words, listed_h + listed_w, blocks, counts_h, counts_w)


def transform_plan(
    axes: list[Axis], batch: int, depth: int, columns: int, dtype: str, x: Sequence[int], y: Sequence[int]
) -> Transformed:
    """Plan of the forward pass; the strides N, D, H, W of x are in bytes, those of y in elements."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "rows", columns)
    weights = axes[0].kernel * PAIRS * shape.panels * depth * shape.width
    shared = weights * size > _LARGE or axes[0].kernel > 1
    begin = _begin(axes, batch, depth, columns, shape, x, y, size, shared)
    rows: set[int] = set()
    for block in {(b.last - b.first if begin.words[ALONE] else 1, b.line_first, b.line_last) for b in begin.blocks}:
        slices, line_first, line_last = block
        for count in begin.counts_h:
            lines = min(line_last, count) - min(line_first, count)
            for across in begin.counts_w:
                rows |= _rows_of_tiles(slices * lines * across, shape.rows)
    words = begin.finish(_micro_words(dtype, "rows", shape, rows))
    work = PAIRS * int(words[INPUT_STEP] + words[PRODUCT_STEP])
    return Transformed(words, begin.blocks, shared, work, (axes[0].kernel + POINTS + 1) * SLOTS, weights, [])


def transform_sum_plan(
    axes: list[Axis], batch: int, depth: int, columns: int, dtype: str, x: Sequence[int], g: Sequence[int]
) -> Transformed:
    """Plan of the weight gradient; strides as for ``transform_plan``. Small weights have several partial sums."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "dense", columns)
    elements = axes[0].kernel * PAIRS * depth * -(-columns // shape.lanes) * shape.lanes
    shared = elements * size > _LARGE_SUMS or axes[0].kernel > 1
    begin = _begin(axes, batch, depth, columns, shape, x, g, size, shared)
    count = len(begin.blocks)
    parts = _cut(count, -(-count // max(1, min(_PARTS, count, _SUMS_BYTES // (elements * size)))))
    words = begin.finish(_micro_words(dtype, "dense", shape, _rows_of_tiles(depth, shape.rows)))
    if not shared:
        words = np.concatenate([words, np.array(parts, np.int64).ravel()])
    work = PAIRS * int(words[INPUT_STEP] + words[PRODUCT_STEP])
    most = max(block.last - block.first for block in begin.blocks)
    table = POINTS * SLOTS + depth + 2 * most
    return Transformed(words, begin.blocks, shared, work, table, len(parts) * elements, parts)
