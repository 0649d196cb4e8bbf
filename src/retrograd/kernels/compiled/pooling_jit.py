# mypy: ignore-errors
"""One task of pooling. Its plan is made in pooling.py.

A list in scratch memory holds the taps of an output: pairs (step in elements, index in the input), both relative to tap
0. Adjacent outputs whose windows lie inside the input share one list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .machine.compiler import Array, Table, helper
from .machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    all_lanes,
    bits_of,
    either,
    exceeds,
    full,
    full_like,
    lanes,
    load_integers,
    select,
    store,
    store_first,
    widen,
)
from .pooling import POOL

Body = Callable[..., None]


@helper
def _begin(plan, axis, out):  # type: ignore[no-untyped-def]
    """The position of tap 0 of an output."""
    if plan[POOL.stride + axis] == 0:
        return out * plan[POOL.input + axis] // plan[POOL.output + axis]
    return out * plan[POOL.stride + axis] - plan[POOL.low + axis]


@helper
def _inside(plan, axis, out):  # type: ignore[no-untyped-def]
    """The first tap of an output inside the input, and one past the last."""
    taps, spread, extent = plan[POOL.kernel + axis], plan[POOL.dilation + axis], plan[POOL.input + axis]
    at = _begin(plan, axis, out)
    if plan[POOL.stride + axis] == 0:
        return 0, ((out + 1) * extent + plan[POOL.output + axis] - 1) // plan[POOL.output + axis] - at
    first, last = 0, taps
    if at < 0:
        first = (spread - 1 - at) // spread
    if at + (taps - 1) * spread >= extent:
        last = (extent - at + spread - 1) // spread
    return first, last


@helper
def _list_taps(plan, scratch, begin, inside_d, inside_h, out_w):  # type: ignore[no-untyped-def]
    """List the taps of one output that are inside the input; ``inside_d``, ``inside_h``: those along D and H.

    Returns the position of tap 0 along W, the end of the list, and the number of outputs along W that can use it.
    """
    (first_d, last_d), (first_h, last_h) = inside_d, inside_h
    first_w, last_w = _inside(plan, 2, out_w)
    at_w = _begin(plan, 2, out_w)
    end = begin
    for d in range(first_d, last_d):
        for h in range(first_h, last_h):
            in_d, in_h = d * plan[POOL.dilation], h * plan[POOL.dilation + 1]
            for w in range(first_w, last_w):
                in_w = w * plan[POOL.dilation + 2]
                scratch[end] = in_d * plan[POOL.step + 1] + in_h * plan[POOL.step + 2] + in_w * plan[POOL.step + 3]
                scratch[end + 1] = (in_d * plan[POOL.input + 1] + in_h) * plan[POOL.input + 2] + in_w
                end += 2
    run = 1
    if last_w - first_w == plan[POOL.kernel + 2] and plan[POOL.stride + 2] > 0:
        slack = plan[POOL.input + 2] - 1 - at_w - (plan[POOL.kernel + 2] - 1) * plan[POOL.dilation + 2]
        run = min(plan[POOL.output + 2] - out_w, slack // plan[POOL.stride + 2] + 1)
    return at_w, end, run


@helper
def _part_of_task(plan, task):  # type: ignore[no-untyped-def]
    """The rows and the channels of a task: the first, and one past the last."""
    row = task // plan[POOL.blocks] * plan[POOL.rows_per_task]
    c = task % plan[POOL.blocks] * plan[POOL.block]
    return row, min(plan[POOL.rows], row + plan[POOL.rows_per_task]), c, min(plan[POOL.channels], c + plan[POOL.block])


@helper
def _start_of_row(plan, row):  # type: ignore[no-untyped-def]
    """n, d and h of the outputs of a row."""
    rest = row // plan[POOL.output + 1]
    n = rest // plan[POOL.output]
    return n, rest - n * plan[POOL.output], row - rest * plan[POOL.output + 1]


@helper
def _clear(gx, begin, pixels, channels, first, last):  # type: ignore[no-untyped-def]
    """Set the channels from ``first`` to ``last`` of some adjacent pixels to 0."""
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
    """Set rows of gx to 0 up to the last one that windows at (at_d, at_h) reach; the first ``fresh`` rows already are.

    Unnecessary if every input is written exactly once.
    """
    if plan[POOL.whole] * plan[POOL.apart] == 1:
        return 0
    depth, height, channels = plan[POOL.input], plan[POOL.input + 1], plan[POOL.channels]
    last_d = min(depth - 1, at_d + (plan[POOL.kernel] - 1) * plan[POOL.dilation])
    last_h = min(height - 1, at_h + (plan[POOL.kernel + 1] - 1) * plan[POOL.dilation + 1])
    reached = depth * height if all_rows else max(fresh, last_d * height + last_h + 1)
    width = plan[POOL.input + 2]
    _clear(gx, n * plan[POOL.step] + fresh * width * channels, (reached - fresh) * width, channels, first, last)
    return reached


def _over_windows(
    block: Callable[[Access], Callable[..., bool]], gradient: bool = False, whole: Access = WIDE
) -> Callable[..., bool]:
    """Return a function that loops over all outputs of some rows, for one block of channels.

    block(a, b, indices, plan, scratch, begin, end, at, to, place, n) computes some channels of one output: tap 0 is at
    a[at] or, with ``gradient``, at b[at], and has the index ``place``; the output is at ``to``, the taps are
    scratch[begin:end]. If it returns False, the function returns False, too. With ``gradient`` b is set to 0 first.
    Else, few channels are read and written together with what follows them, which the next outputs of the task
    overwrite: faster than parts of registers.
    """
    of_whole, of_one, of_part, registers = block(whole), block(ONE), block(PART), whole.registers

    @helper
    def over(
        task: int, worker: int, a: Array, b: Array, indices: Table, plan: Table, scratch: Table, scratch_words: int
    ) -> bool:
        first_row, last_row, first_c, last_c = _part_of_task(plan, task)
        begin, outputs, fresh = worker * scratch_words, plan[POOL.output + 2], 0
        move, size = plan[POOL.stride + 2], registers * lanes(a)
        to = first_row * outputs * plan[POOL.channels]
        few = not gradient and last_c - first_c == plan[POOL.channels] < size
        reach = (last_c - first_c + lanes(a) - 1) // lanes(a) * lanes(a)
        last_to = last_row * outputs * plan[POOL.channels] - reach
        last_at = plan[POOL.rows] // (plan[POOL.output] * plan[POOL.output + 1]) * plan[POOL.step] - reach
        n, d, h = _start_of_row(plan, first_row)
        at_w, end, run, before = 0, begin, 0, ((0, 0), (0, 0))
        for row in range(first_row, last_row):
            at_d, at_h = _begin(plan, 0, d), _begin(plan, 1, h)
            if gradient:
                fresh = _clear_ahead(b, plan, n, at_d, at_h, row == last_row - 1, fresh, first_c, last_c)
            row_begin = n * plan[POOL.step] + at_d * plan[POOL.step + 1] + at_h * plan[POOL.step + 2]
            first_place = (at_d * plan[POOL.input + 1] + at_h) * plan[POOL.input + 2]
            inside, out = (_inside(plan, 0, d), _inside(plan, 1, h)), 0
            while out < outputs:
                if run < outputs or inside != before:  # else the list of the row before serves this one, too
                    at_w, end, run = _list_taps(plan, scratch, begin, inside[0], inside[1], out)
                at, place = row_begin + at_w * plan[POOL.step + 3], first_place + at_w
                for _ in range(run):
                    c = first_c
                    if few and to <= last_to and at + scratch[end - 2] <= last_at:
                        while c < last_c:
                            of_one(a, b, indices, plan, scratch, begin, end, at + c, to + c, place, lanes(a))
                            c += lanes(a)
                    while c + size <= last_c:
                        if not of_whole(a, b, indices, plan, scratch, begin, end, at + c, to + c, place, size):
                            return False
                        c += size
                    while c < last_c:
                        some = min(lanes(a), last_c - c)
                        if not of_part(a, b, indices, plan, scratch, begin, end, at + c, to + c, place, some):
                            return False
                        c += some
                    at, to, place = at + move * plan[POOL.step + 3], to + plan[POOL.channels], place + move
                out += run
            before, h = inside, h + 1
            if h == plan[POOL.output + 1]:
                d, h = d + 1, 0
                if d == plan[POOL.output]:
                    n, d = n + 1, 0
        return True

    return over


@helper
def _divisor(plan: Table, begin: int, end: int) -> int:
    return plan[POOL.divisor] if plan[POOL.divisor] > 0 else (end - begin) // 2


def _largest(access: Access) -> Callable[..., bool]:
    load, store, store_integers = access.load, access.store, access.store_integers

    @helper
    def block(x, y, indices, plan, scratch, begin, end, at, to, place, n):  # type: ignore[no-untyped-def]
        best = load(x, at + scratch[begin], n)
        found = full_like(bits_of(best), scratch[begin + 1])  # relative to tap 0, so that 32 bits suffice for any input
        for tap in range(begin + 2, end, 2):
            value = load(x, at + scratch[tap], n)
            better = exceeds(value, best)
            best, found = select(better, value, best), select(better, full_like(found, scratch[tap + 1]), found)
        store(y, to, best, n)
        store_integers(indices, to, widen(found) + place, n)
        return True

    return block


def _largest_alone(access: Access) -> Callable[..., bool]:
    load, store = access.load, access.store

    @helper
    def block(x, y, indices, plan, scratch, begin, end, at, to, place, n):  # type: ignore[no-untyped-def]
        best = load(x, at + scratch[begin], n)
        for tap in range(begin + 2, end, 2):
            value = load(x, at + scratch[tap], n)
            best = select(exceeds(value, best), value, best)
        store(y, to, best, n)
        return True

    return block


def _chosen(access: Access) -> Callable[..., bool]:
    """Every tap is g if it was chosen, else 0; False if an index is outside of its window."""
    load, store = access.load, access.store

    @helper
    def block(g, gx, indices, plan, scratch, begin, end, at, to, place, n):  # type: ignore[no-untyped-def]
        value = load(g, to, n)
        chosen = load_integers(indices, to, n, place + scratch[begin + 1], value) - place
        met = chosen != chosen
        for tap in range(begin, end, 2):
            here = chosen == scratch[tap + 1]
            met = either(met, here)
            store(gx, at + scratch[tap], select(here, value, 0.0), n)
        return all_lanes(met)

    return block


def _mean(access: Access) -> Callable[..., bool]:
    load, store = access.load, access.store

    @helper
    def block(x, y, indices, plan, scratch, begin, end, at, to, place, n):  # type: ignore[no-untyped-def]
        added = full_like(load(x, at + scratch[begin], n), 0.0)
        for tap in range(begin, end, 2):
            added = added + load(x, at + scratch[tap], n)
        store(y, to, added / _divisor(plan, begin, end), n)
        return True

    return block


def _shares(access: Access) -> Callable[..., bool]:
    load, store = access.load, access.store

    @helper
    def block(g, gx, indices, plan, scratch, begin, end, at, to, place, n):  # type: ignore[no-untyped-def]
        share = load(g, to, n) / _divisor(plan, begin, end)
        for tap in range(begin, end, 2):
            if plan[POOL.apart] == 1:
                store(gx, at + scratch[tap], share, n)
            else:
                store(gx, at + scratch[tap], load(gx, at + scratch[tap], n) + share, n)
        return True

    return block


_max_of_windows, _mean_of_windows = _over_windows(_largest), _over_windows(_mean)
_values_of_windows = _over_windows(_largest_alone)
_grad_to_windows, _shares_to_windows = _over_windows(_chosen, True, ONE), _over_windows(_shares, True)


def max_pool(
    task: int, worker: int, x: Array, y: Array, indices: Table, plan: Table, scratch: Table, scratch_words: int
) -> None:
    """y[o] = max over r of x[i], and its index, for some rows of outputs and one block of channels."""
    _max_of_windows(task, worker, x, y, indices, plan, scratch, scratch_words)


def max_pool_values(
    task: int, worker: int, x: Array, y: Array, plan: Table, scratch: Table, scratch_words: int
) -> None:
    """y[o] = max over r of x[i] for some rows of outputs and one block of channels."""
    _values_of_windows(task, worker, x, y, plan, plan, scratch, scratch_words)


def max_pool_grad(
    task: int, worker: int, g: Array, indices: Table, gx: Array, plan: Table, scratch: Table, scratch_words: int
) -> None:
    """gx = 0, then gx[indices[o]] += g[o] in the order of o, for one image and one block of channels.

    If windows do not overlap, taps are compared with the index, unless one is outside of its window.
    """
    if plan[POOL.compare] == 1 and _grad_to_windows(task, worker, g, gx, indices, plan, scratch, scratch_words):
        return
    first_row, last_row, first_c, last_c = _part_of_task(plan, task)
    channels = plan[POOL.channels]
    origin = task // plan[POOL.blocks] * plan[POOL.step]
    inputs = plan[POOL.input] * plan[POOL.input + 1] * plan[POOL.input + 2]
    _clear(gx, origin, inputs, channels, first_c, last_c)
    at = first_row * plan[POOL.output + 2] * channels
    for _ in range((last_row - first_row) * plan[POOL.output + 2]):
        for c in range(first_c, last_c):
            gx[origin + indices[at + c] * channels + c] += g[at + c]
        at += channels


def avg_pool(task: int, worker: int, x: Array, y: Array, plan: Table, scratch: Table, scratch_words: int) -> None:
    """y[o] = (sum over r of x[i]) / count for some rows of outputs and one block of channels."""
    _mean_of_windows(task, worker, x, y, plan, plan, scratch, scratch_words)


def avg_pool_grad(task: int, worker: int, g: Array, gx: Array, plan: Table, scratch: Table, scratch_words: int) -> None:
    """gx[i] += g[o] / count for all taps, in the order of o, for one image and one block of channels."""
    _shares_to_windows(task, worker, g, gx, plan, plan, scratch, scratch_words)


def _at_places(scatter: bool) -> Body:
    """For one image and one block of channels."""

    def body(
        task: int,
        worker: int,
        x: Array,
        indices: Table,
        y: Array,
        outputs: int,
        inputs: int,
        channels: int,
        block: int,
        blocks: int,
    ) -> None:
        n = task // blocks
        first = (task - n * blocks) * block
        last = min(channels, first + block)
        origin, at = n * inputs * channels, n * outputs * channels
        if scatter:
            _clear(y, origin, inputs, channels, first, last)
        for _ in range(outputs):
            for c in range(first, last):
                place = origin + indices[at + c] * channels + c
                if scatter:
                    y[place] = x[at + c]
                else:
                    y[at + c] = x[place]
            at += channels

    return body


max_pool_gather: Final = _at_places(scatter=False)  # y[o] = x[indices[o]]
max_unpool: Final = _at_places(scatter=True)  # y = 0, then y[indices[o]] = x[o] in the order of o
