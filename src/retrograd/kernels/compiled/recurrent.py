"""The chain of steps of a recurrent layer, forward and backward: one launch for all steps; see ../recurrent.py.

A chain is a block of rows in one direction. Where its steps are long, its hidden units are cut into column blocks, and
the threads meet after each step: a block is claimed by whoever comes first, and a step is over when all its blocks are
done. So one thread alone may run all tasks, one after the other: what another task has done is claimed already.
"""

from __future__ import annotations

from numba import types

from .. import recurrent_plan as word
from ..compiler import helper
from ..simd import address, offset, with_denormals_as, without_denormals
from . import recurrent_rows as of_rows
from .pool import add, exchange_if, get, pause
from .recurrent_products import last_row, rows_product

_yield = types.ExternalFunction("sched_yield", types.int32())
_LINE = 8  # words of a cache line: one for the count of what is done, one for each column block


@helper
def _claim(state, block, number):  # type: ignore[no-untyped-def]
    """Whether this thread is to do the block in the phase with this number."""
    place = _LINE * (block + 1)
    return get(state, place) == number and exchange_if(state, place, number, number + 1)


@helper
def _wait(state, done):  # type: ignore[no-untyped-def]
    spins = 0
    while get(state, 0) < done:
        spins += 1
        if spins > 20000:  # the thread that holds the last block may wait for this core
            _yield()
        pause()


