"""How a convolution by Winograd's transforms is cut into tiles and blocks: integers only, made once per shape.

The output is cut into tiles of 4 positions on every axis, and a few of 3 and 2 where 4 does not divide it. A tile of m
positions needs the values of its product at m + 2 points, which are the first m + 2 of (0, 5/8, -5/8, infinity, 3/2,
-3/2): the points of a small tile are points of a large one, so that all tiles share the same transformed weights, and
all tiles that need a pair of points (one along each axis) are rows of the same matrix product.

A plan is one array of int64, whose words are named here. A line is all tiles side by side; lines are counted through
the batch; a block is some lines, whose transformed input and output fit the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .microkernel import MOST_ROWS, Tile, micro, tile
from .plan import Axis

POINTS = 6  # along an axis, at most
SLOTS = 8  # addresses of a line of an input tile: at least POINTS, whole vectors of addresses

X, EXTENT, LOW = 0, 3, 5  # strides N, H, W of x in bytes; its extents H, W; zeros in front
Y = 7  # strides N, H, W of y (or its gradient) in elements
SIZE, DEPTH, DEPTH_STEP = 10, 11, 12  # bytes of an element; channels of x; elements of a row of transformed input
COLUMNS, COLUMN_STEP = 13, 14  # channels of y; elements of a row of transformed output
WIDTH, PANELS = 15, 16  # of the weights, as the micro-kernel reads them
LINES = 17  # lines of tiles in an image
MOST = 18  # tiles in a block, at most
INPUT_STEP, PRODUCT_STEP = 19, 20  # elements from one matrix of transformed input or output to the next
COUNTS_H, COUNTS_W = 21, 24  # tiles that need 4, 5, 6 points along H, and along W
MICRO = 27  # micro-kernels: of a whole panel with 1, 2, ... rows, then of the last panel
TASKS = MICRO + 2 * MOST_ROWS  # where the tasks begin
BLOCK = TASKS + 1  # lines in a block
ROWS, ELEMENTS = TASKS + 2, TASKS + 3  # rows of the micro-kernel's tile; weight gradient: elements of a partial sum
LIST = TASKS + 4  # of every tile along H, then along W: its first position, its positions

_BLOCK_BYTES = 448 << 10  # transformed input and output of a block that stay in the second cache of a core
_SHARED_BYTES = 6 << 20  # the same of a block that all cores share
_LARGE = 1 << 20  # bytes of transformed weights that would have to come from memory for each small block
_LARGE_SUMS = 384 << 10  # bytes of their gradient that do not stay in the second cache beside a block
_PARTS, _SUMS_BYTES = 8, 5 << 20  # partial sums: more keep the error small


@dataclass(frozen=True, slots=True)
class Transformed:
    """A plan of the forward pass and the input gradient, or of the weight gradient.

    ``blocks`` is empty where a task makes all of its lines by itself. Where the weights are large, all threads work on
    one block of lines at a time, so that each pair's weights are read once for many tiles: these are its bounds.
    """

    words: np.ndarray
    tasks: int
    blocks: list[tuple[int, int]]
    work: int  # elements per thread, or of the block that threads share
    table: int  # words per thread
    weights: int  # elements of the transformed weights, or of all their partial sums
    parts: int

    @property
    def blocks_of_parts(self) -> list[list[tuple[int, int]]]:
        """The blocks whose sums are added up together, part by part."""
        count = len(self.blocks)
        cuts = [part * count // self.parts for part in range(self.parts + 1)] if count else [0]
        return [self.blocks[first:last] for first, last in zip(cuts, cuts[1:], strict=False)]


def tiles_of(extent: int) -> list[int]:
    """``extent`` positions, at least 2, as tiles of 4, 3 and 2, the larger ones first.

    >>> tiles_of(14), tiles_of(13), tiles_of(7)
    ([4, 4, 4, 2], [4, 4, 3, 2], [4, 3])
    """
    whole, rest = divmod(extent, 4)
    if rest == 1:
        return [4] * (whole - 1) + [3, 2]
    return [4] * whole + [rest] * (rest > 0)


def _listed(extent: int) -> tuple[list[int], list[int]]:
    """The words of the tiles along an axis, and how many need 4, 5, 6 points."""
    sizes = tiles_of(extent)
    words, begin = [], 0
    for size in sizes:
        words += [begin, size]
        begin += size
    return words, [sum(size + 2 > points for size in sizes) for points in (3, 4, 5)]


def rank(line: int, counts: Sequence[int], lines: int, group: int) -> int:
    """How many of the lines before ``line`` need the points of a group."""
    return line // lines * counts[group] + min(line % lines, counts[group])


def _header(
    axes: list[Axis], batch: int, depth: int, columns: int, shape: Tile, x: Sequence[int], y: Sequence[int],
    size: int, shared: bool,
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:  # fmt: skip
    """The first words of a plan, the tiles, the counts along both axes, and the bounds of the blocks."""
    height, width = axes[1], axes[2]
    listed_h, counts_h = _listed(height.output)
    listed_w, counts_w = _listed(width.output)
    steps = [-(-channels // shape.lanes) * shape.lanes for channels in (depth, columns)]
    lines, across = batch * counts_h[0], counts_w[0]
    line_bytes = POINTS * POINTS * sum(steps) * size * across
    most = max(1, min(lines, (_SHARED_BYTES if shared else _BLOCK_BYTES) // line_bytes))
    cuts = -(-lines // most)
    bounds = [cut * lines // cuts for cut in range(cuts + 1)]
    most = -(-lines // cuts)
    words = [x[0], x[2], x[3], height.input, width.input, height.low, width.low, y[0], y[2], y[3]]
    words += [size, depth, steps[0], columns, steps[1], shape.width, shape.panels, counts_h[0], most * across]
    # one more vector: at multiples of 4096 bytes the matrices would share the same few lines of the first cache
    words += [most * across * step + shape.lanes for step in steps]
    words += counts_h + counts_w
    return words, listed_h + listed_w, counts_h, counts_w, bounds


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


def _pairs_of(bounds: list[int]) -> list[tuple[int, int]]:
    return list(zip(bounds, bounds[1:], strict=False))


def transform_plan(
    axes: list[Axis], batch: int, depth: int, columns: int, dtype: str, x: Sequence[int], y: Sequence[int]
) -> Transformed:
    """Plan of the forward pass; the strides N, D, H, W of x are in bytes, those of y in elements."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "rows", columns)
    weights = POINTS * POINTS * shape.panels * depth * shape.width
    shared = weights * size > _LARGE
    words, listed, counts_h, counts_w, bounds = _header(axes, batch, depth, columns, shape, x, y, size, shared)
    rows: set[int] = set()
    for first, last in _pairs_of(bounds):
        for g in range(3):
            found = rank(last, counts_h, counts_h[0], g) - rank(first, counts_h, counts_h[0], g)
            for across in counts_w:
                rows |= _rows_of_tiles(found * across, shape.rows)
    words += _micro_words(dtype, "rows", shape, rows)
    words += [LIST + len(listed), 0, shape.rows, 0, *listed]
    blocks = _pairs_of(bounds)
    return Transformed(
        np.array(words + [bound for block in blocks for bound in block], np.int64),
        len(blocks),
        blocks if shared else [],
        POINTS * POINTS * (words[INPUT_STEP] + words[PRODUCT_STEP]),
        POINTS * SLOTS + 2 * words[MOST],
        weights,
        1,
    )


