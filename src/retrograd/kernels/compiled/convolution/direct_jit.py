# mypy: ignore-errors
"""Tasks of direct convolution. Their plans are made in direct_plan.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import MOST_ROWS, ROW_SLOTS
from ..machine.microkernel_jit import NO_FINISH, apply_formula_each, finish_of, multiply, multiply_panels, rows_of_tile
from ..machine.simd import (
    address,
    ahead,
    ahead_by,
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
from ..memory.packing_jit import are_finite, pack_block
from .direct_plan import GATHER, GATHER_TASK, PHASE, REDUCE, WALK, WINDOW
from .direct_plan import REDUCE_TASK as SUM

# ---- The pixels of a tile -------------------------------------------------------------------------------------------


@helper
def read_and_written(source, target, plan, phase, position, count, scratch, coordinates, rows_of_c):  # type: ignore[no-untyped-def]
    """The read and write addresses of the ``count`` pixels from ``position`` on; returns the position after them.

    Read: the coordinates and the address for a tap at offset 0.
    """
    n, d, h, w = position
    extent_d, extent_h, extent_w = (
        plan[phase + PHASE.positions],
        plan[phase + PHASE.positions + 1],
        plan[phase + PHASE.positions + 2],
    )
    if w + count <= extent_w:  # one line: equally spaced pixels
        at_d, at_h = d * plan[phase + PHASE.source_step], h * plan[phase + PHASE.source_step + 1]
        line = source + n * plan[WALK.source] + at_d * plan[WALK.source + 1] + at_h * plan[WALK.source + 2]
        target += n * plan[WALK.target]
        target += d * plan[phase + PHASE.target_step] + h * plan[phase + PHASE.target_step + 1]
        for i in range(0, ROW_SLOTS, lanes(scratch)):
            at = counting(scratch) + (w + i)
            at_w = at * plan[phase + PHASE.source_step + 2]
            store(scratch, coordinates + i, full(scratch, at_d))
            store(scratch, coordinates + ROW_SLOTS + i, full(scratch, at_h))
            store(scratch, coordinates + 2 * ROW_SLOTS + i, at_w)
            store(scratch, coordinates + 3 * ROW_SLOTS + i, at_w * plan[WALK.source + 3] + line)
            store(scratch, rows_of_c + i, at * plan[phase + PHASE.target_step + 2] + target)
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
        at_d = d * plan[phase + PHASE.source_step]
        at_h = h * plan[phase + PHASE.source_step + 1]
        at_w = w * plan[phase + PHASE.source_step + 2]
        scratch[coordinates + i] = at_d
        scratch[coordinates + ROW_SLOTS + i] = at_h
        scratch[coordinates + 2 * ROW_SLOTS + i] = at_w
        scratch[coordinates + 3 * ROW_SLOTS + i] = (
            source
            + n * plan[WALK.source]
            + at_d * plan[WALK.source + 1]
            + at_h * plan[WALK.source + 2]
            + at_w * plan[WALK.source + 3]
        )
        scratch[rows_of_c + i] = (
            target
            + n * plan[WALK.target]
            + d * plan[phase + PHASE.target_step]
            + h * plan[phase + PHASE.target_step + 1]
            + w * plan[phase + PHASE.target_step + 2]
        )
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
def entries_of_tile(plan, phase, scratch, coordinates, table, nothing, first, last):  # type: ignore[no-untyped-def]
    """The address table of a tile: per tap, the address that each pixel reads; the row of zeros for padding."""
    taps_d, taps_h, taps_w = plan[phase + PHASE.taps], plan[phase + PHASE.taps + 1], plan[phase + PHASE.taps + 2]
    moves_d = phase + PHASE.moves
    moves_h = moves_d + taps_d
    moves_w = moves_h + taps_h
    zero = full(scratch, nothing)
    for i in range(0, ROW_SLOTS, lanes(scratch)):
        at_d, at_h = load(scratch, coordinates + i), load(scratch, coordinates + ROW_SLOTS + i)
        at_w, line = load(scratch, coordinates + 2 * ROW_SLOTS + i), load(scratch, coordinates + 3 * ROW_SLOTS + i)
        a, b, c = 0, 0, 0
        if first > 0:  # divisions are slow
            a, b, c = first // (taps_w * taps_h), first // taps_w % taps_h, first % taps_w
        for tap in range(first, last):
            move_d, move_h, move_w = plan[moves_d + a], plan[moves_h + b], plan[moves_w + c]
            step = move_d * plan[WALK.source + 1] + move_h * plan[WALK.source + 2] + move_w * plan[WALK.source + 3]
            inside_d = within(at_d + move_d, plan[WALK.extent])
            inside_h = within(at_h + move_h, plan[WALK.extent + 1])
            inside_w = within(at_w + move_w, plan[WALK.extent + 2])
            at = table + (tap - first) * ROW_SLOTS + i
            store(scratch, at, select(both(both(inside_d, inside_h), inside_w), line + step, zero))
            c += 1
            if c == taps_w:
                c = 0
                b += 1
                if b == taps_h:
                    b = 0
                    a += 1


@helper
def taps_inside(plan, phase, scratch, coordinates, rows):  # type: ignore[no-untyped-def]
    """The taps that read more than padding at one of the rows: a range along the outermost axis with several taps."""
    taps_d, taps_h, inner = plan[phase + PHASE.taps], plan[phase + PHASE.taps + 1], plan[phase + PHASE.taps + 2]
    at, moves, count, extent = coordinates + ROW_SLOTS, phase + PHASE.moves + 1, taps_h, plan[WALK.extent + 1]
    if taps_d > 1:
        at, moves, count, extent, inner = coordinates, phase + PHASE.moves, taps_d, plan[WALK.extent], inner * taps_h
    low, high = scratch[at], scratch[at]
    for i in range(1, rows):
        low, high = min(low, scratch[at + i]), max(high, scratch[at + i])
    first, last = 0, count
    while first < last - 1 and high + plan[moves + first] < 0:
        first += 1
    while last > first + 1 and low + plan[moves + last - 1] >= extent:
        last -= 1
    return first * inner, last * inner


@helper
def _show_left_out(plan, weights, at, panel, part, taps, place):  # type: ignore[no-untyped-def]
    """Write NaN to a place of the result if a weight is not finite: borders.py sees it, though taps are left out.

    ``at``: the address of the weights of the first tap; they are in L1, because few are read in place.
    """
    looked, size = plan[GATHER.looked], plan[GATHER.size]
    if looked > 0:
        if weights[looked + part] != weights[looked + part]:
            pointer_like(weights, place)[0] = weights[looked + part]
        return
    count = min(plan[GATHER.width], plan[GATHER.columns] - panel * plan[GATHER.width])
    for tap in range(taps):
        row = pointer_like(weights, at + tap * plan[GATHER.entry_step])
        if not are_finite(row, plan[GATHER.depth], plan[GATHER.weight_row] // size, count):
            pointer_like(weights, place)[0] = float("nan")


@helper
def position_of(plan, phase, pixel):  # type: ignore[no-untyped-def]
    """The coordinates (n, d, h, w) of a pixel of the phase."""
    w = pixel % plan[phase + PHASE.positions + 2]
    rest = pixel // plan[phase + PHASE.positions + 2]
    h = rest % plan[phase + PHASE.positions + 1]
    rest //= plan[phase + PHASE.positions + 1]
    return rest // plan[phase + PHASE.positions], rest % plan[phase + PHASE.positions], h, w


# ---- One task of a convolution --------------------------------------------------------------------------------------


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
    residual: Array,
    bounds: Array,
) -> None:
    """A range of tiles and panels of ``target[q] = init + sum over taps of source[q*step + tap] @ weights[tap]``.

    Forward: the taps are the kernel's. Input gradient: one phase per residue of the position modulo the stride, each
    with the taps that reach it.
    """
    own = plan[GATHER.tasks] + GATHER_TASK.words * task
    phase = plan[own + GATHER_TASK.phase]
    part_first, part_last = plan[own + GATHER_TASK.part_first], plan[own + GATHER_TASK.part_last]
    tile_first, tile_last = plan[own + GATHER_TASK.tile_first], plan[own + GATHER_TASK.tile_last]
    size, width, panels, depth = plan[GATHER.size], plan[GATHER.width], plan[GATHER.panels], plan[GATHER.depth]
    product = offset(plan, phase + PHASE.product)
    taps = plan[phase + PHASE.taps] * plan[phase + PHASE.taps + 1] * plan[phase + PHASE.taps + 2]
    coordinates = worker * scratch_words
    rows_of_c = coordinates + 4 * ROW_SLOTS
    table = rows_of_c + ROW_SLOTS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    source_at, target_at = address(source), address(target) + plan[phase + PHASE.target]
    first_pixel, _ = rows_of_tile(product, tile_first)
    begin, finish = position_of(plan, phase, first_pixel), finish_of(target, bounds, residual)
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
            first = 0
            if taps > 0:
                last = taps
                if plan[GATHER.skip] != 0:
                    first, last = taps_inside(plan, phase, scratch, coordinates, rows)
                    entries = last - first
                entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), first, last)
            group, panel = group_first, panel_first
            for _ in range(part_first, part_last):
                b = address(weights) + group * plan[GATHER.weight_group] + panel * plan[GATHER.panel_step]
                b += plan[phase + PHASE.first_tap] * plan[GATHER.entry_step]
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
                    b + first * entry_step,
                    entry_step,
                    plan[GATHER.weight_row],
                    rows_at,
                    column,
                    address(init) + column,
                    0,
                    finish,
                )
                if tile == 0 and plan[GATHER.skip] != 0:
                    _show_left_out(plan, weights, b, panel, group * panels + panel, taps, scratch[rows_of_c] + column)
                panel += 1
                if panel == panels:
                    group, panel = group + 1, 0
            column = group_first * plan[GATHER.columns] + panel_first * width
            column_end = group * plan[GATHER.columns] + panel * width
            apply_formula_each(finish, rows_at, rows, column * size, column_end - column)
        return
    if plan[GATHER.chunks] == 2:  # rows of some panels: adjacent in memory, and near when the next tile reads them
        ldb = plan[GATHER.depth_step] * size
        for tap in range(taps):
            at_tap = address(offset(weights, tap_offsets[plan[phase + PHASE.first_tap] + tap]))
            for k in range(0, depth, plan[GATHER.depth_chunk]):
                some = min(plan[GATHER.depth_chunk], depth - k)
                is_last, position = tap + 1 == taps and k + some == depth, begin
                for tile in range(tile_first, tile_last):
                    _, rows = rows_of_tile(product, tile)
                    position = read_and_written(
                        source_at, target_at, plan, phase, position, rows, scratch, coordinates, rows_of_c
                    )
                    entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), tap, tap + 1)
                    for part in range(part_first, part_last):
                        group, panel = part // panels, part % panels
                        column = (group * plan[GATHER.columns] + panel * width) * size
                        multiply(
                            product,
                            rows,
                            panel,
                            table_at,
                            1,
                            some,
                            group * depth + k,
                            at_tap + group * plan[GATHER.group_step] * size + k * ldb + panel * width * size,
                            0,
                            ldb,
                            rows_at,
                            column,
                            address(init) + column,
                            0 if tap + k == 0 else 1,
                            finish if is_last else NO_FINISH,
                        )
                        if is_last:
                            count = min(width, plan[GATHER.columns] - panel * width)
                            apply_formula_each(finish, rows_at, rows, column, count)
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
                for e in range(entries):
                    pack_block(
                        weights,
                        origin + tap_offsets[plan[phase + PHASE.first_tap] + tap + e] + k * plan[GATHER.depth_step],
                        plan[GATHER.depth_step],
                        plan[GATHER.column_step],
                        some,
                        count,
                        packed,
                        own_packed + e * some * width,
                        width,
                    )
                position = begin
                for tile in range(tile_first, tile_last):
                    _, rows = rows_of_tile(product, tile)
                    position = read_and_written(
                        source_at, target_at, plan, phase, position, rows, scratch, coordinates, rows_of_c
                    )
                    entries_of_tile(plan, phase, scratch, coordinates, table, address(zeros), tap, tap + entries)
                    together, each = entries, some
                    if plan[GATHER.summed] > 0:  # in the same parts as weights that are read in place
                        together, each = 1, plan[GATHER.summed]
                    for e in range(0, entries, together):
                        for first in range(0, some, each):
                            is_last = tap + e + together == taps and k + first + each >= depth
                            multiply(
                                product,
                                rows,
                                panel,
                                table_at + e * ROW_SLOTS * 8,
                                together,
                                min(each, some - first),
                                group * depth + k + first,
                                packed_at + (e * some + first) * width * size,
                                some * width * size,
                                width * size,
                                rows_at,
                                column,
                                address(init) + column,
                                0 if tap + e + k + first == 0 else 1,
                                finish if is_last else NO_FINISH,
                            )
                    if tap + entries == taps and k + some == depth:
                        apply_formula_each(finish, rows_at, rows, column, count)


@helper
def _copy_line(x, place, plan, copies, at):  # type: ignore[no-untyped-def]
    """A line of x with its padding."""
    zero, count = full(copies, 0.0), plan[REDUCE.copy]
    first, last = max(0, plan[REDUCE.low]), min(count, plan[REDUCE.line] + plan[REDUCE.low])
    for i in range(0, first, lanes(copies)):
        store_first(copies, at + i, zero, first - i)
    source, whole = pointer_like(x, place), first + (last - first) // lanes(copies) * lanes(copies)
    for i in range(first, whole, lanes(copies)):
        ahead(source, i)
        store(copies, at + i, load(source, i - plan[REDUCE.low]))
    if whole < last:
        store_first(copies, at + whole, load_first(source, whole - plan[REDUCE.low], last - whole), last - whole)
    for i in range(max(first, last), count, lanes(copies)):
        store_first(copies, at + i, zero, count - i)


@helper
def _entries_of_tap(  # type: ignore[no-untyped-def]
    x, g, zeros, plan, a, b, lowest, count, first_row, last_row, scratch, table, copies, own, tags
):
    """The address table of one tap: per row of the output, the addresses of the row and of its input; their number.

    Or of several taps along H from b on: the addresses of the inputs first, of zeros for padding.
    """
    together = plan[REDUCE.taps]
    entries, of_x, words = 0, table + plan[REDUCE.swapped], together + 1
    of_g = 2 * table + together - of_x
    height, depth = plan[WINDOW.output + 1], plan[WINDOW.output]
    h = first_row % height
    rest = first_row // height
    d = rest % depth
    n = rest // depth
    for _ in range(first_row, last_row):
        in_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + a * plan[WINDOW.dilation]
        in_h = h * plan[WINDOW.stride + 1] - plan[WINDOW.padding + 1] + b * plan[WINDOW.dilation + 1]
        some = False
        for tap in range(together if 0 <= in_d < plan[WINDOW.extent] and count > 0 else 0):
            place = address(zeros)
            if 0 <= in_h < plan[WINDOW.extent + 1]:
                some = True
                place = address(x) + n * plan[WINDOW.x] + in_d * plan[WINDOW.x + 1] + in_h * plan[WINDOW.x + 2]
                if plan[REDUCE.copy] > 0:
                    slot, span, known = entries, plan[REDUCE.span], False
                    if span > 0:  # other taps and rows read it, too
                        slot = (n * depth + d) % plan[REDUCE.planes] * span + in_h % span
                        tag = (n * plan[WINDOW.extent] + in_d) * plan[WINDOW.extent + 1] + in_h
                        known = scratch[tags + slot] == tag
                        scratch[tags + slot] = tag
                    at = own + slot * plan[REDUCE.copy]
                    if not known:
                        _copy_line(x, place, plan, copies, at)
                    place = address(offset(copies, at))
            scratch[of_x + words * entries + tap] = place
            in_h += plan[WINDOW.dilation + 1]
        if some:
            scratch[of_g + words * entries] = (
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


_soon = ahead_by(0)
_CACHE_LINE = 64  # bytes
_FEW_TILES = 4  # fewer ones leave too little time for memory


@helper
def _read_soon(p, place, step, bytes, count):  # type: ignore[no-untyped-def]
    """Prefetch ``bytes`` at each of ``count`` positions: from the address ``place`` on, ``step`` bytes apart."""
    for _ in range(count):
        for byte in range(0, bytes, _CACHE_LINE):
            _soon(pointer_like(p, place + byte), 0)
        place += step


@helper
def _channels_of_task(plan, own):  # type: ignore[no-untyped-def]
    """The bytes of a position of x, and of g, that a task reads: the first, and how many."""
    group, groups = plan[own + SUM.group_first], plan[own + SUM.group_last] - plan[own + SUM.group_first]
    product, size = offset(plan, REDUCE.product), plan[REDUCE.size]
    first, last = 0, plan[REDUCE.rows]
    if groups == 1:  # several groups are read whole
        first, _ = rows_of_tile(product, plan[own + SUM.tile_first])
        last, _ = rows_of_tile(product, plan[own + SUM.tile_last])
    column, width = plan[own + SUM.panel_first] * plan[REDUCE.width], plan[REDUCE.width]
    column_last = min(plan[REDUCE.columns], plan[own + SUM.panel_last] * width)
    if plan[REDUCE.swapped] != 0:
        first, last, column, column_last = column, column_last, first, last
    of_x, of_g = group * plan[REDUCE.x_group] + first * size, group * plan[REDUCE.g_group] + column * size
    more_x, more_g = (groups - 1) * plan[REDUCE.x_group], (groups - 1) * plan[REDUCE.g_group]
    return of_x, more_x + (last - first) * size, of_g, more_g + (column_last - column) * size


@helper
def _chunk_soon(x, g, plan, own, a, b, with_g, first_row, last_row, part, parts):  # type: ignore[no-untyped-def]
    """Prefetch one of ``parts`` of a chunk: of the rows of x that the taps (a, b, ...) read, and of g if ``with_g``.

    Products of the chunk before have their operands in the cache and leave memory idle.
    """
    height, depth, line = plan[WINDOW.output + 1], plan[WINDOW.output], plan[WINDOW.output + 2]
    of_x, bytes_of_x, of_g, bytes_of_g = _channels_of_task(plan, own)
    step = plan[WINDOW.stride + 2] * plan[WINDOW.x + 3]
    positions = (last_row - first_row) * line
    at, end = part * positions // parts, (part + 1) * positions // parts
    while at < end:
        row, w = first_row + at // line, at % line
        count = min(line - w, end - at)
        h, d, n = row % height, row // height % depth, row // height // depth
        in_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + a * plan[WINDOW.dilation]
        in_h = h * plan[WINDOW.stride + 1] - plan[WINDOW.padding + 1] + b * plan[WINDOW.dilation + 1]
        if 0 <= in_d < plan[WINDOW.extent] and 0 <= in_h < plan[WINDOW.extent + 1]:
            place = address(x) + n * plan[WINDOW.x] + in_d * plan[WINDOW.x + 1] + in_h * plan[WINDOW.x + 2]
            _read_soon(x, place + of_x + w * step, step, bytes_of_x, count)
        if with_g:
            place = address(g) + n * plan[WINDOW.g] + d * plan[WINDOW.g + 1] + h * plan[WINDOW.g + 2]
            _read_soon(g, place + of_g + w * plan[WINDOW.g + 3], plan[WINDOW.g + 3], bytes_of_g, count)
        at += count


@helper
def _pack_positions(source, scratch, table, word, words, entries, depth, step, move, count, copies, at, width):  # type: ignore[no-untyped-def]
    """``count`` elements of each position of the lines of a table, ``width`` apart, from ``copies[at]`` on.

    The last vector of a position is written whole, before the next position. ``step``: elements between positions.
    """
    one = lanes(copies)
    for entry in range(entries):
        place = scratch[table + words * entry + word] + move
        for first in range(0, count, one):  # a vector of every position
            row, to, some = pointer_like(source, place), at + first, count - first
            if some >= one:
                for k in range(depth):
                    store(copies, to + k * width, load(row, first + k * step))
            else:
                for k in range(depth):
                    store(copies, to + k * width, load_first(row, first + k * step, some))
        at += depth * width


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
    """``target[tap, i, j] = sum over the task's rows of x[position + tap, i] * g[position, j]``.

    If swapped, ``target[tap, j, i]``.
    """
    own = plan[REDUCE.tasks] + SUM.words * task
    target_at = address(target) + plan[own + SUM.part] * plan[REDUCE.partial]
    group_first, group_last = plan[own + SUM.group_first], plan[own + SUM.group_last]
    panel_first, panel_last = plan[own + SUM.panel_first], plan[own + SUM.panel_last]
    tap_first, tap_last = plan[own + SUM.tap_first], plan[own + SUM.tap_last]
    tile_first, tile_last = plan[own + SUM.tile_first], plan[own + SUM.tile_last]
    row_first, row_last = plan[own + SUM.row_first], plan[own + SUM.row_last]
    size, width, channels = plan[REDUCE.size], plan[REDUCE.width], plan[REDUCE.rows]
    rows_of_c = worker * scratch_words
    slots = plan[REDUCE.span] * plan[REDUCE.planes]
    tags, packed = rows_of_c + MOST_ROWS, rows_of_c + MOST_ROWS + slots
    table = packed + 2
    taps_h, taps_w = plan[WINDOW.kernel + 1] // plan[REDUCE.taps], plan[WINDOW.kernel + 2]
    for slot in range(slots):
        scratch[tags + slot] = -1
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
                x,
                g,
                zeros,
                plan,
                a_tap,
                b_tap,
                lowest,
                depth,
                chunk,
                last,
                scratch,
                table,
                copies,
                worker * copied,
                tags,
            )
            lda, ldb, move_x = (
                stride * plan[WINDOW.x + 3],
                plan[WINDOW.g + 3],
                (lowest * stride + move) * plan[WINDOW.x + 3],
            )
            groups_a, groups_b = plan[REDUCE.x_group], plan[REDUCE.g_group]
            move_a, move_b, tile_a, tile_b = move_x, 0, size, size
            if plan[REDUCE.swapped] != 0:
                lda, ldb, move_a, move_b, groups_a, groups_b = ldb, lda, 0, move_x, groups_b, groups_a
            if entries == 0:  # the tap reads only padding here: 0 * 0
                for i in range(plan[REDUCE.taps] + 1):
                    scratch[table + i] = address(zeros)
                entries, depth, lda, ldb, move_a, move_b = 1, 1, 0, 0, 0, 0
                groups_a, groups_b, tile_a, tile_b = 0, 0, 0, 0
            tiles = tile_last - tile_first
            parts, following = (group_last - group_first) * tiles, min(last + plan[REDUCE.chunk], row_last)
            soon = plan[REDUCE.ahead] != 0 and parts >= _FEW_TILES and following > last
            soon = soon and (c_tap == 0 or tap == tap_first)
            if plan[REDUCE.merged] != 0:
                entries, depth = 1, depth * entries
            positions, packs, row = entries * depth, plan[REDUCE.packs], plan[REDUCE.row]
            for group in range(group_first, group_last):
                for block in range(panel_first, panel_last, packs if packs > 0 else panel_last - panel_first):
                    block_last = panel_last if packs == 0 else min(panel_last, block + packs)
                    packed_b, packed_a = worker * copied, worker * copied + positions * packs * width
                    for panel in range(block, block_last if packs > 0 else block):
                        _pack_positions(
                            g,
                            scratch,
                            table,
                            1,
                            2,
                            entries,
                            depth,
                            ldb // size,
                            move_b + group * groups_b + panel * width * tile_b,
                            min(width, plan[REDUCE.columns] - panel * width),
                            copies,
                            packed_b + (panel - block) * positions * width,
                            width,
                        )
                    for tile in range(tile_first, tile_last):
                        if soon and block == panel_first:
                            part = (group - group_first) * tiles + tile - tile_first
                            _chunk_soon(x, g, plan, own, a_tap, b_tap, tap == tap_first, last, following, part, parts)
                        # a task's first tile reads its part of g first, which is then in L1, as copied lines are
                        far = tile == tile_first and (tap == tap_first or plan[REDUCE.first] == 0)
                        product = offset(plan, REDUCE.product if far else REDUCE.others)
                        first, rows = rows_of_tile(product, tile)
                        for i in range(rows):
                            scratch[rows_of_c + i] = (
                                target_at
                                + (tap * channels + first + i) * plan[REDUCE.row_step]
                                + group * plan[REDUCE.columns] * size
                            )
                        at_table, some, terms, step_a, step_b = table, entries, depth, lda, ldb
                        at_b, next_b = move_b + group * groups_b, width * tile_b
                        at_a = move_a + group * groups_a + first * tile_a
                        if packs > 0:
                            _pack_positions(
                                x, scratch, table, 0, 2, entries, depth, lda // size, at_a, rows, copies, packed_a, row
                            )
                            scratch[packed] = address(offset(copies, packed_a))
                            scratch[packed + 1] = address(offset(copies, packed_b))
                            at_table, some, terms, step_a, step_b = packed, 1, positions, row * size, width * size
                            at_a, at_b, next_b = 0, -block * positions * width * size, positions * width * size
                        multiply_panels(
                            product,
                            rows,
                            block,
                            block_last,
                            address(offset(scratch, at_table)),
                            some,
                            terms,
                            step_a,
                            at_b,
                            next_b,
                            at_a,
                            step_b,
                            address(offset(scratch, rows_of_c)),
                            address(zeros),
                            accumulate,
                            NO_FINISH,
                        )


def add_partials(task: int, worker: int, partials: Array, target: Array, count: int, parts: int, chunk: int) -> None:
    """``target[i] = partials[0, i] + partials[1, i] + ...`` in this order."""
    first = task * chunk
    last = min(count, first + chunk)
    whole = first + (last - first) // lanes(target) * lanes(target)
    for i in range(first, whole, lanes(target)):
        total = load(partials, i)
        for part in range(1, parts):
            total = total + load(partials, part * count + i)
        store(target, i, total)
    if whole < last:
        total = load_first(partials, whole, last - whole)
        for part in range(1, parts):
            total = total + load_first(partials, part * count + whole, last - whole)
        store_first(target, whole, total, last - whole)
