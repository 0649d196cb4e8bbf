"""What one task of a convolution does. The plan that it reads is made in ../gather_plan.py and ../reduce_plan.py."""

from __future__ import annotations

from .. import gather_plan as word
from .. import reduce_plan as term
from ..compiler import helper
from ..microkernel import MOST_ROWS, ROW_SLOTS
from ..simd import (
    address,
    both,
    counting,
    full,
    lanes,
    load,
    load_first,
    offset,
    pointer_like,
    select,
    store,
    store_first,
    within,
)
from .microkernel import brgemm
from .packing import pack_block


@helper
def tile_begin(tile, least, extra):  # type: ignore[no-untyped-def]
    """First row of a tile when the first ``extra`` tiles have ``least + 1`` rows and the others ``least``."""
    return tile * least + min(tile, extra)


@helper
def _rows_of_tile(source, target, plan, phase, position, count, scratch, coordinates, rows_of_c):  # type: ignore[no-untyped-def]
    """Where the ``count`` pixels from ``position`` on are read and written; returns the position behind them.

    Read: the coordinates and the address for a tap at offset 0.
    """
    n, d, h, w = position
    extent_d, extent_h, extent_w = (
        plan[phase + word.POSITIONS],
        plan[phase + word.POSITIONS + 1],
        plan[phase + word.POSITIONS + 2],
    )
    if w + count <= extent_w:  # one line: neighbours are equally far apart
        at_d, at_h = d * plan[phase + word.SOURCE_STEP], h * plan[phase + word.SOURCE_STEP + 1]
        line = source + n * plan[word.SOURCE] + at_d * plan[word.SOURCE + 1] + at_h * plan[word.SOURCE + 2]
        target += n * plan[word.TARGET] + d * plan[phase + word.TARGET_STEP] + h * plan[phase + word.TARGET_STEP + 1]
        for i in range(0, ROW_SLOTS, lanes(scratch)):
            at = counting(scratch) + (w + i)
            at_w = at * plan[phase + word.SOURCE_STEP + 2]
            store(scratch, coordinates + i, full(scratch, at_d))
            store(scratch, coordinates + ROW_SLOTS + i, full(scratch, at_h))
            store(scratch, coordinates + 2 * ROW_SLOTS + i, at_w)
            store(scratch, coordinates + 3 * ROW_SLOTS + i, at_w * plan[word.SOURCE + 3] + line)
            store(scratch, rows_of_c + i, at * plan[phase + word.TARGET_STEP + 2] + target)
        w += count
        if w < extent_w:
            return n, d, h, w
        h += 1
        if h < extent_h:
            return n, d, h, 0
        d += 1
        if d < extent_d:
            return n, d, 0, 0
        return n + 1, 0, 0, 0
    for i in range(count):
        at_d = d * plan[phase + word.SOURCE_STEP]
        at_h = h * plan[phase + word.SOURCE_STEP + 1]
        at_w = w * plan[phase + word.SOURCE_STEP + 2]
        scratch[coordinates + i] = at_d
        scratch[coordinates + ROW_SLOTS + i] = at_h
        scratch[coordinates + 2 * ROW_SLOTS + i] = at_w
        scratch[coordinates + 3 * ROW_SLOTS + i] = (
            source
            + n * plan[word.SOURCE]
            + at_d * plan[word.SOURCE + 1]
            + at_h * plan[word.SOURCE + 2]
            + at_w * plan[word.SOURCE + 3]
        )
        scratch[rows_of_c + i] = (
            target + n * plan[word.TARGET] + d * plan[phase + word.TARGET_STEP] + h * plan[phase + word.TARGET_STEP + 1]
            + w * plan[phase + word.TARGET_STEP + 2]
        )  # fmt: skip
        w += 1
        if w == extent_w:
            w = 0
            h += 1
            if h == extent_h:
                h = 0
                d += 1
                if d == extent_d:
                    d = 0
                    n += 1
    return n, d, h, w


