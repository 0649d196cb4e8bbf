"""What one task of a convolution does. The plan that it reads is made in ../gather_plan.py and ../reduce_plan.py."""

from __future__ import annotations

from numba.extending import register_jitable

from .. import gather_plan as word
from .. import reduce_plan as term
from ..microkernel import ROW_SLOTS
from ..simd import (
    address,
    both,
    counting,
    full,
    lanes,
    load,
    load_first,
    offset,
    prefetch,
    select,
    store,
    store_first,
    within,
)
from .microkernel import brgemm


@register_jitable
def tile_begin(tile, least, extra):  # type: ignore[no-untyped-def]
    """First row of a tile when the first ``extra`` tiles have ``least + 1`` rows and the others ``least``."""
    return tile * least + min(tile, extra)


@register_jitable
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


@register_jitable
def _entries_of_tile(plan, phase, scratch, coordinates, table, nothing):  # type: ignore[no-untyped-def]
    """The address table of a tile: per tap, where each pixel reads, or the row of zeros if that is padding."""
    taps_d, taps_h, taps_w = plan[phase + word.TAPS], plan[phase + word.TAPS + 1], plan[phase + word.TAPS + 2]
    at = table
    zero = full(scratch, nothing)
    for a in range(taps_d):
        move_d = plan[phase + word.LIST + a]
        for b in range(taps_h):
            move_h = plan[phase + word.LIST + taps_d + b]
            for c in range(taps_w):
                move_w = plan[phase + word.LIST + taps_d + taps_h + c]
                step = move_d * plan[word.SOURCE + 1] + move_h * plan[word.SOURCE + 2] + move_w * plan[word.SOURCE + 3]
                for i in range(0, ROW_SLOTS, lanes(scratch)):
                    inside_d = within(load(scratch, coordinates + i) + move_d, plan[word.EXTENT])
                    inside_h = within(load(scratch, coordinates + ROW_SLOTS + i) + move_h, plan[word.EXTENT + 1])
                    inside_w = within(load(scratch, coordinates + 2 * ROW_SLOTS + i) + move_w, plan[word.EXTENT + 2])
                    row = load(scratch, coordinates + 3 * ROW_SLOTS + i) + step
                    store(scratch, at + i, select(both(both(inside_d, inside_h), inside_w), row, zero))
                at += ROW_SLOTS


@register_jitable
def _fetch_next(plan, phase, rows, scratch, coordinates, rows_of_c, ahead):  # type: ignore[no-untyped-def]
    """Ask for the new rows of the next tile while this one is computed: each is a miss.

    The next tile is taken to lie beside this one; where it does not, nothing is lost but the effort.
    """
    read = min(plan[word.DEPTH] * plan[word.SIZE], 1024)
    step = rows * plan[phase + word.TARGET_STEP + 2]
    for i in range(rows):
        at = scratch[coordinates + 3 * ROW_SLOTS + i] + ahead
        for line in range(0, read, 64):
            prefetch(at + line)
        at = scratch[rows_of_c + i] + step
        for line in range(0, plan[word.COLUMNS] * plan[word.SIZE], 64):
            prefetch(at + line)


