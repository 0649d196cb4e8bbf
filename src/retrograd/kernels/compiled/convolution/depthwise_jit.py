# mypy: ignore-errors
"""One task of a depthwise convolution: every channel has its own kernel, so the lanes are channels."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.simd import ahead, ahead_by, fma, full, lanes, load, load_first, store, store_first
from .depthwise import GATHER, GATHER_TASK, SUMS, SUMS_TASK
from .direct_plan import PHASE, WINDOW

_BLOCK = 256  # positions whose products are summed up before they are added to the others
_soon = ahead_by(2048)
_soon_written = ahead_by(2048, write=True)  # the CPU does not prefetch lines for writing (15 %)


@helper
def _inside(first_move, last_move, step, extent, positions):  # type: ignore[no-untyped-def]
    """The positions q of a row at which every tap reads inside: 0 <= q*step + move < extent for the outermost moves."""
    lowest = max(0, (-first_move + step - 1) // step)
    highest = min(positions, (extent - 1 - last_move) // step + 1)
    return min(lowest, positions), max(highest, min(lowest, positions))


@helper
def _taps_of_line(plan, phase, n, d, h, taps, scratch, table):  # type: ignore[no-untyped-def]
    """The taps that read inside along D and H: (offset in x, offset in w, move along W) each; and their number."""
    taps_d, taps_h, taps_w = plan[phase + PHASE.taps], plan[phase + PHASE.taps + 1], plan[phase + PHASE.taps + 2]
    moves_d = phase + PHASE.moves
    moves_h = moves_d + taps_d
    moves_w = moves_h + taps_h
    found = 0
    for a in range(taps_d):
        at_d = d * plan[phase + PHASE.source_step] + plan[moves_d + a]
        if at_d < 0 or at_d >= plan[GATHER.extent]:
            continue
        for b in range(taps_h):
            at_h = h * plan[phase + PHASE.source_step + 1] + plan[moves_h + b]
            if at_h < 0 or at_h >= plan[GATHER.extent + 1]:
                continue
            line = n * plan[GATHER.source] + at_d * plan[GATHER.source + 1] + at_h * plan[GATHER.source + 2]
            tap = plan[phase + PHASE.first_tap] + (a * taps_h + b) * taps_w
            for c in range(taps_w):
                at = table + 3 * found
                scratch[at] = line + plan[moves_w + c] * plan[GATHER.source + 3]
                scratch[at + 1] = taps[tap + c]
                scratch[at + 2] = plan[moves_w + c]
                found += 1
    return found


def gather(
    task: int,
    worker: int,
    x: Array,
    w: Array,
    init: Array,
    y: Array,
    plan: Table,
    taps: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """Rows of ``y[q, c] = init[c] + sum over taps of x[q*step + tap, c] * w[tap, c]``."""
    own = plan[GATHER.tasks] + GATHER_TASK.words * task
    phase = plan[own + GATHER_TASK.phase]
    row_first, row_last = plan[own + GATHER_TASK.row_first], plan[own + GATHER_TASK.row_last]
    channels, extent = plan[GATHER.channels], plan[GATHER.extent + 2]
    taps_w, moves_w = (
        plan[phase + PHASE.taps + 2],
        phase + PHASE.moves + plan[phase + PHASE.taps] + plan[phase + PHASE.taps + 1],
    )
    positions, step = plan[phase + PHASE.positions + 2], plan[phase + PHASE.source_step + 2]
    x_step, y_step = step * plan[GATHER.source + 3], plan[phase + PHASE.target_step + 2]
    table = worker * scratch_words
    least, most = 1 << 40, -(1 << 40)
    for c in range(taps_w):
        least, most = min(least, plan[moves_w + c]), max(most, plan[moves_w + c])
    lowest, highest = 0, positions
    if taps_w > 0:
        lowest, highest = _inside(least, most, step, extent, positions)
    # three adjacent taps read ten pixels for eight positions, of which the first and the last may be padding;
    # the input gradient lists them backwards
    three = taps_w == 3 and most - least == 2 and step == 1
    block_first, block_last = lowest, highest
    if three:
        block_first, block_last = _inside(least + 1, most - 1, step, extent, positions)
    left, right = (0, 6) if three and plan[moves_w] == least else (6, 0)
    for line in range(row_first, row_last):
        h = line % plan[phase + PHASE.positions + 1]
        rest = line // plan[phase + PHASE.positions + 1]
        d = rest % plan[phase + PHASE.positions]
        n = rest // plan[phase + PHASE.positions]
        target = (
            n * plan[GATHER.target]
            + d * plan[phase + PHASE.target_step]
            + h * plan[phase + PHASE.target_step + 1]
            + plan[phase + PHASE.target]
        )
        found = _taps_of_line(plan, phase, n, d, h, taps, scratch, table)
        newest = max(scratch[table], scratch[table + max(0, 3 * found - 3)])  # the line not read before
        q = 0
        while q < positions:
            if q < block_last < q + 8 and block_first <= block_last - 8:
                q = block_last - 8  # some positions a second time rather than one by one
            inside = block_first <= q and q + 8 <= block_last
            reads_first, reads_last = q + least >= 0, q + 7 + most < extent
            for channel in range(0, channels, lanes(x)):
                count = min(lanes(x), channels - channel)
                begin = load_first(init, channel, count)
                at = target + q * y_step + channel
                if inside and count == lanes(x):
                    y0, y1, y2, y3, y4, y5, y6, y7 = begin, begin, begin, begin, begin, begin, begin, begin
                    for entry in range(table, table + 3 * found if three else table, 9):
                        a = load(w, scratch[entry + left + 1] + channel)
                        b = load(w, scratch[entry + 4] + channel)
                        c = load(w, scratch[entry + right + 1] + channel)
                        source = scratch[entry + left] + q * x_step + channel
                        if reads_first:
                            y0 = fma(load(x, source), a, y0)
                        pixel = load(x, source + x_step)
                        y0, y1 = fma(pixel, b, y0), fma(pixel, a, y1)
                        pixel = load(x, source + 2 * x_step)
                        y0, y1, y2 = fma(pixel, c, y0), fma(pixel, b, y1), fma(pixel, a, y2)
                        pixel = load(x, source + 3 * x_step)
                        y1, y2, y3 = fma(pixel, c, y1), fma(pixel, b, y2), fma(pixel, a, y3)
                        pixel = load(x, source + 4 * x_step)
                        y2, y3, y4 = fma(pixel, c, y2), fma(pixel, b, y3), fma(pixel, a, y4)
                        pixel = load(x, source + 5 * x_step)
                        y3, y4, y5 = fma(pixel, c, y3), fma(pixel, b, y4), fma(pixel, a, y5)
                        pixel = load(x, source + 6 * x_step)
                        y4, y5, y6 = fma(pixel, c, y4), fma(pixel, b, y5), fma(pixel, a, y6)
                        pixel = load(x, source + 7 * x_step)
                        y5, y6, y7 = fma(pixel, c, y5), fma(pixel, b, y6), fma(pixel, a, y7)
                        pixel = load(x, source + 8 * x_step)
                        y6, y7 = fma(pixel, c, y6), fma(pixel, b, y7)
                        if reads_last:
                            y7 = fma(load(x, source + 9 * x_step), c, y7)
                    for entry in range(table, table if three else table + 3 * found, 3):
                        weight = load(w, scratch[entry + 1] + channel)
                        source = scratch[entry] + q * x_step + channel
                        y0 = fma(load(x, source), weight, y0)
                        y1 = fma(load(x, source + x_step), weight, y1)
                        y2 = fma(load(x, source + 2 * x_step), weight, y2)
                        y3 = fma(load(x, source + 3 * x_step), weight, y3)
                        y4 = fma(load(x, source + 4 * x_step), weight, y4)
                        y5 = fma(load(x, source + 5 * x_step), weight, y5)
                        y6 = fma(load(x, source + 6 * x_step), weight, y6)
                        y7 = fma(load(x, source + 7 * x_step), weight, y7)
                    for i in range(8):
                        ahead(x, newest + (q + i) * x_step + channel)
                        _soon_written(y, at + i * y_step)
                    store(y, at, y0)
                    store(y, at + y_step, y1)
                    store(y, at + 2 * y_step, y2)
                    store(y, at + 3 * y_step, y3)
                    store(y, at + 4 * y_step, y4)
                    store(y, at + 5 * y_step, y5)
                    store(y, at + 6 * y_step, y6)
                    store(y, at + 7 * y_step, y7)
                    continue
                if lowest <= q < highest and count == lanes(x):
                    total = begin
                    for entry in range(table, table + 3 * found, 3):
                        weight = load(w, scratch[entry + 1] + channel)
                        total = fma(load(x, scratch[entry] + q * x_step + channel), weight, total)
                    store(y, at, total)
                    continue
                for move in range(8 if inside else 1):
                    total = begin
                    for entry in range(table, table + 3 * found, 3):
                        at_w = (q + move) * step + scratch[entry + 2]
                        if 0 <= at_w < extent:
                            source = scratch[entry] + (q + move) * x_step + channel
                            weight = load_first(w, scratch[entry + 1] + channel, count)
                            total = fma(load_first(x, source, count), weight, total)
                    store_first(y, at + move * y_step, total, count)
            q += 8 if inside else 1


@helper
def _taps_of_row(plan, n, d, h, channels, scratch, table):  # type: ignore[no-untyped-def]
    """As ``_taps_of_line`` for the weight gradient: (offset in x, offset in its sum, move along W) of each tap."""
    found = 0
    for a in range(plan[WINDOW.kernel]):
        at_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + a * plan[WINDOW.dilation]
        if at_d < 0 or at_d >= plan[WINDOW.extent]:
            continue
        for b in range(plan[WINDOW.kernel + 1]):
            at_h = h * plan[WINDOW.stride + 1] - plan[WINDOW.padding + 1] + b * plan[WINDOW.dilation + 1]
            if at_h < 0 or at_h >= plan[WINDOW.extent + 1]:
                continue
            line = n * plan[WINDOW.x] + at_d * plan[WINDOW.x + 1] + at_h * plan[WINDOW.x + 2]
            for c in range(plan[WINDOW.kernel + 2]):
                move = c * plan[WINDOW.dilation + 2] - plan[WINDOW.padding + 2]
                at = table + 3 * found
                scratch[at] = line + move * plan[WINDOW.x + 3]
                scratch[at + 1] = ((a * plan[WINDOW.kernel + 1] + b) * plan[WINDOW.kernel + 2] + c) * channels
                scratch[at + 2] = move
                found += 1
    return found


@helper
def _begin(partials, at, count):  # type: ignore[no-untyped-def]
    """Clear sums."""
    zero = full(partials, 0.0)
    for i in range(0, count, lanes(partials)):
        store_first(partials, at + i, zero, count - i)


@helper
def _join(partials, totals, at, count):  # type: ignore[no-untyped-def]
    for i in range(0, count, lanes(partials)):
        together = load_first(partials, totals + i, count - i) + load_first(partials, at + i, count - i)
        store_first(partials, totals + i, together, count - i)


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    partials: Array,
    blocks: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``partials[task, tap, c] = sum over the task's rows of x[position + tap, c] * g[position, c]``.

    ``blocks``: the element of ``partials`` at which sums over some rows begin, before they are added.
    """
    own = plan[SUMS.tasks] + SUMS_TASK.words * task
    channels = plan[SUMS.channels]
    sums = plan[WINDOW.kernel] * plan[WINDOW.kernel + 1] * plan[WINDOW.kernel + 2] * channels
    out, totals = blocks + task * sums, task * sums
    _begin(partials, totals, sums)
    _begin(partials, out, sums)
    stride, extent, positions = plan[WINDOW.stride + 2], plan[WINDOW.extent + 2], plan[WINDOW.output + 2]
    step_x, step_g = stride * plan[WINDOW.x + 3], plan[WINDOW.g + 3]
    last_move = (plan[WINDOW.kernel + 2] - 1) * plan[WINDOW.dilation + 2] - plan[WINDOW.padding + 2]
    lowest, highest = _inside(-plan[WINDOW.padding + 2], last_move, stride, extent, positions)
    three = plan[WINDOW.kernel + 2] == 3 and plan[WINDOW.dilation + 2] == 1 and stride == 1  # see gather
    block_first, block_last = lowest, highest
    if three:
        block_first, block_last = _inside(1 - plan[WINDOW.padding + 2], last_move - 1, stride, extent, positions)
    table = worker * scratch_words
    remaining = _BLOCK
    for line in range(plan[own + SUMS_TASK.row_first], plan[own + SUMS_TASK.row_last]):
        h = line % plan[WINDOW.output + 1]
        rest = line // plan[WINDOW.output + 1]
        d = rest % plan[WINDOW.output]
        n = rest // plan[WINDOW.output]
        line_g = n * plan[WINDOW.g] + d * plan[WINDOW.g + 1] + h * plan[WINDOW.g + 2]
        found = _taps_of_row(plan, n, d, h, channels, scratch, table)
        newest = scratch[table + max(0, 3 * found - 3)]
        q = 0
        while q < positions:
            inside = block_first <= q and q + 8 <= block_last
            reads_first, reads_last = q >= plan[WINDOW.padding + 2], q + 7 + last_move < extent
            for channel in range(0, channels, lanes(x)):
                count = min(lanes(x), channels - channel)
                at = line_g + q * step_g + channel
                if inside and count == lanes(x):
                    for i in range(8):
                        ahead(x, newest + (q + i) * step_x + channel)
                        _soon(g, at + i * step_g)
                    g0, g1, g2, g3 = (
                        load(g, at),
                        load(g, at + step_g),
                        load(g, at + 2 * step_g),
                        load(g, at + 3 * step_g),
                    )
                    at += 4 * step_g
                    g4, g5, g6, g7 = (
                        load(g, at),
                        load(g, at + step_g),
                        load(g, at + 2 * step_g),
                        load(g, at + 3 * step_g),
                    )
                    for entry in range(table, table + 3 * found if three else table, 9):
                        source = scratch[entry] + q * step_x + channel
                        target = out + scratch[entry + 1] + channel
                        even_a = load(partials, target)
                        if reads_first:
                            even_a = fma(load(x, source), g0, even_a)
                        b, c = load(x, source + step_x), load(x, source + 2 * step_x)
                        odd_a = b * g1
                        even_b, odd_b = fma(b, g0, load(partials, target + channels)), c * g1
                        even_c = fma(c, g0, load(partials, target + 2 * channels))
                        even_a = fma(c, g2, even_a)
                        a, b = load(x, source + 3 * step_x), load(x, source + 4 * step_x)
                        odd_c = a * g1
                        even_b, odd_a = fma(a, g2, even_b), fma(a, g3, odd_a)
                        even_c, odd_b, even_a = fma(b, g2, even_c), fma(b, g3, odd_b), fma(b, g4, even_a)
                        a, b = load(x, source + 5 * step_x), load(x, source + 6 * step_x)
                        odd_c, even_b, odd_a = fma(a, g3, odd_c), fma(a, g4, even_b), fma(a, g5, odd_a)
                        even_c, odd_b, even_a = fma(b, g4, even_c), fma(b, g5, odd_b), fma(b, g6, even_a)
                        a, b = load(x, source + 7 * step_x), load(x, source + 8 * step_x)
                        odd_c, even_b, odd_a = fma(a, g5, odd_c), fma(a, g6, even_b), fma(a, g7, odd_a)
                        even_c, odd_b = fma(b, g6, even_c), fma(b, g7, odd_b)
                        if reads_last:
                            odd_c = fma(load(x, source + 9 * step_x), g7, odd_c)
                        store(partials, target, even_a + odd_a)
                        store(partials, target + channels, even_b + odd_b)
                        store(partials, target + 2 * channels, even_c + odd_c)
                    for entry in range(table, table if three else table + 3 * found, 3):
                        source = scratch[entry] + q * step_x + channel
                        target = out + scratch[entry + 1] + channel
                        even = fma(load(x, source), g0, load(partials, target))
                        odd = load(x, source + step_x) * g1
                        even = fma(load(x, source + 2 * step_x), g2, even)
                        odd = fma(load(x, source + 3 * step_x), g3, odd)
                        even = fma(load(x, source + 4 * step_x), g4, even)
                        odd = fma(load(x, source + 5 * step_x), g5, odd)
                        even = fma(load(x, source + 6 * step_x), g6, even)
                        odd = fma(load(x, source + 7 * step_x), g7, odd)
                        store(partials, target, even + odd)
                    continue
                if lowest <= q < highest and count == lanes(x):
                    value = load(g, at)
                    for entry in range(table, table + 3 * found, 3):
                        target = out + scratch[entry + 1] + channel
                        total = fma(load(x, scratch[entry] + q * step_x + channel), value, load(partials, target))
                        store(partials, target, total)
                    continue
                for move in range(8 if inside else 1):
                    value = load_first(g, at + move * step_g, count)
                    for entry in range(table, table + 3 * found, 3):
                        at_w = (q + move) * stride + scratch[entry + 2]
                        if 0 <= at_w < extent:
                            source = scratch[entry] + (q + move) * step_x + channel
                            target = out + scratch[entry + 1] + channel
                            total = fma(load_first(x, source, count), value, load_first(partials, target, count))
                            store_first(partials, target, total, count)
            q += 8 if inside else 1
            remaining -= 8 if inside else 1
            if remaining <= 0:
                _join(partials, totals, out, sums)
                _begin(partials, out, sums)
                remaining = _BLOCK
    _join(partials, totals, out, sums)