@helper
def _entries_of_tile(plan, phase, scratch, coordinates, table, nothing, first, last):  # type: ignore[no-untyped-def]
    """The address table of a tile: per tap, where each pixel reads, or the row of zeros if that is padding."""
    taps_d, taps_h, taps_w = plan[phase + word.TAPS], plan[phase + word.TAPS + 1], plan[phase + word.TAPS + 2]
    moves_d = phase + word.LIST
    moves_h = moves_d + taps_d
    moves_w = moves_h + taps_h
    a, b, c = 0, 0, 0
    if first > 0:  # divisions are slow
        a, b, c = first // (taps_w * taps_h), first // taps_w % taps_h, first % taps_w
    zero = full(scratch, nothing)
    for tap in range(first, last):
        move_d, move_h, move_w = plan[moves_d + a], plan[moves_h + b], plan[moves_w + c]
        step = move_d * plan[word.SOURCE + 1] + move_h * plan[word.SOURCE + 2] + move_w * plan[word.SOURCE + 3]
        for i in range(0, ROW_SLOTS, lanes(scratch)):
            inside_d = within(load(scratch, coordinates + i) + move_d, plan[word.EXTENT])
            inside_h = within(load(scratch, coordinates + ROW_SLOTS + i) + move_h, plan[word.EXTENT + 1])
            inside_w = within(load(scratch, coordinates + 2 * ROW_SLOTS + i) + move_w, plan[word.EXTENT + 2])
            row = load(scratch, coordinates + 3 * ROW_SLOTS + i) + step
            at = table + (tap - first) * ROW_SLOTS + i
            store(scratch, at, select(both(both(inside_d, inside_h), inside_w), row, zero))
        c += 1
        if c == taps_w:
            c = 0
            b += 1
            if b == taps_h:
                b = 0
                a += 1


@helper
def _position(plan, phase, pixel):  # type: ignore[no-untyped-def]
    """The coordinates (n, d, h, w) of a pixel of the phase."""
    w = pixel % plan[phase + word.POSITIONS + 2]
    rest = pixel // plan[phase + word.POSITIONS + 2]
    h = rest % plan[phase + word.POSITIONS + 1]
    rest //= plan[phase + word.POSITIONS + 1]
    return rest // plan[phase + word.POSITIONS], rest % plan[phase + word.POSITIONS], h, w


