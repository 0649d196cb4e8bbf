"""What one task of a pooling does. The plan that it reads is made in ../pooling.py.

A list in scratch memory says where the taps of an output stand: pairs (step in elements, place in the input), both
counted from tap 0. Neighbouring outputs whose windows lie inside of the input share one list.
"""

from __future__ import annotations

from ..compiler import helper
from ..pooling import (
    APART,
    BLOCK,
    BLOCKS,
    CHANNELS,
    COMPARE,
    DILATION,
    DIVISOR,
    INPUT,
    KERNEL,
    LOW,
    OUTPUT,
    ROWS,
    ROWS_PER_TASK,
    STEP,
    STRIDE,
    WHOLE,
)
from ..simd import (
    all_lanes,
    bits_of,
    either,
    exceeds,
    full,
    full_like,
    lanes,
    load,
    load_first,
    load_integers,
    select,
    store,
    store_first,
    store_integers,
    widen,
)


@helper
def _begin(plan, axis, out):  # type: ignore[no-untyped-def]
    """Where tap 0 of an output stands."""
    if plan[STRIDE + axis] == 0:
        return out * plan[INPUT + axis] // plan[OUTPUT + axis]
    return out * plan[STRIDE + axis] - plan[LOW + axis]


@helper
def _inside(plan, axis, out):  # type: ignore[no-untyped-def]
    """The first tap of an output inside of the input, and the first one behind it."""
    taps, spread, extent = plan[KERNEL + axis], plan[DILATION + axis], plan[INPUT + axis]
    at = _begin(plan, axis, out)
    if plan[STRIDE + axis] == 0:
        return 0, ((out + 1) * extent + plan[OUTPUT + axis] - 1) // plan[OUTPUT + axis] - at
    first, last = 0, taps
    if at < 0:
        first = (spread - 1 - at) // spread
    if at + (taps - 1) * spread >= extent:
        last = (extent - at + spread - 1) // spread
    return first, last


