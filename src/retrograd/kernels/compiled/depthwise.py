"""What one task of a depthwise convolution does: every channel has a kernel of its own, so the lanes are channels."""

from __future__ import annotations

from .. import gather_plan as word
from .. import reduce_plan as term
from ..compiler import helper
from ..simd import fma, full, lanes, load, load_first, store, store_first


@helper
def _inside(first_move, last_move, step, extent, positions):  # type: ignore[no-untyped-def]
    """The positions q of a row at which every tap reads inside: 0 <= q*step + move < extent for the outermost moves."""
    lowest = max(0, (-first_move + step - 1) // step)
    highest = min(positions, (extent - 1 - last_move) // step + 1)
    return min(lowest, positions), max(highest, min(lowest, positions))


@helper
def _taps_of_line(plan, phase, n, d, h, taps, scratch, table):  # type: ignore[no-untyped-def]
    """The taps that read inside along D and H: (offset in x, offset in w, move along W) each; how many there are."""
    size = plan[word.SIZE]
    taps_d, taps_h, taps_w = plan[phase + word.TAPS], plan[phase + word.TAPS + 1], plan[phase + word.TAPS + 2]
    moves_d = phase + word.LIST
    moves_h = moves_d + taps_d
    moves_w = moves_h + taps_h
    found = 0
    for a in range(taps_d):
        at_d = d * plan[phase + word.SOURCE_STEP] + plan[moves_d + a]
        if at_d < 0 or at_d >= plan[word.EXTENT]:
            continue
        for b in range(taps_h):
            at_h = h * plan[phase + word.SOURCE_STEP + 1] + plan[moves_h + b]
            if at_h < 0 or at_h >= plan[word.EXTENT + 1]:
                continue
            line = n * plan[word.SOURCE] + at_d * plan[word.SOURCE + 1] + at_h * plan[word.SOURCE + 2]
            tap = plan[phase + word.FIRST_TAP] + (a * taps_h + b) * taps_w
            for c in range(taps_w):
                at = table + 3 * found
                scratch[at] = (line + plan[moves_w + c] * plan[word.SOURCE + 3]) // size
                scratch[at + 1] = taps[tap + c]
                scratch[at + 2] = plan[moves_w + c]
                found += 1
    return found


def gather(
    task: int, worker: int, x: Array, w: Array, init: Array, y: Array, plan: Table, taps: Table, scratch: Table,
    scratch_words: int,
) -> None:  # fmt: skip
    """Rows of ``y[q, c] = init[c] + sum over taps of x[q*step + tap, c] * w[tap, c]``."""
    row = plan[word.TASKS] + 3 * task
    phase, row_first, row_last = plan[row], plan[row + 1], plan[row + 2]
    size, channels, extent = plan[word.SIZE], plan[word.COLUMNS], plan[word.EXTENT + 2]
    taps_w, moves_w = (
        plan[phase + word.TAPS + 2],
        phase + word.LIST + plan[phase + word.TAPS] + plan[phase + word.TAPS + 1],
    )
    positions, step = plan[phase + word.POSITIONS + 2], plan[phase + word.SOURCE_STEP + 2]
    x_step, y_step = step * plan[word.SOURCE + 3] // size, plan[phase + word.TARGET_STEP + 2] // size
    table = worker * scratch_words
    least, most = 1 << 40, -(1 << 40)
    for c in range(taps_w):
        least, most = min(least, plan[moves_w + c]), max(most, plan[moves_w + c])
    lowest, highest = 0, positions
    if taps_w > 0:
        lowest, highest = _inside(least, most, step, extent, positions)
    for line in range(row_first, row_last):
        h = line % plan[phase + word.POSITIONS + 1]
        rest = line // plan[phase + word.POSITIONS + 1]
        d = rest % plan[phase + word.POSITIONS]
        n = rest // plan[phase + word.POSITIONS]
        target = (
            n * plan[word.TARGET]
            + d * plan[phase + word.TARGET_STEP]
            + h * plan[phase + word.TARGET_STEP + 1]
            + plan[phase + word.PHASE_TARGET]
        ) // size
        found = _taps_of_line(plan, phase, n, d, h, taps, scratch, table)
        for channel in range(0, channels, lanes(x)):
            count = min(lanes(x), channels - channel)
            begin = load_first(init, channel, count)
            q = 0
            while q < positions:
                at = target + q * y_step + channel
                if count == lanes(x) and lowest <= q and q + 8 <= highest:
                    y0, y1, y2, y3, y4, y5, y6, y7 = begin, begin, begin, begin, begin, begin, begin, begin
                    for entry in range(table, table + 3 * found, 3):
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
                    store(y, at, y0)
                    store(y, at + y_step, y1)
                    store(y, at + 2 * y_step, y2)
                    store(y, at + 3 * y_step, y3)
                    store(y, at + 4 * y_step, y4)
                    store(y, at + 5 * y_step, y5)
                    store(y, at + 6 * y_step, y6)
                    store(y, at + 7 * y_step, y7)
                    q += 8
                else:
                    total = begin
                    for entry in range(table, table + 3 * found, 3):
                        at_w = q * step + scratch[entry + 2]
                        if 0 <= at_w < extent:
                            source = scratch[entry] + q * x_step + channel
                            weight = load_first(w, scratch[entry + 1] + channel, count)
                            total = fma(load_first(x, source, count), weight, total)
                    store_first(y, at, total, count)
                    q += 1


def weight_grad(task: int, worker: int, x: Array, g: Array, partials: Array, plan: Table) -> None:
    """``partials[task, tap, c] = sum over the task's rows of x[position + tap, c] * g[position, c]``."""
    row = plan[term.TASKS] + 2 * task
    size, channels = plan[term.SIZE], plan[term.COLUMNS]
    kernel_d, kernel_h, kernel_w = plan[term.KERNEL], plan[term.KERNEL + 1], plan[term.KERNEL + 2]
    out = task * kernel_d * kernel_h * kernel_w * channels
    zero = full(x, 0.0)
    for i in range(0, kernel_d * kernel_h * kernel_w * channels, lanes(x)):
        store_first(partials, out + i, zero, kernel_d * kernel_h * kernel_w * channels - i)
    step_x, step_g = plan[term.STRIDE + 2] * plan[term.INPUT + 3] // size, plan[term.GRAD + 3] // size
    for line in range(plan[row], plan[row + 1]):
        h = line % plan[term.OUTPUT + 1]
        rest = line // plan[term.OUTPUT + 1]
        d = rest % plan[term.OUTPUT]
        n = rest // plan[term.OUTPUT]
        line_g = (n * plan[term.GRAD] + d * plan[term.GRAD + 1] + h * plan[term.GRAD + 2]) // size
        for a in range(kernel_d):
            at_d = d * plan[term.STRIDE] - plan[term.PADDING] + a * plan[term.DILATION]
            if at_d < 0 or at_d >= plan[term.EXTENT]:
                continue
            for b in range(kernel_h):
                at_h = h * plan[term.STRIDE + 1] - plan[term.PADDING + 1] + b * plan[term.DILATION + 1]
                if at_h < 0 or at_h >= plan[term.EXTENT + 1]:
                    continue
                line_x = (n * plan[term.INPUT] + at_d * plan[term.INPUT + 1] + at_h * plan[term.INPUT + 2]) // size
                for c in range(kernel_w):
                    move = c * plan[term.DILATION + 2] - plan[term.PADDING + 2]
                    lowest, highest = _inside(
                        move, move, plan[term.STRIDE + 2], plan[term.EXTENT + 2], plan[term.OUTPUT + 2]
                    )
                    first_x = line_x + move * plan[term.INPUT + 3] // size
                    target = out + ((a * kernel_h + b) * kernel_w + c) * channels
                    for channel in range(0, channels, lanes(x)):
                        count = min(lanes(x), channels - channel)
                        s0, s1, s2, s3 = load_first(partials, target + channel, count), zero, zero, zero
                        at_x, at_g = first_x + lowest * step_x + channel, line_g + lowest * step_g + channel
                        done = 0
                        if count == lanes(x):
                            done = (highest - lowest) // 4 * 4
                            for _ in range(done // 4):
                                s0 = fma(load(x, at_x), load(g, at_g), s0)
                                s1 = fma(load(x, at_x + step_x), load(g, at_g + step_g), s1)
                                s2 = fma(load(x, at_x + 2 * step_x), load(g, at_g + 2 * step_g), s2)
                                s3 = fma(load(x, at_x + 3 * step_x), load(g, at_g + 3 * step_g), s3)
                                at_x += 4 * step_x
                                at_g += 4 * step_g
                        for _ in range(highest - lowest - done):
                            s0 = fma(load_first(x, at_x, count), load_first(g, at_g, count), s0)
                            at_x += step_x
                            at_g += step_g
                        store_first(partials, target + channel, (s0 + s1) + (s2 + s3), count)