def gather(
    task: int, worker: int, source: Array, weights: Array, tap_offsets: Table, init: Array, target: Array, zeros: Array,
    packed: Array, packed_words: int, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """A range of tiles and panels of ``target[q] = init + sum over taps of source[q*step + tap] @ weights[tap]``.

    Forward: the taps are the kernel's. Input gradient: one phase per residue of the position modulo the stride, each
    with the taps that reach it.
    """
    row = plan[word.TASKS] + 5 * task
    phase, part_first, part_last = plan[row], plan[row + 1], plan[row + 2]
    tile_first, tile_last = plan[row + 3], plan[row + 4]
    size, width, panels, depth = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS], plan[word.DEPTH]
    taps = plan[phase + word.TAPS] * plan[phase + word.TAPS + 1] * plan[phase + word.TAPS + 2]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    table = rows_of_c + ROW_SLOTS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    least = plan[phase + word.PIXELS] // plan[phase + word.TILES]
    extra = plan[phase + word.PIXELS] - least * plan[phase + word.TILES]
    source_at, target_at = address(source), address(target) + plan[phase + word.PHASE_TARGET]
    begin = _position(plan, phase, tile_begin(tile_first, least, extra))
    for i in range(4 * ROW_SLOTS):  # rows that a tile does not have must be readable, too
        scratch[coordinates + i] = 0
    if plan[word.CHUNKS] == 0 or taps == 0:
        entries, entry_step = taps, plan[word.ENTRY_STEP]
        if taps == 0:  # no tap reaches these positions: 0 * 0 is added to the initial row
            entries, depth, entry_step = 1, 1, 0
            for i in range(ROW_SLOTS):
                scratch[table + i] = address(zeros)
        position = begin
        group_first, panel_first = part_first // panels, part_first % panels
        for tile in range(tile_first, tile_last):
            more = 1 if tile < extra else 0
            position = _rows_of_tile(
                source_at, target_at, plan, phase, position, least + more, scratch, coordinates, rows_of_c
            )
            if taps > 0:
                _entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), 0, taps)
            group, panel = group_first, panel_first
            for _ in range(part_first, part_last):
                last = 1 if panel == panels - 1 else 0
                b = (
                    address(weights)
                    + group * plan[word.WEIGHT_GROUP]
                    + panel * plan[word.PANEL_STEP]
                    + plan[phase + word.FIRST_TAP] * plan[word.ENTRY_STEP]
                )
                if taps == 0:
                    b = address(zeros)
                column = (group * plan[word.COLUMNS] + panel * width) * size
                brgemm(
                    plan[phase + word.MICRO + more + 2 * last], table_at, entries, depth, group * plan[word.DEPTH], b,
                    entry_step, plan[word.WEIGHT_ROW], rows_at, column, plan[word.TAIL] if last == 1 else lanes(source),
                    address(init) + column, 0,
                )  # fmt: skip
                panel += 1
                if panel == panels:
                    group, panel = group + 1, 0
        return
    own = worker * packed_words
    packed_at = address(offset(packed, own))
    for part in range(part_first, part_last):
        group, panel = part // panels, part % panels
        last = 1 if panel == panels - 1 else 0
        column = (group * plan[word.COLUMNS] + panel * width) * size
        count = min(width, plan[word.COLUMNS] - panel * width)
        origin = group * plan[word.GROUP_STEP] + panel * width * plan[word.COLUMN_STEP]
        for tap in range(0, taps, plan[word.TAP_CHUNK]):
            entries = min(plan[word.TAP_CHUNK], taps - tap)
            for k in range(0, depth, plan[word.DEPTH_CHUNK]):
                some = min(plan[word.DEPTH_CHUNK], depth - k)
                b, ldb = packed_at, width * size
                for e in range(entries):
                    at = origin + tap_offsets[plan[phase + word.FIRST_TAP] + tap + e] + k * plan[word.DEPTH_STEP]
                    if plan[word.CHUNKS] == 1:
                        pack_block(
                            weights, at, plan[word.DEPTH_STEP], plan[word.COLUMN_STEP], some, count,
                            packed, own + e * some * width, width,
                        )  # fmt: skip
                    else:
                        b, ldb = address(offset(weights, at)), plan[word.DEPTH_STEP] * size
                position = begin
                for tile in range(tile_first, tile_last):
                    more = 1 if tile < extra else 0
                    position = _rows_of_tile(
                        source_at, target_at, plan, phase, position, least + more, scratch, coordinates, rows_of_c
                    )
                    _entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), tap, tap + entries)
                    brgemm(
                        plan[phase + word.MICRO + more + 2 * last], table_at, entries, some,
                        group * depth + k, b, some * width * size, ldb, rows_at, column,
                        plan[word.TAIL] if last == 1 else lanes(source), address(init) + column,
                        0 if tap + k == 0 else 1,
                    )  # fmt: skip


@helper
def _copy_line(x, place, plan, copies, at):  # type: ignore[no-untyped-def]
    """A line of x with its padding."""
    zero, count = full(copies, 0.0), plan[term.COPY]
    first, last = max(0, plan[term.LOW]), min(count, plan[term.LINE] + plan[term.LOW])
    for i in range(0, first, lanes(copies)):
        store_first(copies, at + i, zero, first - i)
    for i in range(first, last, lanes(copies)):
        store_first(copies, at + i, load_first(pointer_like(x, place), i - plan[term.LOW], last - i), last - i)
    for i in range(max(first, last), count, lanes(copies)):
        store_first(copies, at + i, zero, count - i)


