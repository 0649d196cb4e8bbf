"""Winograd convolution with 3x3, 5x5 and 2x2 taps, and the plan of its tiles.

The output is cut into tiles of 4 positions along H and W, and a few of 3 and 2 if 4 does not divide it (for two taps
along H and W: of 3 positions, the last one of the remainder). A tile of m positions needs the values of its product at
m + 2 points, which are the first m + 2 of (0, 5/8, -5/8, infinity, 3/2, -3/2): the points of a small tile are points of
a large one, so that all tiles share the same transformed weights, and all tiles that need a pair of points (one along
each axis) are rows of the same matrix product. The taps along D, where there are any, are entries of that product.

A line is a row of tiles, a slice all lines of one position along D of one image. A block is some lines of some
slices, whose transformed input and output fit the cache.

Tiles of 4x4 outputs become products at 6x6 points: F(4x4, 3x3), plus smaller tiles that fill up the output.
The input gradient is the same with flipped weights; the weight gradient uses the adjoint transforms. Five taps have
tiles of 2 positions, which need all 6 points. A dilated convolution is one without dilation for each residue of its
positions modulo the dilation: all positions of a tile have the same residue, and the tiles of all residues are rows of
the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ..machine.microkernel import PRODUCT, TASK_WORK, Tile, even_product, heights_of, registers, tile
from ..machine.microkernel import product as tile_product
from ..machine.record import record
from ..machine.scratch import page_of
from .axes import Axis

# ---- Plans that divide a Winograd convolution into tiles and blocks -------------------------------------------------

POINTS = 6  # along an axis, at most
PAIRS = POINTS * POINTS
POINTS_OF_TWO = 16  # pairs of points that a tile of two taps uses
TERMS = 64  # channels summed before they are added to the others, which keeps the error small
SLOTS = 8  # addresses of a line of an input tile: at least POINTS, whole vectors of addresses

WINOGRAD = record(
    x=4,
    extent=3,
    low=3,  # strides N, D, H, W of x in bytes; its extents D, H, W; zeros in front of them
    dilation=2,  # along H and W: positions of x and of y from one of a tile to the next
    y=4,  # strides N, D, H, W of y (or its gradient) in elements
    size=1,  # bytes of an element
    depth=1,
    depth_step=1,  # channels of x; elements of a row of transformed input
    columns=1,
    column_step=1,  # channels of y; elements of a row of transformed output
    width=1,
    weight_step=1,
    tap_step=1,  # of the weights, or of their gradient: of a panel, and elements from pair to pair, and tap to tap
    slices=1,
    taps=1,  # positions of y along D; taps along D
    alone=1,  # 1: a slice of y reads only the same slice of x
    ring=1,  # slices of x whose transformed tiles are kept, each in the place of the one so many before
    input_step=1,
    product_step=1,  # elements from one matrix of transformed input or output to the next
    read=1,
    written=1,  # elements before the matrices of transformed input, and of transformed output
    lines=1,  # of a slice
    counts_h=3,
    counts_w=3,  # tiles that need 4, 5, 6 points along H, and along W
    side=1,  # taps along H and W: 3, 5 or 2
    together=1,  # consecutive pairs whose products share one spare matrix, see below
    rows=1,  # of the micro-kernel's tile
    product=PRODUCT.words,
    before=PAIRS,  # for each pair: matrices before its own
    blocks=1,
    count=1,  # where the blocks begin, and how many there are
    ahead=1,  # 1: prefetch
    list=0,  # the tiles along H, the tiles along W, the blocks, and the parts
)
TILE = record(begin=1, size=1)  # its first position; how many positions it has
BLOCK = record(first=1, last=1, line_first=1, line_last=1, known=1)  # see ``Block``
PART = record(first=1, last=1)  # blocks

# The forward pass writes each product M_e into the matrix of the previous pair, which is no longer needed:
# M_e is matrix e + e // together, V_e the one after it. Different threads may multiply pairs that share no
# spare matrix. But with taps along D, V stays: adjacent blocks read some of the same slices, which a task transforms
# once.
#
# Where the transformed weights are larger than the transformed input, one block has all of the input, which is
# transformed once; then the weights are transformed, multiplied and forgotten, some filters at a time. In the forward
# pass and the input gradient, a task does all of that for its filters: lines that another core has written are slow to
# read, on many CPUs slower than memory.

_TOGETHER = 3  # pairs of a task, where threads share a block
_BLOCK_BYTES, _SHARED_BYTES = 448 << 10, 2 << 20  # tiles of a block of one core, and of one that all cores share
_RING_BYTES, _RUNS = 2 << 20, 8  # with taps along D: tiles of a block; most tasks, of adjacent blocks
_LARGE = 3 << 20  # bytes of transformed weights that are too many to reread for each small block
_SUM_BLOCK_BYTES, _SHARED_SUM_BYTES = 600 << 10, 4 << 20  # of the weight gradient: tiles of both sides
_LONG_SUM = 64  # tiles of a block of the weight gradient, at least
_LONG = 48  # tiles of a block of one core with 16 registers, if it stays smaller than _SHARED_BYTES
_LARGE_SUMS = 640 << 10  # bytes of the weights' gradient that do not stay in L2 with a block
_CACHED = 1 << 20  # bytes of both operands that may still be in L2
_PARTS = 4  # partial sums, if each core has its own blocks
_WHOLE = 1 << 62  # no bound
_LINE = 64  # bytes of a cache line
# Matrices that no thread uses, from the memory of one thread to that of the next: a CPU prefetches so many of a
# transform's steps from pair to pair. Lines of another thread would be taken from its core, some for every tile.
_AHEAD = 12


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of some slices of the output, and the slices of the input that these read."""

    first: int
    last: int
    line_first: int
    line_last: int
    inputs: int  # slices of the input
    known: int = 0  # of those, the first ones, which the block before reads, too

    @property
    def lines(self) -> int:
        """Lines of a slice."""
        return self.line_last - self.line_first

    @property
    def new_lines(self) -> int:
        """Lines of the input that the block before does not read."""
        return (self.inputs - self.known) * self.lines