@helper
def _list_taps(plan, scratch, begin, out_d, out_h, out_w):  # type: ignore[no-untyped-def]
    """List the taps inside of the input of one output.

    Returns where tap 0 stands along W, the end of the list, and how many outputs along W from this one on can use it.
    """
    first_d, last_d = _inside(plan, 0, out_d)
    first_h, last_h = _inside(plan, 1, out_h)
    first_w, last_w = _inside(plan, 2, out_w)
    at_w = _begin(plan, 2, out_w)
    end = begin
    for d in range(first_d, last_d):
        for h in range(first_h, last_h):
            in_d, in_h = d * plan[DILATION], h * plan[DILATION + 1]
            for w in range(first_w, last_w):
                in_w = w * plan[DILATION + 2]
                scratch[end] = in_d * plan[STEP + 1] + in_h * plan[STEP + 2] + in_w * plan[STEP + 3]
                scratch[end + 1] = (in_d * plan[INPUT + 1] + in_h) * plan[INPUT + 2] + in_w
                end += 2
    run = 1
    if last_w - first_w == plan[KERNEL + 2] and plan[STRIDE + 2] > 0:
        room = plan[INPUT + 2] - 1 - at_w - (plan[KERNEL + 2] - 1) * plan[DILATION + 2]
        run = min(plan[OUTPUT + 2] - out_w, room // plan[STRIDE + 2] + 1)
    return at_w, end, run


@helper
def _part_of_task(plan, task):  # type: ignore[no-untyped-def]
    """The rows and the channels of a task: first, and behind the last."""
    row = task // plan[BLOCKS] * plan[ROWS_PER_TASK]
    c = task % plan[BLOCKS] * plan[BLOCK]
    return row, min(plan[ROWS], row + plan[ROWS_PER_TASK]), c, min(plan[CHANNELS], c + plan[BLOCK])


@helper
def _start_of_row(plan, row):  # type: ignore[no-untyped-def]
    """n, d and h of the outputs of a row, and where their tap 0 stands along D and H."""
    rest = row // plan[OUTPUT + 1]
    n = rest // plan[OUTPUT]
    d, h = rest - n * plan[OUTPUT], row - rest * plan[OUTPUT + 1]
    return n, d, h, _begin(plan, 0, d), _begin(plan, 1, h)


@helper
def _clear(gx, begin, pixels, channels, first, last):  # type: ignore[no-untyped-def]
    """Set the channels from ``first`` to ``last`` of some neighbouring pixels to 0."""
    zero = full(gx, 0.0)
    if last - first == channels:
        end = begin + pixels * channels
        while begin + lanes(gx) <= end:
            store(gx, begin, zero)
            begin += lanes(gx)
        store_first(gx, begin, zero, end - begin)
    else:
        for pixel in range(pixels):
            for c in range(first, last, lanes(gx)):
                store_first(gx, begin + pixel * channels + c, zero, last - c)


@helper
def _clear_ahead(gx, plan, n, at_d, at_h, all_rows, fresh, first, last):  # type: ignore[no-untyped-def]
    """Set rows of gx to 0 up to the last one that windows at (at_d, at_h) reach; ``fresh`` rows are, and will be.

    No need where every input is written just once.
    """
    if plan[WHOLE] * plan[APART] == 1:
        return 0
    depth, height, channels = plan[INPUT], plan[INPUT + 1], plan[CHANNELS]
    last_d = min(depth - 1, at_d + (plan[KERNEL] - 1) * plan[DILATION])
    last_h = min(height - 1, at_h + (plan[KERNEL + 1] - 1) * plan[DILATION + 1])
    reached = depth * height if all_rows else max(fresh, last_d * height + last_h + 1)
    width = plan[INPUT + 2]
    _clear(gx, n * plan[STEP] + fresh * width * channels, (reached - fresh) * width, channels, first, last)
    return reached


@helper
def _larger(value, here, best, found):  # type: ignore[no-untyped-def]
    """The larger one of ``value`` and ``best``, and its place, counted from tap 0 so that 32 bits do for any input."""
    better = exceeds(value, best)
    return select(better, value, best), select(better, here, found)


@helper
def _store_found(y, indices, at, best, found, place, count):  # type: ignore[no-untyped-def]
    store_first(y, at, best, count)
    store_integers(indices, at, widen(found) + place, count)


def max_pool(
    task: int, worker: int, x: Array, y: Array, indices: Table, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """y[o] = max over r of x[i], and its place, for some rows of outputs and one block of channels."""
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    begin, outputs, channels = worker * scratch_words, plan[OUTPUT + 2], plan[CHANNELS]
    move, step, two = plan[STRIDE + 2], plan[STRIDE + 2] * plan[STEP + 3], 2 * lanes(x)
    target, few = first_row * outputs * channels, last_c - first_c
    for row in range(first_row, last_row):
        n, d, h, at_d, at_h = _start_of_row(plan, row)
        row_begin = n * plan[STEP] + at_d * plan[STEP + 1] + at_h * plan[STEP + 2]
        first_place = (at_d * plan[INPUT + 1] + at_h) * plan[INPUT + 2]
        out = 0
        while out < outputs:
            at_w, end, run = _list_taps(plan, scratch, begin, d, h, out)
            source = row_begin + at_w * plan[STEP + 3]
            place = first_place + at_w
            out += run
            while few <= lanes(x) and run >= 4:  # one register holds all channels: four positions at once
                at = source + scratch[begin] + first_c
                best_a, best_b = load_first(x, at, few), load_first(x, at + step, few)
                best_c, best_d = load_first(x, at + 2 * step, few), load_first(x, at + 3 * step, few)
                found_a = full_like(bits_of(best_a), scratch[begin + 1])
                found_b, found_c, found_d = found_a, found_a, found_a
                for tap in range(begin + 2, end, 2):
                    at, here = source + scratch[tap] + first_c, full_like(found_a, scratch[tap + 1])
                    best_a, found_a = _larger(load_first(x, at, few), here, best_a, found_a)
                    best_b, found_b = _larger(load_first(x, at + step, few), here, best_b, found_b)
                    best_c, found_c = _larger(load_first(x, at + 2 * step, few), here, best_c, found_c)
                    best_d, found_d = _larger(load_first(x, at + 3 * step, few), here, best_d, found_d)
                _store_found(y, indices, target + first_c, best_a, found_a, place, few)
                _store_found(y, indices, target + channels + first_c, best_b, found_b, place + move, few)
                _store_found(y, indices, target + 2 * channels + first_c, best_c, found_c, place + 2 * move, few)
                _store_found(y, indices, target + 3 * channels + first_c, best_d, found_d, place + 3 * move, few)
                target += 4 * channels
                source += 4 * step
                place += 4 * move
                run -= 4
            for _ in range(run):
                c = first_c
                while c + two <= last_c:
                    at = source + scratch[begin] + c
                    best_a, best_b = load(x, at), load(x, at + lanes(x))
                    found_a = full_like(bits_of(best_a), scratch[begin + 1])
                    found_b = found_a
                    for tap in range(begin + 2, end, 2):
                        at, here = source + scratch[tap] + c, full_like(found_a, scratch[tap + 1])
                        best_a, found_a = _larger(load(x, at), here, best_a, found_a)
                        best_b, found_b = _larger(load(x, at + lanes(x)), here, best_b, found_b)
                    _store_found(y, indices, target + c, best_a, found_a, place, lanes(x))
                    _store_found(y, indices, target + c + lanes(x), best_b, found_b, place, lanes(x))
                    c += two
                while c < last_c:
                    count = min(lanes(x), last_c - c)
                    best = load_first(x, source + scratch[begin] + c, count)
                    found = full_like(bits_of(best), scratch[begin + 1])
                    for tap in range(begin + 2, end, 2):
                        value = load_first(x, source + scratch[tap] + c, count)
                        best, found = _larger(value, full_like(found, scratch[tap + 1]), best, found)
                    _store_found(y, indices, target + c, best, found, place, count)
                    c += lanes(x)
                target += channels
                source += step
                place += move


@helper
def _to_windows(task, worker, g, indices, gx, plan, scratch, scratch_words):  # type: ignore[no-untyped-def]
    """Scatter for windows that do not overlap: every tap is g where it is the chosen one, else 0.

    False if an index lies outside of its window; gx is then to be computed again.
    """
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    begin, outputs, channels = worker * scratch_words, plan[OUTPUT + 2], plan[CHANNELS]
    move, step = plan[STRIDE + 2], plan[STRIDE + 2] * plan[STEP + 3]
    source, fresh = first_row * outputs * channels, 0
    for row in range(first_row, last_row):
        n, d, h, at_d, at_h = _start_of_row(plan, row)
        fresh = _clear_ahead(gx, plan, n, at_d, at_h, row == last_row - 1, fresh, first_c, last_c)
        row_begin = n * plan[STEP] + at_d * plan[STEP + 1] + at_h * plan[STEP + 2]
        first_place = (at_d * plan[INPUT + 1] + at_h) * plan[INPUT + 2]
        out = 0
        while out < outputs:
            at_w, end, run = _list_taps(plan, scratch, begin, d, h, out)
            target = row_begin + at_w * plan[STEP + 3]
            place = first_place + at_w
            for _ in range(run):
                for c in range(first_c, last_c, lanes(g)):
                    count = min(lanes(g), last_c - c)
                    value = load_first(g, source + c, count)
                    chosen = load_integers(indices, source + c, count, place + scratch[begin + 1], value) - place
                    met = chosen != chosen
                    for tap in range(begin, end, 2):
                        here = chosen == scratch[tap + 1]
                        met = either(met, here)
                        store_first(gx, target + scratch[tap] + c, select(here, value, 0.0), count)
                    if not all_lanes(met):
                        return False
                source += channels
                target += step
                place += move
            out += run
    return True


def max_pool_grad(
    task: int, worker: int, g: Array, indices: Table, gx: Array, plan: Table, scratch: Table, scratch_words: int,
) -> None:  # fmt: skip
    """gx = 0, then gx[indices[o]] += g[o] in the order of o, for one image and one block of channels."""
    if plan[COMPARE] == 1 and _to_windows(task, worker, g, indices, gx, plan, scratch, scratch_words):
        return
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    channels = plan[CHANNELS]
    origin = task // plan[BLOCKS] * plan[STEP]
    _clear(gx, origin, plan[INPUT] * plan[INPUT + 1] * plan[INPUT + 2], channels, first_c, last_c)
    at = first_row * plan[OUTPUT + 2] * channels
    for _ in range((last_row - first_row) * plan[OUTPUT + 2]):
        for c in range(first_c, last_c):
            gx[origin + indices[at + c] * channels + c] += g[at + c]
        at += channels


def max_pool_gather(
    task: int, worker: int, x: Array, indices: Table, y: Array, outputs: int, inputs: int, channels: int,
    block: int, blocks: int,
) -> None:  # fmt: skip
    """y[o] = x[indices[o]] for one image and one block of channels."""
    n = task // blocks
    first = (task - n * blocks) * block
    last = min(channels, first + block)
    origin, at = n * inputs * channels, n * outputs * channels
    for _ in range(outputs):
        for c in range(first, last):
            y[at + c] = x[origin + indices[at + c] * channels + c]
        at += channels


def avg_pool(task: int, worker: int, x: Array, y: Array, plan: Table, scratch: Table, scratch_words: int) -> None:
    """y[o] = (sum over r of x[i]) / count for some rows of outputs and one block of channels."""
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    begin, outputs, channels = worker * scratch_words, plan[OUTPUT + 2], plan[CHANNELS]
    step = plan[STRIDE + 2] * plan[STEP + 3]
    one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
    zero = full(x, 0.0)
    target = first_row * outputs * channels
    for row in range(first_row, last_row):
        n, d, h, at_d, at_h = _start_of_row(plan, row)
        row_begin = n * plan[STEP] + at_d * plan[STEP + 1] + at_h * plan[STEP + 2]
        out = 0
        while out < outputs:
            at_w, end, run = _list_taps(plan, scratch, begin, d, h, out)
            source = row_begin + at_w * plan[STEP + 3]
            divisor = plan[DIVISOR] if plan[DIVISOR] > 0 else (end - begin) // 2
            for _ in range(run):
                c = first_c
                while c + four <= last_c:
                    sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
                    for tap in range(begin, end, 2):
                        at = source + scratch[tap] + c
                        sum_a, sum_b = sum_a + load(x, at), sum_b + load(x, at + one)
                        sum_c, sum_d = sum_c + load(x, at + two), sum_d + load(x, at + three)
                    store(y, target + c, sum_a / divisor)
                    store(y, target + c + one, sum_b / divisor)
                    store(y, target + c + two, sum_c / divisor)
                    store(y, target + c + three, sum_d / divisor)
                    c += four
                while c < last_c:
                    count = min(one, last_c - c)
                    total = zero
                    for tap in range(begin, end, 2):
                        total = total + load_first(x, source + scratch[tap] + c, count)
                    store_first(y, target + c, total / divisor, count)
                    c += one
                target += channels
                source += step
            out += run


def avg_pool_grad(
    task: int,
    worker: int,
    g: Array,
    gx: Array,
    plan: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """gx[i] += g[o] / count for all taps, in the order of o, for one image and one block of channels."""
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    begin, outputs, channels = worker * scratch_words, plan[OUTPUT + 2], plan[CHANNELS]
    step = plan[STRIDE + 2] * plan[STEP + 3]
    source, fresh = first_row * outputs * channels, 0
    for row in range(first_row, last_row):
        n, d, h, at_d, at_h = _start_of_row(plan, row)
        fresh = _clear_ahead(gx, plan, n, at_d, at_h, row == last_row - 1, fresh, first_c, last_c)
        row_begin = n * plan[STEP] + at_d * plan[STEP + 1] + at_h * plan[STEP + 2]
        out = 0
        while out < outputs:
            at_w, end, run = _list_taps(plan, scratch, begin, d, h, out)
            target = row_begin + at_w * plan[STEP + 3]
            divisor = plan[DIVISOR] if plan[DIVISOR] > 0 else (end - begin) // 2
            for _ in range(run):
                for c in range(first_c, last_c, lanes(g)):
                    count = min(lanes(g), last_c - c)
                    share = load_first(g, source + c, count) / divisor
                    if plan[APART] == 1:
                        for tap in range(begin, end, 2):
                            store_first(gx, target + scratch[tap] + c, share, count)
                    else:
                        for tap in range(begin, end, 2):
                            at = target + scratch[tap] + c
                            store_first(gx, at, load_first(gx, at, count) + share, count)
                source += channels
                target += step
            out += run
