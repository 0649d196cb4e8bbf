# mypy: ignore-errors
"""One task of a convolution. Its plan is made in gather_plan.py and reduce_plan.py."""

from __future__ import annotations

from ..machine.compiler import helper
from ..machine.microkernel import MOST_ROWS, ROW_SLOTS
from ..machine.product_jit import multiply, multiply_panels, rows_of_tile
from ..machine.simd import address, full, lanes, load_first, offset, pointer_like, store_first
from ..memory.packing_jit import pack_block
from .gather_plan import GATHER, PHASE, TASK
from .reduce_plan import REDUCE, WINDOW
from .reduce_plan import TASK as SUM
from .walk_jit import entries_of_tile, position_of, read_and_written


def gather(
    task: int,
    worker: int,
    source: Array,
    weights: Array,
    tap_offsets: Table,
    init: Array,
    target: Array,
    zeros: Array,
    packed: Array,
    packed_words: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """A range of tiles and panels of ``target[q] = init + sum over taps of source[q*step + tap] @ weights[tap]``.

    Forward: the taps are the kernel's. Input gradient: one phase per residue of the position modulo the stride, each
    with the taps that reach it.
    """
    own = plan[GATHER.tasks] + TASK.words * task
    phase = plan[own + TASK.phase]
    part_first, part_last = plan[own + TASK.part_first], plan[own + TASK.part_last]
    tile_first, tile_last = plan[own + TASK.tile_first], plan[own + TASK.tile_last]
    size, width, panels, depth = plan[GATHER.size], plan[GATHER.width], plan[GATHER.panels], plan[GATHER.depth]
    product = offset(plan, phase + PHASE.product)
    taps = plan[phase + PHASE.taps] * plan[phase + PHASE.taps + 1] * plan[phase + PHASE.taps + 2]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    table = rows_of_c + ROW_SLOTS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    source_at, target_at = address(source), address(target) + plan[phase + PHASE.target]
    first_pixel, _ = rows_of_tile(product, tile_first)
    begin = position_of(plan, phase, first_pixel)
    for i in range(4 * ROW_SLOTS):  # missing rows of a tile must be readable, too
        scratch[coordinates + i] = 0
    if plan[GATHER.chunks] == 0 or taps == 0:
        entries, entry_step = taps, plan[GATHER.entry_step]
        if taps == 0:  # no tap reaches these positions: 0 * 0 is added to the initial row
            entries, depth, entry_step = 1, 1, 0
            for i in range(ROW_SLOTS):
                scratch[table + i] = address(zeros)
        position = begin
        group_first, panel_first = part_first // panels, part_first % panels
        for tile in range(tile_first, tile_last):
            _, rows = rows_of_tile(product, tile)
            position = read_and_written(
                source_at, target_at, plan, phase, position, rows, scratch, coordinates, rows_of_c
            )
            if taps > 0:
                entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), 0, taps)
            group, panel = group_first, panel_first
            for _ in range(part_first, part_last):
                b = (
                    address(weights)
                    + group * plan[GATHER.weight_group]
                    + panel * plan[GATHER.panel_step]
                    + plan[phase + PHASE.first_tap] * plan[GATHER.entry_step]
                )
                if taps == 0:
                    b = address(zeros)
                column = (group * plan[GATHER.columns] + panel * width) * size
                multiply(
                    product,
                    rows,
                    panel,
                    table_at,
                    entries,
                    depth,
                    group * plan[GATHER.depth],
                    b,
                    entry_step,
                    plan[GATHER.weight_row],
                    rows_at,
                    column,
                    address(init) + column,
                    0,
                )
                panel += 1
                if panel == panels:
                    group, panel = group + 1, 0
        return
    own_packed = worker * packed_words
    packed_at = address(offset(packed, own_packed))
    for part in range(part_first, part_last):
        group, panel = part // panels, part % panels
        column = (group * plan[GATHER.columns] + panel * width) * size
        count = min(width, plan[GATHER.columns] - panel * width)
        origin = group * plan[GATHER.group_step] + panel * width * plan[GATHER.column_step]
        for tap in range(0, taps, plan[GATHER.tap_chunk]):
            entries = min(plan[GATHER.tap_chunk], taps - tap)
            for k in range(0, depth, plan[GATHER.depth_chunk]):
                some = min(plan[GATHER.depth_chunk], depth - k)
                b, ldb = packed_at, width * size
                for e in range(entries):
                    at = origin + tap_offsets[plan[phase + PHASE.first_tap] + tap + e] + k * plan[GATHER.depth_step]
                    if plan[GATHER.chunks] == 1:
                        pack_block(
                            weights,
                            at,
                            plan[GATHER.depth_step],
                            plan[GATHER.column_step],
                            some,
                            count,
                            packed,
                            own_packed + e * some * width,
                            width,
                        )
                    else:
                        b, ldb = address(offset(weights, at)), plan[GATHER.depth_step] * size
                position = begin
                for tile in range(tile_first, tile_last):
                    _, rows = rows_of_tile(product, tile)
                    position = read_and_written(
                        source_at, target_at, plan, phase, position, rows, scratch, coordinates, rows_of_c
                    )
                    entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), tap, tap + entries)
                    multiply(
                        product,
                        rows,
                        panel,
                        table_at,
                        entries,
                        some,
                        group * depth + k,
                        b,
                        some * width * size,
                        ldb,
                        rows_at,
                        column,
                        address(init) + column,
                        0 if tap + k == 0 else 1,
                    )