@dataclass(frozen=True, slots=True)
class Transformed:
    """A plan of the forward pass and the input gradient, or of the weight gradient.

    ``shared``: all threads work on one block at a time, so that each pair's weights are read once for many tiles, and
    slices read by several others are transformed once; else each task computes its blocks alone.
    """

    words: np.ndarray
    blocks: list[Block]
    shared: bool
    work: int  # elements per thread, or of the block that threads share
    table: int  # words per thread
    weights: int  # elements of the transformed weights, or of all their partial sums
    parts: list[tuple[int, int]]  # first and last block of every task, or of every partial sum; one, if shared


def tiles_of(extent: int) -> list[int]:
    """``extent`` positions, at least 2, as tiles of 4, 3 and 2, the larger ones first.

    >>> tiles_of(14), tiles_of(13), tiles_of(7)
    ([4, 4, 4, 2], [4, 4, 3, 2], [4, 3])
    """
    whole, rest = divmod(extent, 4)
    if rest == 1:
        return [4] * (whole - 1) + [3, 2]
    return [4] * whole + [rest] * (rest > 0)


def tiles_along(extent: int, side: int, dilation: int) -> list[tuple[int, int]]:
    """First position and size of the tiles of ``extent`` positions for ``side`` taps: 3, 5 or 2.

    The positions of a tile are ``dilation`` apart. The last tile of 5 or 2 taps may be partial.

    >>> tiles_along(11, 3, 2)
    [(0, 4), (1, 3), (7, 2), (8, 2)]
    """
    most = 2 if side == 5 else 3
    found = []
    for residue in range(dilation):
        count = -(-(extent - residue) // dilation)
        sizes = tiles_of(count) if side == 3 else [min(most, count - at) for at in range(0, count, most)]
        begin = residue
        for size in sizes:
            found.append((begin, size))
            begin += size * dilation
    return sorted(found, key=lambda tile: (-tile[1], tile[0]))


def points_along(extent: int, side: int, dilation: int) -> list[int]:
    """How many tiles along an axis need at least 4, 5 and 6 points."""
    tiles = tiles_along(extent, side, dilation)
    if side == 3:
        return [sum(size + 2 > points for _, size in tiles) for points in (3, 4, 5)]
    return [len(tiles)] * 3 if side == 5 else [len(tiles), 0, 0]


def _listed(axis: Axis) -> tuple[list[np.ndarray], list[int]]:
    """The tiles along an axis, and the numbers that need 4, 5, 6 points."""
    extent = axis.output, axis.kernel, axis.dilation
    return [TILE.pack(begin=begin, size=size) for begin, size in tiles_along(*extent)], points_along(*extent)


def _cut(count: int, most: int, times: int = 1) -> list[tuple[int, int]]:
    """``count`` cut into ranges of at most ``most``, about equally long.

    ``times``: how often the ranges occur. If there are few in all, their number is even, for two threads; if there are
    more, a multiple of four.

    >>> len(_cut(32, 3)), len(_cut(32, 7)), len(_cut(32, 32)), len(_cut(9, 2, times=2)), len(_cut(3, 1))
    (12, 6, 1, 6, 3)
    """
    cuts = -(-count // max(1, most))
    if cuts > 1:
        step = 4 if cuts * times > 2 * _PARTS else 2
        while cuts * times % step:
            cuts += 1
        cuts = min(cuts, count)
    return _ranges(count, cuts)


def _ranges(count: int, cuts: int) -> list[tuple[int, int]]:
    return [(cut * count // cuts, (cut + 1) * count // cuts) for cut in range(cuts)]


def _blocks(depth: Axis, batch: int, lines: int, across: int, tile_bytes: list[int], budget: int) -> list[Block]:
    """Whole slices, of several images if no tap reaches into another slice, or a part of the lines of one.

    ``tile_bytes``: of a tile read, and of one written.
    """
    alone, line_bytes = _alone(depth), across * sum(tile_bytes)
    if lines * line_bytes > budget and alone:
        cuts = _cut(lines, budget // line_bytes, batch * depth.output)
        return [Block(s, s + 1, first, last, 1) for s in range(batch * depth.output) for first, last in cuts]
    if alone:
        slices = _cut(batch * depth.output, budget // (lines * line_bytes))
        return [Block(first, last, 0, lines, last - first) for first, last in slices]
    found = []
    reach = depth.kernel - 1
    some = max(1, min(depth.output, (budget // (lines * across) - reach * tile_bytes[0]) // sum(tile_bytes)))
    cuts = _cut(lines, budget // (across * (sum(tile_bytes) + reach * tile_bytes[0])) if some == 1 else lines)
    for image in range(batch):
        origin = image * depth.output
        for line_first, line_last in cuts:
            reached = 0
            for first, last in _cut(depth.output, some):
                begin, end = inputs_of(depth, first, last)
                known = max(0, reached - begin)
                found.append(Block(origin + first, origin + last, line_first, line_last, end - begin, known))
                reached = end
    return found


def _tiles_of(axes: list[Axis], batch: int) -> int:
    """All tiles of the output."""
    return batch * axes[0].output * prod(points_along(a.output, a.kernel, a.dilation)[0] for a in axes[1:])


def _alone(depth: Axis) -> bool:
    return depth.kernel == 1 and depth.low == 0 and depth.input == depth.output


def _apart(count: int, size: int) -> int:
    """At least ``count`` elements from a pair's matrix to the next, an odd number of cache lines.

    At multiples of 4096 bytes, the 36 places that a transform writes to would share a few lines of L1, which took 5
    times as long with vectors of 64 bytes, and 13 times with 32.
    """
    return (-(-count * size // _LINE) | 1) * _LINE // size


def matrices_of(together: int) -> int:
    """The matrices of all pairs and the spare ones."""
    return PAIRS + PAIRS // together


def inputs_of(depth: Axis, first: int, last: int) -> tuple[int, int]:
    """The slices of the input that the slices of the output from ``first`` to ``last`` read."""
    begin = min(max(0, first - depth.low), depth.input)
    return begin, max(begin, min(depth.input, last - 1 - depth.low + depth.kernel))


def _begin(
    axes: list[Axis],
    batch: int,
    depth: int,
    columns: int,
    shape: Tile,
    x: Sequence[int],
    y: Sequence[int],
    size: int,
    budget: int,
    together: int,
    weight_step: int,
) -> tuple[np.ndarray, list[Block]]:
    """A plan without its product, and its blocks. ``budget``: bytes of a block's tiles.

    ``together``: see ``WINOGRAD``; 0 if both sides of a product stay: for the weight gradient, some filters, or taps
    along D.
    """
    listed_h, counts_h = _listed(axes[1])
    listed_w, counts_w = _listed(axes[2])
    steps = [-(-channels // shape.lanes) * shape.lanes for channels in (depth, columns)]
    across = counts_w[0]
    matrices = matrices_of(together) if together > 0 else PAIRS
    tile_bytes = [matrices * size * step for step in ((max(steps), 0) if together > 0 else steps)]
    blocks = _blocks(axes[0], batch, counts_h[0], across, tile_bytes, budget)
    ring = max(block.inputs for block in blocks)
    kept = [block.lines * (block.inputs if _alone(axes[0]) else ring) for block in blocks]
    read = _apart(max(kept) * across * steps[0], size)
    written = _apart(max((block.last - block.first) * block.lines for block in blocks) * across * steps[1], size)
    input_step, product_step = [max(read, written)] * 2 if together > 0 else [read, written]
    operands = (
        size
        * batch
        * sum(
            n * prod(lengths)
            for n, lengths in ((depth, [axis.input for axis in axes]), (columns, [axis.output for axis in axes]))
        )
    )
    listed = np.concatenate([*listed_h, *listed_w])
    block_words = [
        BLOCK.pack(first=b.first, last=b.last, line_first=b.line_first, line_last=b.line_last, known=b.known)
        for b in blocks
    ]
    words = WINOGRAD.pack(
        x=x,
        extent=[axis.input for axis in axes],
        low=[axis.low for axis in axes],
        dilation=[axis.dilation for axis in axes[1:]],
        y=y,
        size=size,
        depth=depth,
        depth_step=steps[0],
        columns=columns,
        column_step=steps[1],
        width=shape.width,
        weight_step=weight_step,
        tap_step=PAIRS * weight_step,
        slices=axes[0].output,
        taps=axes[0].kernel,
        alone=_alone(axes[0]),
        ring=ring,
        input_step=input_step,
        product_step=product_step,
        read=input_step if together > 0 else 0,
        written=0 if together > 0 else PAIRS * input_step,
        lines=counts_h[0],
        counts_h=counts_h,
        counts_w=counts_w,
        side=axes[1].kernel,
        together=together or 1,
        rows=shape.rows,
        product=[0] * PRODUCT.words,
        before=[pair + (pair // together if together > 0 else 0) for pair in range(PAIRS)],
        blocks=WINOGRAD.list + len(listed),
        count=len(blocks),
        ahead=operands > _CACHED and axes[1].dilation == axes[2].dilation == 1,
        list=np.concatenate([listed, *block_words]),
    )
    return words, blocks


def _fill(words: np.ndarray, product: np.ndarray) -> None:
    words[WINOGRAD.product : WINOGRAD.product + PRODUCT.words] = product


def _with_parts(words: np.ndarray, parts: list[tuple[int, int]]) -> np.ndarray:
    return np.concatenate([words, *(PART.pack(first=first, last=last) for first, last in parts)])


def _work(words: np.ndarray, together: int, shared: bool) -> int:
    """Elements of the matrices of a thread, with the gap to the next thread's, or of those that threads share."""
    steps = [int(words[WINOGRAD.input_step]), int(words[WINOGRAD.product_step])]
    matrices = PAIRS * sum(steps) if together == 0 else matrices_of(together) * steps[0]
    return matrices + (0 if shared else _AHEAD * max(steps))


def transform_plan(
    axes: list[Axis],
    batch: int,
    depth: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    y: Sequence[int],
    filters: bool = False,
) -> Transformed:
    """Plan of the forward pass; the strides N, D, H, W of x are in bytes, those of y in elements.

    ``filters``: the columns are some filters of many, so that the transformed input stays.
    """
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "rows", columns)
    weight_step = _apart(shape.panels * depth * shape.width, size)
    weights = axes[0].kernel * PAIRS * weight_step
    tiles = _tiles_of(axes, batch)
    # each small block reads the weights again: their total work must outweigh that
    shared = filters or weights * size > _LARGE or 2 * weights > tiles * PAIRS * max(depth, columns)
    tile_bytes = matrices_of(PAIRS) * size * -(-max(depth, columns) // shape.lanes) * shape.lanes
    budget, together = (_SHARED_BYTES, _TOGETHER) if shared else (_block_bytes(tiles, tile_bytes), PAIRS)
    if axes[0].kernel > 1:  # the tiles read stay for the next block
        shared, budget, together = filters, _RING_BYTES, 0
    if filters:
        budget, together = _WHOLE, 0
    words, blocks = _begin(axes, batch, depth, columns, shape, x, y, size, budget, together, weight_step)
    count = len(blocks)
    if axes[0].kernel > 1 and count < _PARTS:
        shared = True
    parts = [(0, count)] if shared else _ranges(count, min(_RUNS, count) if axes[0].kernel > 1 else count)
    heights: set[int] = set()
    alone, counts_h, counts_w = words[WINOGRAD.alone], words[WINOGRAD.counts_h :][:3], words[WINOGRAD.counts_w :][:3]
    for slices, first, last in {(b.last - b.first if alone else 1, b.line_first, b.line_last) for b in blocks}:
        for count, across in product(counts_h.tolist(), counts_w.tolist()):
            lines = min(last, count) - min(first, count)
            heights |= heights_of(slices * lines * across, shape.rows)
    _fill(words, tile_product(dtype, "rows", shape.whole_vectors(), heights))
    words = _with_parts(words, parts)
    table = page_of((2 * POINTS + 1 + axes[0].kernel) * SLOTS)
    return Transformed(words, blocks, shared, _work(words, together, shared), table, weights, parts)


def transform_sum_plan(
    axes: list[Axis],
    batch: int,
    depth: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    g: Sequence[int],
    filters: bool = False,
) -> Transformed:
    """Plan of the weight gradient; strides and ``filters`` as for ``transform_plan``."""
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "dense", columns)
    weight_step = _apart(depth * -(-columns // shape.lanes) * shape.lanes, size)
    elements = axes[0].kernel * PAIRS * weight_step
    shared = elements * size > _LARGE_SUMS or filters
    budget = _SHARED_SUM_BYTES if shared else _RING_BYTES
    if not shared and axes[0].kernel == 1:
        budget = _sum_block_bytes((-(-depth // shape.lanes) + -(-columns // shape.lanes)) * shape.lanes * size)
    budget = _WHOLE if filters else budget
    words, blocks = _begin(axes, batch, depth, columns, shape, x, g, size, budget, 0, weight_step)
    count = len(blocks)
    # a single block would be a single task: threads share it, if its products are worth several
    shared = shared or (count == 1 and _tiles_of(axes, batch) * PAIRS * depth * columns > TASK_WORK)
    parts = [(0, count)] if shared else _ranges(count, min(_PARTS, count))
    _fill(words, even_product(dtype, "dense", shape.whole_vectors(), depth))
    words = _with_parts(words, parts)
    most = max(block.last - block.first for block in blocks)
    table = page_of(2 * POINTS * SLOTS + depth + 2 * most)
    return Transformed(words, blocks, shared, _work(words, 0, shared), table, len(parts) * elements, parts)


def _block_bytes(tiles: int, tile_bytes: int) -> int:
    """The bytes of a block of one core, for all tiles and the bytes of one.

    Every block reads all transformed weights, which do not stay beside it in an L2 of 512 KB: with few tiles of many
    channels, that costs more than tiles from L3. There are about _PARTS blocks, if there are enough tiles.
    """
    if registers() == 32:
        return _BLOCK_BYTES
    return max(_BLOCK_BYTES, min(_SHARED_BYTES, _LONG * tile_bytes, tiles * tile_bytes // _PARTS))


def _sum_block_bytes(tile_bytes: int) -> int:
    """The bytes of a block of a weight gradient that no threads share; the bytes given are of a tile at one point.

    With 16 registers, sums of few tiles are slower than blocks that leave L2.
    """
    if registers() == 32:
        return _SUM_BLOCK_BYTES
    return max(_SUM_BLOCK_BYTES, min(_RING_BYTES, _LONG_SUM * PAIRS * tile_bytes))


def blocks_of(
    tiles: int, weight_bytes: int, depth: int, columns: int, lanes: int, size: int, taps: int, sums: bool
) -> int:
    """About how many blocks a pass has; the bytes are those of all transformed weights."""
    read, written = (-(-channels // lanes) * lanes * size for channels in (depth, columns))
    if sums:
        is_shared = weight_bytes > _LARGE_SUMS or taps > 1
        budget = _SHARED_SUM_BYTES if is_shared else _sum_block_bytes(read + written)
        return -(-tiles * PAIRS * (read + written) // budget)
    one = matrices_of(PAIRS) * max(read, written)
    shared = taps > 1 or weight_bytes > _LARGE or 2 * weight_bytes > tiles * one
    return -(-tiles * one // (_SHARED_BYTES if shared else _block_bytes(tiles, one)))


def partial_sums(tiles: int, weight_bytes: int, tile_bytes: int) -> int:
    """How many partial sums a weight gradient has; the bytes are those of the weights and of a tile at one point."""
    if weight_bytes > _LARGE_SUMS:
        return 1
    return min(_PARTS, -(-tiles * PAIRS * tile_bytes // _sum_block_bytes(tile_bytes)))