def gather(
    task: int, worker: int, source: Array, packed: Array, init: Array, target: Array, zeros: Array,
    plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """A range of tiles and panels of ``target[q] = init + sum over taps of source[q*step + tap] @ packed[tap]``.

    Forward: the taps are the kernel's. Input gradient: one phase per residue of the position modulo the stride, each
    with the taps that reach it.
    """
    row = plan[word.TASKS] + 7 * task
    phase, group_first, group_last = plan[row], plan[row + 1], plan[row + 2]
    panel_first, panel_last, tile_first, tile_last = plan[row + 3], plan[row + 4], plan[row + 5], plan[row + 6]
    size, lanes_, columns = plan[word.SIZE], plan[word.LANES], plan[word.TILE_COLUMNS]
    taps = plan[phase + word.TAPS] * plan[phase + word.TAPS + 1] * plan[phase + word.TAPS + 2]
    entries, depth, entry_step, block = taps, plan[word.DEPTH], plan[word.ENTRY_STEP], plan[word.BLOCK]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    table = rows_of_c + block * ROW_SLOTS
    least = plan[phase + word.PIXELS] // plan[phase + word.TILES]
    extra = plan[phase + word.PIXELS] - least * plan[phase + word.TILES]
    source_at, target_at = address(source), address(target) + plan[phase + word.PHASE_TARGET]
    pixel = tile_begin(tile_first, least, extra)
    w = pixel % plan[phase + word.POSITIONS + 2]
    rest = pixel // plan[phase + word.POSITIONS + 2]
    h = rest % plan[phase + word.POSITIONS + 1]
    rest //= plan[phase + word.POSITIONS + 1]
    position = (rest // plan[phase + word.POSITIONS], rest % plan[phase + word.POSITIONS], h, w)
    for i in range(4 * ROW_SLOTS):  # rows that a tile does not have must be readable, too
        scratch[coordinates + i] = 0
    moves = phase + word.LIST
    last_d, last_h = (
        moves + plan[phase + word.TAPS] - 1,
        moves + plan[phase + word.TAPS] + plan[phase + word.TAPS + 1] - 1,
    )
    ahead = (least * plan[phase + word.SOURCE_STEP + 2]) * plan[word.SOURCE + 3]
    if taps > 0:
        ahead += plan[last_d] * plan[word.SOURCE + 1] + plan[last_h] * plan[word.SOURCE + 2]
    if taps == 0:  # no tap reaches these positions: 0 * 0 is added to the initial row
        entries, depth, entry_step = 1, 1, 0
    for first in range(tile_first, tile_last, block):
        last = min(first + block, tile_last)
        for tile in range(first, last):
            local = tile - first
            rows = least + (1 if tile < extra else 0)
            position = _rows_of_tile(
                source_at, target_at, plan, phase, position, rows, scratch, coordinates, rows_of_c + local * ROW_SLOTS
            )
            if taps > 0:
                _entries_of_tile(plan, phase, scratch, coordinates, table + local * taps * ROW_SLOTS, address(zeros))
            else:
                for i in range(ROW_SLOTS):
                    scratch[table + i] = address(zeros)
            if block == 1:
                _fetch_next(plan, phase, rows, scratch, coordinates, rows_of_c, ahead)
        for part in range((group_last - group_first) * (panel_last - panel_first)):
            group = group_first + part // (panel_last - panel_first)
            panel = panel_first + part % (panel_last - panel_first)
            width = plan[word.COLUMNS] - panel * columns
            narrow = 0
            if width <= lanes_:
                narrow = 1
            tail = min(width - (1 - narrow) * lanes_, lanes_)
            b = (
                address(packed)
                + group * plan[word.WEIGHT_GROUP]
                + panel * plan[word.PANEL_STEP]
                + plan[phase + word.FIRST_TAP] * plan[word.ENTRY_STEP]
            )
            micros = word.MICRO + narrow
            if tail < lanes_ and plan[phase + word.MICRO + narrow + 4] != 0:
                micros += 4
            if taps == 0:
                b = address(zeros)
            begin = address(init) + (group * plan[word.COLUMNS] + panel * columns) * size
            move = group * plan[word.TARGET_GROUP] + panel * columns * size
            for tile in range(first, last):
                local = tile - first
                micro = plan[phase + micros + (2 if tile < extra else 0)]
                at = address(offset(scratch, table + local * taps * ROW_SLOTS))
                c = address(offset(scratch, rows_of_c + local * ROW_SLOTS))
                brgemm(
                    micro,
                    at,
                    entries,
                    depth,
                    group * plan[word.DEPTH],
                    b,
                    entry_step,
                    plan[word.WEIGHT_ROW],
                    c,
                    move,
                    tail,
                    begin,
                    0,
                )


@register_jitable
def _entries_of_tap(x, g, plan, a, b, lowest, count, first_row, last_row, scratch, table):  # type: ignore[no-untyped-def]
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
            scratch[table + 2 * entries] = (
                address(x) + n * plan[term.INPUT] + in_d * plan[term.INPUT + 1] + in_h * plan[term.INPUT + 2]
            )
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
    task: int, worker: int, x: Array, g: Array, target: Array, zeros: Array, plan: Table, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """``target[tap, i, j] = sum over the task's rows of x[position + tap, i] * g[position, j]``."""
    row = plan[term.TASKS] + 9 * task
    target_at = address(target) + plan[row] * plan[term.PARTIAL]
    group_first, group_last, panel_first, panel_last = plan[row + 1], plan[row + 2], plan[row + 3], plan[row + 4]
    tap_first, tap_last, row_first, row_last = plan[row + 5], plan[row + 6], plan[row + 7], plan[row + 8]
    size, lanes_, columns = plan[term.SIZE], plan[term.LANES], plan[term.TILE_COLUMNS]
    rows, tiles = plan[term.ROWS], plan[term.TILES]
    least = rows // tiles
    extra = rows - least * tiles
    rows_of_c = worker * scratch_words
    table = rows_of_c + ROW_SLOTS
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
            entries = _entries_of_tap(x, g, plan, a_tap, b_tap, lowest, depth, chunk, last, scratch, table)
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
                for tile in range(tiles):
                    first, count = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                    for i in range(count):
                        scratch[rows_of_c + i] = (
                            target_at
                            + (tap * rows + first + i) * plan[term.ROW_STEP]
                            + group * plan[term.COLUMNS] * size
                        )
                    for panel in range(panel_first, panel_last):
                        width = plan[term.COLUMNS] - panel * columns
                        narrow = 0
                        if width <= lanes_:
                            narrow = 1
                        tail = min(width - (1 - narrow) * lanes_, lanes_)
                        micro = plan[term.MICRO + 2 * (count - least) + narrow]
                        b_offset = group * groups_g + panel * columns * tile_b
                        a_offset = move_x + group * groups_x + first * tile_a
                        brgemm(
                            micro, address(offset(scratch, table)), entries, depth, lda, b_offset, a_offset, ldb,
                            address(offset(scratch, rows_of_c)), panel * columns * size, tail, address(zeros),
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
