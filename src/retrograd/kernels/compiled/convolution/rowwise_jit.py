# mypy: ignore-errors
"""One task of a row-by-row forward pass. Its plan is made in rowwise.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import PRODUCT
from ..machine.microkernel_jit import multiply, rows_of_tile
from ..machine.simd import address, full, lanes, load, load_first, offset, pointer_like, store, store_first
from .rowwise import ROWWISE


@helper
def _taps_of_line(x, nothing, plan, n, d, h, scratch, table):  # type: ignore[no-untyped-def]
    """The line of x that each tap reads; a line of zeros for padding."""
    low_d = d * plan[ROWWISE.stride] - plan[ROWWISE.padding]
    low_h = h * plan[ROWWISE.stride + 1] - plan[ROWWISE.padding + 1]
    for a in range(plan[ROWWISE.taps]):
        in_d = low_d + a * plan[ROWWISE.dilation]
        for b in range(plan[ROWWISE.taps + 1]):
            in_h = low_h + b * plan[ROWWISE.dilation + 1]
            place = nothing
            if 0 <= in_d < plan[ROWWISE.extent] and 0 <= in_h < plan[ROWWISE.extent + 1]:
                place = x + n * plan[ROWWISE.x] + in_d * plan[ROWWISE.x + 1] + in_h * plan[ROWWISE.x + 2]
            scratch[table] = place
            table += 1


@helper
def _copy_segments(x, nothing, plan, begin, count, scratch, lines, entries, segments, own, table):  # type: ignore[no-untyped-def]
    """``count`` elements of each line from ``begin`` on, zeros beyond its ends, and the table of these copies."""
    zero = full(segments, 0.0)
    first, last = max(0, -begin), min(count, plan[ROWWISE.line] - begin)
    for entry in range(entries):
        place, at = scratch[lines + entry], own + entry * plan[ROWWISE.segment]
        scratch[table + entry] = nothing
        if place != nothing:
            scratch[table + entry] = address(offset(segments, at))
            for i in range(0, count, lanes(segments)):
                store_first(segments, at + i, zero, count - i)
            for i in range(first, last, lanes(segments)):
                store_first(segments, at + i, load_first(pointer_like(x, place), begin + i, last - i), last - i)


def conv(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    init: Array,
    y: Array,
    zeros: Array,
    segments: Array,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``y[o] = init + sum over the taps of x[o*step + tap] @ weights[tap]`` for a range of pieces of lines."""
    tasks, units, pieces = plan[ROWWISE.tasks], plan[ROWWISE.units], plan[ROWWISE.pieces]
    entries, depth = plan[ROWWISE.taps] * plan[ROWWISE.taps + 1], plan[ROWWISE.depth]
    product, size = offset(plan, ROWWISE.product), plan[ROWWISE.size]
    row = product[PRODUCT.row]
    table_of_line = worker * scratch_words
    table = table_of_line + (entries + 7) // 8 * 8
    step = plan[ROWWISE.step] // size
    own = worker * entries * plan[ROWWISE.segment]
    for unit in range(task * units // tasks, (task + 1) * units // tasks):
        line, piece = unit // pieces, unit % pieces
        h, rest = line % plan[ROWWISE.output + 1], line // plan[ROWWISE.output + 1]
        d, n = rest % plan[ROWWISE.output], rest // plan[ROWWISE.output]
        _taps_of_line(address(x), address(zeros), plan, n, d, h, scratch, table_of_line)
        target = address(y) + n * plan[ROWWISE.y] + d * plan[ROWWISE.y + 1] + h * plan[ROWWISE.y + 2]
        tile_first = piece * plan[ROWWISE.piece]
        tile_last = min(tile_first + plan[ROWWISE.piece], product[PRODUCT.tiles])
        for panel in range(product[PRODUCT.panels]):  # a panel of the weights stays in L1 for all tiles
            column = panel * row
            for tile in range(tile_first, tile_last):
                first, rows = rows_of_tile(product, tile)
                begin, count = first * step - plan[ROWWISE.low], (rows - 1) * step + depth
                if begin >= 0 and begin + count <= plan[ROWWISE.line]:
                    for i in range(0, entries, lanes(scratch)):
                        store(scratch, table + i, load(scratch, table_of_line + i) + begin * size)
                else:
                    _copy_segments(
                        x, address(zeros), plan, begin, count, scratch, table_of_line, entries, segments, own, table
                    )
                multiply(
                    product,
                    rows,
                    panel,
                    address(offset(scratch, table)),
                    entries,
                    depth,
                    plan[ROWWISE.step],
                    address(weights) + panel * entries * depth * row,
                    depth * row,
                    row,
                    target + first * plan[ROWWISE.y + 3] + column,
                    plan[ROWWISE.y + 3],
                    address(init) + column,
                    0,
                )
