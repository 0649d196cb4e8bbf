"""What one task of a forward pass by lines does, see ../by_line.py; its plan is made in ../by_line_plan.py."""

from __future__ import annotations

from .. import by_line_plan as word
from ..compiler import helper
from ..simd import address, full, lanes, load, load_first, offset, pointer_like, store, store_first
from .convolution import tile_begin
from .microkernel import brgemm


@helper
def _taps_of_line(x, nothing, plan, n, d, h, scratch, table):  # type: ignore[no-untyped-def]
    """The line of x that each tap reads: one of zeros if that is padding."""
    low_d = d * plan[word.STRIDE] - plan[word.PADDING]
    low_h = h * plan[word.STRIDE + 1] - plan[word.PADDING + 1]
    for a in range(plan[word.TAPS]):
        in_d = low_d + a * plan[word.DILATION]
        for b in range(plan[word.TAPS + 1]):
            in_h = low_h + b * plan[word.DILATION + 1]
            place = nothing
            if 0 <= in_d < plan[word.EXTENT] and 0 <= in_h < plan[word.EXTENT + 1]:
                place = x + n * plan[word.X] + in_d * plan[word.X + 1] + in_h * plan[word.X + 2]
            scratch[table] = place
            table += 1


@helper
def _copy_segments(x, nothing, plan, begin, count, scratch, lines, entries, segments, own, table):  # type: ignore[no-untyped-def]
    """``count`` elements of each line from ``begin`` on, zeros beyond its ends, and the table of these copies."""
    zero = full(segments, 0.0)
    first, last = max(0, -begin), min(count, plan[word.LINE] - begin)
    for entry in range(entries):
        place, at = scratch[lines + entry], own + entry * plan[word.SEGMENT]
        scratch[table + entry] = nothing
        if place != nothing:
            scratch[table + entry] = address(offset(segments, at))
            for i in range(0, count, lanes(segments)):
                store_first(segments, at + i, zero, count - i)
            for i in range(first, last, lanes(segments)):
                store_first(segments, at + i, load_first(pointer_like(x, place), begin + i, last - i), last - i)


def conv(
    task: int, worker: int, x: Array, weights: Array, init: Array, y: Array, zeros: Array, segments: Array, plan: Table,
    scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """``y[o] = init + sum over the taps of x[o*step + tap] @ weights[tap]`` for a range of pieces of lines."""
    tasks, units, pieces = plan[word.TASKS], plan[word.UNITS], plan[word.PIECES]
    entries, depth = plan[word.TAPS] * plan[word.TAPS + 1], plan[word.DEPTH]
    size, width, panels = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS]
    least, extra = plan[word.LEAST], plan[word.EXTRA]
    table_of_line = worker * scratch_words
    table = table_of_line + (entries + 7) // 8 * 8
    step = plan[word.STEP] // size
    own = worker * entries * plan[word.SEGMENT]
    for unit in range(task * units // tasks, (task + 1) * units // tasks):
        line, piece = unit // pieces, unit % pieces
        h, rest = line % plan[word.OUTPUT + 1], line // plan[word.OUTPUT + 1]
        d, n = rest % plan[word.OUTPUT], rest // plan[word.OUTPUT]
        _taps_of_line(address(x), address(zeros), plan, n, d, h, scratch, table_of_line)
        target = address(y) + n * plan[word.Y] + d * plan[word.Y + 1] + h * plan[word.Y + 2]
        tile_first, tile_last = piece * plan[word.PIECE], min((piece + 1) * plan[word.PIECE], plan[word.TILES])
        for panel in range(panels):  # a panel of the weights stays in the first cache for all tiles of the piece
            last = 1 if panel == panels - 1 else 0
            column = panel * width * size
            for tile in range(tile_first, tile_last):
                more, first = 1 if tile < extra else 0, tile_begin(tile, least, extra)
                begin, count = first * step - plan[word.LOW], (least + more - 1) * step + depth
                if begin >= 0 and begin + count <= plan[word.LINE]:
                    for i in range(0, entries, lanes(scratch)):
                        store(scratch, table + i, load(scratch, table_of_line + i) + begin * size)
                else:
                    _copy_segments(
                        x, address(zeros), plan, begin, count, scratch, table_of_line, entries, segments, own, table
                    )
                brgemm(
                    plan[word.MICRO + more + 2 * last], address(offset(scratch, table)), entries, depth,
                    plan[word.STEP], address(offset(weights, panel * entries * depth * width)), depth * width * size,
                    width * size, target + first * plan[word.Y + 3] + column, plan[word.Y + 3],
                    plan[word.TAIL] if last == 1 else lanes(x), address(init) + column, 0,
                )  # fmt: skip