@helper
def _entries_of_tap(  # type: ignore[no-untyped-def]
    x, g, plan, a, b, lowest, count, first_row, last_row, scratch, table, copies, own
):
    """The address table of one tap: per row of the output, where the row and what it read begin; how many there are."""
    entries = 0
    height, depth = plan[term.OUTPUT + 1], plan[term.OUTPUT]
    h = first_row % height
    rest = first_row // height
    d = rest % depth
    n = rest // depth
    for _ in range(first_row, last_row):
        in_d = d * plan[term.STRIDE] - plan[term.PADDING] + a * plan[term.DILATION]
        in_h = h * plan[term.STRIDE + 1] - plan[term.PADDING + 1] + b * plan[term.DILATION + 1]
        if 0 <= in_d < plan[term.EXTENT] and 0 <= in_h < plan[term.EXTENT + 1] and count > 0:
            place = address(x) + n * plan[term.INPUT] + in_d * plan[term.INPUT + 1] + in_h * plan[term.INPUT + 2]
            if plan[term.COPY] > 0:
                at = own + entries * plan[term.COPY]
                _copy_line(x, place, plan, copies, at)
                place = address(offset(copies, at))
            scratch[table + 2 * entries] = place
            scratch[table + 2 * entries + 1] = (
                address(g)
                + n * plan[term.GRAD]
                + d * plan[term.GRAD + 1]
                + h * plan[term.GRAD + 2]
                + lowest * plan[term.GRAD + 3]
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
    task: int, worker: int, x: Array, g: Array, target: Array, zeros: Array, copies: Array, copied: int, plan: Table,
    scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """``target[tap, i, j] = sum over the task's rows of x[position + tap, i] * g[position, j]``."""
    row = plan[term.TASKS] + term.TASK_WORDS * task
    target_at = address(target) + plan[row] * plan[term.PARTIAL]
    group_first, group_last, panel_first, panel_last = plan[row + 1], plan[row + 2], plan[row + 3], plan[row + 4]
    tap_first, tap_last, tile_first, tile_last = plan[row + 5], plan[row + 6], plan[row + 7], plan[row + 8]
    row_first, row_last = plan[row + 9], plan[row + 10]
    size, width, panels = plan[term.SIZE], plan[term.WIDTH], plan[term.PANELS]
    rows, tiles = plan[term.ROWS], plan[term.TILES]
    least = rows // tiles
    extra = rows - least * tiles
    rows_of_c = worker * scratch_words
    table = rows_of_c + MOST_ROWS
    taps_h, taps_w = plan[term.KERNEL + 1], plan[term.KERNEL + 2]
    for chunk in range(row_first, row_last, plan[term.CHUNK]):
        accumulate = 0 if chunk == row_first else 1
        for tap in range(tap_first, tap_last):
            c_tap = tap % taps_w
            b_tap = tap // taps_w % taps_h
            a_tap = tap // (taps_w * taps_h)
            # the positions w of a row with 0 <= w*stride + move < extent
            move = c_tap * plan[term.DILATION + 2] - plan[term.PADDING + 2]
            stride = plan[term.STRIDE + 2]
            lowest = max(0, (-move + stride - 1) // stride)
            highest = min(plan[term.OUTPUT + 2], (plan[term.EXTENT + 2] - move + stride - 1) // stride)
            depth = highest - lowest
            last = min(chunk + plan[term.CHUNK], row_last)
            entries = _entries_of_tap(
                x, g, plan, a_tap, b_tap, lowest, depth, chunk, last, scratch, table, copies, worker * copied
            )
            lda, ldb, move_x = (
                stride * plan[term.INPUT + 3],
                plan[term.GRAD + 3],
                (lowest * stride + move) * plan[term.INPUT + 3],
            )
            groups_x, groups_g = plan[term.INPUT_GROUP], plan[term.GRAD_GROUP]
            tile_a, tile_b = size, size
            if entries == 0:  # the tap reads only padding here: 0 * 0
                scratch[table] = address(zeros)
                scratch[table + 1] = address(zeros)
                entries, depth, lda, ldb, move_x, groups_x, groups_g, tile_a, tile_b = 1, 1, 0, 0, 0, 0, 0, 0, 0
            for group in range(group_first, group_last):
                for tile in range(tile_first, tile_last):
                    first, count = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                    for i in range(count):
                        scratch[rows_of_c + i] = (
                            target_at
                            + (tap * rows + first + i) * plan[term.ROW_STEP]
                            + group * plan[term.COLUMNS] * size
                        )
                    micro = term.MICRO + count - least + (0 if tile == tile_first else 4)
                    for panel in range(panel_first, panel_last):
                        last_panel = 1 if panel == panels - 1 else 0
                        brgemm(
                            plan[micro + 2 * last_panel], address(offset(scratch, table)), entries,
                            depth, lda, group * groups_g + panel * width * tile_b,
                            move_x + group * groups_x + first * tile_a, ldb, address(offset(scratch, rows_of_c)),
                            panel * width * size, plan[term.TAIL] if last_panel == 1 else lanes(x), address(zeros),
                            accumulate,
                        )  # fmt: skip


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