@helper
def _copy_line(x, place, plan, copies, at):  # type: ignore[no-untyped-def]
    """A line of x with its padding."""
    zero, count = full(copies, 0.0), plan[REDUCE.copy]
    first, last = max(0, plan[REDUCE.low]), min(count, plan[REDUCE.line] + plan[REDUCE.low])
    for i in range(0, first, lanes(copies)):
        store_first(copies, at + i, zero, first - i)
    for i in range(first, last, lanes(copies)):
        store_first(copies, at + i, load_first(pointer_like(x, place), i - plan[REDUCE.low], last - i), last - i)
    for i in range(max(first, last), count, lanes(copies)):
        store_first(copies, at + i, zero, count - i)


@helper
def _entries_of_tap(  # type: ignore[no-untyped-def]
    x, g, plan, a, b, lowest, count, first_row, last_row, scratch, table, copies, own
):
    """The address table of one tap: per row of the output, the addresses of the row and of its input; their number."""
    entries = 0
    height, depth = plan[WINDOW.output + 1], plan[WINDOW.output]
    h = first_row % height
    rest = first_row // height
    d = rest % depth
    n = rest // depth
    for _ in range(first_row, last_row):
        in_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + a * plan[WINDOW.dilation]
        in_h = h * plan[WINDOW.stride + 1] - plan[WINDOW.padding + 1] + b * plan[WINDOW.dilation + 1]
        if 0 <= in_d < plan[WINDOW.extent] and 0 <= in_h < plan[WINDOW.extent + 1] and count > 0:
            place = address(x) + n * plan[WINDOW.x] + in_d * plan[WINDOW.x + 1] + in_h * plan[WINDOW.x + 2]
            if plan[REDUCE.copy] > 0:
                at = own + entries * plan[REDUCE.copy]
                _copy_line(x, place, plan, copies, at)
                place = address(offset(copies, at))
            scratch[table + 2 * entries] = place
            scratch[table + 2 * entries + 1] = (
                address(g)
                + n * plan[WINDOW.g]
                + d * plan[WINDOW.g + 1]
                + h * plan[WINDOW.g + 2]
                + lowest * plan[WINDOW.g + 3]
            )
            entries += 1
        h += 1
        if h == height:
            h = 0
            d += 1
            if d == depth:
                d = 0
                n += 1
    return entries


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    target: Array,
    zeros: Array,
    copies: Array,
    copied: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``target[tap, i, j] = sum over the task's rows of x[position + tap, i] * g[position, j]``."""
    own = plan[REDUCE.tasks] + SUM.words * task
    target_at = address(target) + plan[own + SUM.part] * plan[REDUCE.partial]
    group_first, group_last = plan[own + SUM.group_first], plan[own + SUM.group_last]
    panel_first, panel_last = plan[own + SUM.panel_first], plan[own + SUM.panel_last]
    tap_first, tap_last = plan[own + SUM.tap_first], plan[own + SUM.tap_last]
    tile_first, tile_last = plan[own + SUM.tile_first], plan[own + SUM.tile_last]
    row_first, row_last = plan[own + SUM.row_first], plan[own + SUM.row_last]
    size, width, channels = plan[REDUCE.size], plan[REDUCE.width], plan[REDUCE.rows]
    rows_of_c = worker * scratch_words
    table = rows_of_c + MOST_ROWS
    taps_h, taps_w = plan[WINDOW.kernel + 1], plan[WINDOW.kernel + 2]
    for chunk in range(row_first, row_last, plan[REDUCE.chunk]):
        accumulate = 0 if chunk == row_first else 1
        for tap in range(tap_first, tap_last):
            c_tap = tap % taps_w
            b_tap = tap // taps_w % taps_h
            a_tap = tap // (taps_w * taps_h)
            # the positions w of a row with 0 <= w*stride + move < extent
            move = c_tap * plan[WINDOW.dilation + 2] - plan[WINDOW.padding + 2]
            stride = plan[WINDOW.stride + 2]
            lowest = max(0, (-move + stride - 1) // stride)
            highest = min(plan[WINDOW.output + 2], (plan[WINDOW.extent + 2] - move + stride - 1) // stride)
            depth = highest - lowest
            last = min(chunk + plan[REDUCE.chunk], row_last)
            entries = _entries_of_tap(
                x, g, plan, a_tap, b_tap, lowest, depth, chunk, last, scratch, table, copies, worker * copied
            )
            lda, ldb, move_x = (
                stride * plan[WINDOW.x + 3],
                plan[WINDOW.g + 3],
                (lowest * stride + move) * plan[WINDOW.x + 3],
            )
            groups_x, groups_g = plan[REDUCE.x_group], plan[REDUCE.g_group]
            tile_a, tile_b = size, size
            if entries == 0:  # the tap reads only padding here: 0 * 0
                scratch[table] = address(zeros)
                scratch[table + 1] = address(zeros)
                entries, depth, lda, ldb, move_x, groups_x, groups_g, tile_a, tile_b = 1, 1, 0, 0, 0, 0, 0, 0, 0
            for group in range(group_first, group_last):
                for tile in range(tile_first, tile_last):
                    # a task's first tile reads its part of g first, which is then in L1
                    product = offset(plan, REDUCE.product if tile == tile_first else REDUCE.others)
                    first, rows = rows_of_tile(product, tile)
                    for i in range(rows):
                        scratch[rows_of_c + i] = (
                            target_at
                            + (tap * channels + first + i) * plan[REDUCE.row_step]
                            + group * plan[REDUCE.columns] * size
                        )
                    multiply_panels(
                        product,
                        rows,
                        panel_first,
                        panel_last,
                        address(offset(scratch, table)),
                        entries,
                        depth,
                        lda,
                        group * groups_g,
                        width * tile_b,
                        move_x + group * groups_x + first * tile_a,
                        ldb,
                        address(offset(scratch, rows_of_c)),
                        address(zeros),
                        accumulate,
                    )


def add_partials(task: int, worker: int, partials: Array, target: Array, count: int, parts: int, chunk: int) -> None:
    """``target[i] = partials[0, i] + partials[1, i] + ...`` in this order."""
    first = task * chunk
    last = min(count, first + chunk)
    for i in range(first, last, lanes(target)):
        left = min(last - i, lanes(target))
        total = load_first(partials, i, left)
        for part in range(1, parts):
            total = total + load_first(partials, part * count + i, left)
        store_first(target, i, total, left)