def forward(
    task: int, worker: int, a: Array, w: Array, w_out: Array, u: Array, h: Array, c: Array, y: Array, holes: Array,
    zero: Array, lengths: Table, plan: Table, low: float, high: float, h_ring: int, c_ring: int, u_ring: int,
    own_y: int, scratch: Table, scratch_words: int, state: Table,
) -> None:  # fmt: skip
    """All steps of a chain. ``a`` holds x W_ih^T and the biases and becomes the gates.

    The rings: how many steps of h, c and u = o * tanh(c) are kept. ``own_y``: y is not the memory of h; so it is where
    there are lengths.
    """
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[word.STEPS], plan[word.ROWS], plan[word.UNITS], plan[word.OUTPUT]
    U, panels, padded, mode = plan[word.UNITS_PER_PANEL], plan[word.PANELS], plan[word.PADDED], plan[word.MODE]
    step, projected, block_units = plan[word.ROW], plan[word.PROJECTED], plan[word.FORWARD_BLOCK]
    blocks, columns, subs = plan[word.ROW_BLOCKS], plan[word.COLUMN_BLOCKS], plan[word.TO_OUTPUT + word.SUB_PANELS]
    packed, packed_out = plan[word.PACKED_H], plan[word.PACKED_OUTPUT]
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, width = plan[word.REVERSE + d], plan[word.DIRECTIONS] * P
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, _LINE * chain * (columns + 1)))
    phases = 1 + projected
    for s in range(steps):
        t = steps - 1 - s if reverse == 1 else s
        last_n = last_row(lengths, t, n0, n1)
        h_before = ((d * h_ring + (t + reverse) % h_ring) * N + n0) * P
        h_after = ((d * h_ring + (t + 1 - reverse) % h_ring) * N + n0) * P
        c_before = ((d * c_ring + (t + reverse) % c_ring) * N + n0) * padded
        c_after = ((d * c_ring + (t + 1 - reverse) % c_ring) * N + n0) * padded
        u_now = ((d * u_ring + t % u_ring) * N + n0) * padded
        y_now = (t * N + n0) * width + d * P
        for phase in range(phases):
            number = s * phases + phase
            for turn in range(columns):
                b = (own + turn) % columns
                if columns > 1 and not _claim(shared, b, number):
                    continue
                if phase == 0:
                    for p in range(b * block_units // U, min(panels, (b + 1) * block_units // U)):
                        unit, count, q = p * U, min(U, H - p * U), (((d * panels + p) * steps + t) * N + n0) * step
                        if last_n > n0:
                            rows_product(
                                plan, word.BY_H, table, address(offset(h, h_before)), P * size, 0, 1, P,
                                address(offset(w, d * packed + p * (packed // panels))),
                                address(offset(a, q + plan[word.H_SLOT] * U)), step * size, 0,
                                plan[word.BY_H + word.SUB_PANELS], last_n - n0, 0, 2,
                            )  # fmt: skip
                            if mode == word.LSTM:
                                target, target_step, own_count = h_after + unit, P, count
                                if projected == 1:
                                    target, target_step, own_count = u_now + unit, padded, U
                                of_rows.lstm(
                                    plan, a, q, c, c_before + unit, c_after + unit, u if projected == 1 else h, target,
                                    target_step, own_count, holes, 3 * d * padded + unit, low, high, lengths, t, n0,
                                    last_n,
                                )  # fmt: skip
                            elif mode == word.GRU:
                                of_rows.gru(
                                    plan, a, q, h, h_before + unit, h_after + unit, count, lengths, t, n0, last_n
                                )
                            else:
                                of_rows.rnn(plan, a, q, h, h_after + unit, count, lengths, t, n0, last_n)
                        if own_y == 1 and mode == word.LSTM:
                            of_rows.rest(c, c_before + unit, c_after + unit, padded, U, lengths, t, n0, n1)
                    first, last = b * block_units, min(H, (b + 1) * block_units)
                else:
                    first, last = b * subs // columns, (b + 1) * subs // columns
                    rows_product(
                        plan, word.TO_OUTPUT, table, address(offset(u, u_now)), padded * size, 0, 1, H,
                        address(offset(w_out, d * packed_out)), address(offset(h, h_after)), P * size, first, last,
                        last_n - n0, address(zero), 0,
                    )  # fmt: skip
                    first = first * plan[word.TO_OUTPUT + word.WIDTH] // size
                    last = min(P, last * plan[word.TO_OUTPUT + word.WIDTH] // size)
                if own_y == 1 and phase == projected:
                    of_rows.rest(h, h_before + first, h_after + first, P, last - first, lengths, t, n0, n1)
                    of_rows.shown(y, y_now + first, width, h, h_after + first, P, last - first, lengths, t, n0, n1)
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)


def backward(
    task: int, worker: int, gy: Array, gy_given: int, gcells: Array, gcells_given: int, a: Array, da: Array, h: Array,
    c: Array, w: Array, w_out: Array, g_out: Array, gh: Array, gu: Array, gc: Array, holes: Array, zero: Array,
    lengths: Table, plan: Table, low: float, high: float, to_start: int, scratch: Table, scratch_words: int,
    state: Table,
) -> None:  # fmt: skip
    """All steps of a chain, backwards: ``da`` becomes the gradient of the pre-activations.

    ``gh`` and ``gc`` begin with the gradients of the last states and, where it is asked ``to_start``, end with those of
    the first ones; ``g_out`` becomes the gradient of a projected h at every step. What fades away over many steps
    becomes 0: denormal numbers would take ten times as long.
    """
    before_denormals = without_denormals()
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[word.STEPS], plan[word.ROWS], plan[word.UNITS], plan[word.OUTPUT]
    U, panels, padded, mode = plan[word.UNITS_PER_PANEL], plan[word.PANELS], plan[word.PADDED], plan[word.MODE]
    step, projected, block_units = plan[word.ROW], plan[word.PROJECTED], plan[word.BACKWARD_BLOCK]
    blocks, columns, wide = plan[word.ROW_BLOCKS], plan[word.COLUMN_BLOCKS], plan[word.OUTPUT_PADDED]
    subs, sub_width = plan[word.FROM_GATES + word.SUB_PANELS], plan[word.FROM_GATES + word.WIDTH] // size
    packed, packed_out = plan[word.PACKED_GATES], plan[word.PACKED_FROM_OUTPUT]
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, directions = plan[word.REVERSE + d], plan[word.DIRECTIONS]
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, _LINE * chain * (columns + 1)))
    phases = 1 + projected
    gh_0, gc_0 = (d * N + n0) * wide, (d * N + n0) * padded
    last_n = n0
    for s in range(steps + to_start):
        t = s if reverse == 1 else steps - 1 - s
        later, last_later = t - 1 if reverse == 1 else t + 1, last_n
        last_n = last_row(lengths, t, n0, n1)
        before = (d * (steps + 1) + t + reverse) * N + n0
        after = (d * (steps + 1) + t + 1 - reverse) * N + n0
        out_now = (d * steps + t) * N + n0
        upstream = (t * N + n0) * directions + d
        for phase in range(phases):
            number = s * phases + phase
            for turn in range(columns):
                b = (own + turn) % columns
                if columns > 1 and not _claim(shared, b, number):
                    continue
                low_unit, high_unit = b * block_units, min(padded, (b + 1) * block_units)
                if phase == 0:  # the gradient of h
                    first, last = low_unit // sub_width, (high_unit + sub_width - 1) // sub_width
                    if projected == 1:
                        first, last = b * subs // columns, (b + 1) * subs // columns
                    begin = first * sub_width
                    if s < steps and gy_given == 1:
                        of_rows.add_rows(
                            gh, gh_0 + begin, wide, gy, upstream * P + begin, directions * P,
                            min(P, last * sub_width) - begin, lengths, t, n0, n1,
                        )  # fmt: skip
                    if last_later > n0:
                        source = ((d * panels * steps + later) * N + n0) * step + plan[word.H_SLOT] * U
                        rows_product(
                            plan, word.FROM_GATES, table, address(offset(da, source)), step * size,
                            steps * N * step * size, panels, plan[word.H_SLOTS] * U,
                            address(offset(w, d * packed)), address(offset(gh, gh_0)), wide * size,
                            first, last, last_later - n0, address(zero), 1,
                        )  # fmt: skip
                    if projected == 1 and s < steps:
                        of_rows.taken(
                            g_out, out_now * wide + begin, gh, gh_0 + begin, wide, min(wide, last * sub_width) - begin,
                            lengths, t, n0, n1,
                        )  # fmt: skip
                elif s < steps and last_n > n0:
                    width = plan[word.FROM_OUTPUT + word.WIDTH] // size
                    rows_product(
                        plan, word.FROM_OUTPUT, table, address(offset(g_out, out_now * wide)), wide * size, 0, 1,
                        P, address(offset(w_out, d * packed_out)), address(offset(gu, gc_0)),
                        padded * size, low_unit // width, (high_unit + width - 1) // width, last_n - n0,
                        address(zero), 0,
                    )  # fmt: skip
                if phase == projected and s < steps:
                    for p in range(low_unit // U, (high_unit + U - 1) // U):
                        unit, count, q = p * U, min(U, H - p * U), (((d * panels + p) * steps + t) * N + n0) * step
                        of_rows.emptied(da, q, step, step, lengths, t, n0, n1)
                        if last_n > n0 and mode == word.LSTM:
                            if gcells_given == 1:
                                of_rows.add_rows(
                                    gc, gc_0 + unit, padded, gcells, upstream * H + unit, directions * H, count,
                                    lengths, t, n0, n1,
                                )  # fmt: skip
                            g, g_at, g_step = gh, gh_0 + unit, wide
                            if projected == 1:
                                g, g_at, g_step = gu, gc_0 + unit, padded
                            next_q = steps * N * step  # the next panel, of the last one the first at the next step
                            if unit + U >= high_unit:
                                next_q = (low_unit - unit) // U * next_q + (step if reverse == 1 else -step) * N
                            of_rows.lstm_grad(
                                plan, a, da, q, next_q, c, before * padded + unit, after * padded + unit, g, g_at,
                                g_step, gc, gc_0 + unit, holes, 3 * d * padded + unit, low, high, 1 - projected,
                                lengths, t, n0, last_n,
                            )  # fmt: skip
                        elif last_n > n0 and mode == word.GRU:
                            of_rows.gru_grad(
                                plan, a, da, q, h, before * P + unit, gh, gh_0 + unit, wide, count, lengths, t, n0,
                                last_n,
                            )  # fmt: skip
                        elif last_n > n0:
                            of_rows.rnn_grad(
                                plan, da, q, h, after * P + unit, gh, gh_0 + unit, wide, count, lengths, t, n0, last_n
                            )
                        if count < U:
                            for n in range(last_n - n0):
                                of_rows.without_filling(da, q + n * step, step, U, count)
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)
    with_denormals_as(before_denormals)
