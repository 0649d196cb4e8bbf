"""What one task of a forward pass by lines does, see ../by_line.py; its plan is made in ../by_line_plan.py."""

from __future__ import annotations

from .. import by_line_plan as word
from ..compiler import helper
from ..simd import address, lanes, load, offset, store
from .convolution import tile_begin
from .microkernel import brgemm


@helper
def _taps_of_line(x, nothing, plan, n, d, h, scratch, table):  # type: ignore[no-untyped-def]
    """Where each tap reads for the first position of a line: a line of zeros if that is padding."""
    low_d = d * plan[word.STRIDE] - plan[word.LOW]
    low_h = h * plan[word.STRIDE + 1] - plan[word.LOW + 1]
    for a in range(plan[word.TAPS]):
        in_d = low_d + a * plan[word.DILATION]
        for b in range(plan[word.TAPS + 1]):
            in_h = low_h + b * plan[word.DILATION + 1]
            place = nothing
            if 0 <= in_d < plan[word.EXTENT] and 0 <= in_h < plan[word.EXTENT + 1]:
                place = x + n * plan[word.X] + in_d * plan[word.X + 1] + in_h * plan[word.X + 2]
            scratch[table] = place
            table += 1


def conv(
    task: int, worker: int, x: Array, weights: Array, init: Array, y: Array, zeros: Array, plan: Table, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """``y[o] = init + sum over the taps of x[o*step + tap] @ weights[tap]`` for a range of pieces of lines."""
    tasks, units, pieces = plan[word.TASKS], plan[word.UNITS], plan[word.PIECES]
    entries, depth = plan[word.TAPS] * plan[word.TAPS + 1], plan[word.DEPTH]
    size, width, panels = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS]
    least, extra = plan[word.LEAST], plan[word.EXTRA]
    table_of_line = worker * scratch_words
    table = table_of_line + (entries + 7) // 8 * 8
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
                for i in range(0, entries, lanes(scratch)):
                    store(scratch, table + i, load(scratch, table_of_line + i) + first * plan[word.STEP])
                brgemm(
                    plan[word.MICRO + more + 2 * last], address(offset(scratch, table)), entries, depth,
                    plan[word.STEP], address(offset(weights, panel * entries * depth * width)), depth * width * size,
                    width * size, target + first * plan[word.Y + 3] + column, plan[word.Y + 3],
                    plan[word.TAIL] if last == 1 else lanes(x), address(init) + column, 0,
                )  # fmt: skip
