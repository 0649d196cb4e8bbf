# mypy: ignore-errors
"""Memory that a convolution by Winograd's transforms soon needs, prefetched while it multiplies.

A product has its operands in the cache and leaves memory idle; a transform touches memory and hardly computes. So the
input of the next block and the output of this one are prefetched bit by bit between the products of the pairs.
"""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.simd import ahead_by
from .winograd_plan import PAIRS, TILE, WINOGRAD

_LINE = 64  # bytes of a cache line
_read, _write = ahead_by(0), ahead_by(0, write=True)


@helper
def input_lines(plan, block):  # type: ignore[no-untyped-def]
    """The first element of the input of a block, and the number of cache lines to prefetch from there."""
    _, _, line_first, line_last, begin, end = block
    low, rows, size = plan[WINOGRAD.low + 1], plan[WINOGRAD.extent + 1], plan[WINOGRAD.size]
    first = max(0, _row(plan, line_first) - low)
    last = min(rows, _row(plan, line_last) - low + plan[WINOGRAD.side] - 1)
    at, depths, width = WINOGRAD.x, plan[WINOGRAD.extent], plan[WINOGRAD.extent + 2]
    n, d, h = plan[at] // size, plan[at + 1] // size, plan[at + 2] // size
    return _lines(plan, n, d, h, depths, begin, end, first, last, width * plan[WINOGRAD.depth])


@helper
def output_lines(plan, block):  # type: ignore[no-untyped-def]
    """Likewise, of the output of a block, or of the gradient to it."""
    begin, end, line_first, line_last, _, _ = block
    at = WINOGRAD.y
    tile = WINOGRAD.list + TILE.words * (plan[WINOGRAD.lines] + plan[WINOGRAD.counts_w] - 1)
    width = plan[tile + TILE.begin] + plan[tile + TILE.size]
    return _lines(
        plan,
        plan[at],
        plan[at + 1],
        plan[at + 2],
        plan[WINOGRAD.slices],
        begin,
        end,
        _row(plan, line_first),
        _row(plan, line_last),
        width * plan[WINOGRAD.columns],
    )


@helper
def read_soon(p, begin, lines, pair, size):  # type: ignore[no-untyped-def]
    """Prefetch the part of some cache lines that is due with a pair of points."""
    step = 8 if size == 8 else 16  # elements of a line
    first, last = pair * lines // PAIRS, (pair + 1) * lines // PAIRS
    for at in range(begin + first * step, begin + last * step, step):
        _read(p, at)


@helper
def write_soon(p, begin, lines, pair, size):  # type: ignore[no-untyped-def]
    """Likewise, for writing."""
    step = 8 if size == 8 else 16
    first, last = pair * lines // PAIRS, (pair + 1) * lines // PAIRS
    for at in range(begin + first * step, begin + last * step, step):
        _write(p, at)


@helper
def _row(plan, line):  # type: ignore[no-untyped-def]
    """The first row of a line of tiles; for the end of the lines, the end of the rows."""
    if line < plan[WINOGRAD.lines]:
        return plan[WINOGRAD.list + TILE.words * line + TILE.begin]
    last = WINOGRAD.list + TILE.words * (line - 1)
    return plan[last + TILE.begin] + plan[last + TILE.size]


@helper
def _lines(plan, n, d, h, depths, begin, end, first, last, of_row):  # type: ignore[no-untyped-def]
    """The memory from row ``first`` of slice ``begin`` to row ``last`` of slice ``end``, if at least half of it is
    used. ``n``, ``d``, ``h``: elements from one image, slice and row to the next; ``of_row``: used of a row."""
    image, image_last = begin // depths, (end - 1) // depths
    start = image * n + (begin - image * depths) * d + first * h
    stop = image_last * n + (end - 1 - image_last * depths) * d + last * h
    if plan[WINOGRAD.ahead] == 0 or stop - start > 2 * (end - begin) * (last - first) * of_row:
        return start, 0
    return start, max(0, stop - start) * plan[WINOGRAD.size] // _LINE
