# mypy: ignore-errors
"""One task of a depthwise convolution: every channel has its own kernel, so the lanes are channels.

A tile of positions stays in registers for all taps, and goes down a band of rows before the next channels, so that most
of the pixels that it reads are in L1.
"""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel_jit import apply_formula, finish_line, finish_of
from ..machine.simd import address, ahead_by, full, lanes, load_first, offset, store, store_first, until_aligned
from .depthwise import GATHER, GATHER_TASK, GROUP, SUMS, SUMS_TASK, SUMS_TILE
from .depthwise_tile_jit import PART, WHOLE, tile_of
from .direct_plan import PHASE, WINDOW

_near, _near_written = ahead_by(0), ahead_by(0, write=True)


@helper
def _pixels(start, step, extent, most):  # type: ignore[no-untyped-def]
    """A bit for each of ``most`` pixels at start, start + step, ... that is inside of the extent."""
    low = min(most, max(0, (step - 1 - start) // step))
    high = max(low, min(most, (extent - 1 - start) // step + 1))
    return (1 << high) - (1 << low)


@helper
def _groups_of_tile(plan, groups, count, q, positions, step, extent, pixel, x, weight, scratch, table):  # type: ignore[no-untyped-def]
    """The groups of taps that read inside along W: (offset in x, weight, weight step, taps, mask); their number.

    ``x``, ``weight``: offsets of the first of these taps.
    """
    found = 0
    for i in range(groups, groups + count * GROUP.words, GROUP.words):
        start, taps = q * step + plan[i + GROUP.move], plan[i + GROUP.taps]
        mask = _pixels(start, step, extent, positions + taps - 1)
        if mask != 0:
            at = table + 5 * found
            scratch[at] = x + start * pixel
            scratch[at + 1] = weight + plan[i + GROUP.weight]
            scratch[at + 2] = plan[i + GROUP.weight_step]
            scratch[at + 3] = taps
            scratch[at + 4] = mask
            found += 1
    return found


@helper
def _rows_of_taps(plan, moves, taps, first, last, step, extent, scratch, ranges):  # type: ignore[no-untyped-def]
    """For the rows from ``first`` to before ``last``, which of the ``taps`` are inside along H: the first one, and the
    one after the last. Moves rise or fall, so that all between are inside, too."""
    for h in range(first, last):
        begin, end, at = 0, taps, h * step
        while begin < taps and (at + plan[moves + begin] < 0 or at + plan[moves + begin] >= extent):
            begin += 1
        while end > begin and (at + plan[moves + end - 1] < 0 or at + plan[moves + end - 1] >= extent):
            end -= 1
        scratch[ranges + 2 * (h - first)] = begin
        scratch[ranges + 2 * (h - first) + 1] = end


@helper
def _next_tile(tile, tiles, first, across, positions, x_step, y_step, band, row_x, row_y):  # type: ignore[no-untyped-def]
    """The positions of the tile that is ``tiles`` further, and its distance in both tensors; after the last one, those
    of the tile ``first`` of the next band."""
    following, rows = tile + tiles, 0
    if following >= across:
        following, rows = first, band
    begin = following * positions // across
    moved = begin - tile * positions // across
    return (
        (following + 1) * positions // across - begin,
        moved * x_step + rows * row_x,
        moved * y_step + rows * row_y,
    )


@helper
def _soon(block, channel, channels, ahead, here, next_here, next_x, next_y):  # type: ignore[no-untyped-def]
    """What to prefetch ``ahead`` channels before it is read: (positions, distance in each tensor)."""
    soon = block + min(ahead, channels)
    if soon < channels:
        return here, soon - channel, soon - channel
    return next_here, next_x + soon - channels - channel, next_y + soon - channels - channel


@helper
def _read_ahead(x, plan, moves, taps, again, at, row, pixels, pixel, line):  # type: ignore[no-untyped-def]
    """Prefetch the pixels that a tile reads in a row, but not those that it read in the rows before.

    ``at``: the first pixel, of a tap without a move.
    """
    step = max(pixel, line)  # several pixels may share a cache line
    for b in range(taps):
        if b + again < 0 or b + again >= taps:
            i = at + plan[moves + b] * row
            end = i + pixels * pixel
            while i < end:  # (a range with a step would take a division)
                _near(x, i)
                i += step


def _gather(tiles):  # type: ignore[no-untyped-def]
    slide, write = tiles.slide, tiles.store

    @helper
    def rows(x, w, init, y, plan, own, taps, scratch, ranges, residual, bounds):  # type: ignore[no-untyped-def]
        finish = finish_of(y, bounds, residual)
        own_residual, size = finish[1], address(offset(y, 1)) - address(y)
        phase, channels, table = plan[own + GATHER_TASK.phase], plan[GATHER.channels], ranges + 2 * plan[GATHER.band]
        taps_d, taps_h, taps_w = plan[phase + PHASE.taps], plan[phase + PHASE.taps + 1], plan[phase + PHASE.taps + 2]
        moves_d = phase + PHASE.moves
        moves_h = moves_d + taps_d
        step_d, step_h = plan[phase + PHASE.source_step], plan[phase + PHASE.source_step + 1]
        step, extent = plan[phase + PHASE.source_step + 2], plan[GATHER.extent + 2]
        lines, positions = plan[phase + PHASE.positions + 1], plan[phase + PHASE.positions + 2]
        pixel = plan[GATHER.source + 3]
        x_step, y_step, groups = step * pixel, plan[phase + PHASE.target_step + 2], plan[own + GATHER_TASK.count]
        row_x = step_h * plan[GATHER.source + 2]
        across = (positions + plan[GATHER.across] - 1) // plan[GATHER.across]
        count = min(channels, lanes(x))
        first, last_channel = plan[own + GATHER_TASK.channel_first], plan[own + GATHER_TASK.channel_last]
        newest_d, nearest_w, reach = 0, 0, 1
        for a in range(taps_d):
            newest_d = max(newest_d, plan[moves_d + a])
        if taps_w > 0:
            first_w, last_w = plan[moves_h + taps_h], plan[moves_h + taps_h + taps_w - 1]
            nearest_w, reach = min(first_w, last_w), abs(last_w - first_w) + 1
        row, row_last = plan[own + GATHER_TASK.row_first], plan[own + GATHER_TASK.row_last]
        while row < row_last:
            h_first, rest = row % lines, row // lines
            d, n = rest % plan[phase + PHASE.positions], rest // plan[phase + PHASE.positions]
            h_last = min(lines, h_first + min(plan[GATHER.band], row_last - row))
            row += h_last - h_first
            source = n * plan[GATHER.source]
            nearest = source + (d * step_d + newest_d) * plan[GATHER.source + 1] + nearest_w * pixel
            target = n * plan[GATHER.target] + d * plan[phase + PHASE.target_step] + plan[phase + PHASE.target]
            _rows_of_taps(plan, moves_h, taps_h, h_first, h_last, step_h, plan[GATHER.extent + 1], scratch, ranges)
            for tile in range(across):
                q = tile * positions // across
                here = (tile + 1) * positions // across - q
                found, planes = 0, 0  # groups of a row of taps, all that are inside along D
                for a in range(taps_d):
                    at_d = d * step_d + plan[moves_d + a]
                    if at_d < 0 or at_d >= plan[GATHER.extent]:
                        continue
                    for b in range(taps_h if groups > 0 else 0):
                        found = _groups_of_tile(
                            plan,
                            plan[own + GATHER_TASK.groups],
                            groups,
                            q,
                            here,
                            step,
                            extent,
                            pixel,
                            at_d * plan[GATHER.source + 1] + plan[moves_h + b] * plan[GATHER.source + 2],
                            taps[plan[phase + PHASE.first_tap] + (a * taps_h + b) * taps_w],
                            scratch,
                            table + 5 * found * (planes * taps_h + b),
                        )
                    planes += 1
                plane = 5 * found * taps_h
                next_here, next_x, next_y = _next_tile(
                    tile,
                    1,
                    0,
                    across,
                    positions,
                    x_step,
                    y_step,
                    plan[GATHER.band],
                    row_x,
                    plan[phase + PHASE.target_step + 1],
                )
                for some in range(first, last_channel, plan[GATHER.together] * lanes(x)):
                    some_last = min(last_channel, some + plan[GATHER.together] * lanes(x))
                    for h in range(h_first, h_last):
                        inside = ranges + 2 * (h - h_first)
                        begin, end = 5 * found * scratch[inside], 5 * found * scratch[inside + 1]
                        block = some
                        while block < some_last:
                            channel = min(block, channels - count)  # the last ones again, not a part of a register
                            sums = tile_of(load_first(init, channel, count))
                            line = source + h * row_x + channel
                            for a in range(planes):
                                i, last = table + a * plane + begin, table + a * plane + end
                                while i < last:
                                    sums = slide(
                                        x,
                                        line + scratch[i],
                                        x_step,
                                        w,
                                        channel + scratch[i + 1],
                                        scratch[i + 2],
                                        scratch[i + 3],
                                        scratch[i + 4],
                                        count,
                                        sums,
                                    )
                                    i += 5
                            at = target + h * plan[phase + PHASE.target_step + 1] + q * y_step + channel
                            if plan[GATHER.ahead] > 0 and block & (plan[GATHER.line] - 1) == 0:
                                soon_here, soon_x, soon_y = _soon(
                                    block,
                                    channel,
                                    channels,
                                    plan[GATHER.ahead],
                                    here,
                                    next_here,
                                    next_x,
                                    next_y,
                                )
                                _read_ahead(
                                    x,
                                    plan,
                                    moves_h,
                                    taps_h,
                                    plan[own + GATHER_TASK.again],
                                    nearest + h * row_x + q * x_step + channel + soon_x,
                                    plan[GATHER.source + 2],
                                    (soon_here - 1) * step + reach,
                                    pixel,
                                    plan[GATHER.line],
                                )
                                for p in range(soon_here):
                                    _near_written(y, at + soon_y + p * y_step)
                            write(y, at, y_step, sums, here, count, finish[0] if own_residual == 0 else 0)
                            for p in range(here if own_residual != 0 else 0):
                                finish_line(y, at + p * y_step, count, residual, bounds)
                            block += lanes(x)
                        if own_residual == 0:
                            begin = min(some, channels - count)
                            at = target + h * plan[phase + PHASE.target_step + 1] + q * y_step + begin
                            apply_formula(finish, address(offset(y, at)), here, y_step * size, some_last - begin)

    return rows


_gather_whole, _gather_part = _gather(WHOLE), _gather(PART)


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
    residual: Array,
    bounds: Array,
) -> None:
    """Rows of ``y[q, c] = init[c] + sum over taps of x[q*step + tap, c] * w[tap, c]``."""
    own, ranges = plan[GATHER.tasks] + GATHER_TASK.words * task, worker * scratch_words
    if plan[GATHER.channels] >= lanes(x):
        _gather_whole(x, w, init, y, plan, own, taps, scratch, ranges, residual, bounds)
    else:
        _gather_part(x, w, init, y, plan, own, taps, scratch, ranges, residual, bounds)


def _weight_grad(tiles):  # type: ignore[no-untyped-def]
    correlate, read = tiles.correlate, tiles.load

    @helper
    def rows(x, g, totals, target, sums, own_sums, plan, own, scratch, ranges):  # type: ignore[no-untyped-def]
        channels, lines, positions = plan[SUMS.channels], plan[WINDOW.output + 1], plan[WINDOW.output + 2]
        kernel_d, kernel_h, kernel_w = plan[WINDOW.kernel], plan[WINDOW.kernel + 1], plan[WINDOW.kernel + 2]
        taps, stride, pixel = kernel_d * kernel_h * kernel_w, plan[WINDOW.stride + 2], plan[WINDOW.x + 3]
        moves_h, table = plan[SUMS.moves], ranges + 2 * plan[SUMS.band]
        further = 1 if channels <= plan[SUMS.together] * lanes(x) else plan[SUMS.span]
        reach = (kernel_w - 1) * plan[WINDOW.dilation + 2] + 1
        step, step_g, words = stride * pixel, plan[WINDOW.g + 3], 1 + 5 * plan[SUMS.count] * kernel_d * kernel_h
        across = (positions + plan[SUMS.across] - 1) // plan[SUMS.across]
        count, zero, row_x = min(channels, lanes(x)), full(x, 0.0), plan[WINDOW.stride + 1] * plan[WINDOW.x + 2]
        for i in range(0, taps * channels, lanes(x)):
            store_first(totals, target + i, zero, taps * channels - i)
        row, row_last = plan[own + SUMS_TASK.row_first], plan[own + SUMS_TASK.row_last]
        while row < row_last:
            h_first, rest = row % lines, row // lines
            d, n = rest % plan[WINDOW.output], rest // plan[WINDOW.output]
            h_last = min(lines, h_first + min(plan[SUMS.band], row_last - row))
            row += h_last - h_first
            planes, extent_h, step_h = 0, plan[WINDOW.extent + 1], plan[WINDOW.stride + 1]
            _rows_of_taps(plan, moves_h, kernel_h, h_first, h_last, step_h, extent_h, scratch, ranges)
            newest_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + (kernel_d - 1) * plan[WINDOW.dilation]
            nearest = n * plan[WINDOW.x] + newest_d * plan[WINDOW.x + 1] - plan[WINDOW.padding + 2] * pixel
            for tile_first in range(0, across, plan[SUMS.span]):
                tile_last = min(across, tile_first + plan[SUMS.span])
                for tile in range(tile_first, tile_last):
                    q = tile * positions // across
                    here, entries = (tile + 1) * positions // across - q, table + (tile - tile_first) * words
                    found, planes = 0, 0  # groups of a row of taps, all that are inside along D
                    for a in range(kernel_d):
                        at_d = d * plan[WINDOW.stride] - plan[WINDOW.padding] + a * plan[WINDOW.dilation]
                        if at_d < 0 or at_d >= plan[WINDOW.extent]:
                            continue
                        for b in range(kernel_h):
                            found = _groups_of_tile(
                                plan,
                                plan[SUMS.groups],
                                plan[SUMS.count],
                                q,
                                here,
                                stride,
                                plan[WINDOW.extent + 2],
                                pixel,
                                at_d * plan[WINDOW.x + 1] + plan[moves_h + b] * plan[WINDOW.x + 2],
                                (a * kernel_h + b) * kernel_w,
                                scratch,
                                entries + 1 + 5 * found * (planes * kernel_h + b),
                            )
                        planes += 1
                    scratch[entries] = 5 * found
                for some in range(0, channels, plan[SUMS.together] * lanes(x)):
                    some_last = min(channels, some + plan[SUMS.together] * lanes(x))
                    for i in range(own_sums, own_sums + taps * plan[SUMS.together] * lanes(x), lanes(x)):
                        store(sums, i, zero)
                    for tile in range(tile_first, tile_last):
                        q = tile * positions // across
                        here, entries = (tile + 1) * positions // across - q, table + (tile - tile_first) * words
                        next_here, next_x, next_g = _next_tile(
                            tile,
                            further,
                            0 if further == 1 else tile - tile_first,
                            across,
                            positions,
                            step,
                            step_g,
                            plan[SUMS.band],
                            row_x,
                            plan[WINDOW.g + 2],
                        )
                        found = scratch[entries]  # words of a row of taps
                        for h in range(h_first, h_last):
                            inside = ranges + 2 * (h - h_first)
                            begin, end = found * scratch[inside], found * scratch[inside + 1]
                            for block in range(some, some_last, lanes(x)):
                                channel = min(block, channels - count)
                                at = n * plan[WINDOW.g] + d * plan[WINDOW.g + 1] + h * plan[WINDOW.g + 2] + channel
                                at += q * step_g
                                if plan[SUMS.ahead] > 0 and block & (plan[SUMS.line] - 1) == 0:
                                    soon_here, soon_x, soon_g = _soon(
                                        block, channel, channels, plan[SUMS.ahead], here, next_here, next_x, next_g
                                    )
                                    _read_ahead(
                                        x,
                                        plan,
                                        moves_h,
                                        kernel_h,
                                        plan[SUMS.again],
                                        nearest + h * row_x + q * step + channel + soon_x,
                                        plan[WINDOW.x + 2],
                                        (soon_here - 1) * stride + reach,
                                        pixel,
                                        plan[SUMS.line],
                                    )
                                    for p in range(soon_here):
                                        _near(g, at + soon_g + p * step_g)
                                factors = read(g, at, step_g, SUMS_TILE - here, count)
                                line = n * plan[WINDOW.x] + h * row_x + channel
                                own_block = own_sums + taps * (block - some)
                                for a in range(planes):
                                    of_plane = entries + 1 + found * a * kernel_h
                                    i, last = of_plane + begin, of_plane + end
                                    while i < last:
                                        correlate(
                                            x,
                                            line + scratch[i],
                                            step,
                                            sums,
                                            own_block + scratch[i + 1] * lanes(x),
                                            scratch[i + 2] * lanes(x),
                                            scratch[i + 3],
                                            scratch[i + 4] << (SUMS_TILE - here),
                                            SUMS_TILE - here,
                                            count,
                                            factors,
                                        )
                                        i += 5
                    for block in range(some, some_last, lanes(x)):
                        again = block - min(block, channels - count)  # channels of the block before
                        for tap in range(taps):
                            at, i = target + tap * channels + block, own_sums + taps * (block - some) + tap * lanes(x)
                            i += again
                            total = load_first(totals, at, count - again) + load_first(sums, i, count - again)
                            store_first(totals, at, total, count - again)

    return rows


_weight_grad_whole, _weight_grad_part = _weight_grad(WHOLE), _weight_grad(PART)


def weight_grad(
    task: int,
    worker: int,
    x: Array,
    g: Array,
    partials: Array,
    sums: Array,
    sums_per_worker: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``partials[task, tap, c] = sum over the task's rows of x[position + tap, c] * g[position, c]``.

    ``sums``: memory for the sums of a register of channels over some rows, before they are added.
    """
    own, ranges = plan[SUMS.tasks] + SUMS_TASK.words * task, worker * scratch_words
    channels, mine = plan[SUMS.channels], worker * sums_per_worker
    mine += until_aligned(sums, mine)
    target = task * plan[WINDOW.kernel] * plan[WINDOW.kernel + 1] * plan[WINDOW.kernel + 2] * channels
    if channels >= lanes(x):
        _weight_grad_whole(x, g, partials, target, sums, mine, plan, own, scratch, ranges)
    else:
        _weight_grad_part(x, g, partials, target, sums, mine, plan, own, scratch, ranges)