def transform_sum_plan(
    axes: list[Axis], batch: int, depth: int, columns: int, dtype: str, x: Sequence[int], g: Sequence[int]
) -> Transformed:
    """Plan of the weight gradient; strides as for ``transform_plan``. Small weights have several partial sums."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "dense", columns)
    elements = POINTS * POINTS * depth * -(-columns // shape.lanes) * shape.lanes
    shared = elements * size > _LARGE_SUMS
    words, listed, counts_h, _, bounds = _header(axes, batch, depth, columns, shape, x, g, size, shared)
    lines = batch * counts_h[0]
    parts = max(1, min(_PARTS, len(bounds) - 1, _SUMS_BYTES // (elements * size)))
    tasks = [bound for part in range(parts) for bound in (part * lines // parts, (part + 1) * lines // parts)]
    words += _micro_words(dtype, "dense", shape, _rows_of_tiles(depth, shape.rows))
    words += [LIST + len(listed), words[MOST] // words[COUNTS_W], shape.rows, elements, *listed]
    return Transformed(
        np.array(words + tasks, np.int64),
        len(tasks) // 2,
        _pairs_of(bounds) if shared else [],
        POINTS * POINTS * (words[INPUT_STEP] + words[PRODUCT_STEP]),
        POINTS * SLOTS + 2 + depth,
        parts * elements,
        parts,
    )
