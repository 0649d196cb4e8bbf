# mypy: ignore-errors
"""The chain of steps of a recurrent layer, forward and backward: one launch for all steps; see recurrent.py.

A chain is a block of rows in one direction. If its steps are long, its hidden units are cut into column blocks, and the
threads synchronize after each step: the first thread to arrive claims a block, and a step ends when all its blocks are
done. So a single thread can run all tasks in sequence: the blocks of an earlier task are already claimed.
"""

from __future__ import annotations

from numba import types

from ..machine.compiler import Array, Table, helper
from ..machine.simd import address, offset, with_denormals_as, without_denormals
from ..machine.threads_jit import add, exchange_if, get, pause
from . import cells_jit as of_rows
from .plan import CACHE_LINE, GRU, LAYER, LSTM, PRODUCT
from .products_jit import active_end, rows_product, start_panel

_yield = types.ExternalFunction("sched_yield", types.int32())


@helper
def _claim(state, block, number):
    """Whether this thread claims the block in the phase of this number."""
    place = CACHE_LINE * (block + 1)  # the first cache line counts finished blocks
    return get(state, place) == number and exchange_if(state, place, number, number + 1)


@helper
def _wait(state, done):
    spins = 0
    while get(state, 0) < done:
        spins += 1
        if spins > 20000:  # the thread that holds the last block may wait for this core
            _yield()
        pause()


def forward(
    task: int,
    worker: int,
    x: Array,
    w_x: Array,
    init: Array,
    a: Array,
    w: Array,
    w_out: Array,
    u: Array,
    h: Array,
    c: Array,
    y: Array,
    peepholes: Array,
    zero: Array,
    lengths: Table,
    plan: Table,
    low: float,
    high: float,
    a_ring: int,
    h_ring: int,
    c_ring: int,
    u_ring: int,
    own_y: int,
    scratch: Table,
    scratch_words: int,
    state: Table,
) -> None:
    """All steps of a chain. ``a`` holds x W_ih^T and the biases, unless computed here, and becomes the gates.

    The rings: steps of a, h, c and u = o * tanh(c) that are kept. ``own_y``: y does not share the memory of h; required
    with lengths.
    """
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[LAYER.steps], plan[LAYER.rows], plan[LAYER.units], plan[LAYER.output]
    U, panels, padded, mode = plan[LAYER.units_per_panel], plan[LAYER.panels], plan[LAYER.padded], plan[LAYER.mode]
    step, projected, block_units = plan[LAYER.row], plan[LAYER.projected], plan[LAYER.forward_block]
    blocks, columns = plan[LAYER.row_blocks], plan[LAYER.column_blocks]
    subs, sub_width = plan[LAYER.to_output + PRODUCT.sub_panels], plan[LAYER.to_output + PRODUCT.width] // size
    packed, packed_out = plan[LAYER.packed_h], plan[LAYER.packed_output]
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, width = plan[LAYER.reverse + d], plan[LAYER.directions] * P
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, CACHE_LINE * chain * (columns + 1)))
    phases, chunk = 1 + projected, plan[LAYER.chunk]
    for s in range(steps):
        t = steps - 1 - s if reverse == 1 else s
        if chunk > 0 and (s == 0 or t % chunk == (chunk - 1) * reverse):
            first_t, end_t = t // chunk * chunk, min(steps, t // chunk * chunk + chunk)
            move, at_a_time = (first_t % a_ring - first_t) * N, N if n1 - n0 < N else (end_t - first_t) * N
            for p in range(panels):
                for row in range(first_t * N, end_t * N, at_a_time):
                    end = row + n1 if n1 - n0 < N else row + at_a_time
                    start_panel(plan, table, x, w_x, init, a, d, p, row + n0, end, move, a_ring * N, lengths)
        last_n = active_end(lengths, t, n0, n1)
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
                        unit, count = p * U, min(U, H - p * U)
                        q = (((d * panels + p) * a_ring + t % a_ring) * N + n0) * step
                        at, spacing = LAYER.from_h, U
                        if p == panels - 1:
                            at, spacing = LAYER.last_from_h, plan[LAYER.spacing]
                        if last_n > n0:
                            rows_product(
                                plan,
                                at,
                                table,
                                address(offset(h, h_before)),
                                P * size,
                                0,
                                1,
                                P,
                                address(offset(w, d * packed + p * (packed // panels))),
                                address(offset(a, q + plan[LAYER.h_slot] * spacing)),
                                step * size,
                                0,
                                plan[at + PRODUCT.sub_panels],
                                last_n - n0,
                                0,
                                2,
                            )
                            if mode == LSTM:
                                target, target_step, own_count = h_after + unit, P, count
                                if projected == 1:
                                    target, target_step, own_count = u_now + unit, padded, U
                                of_rows.lstm(
                                    plan,
                                    a,
                                    q,
                                    spacing,
                                    c,
                                    c_before + unit,
                                    c_after + unit,
                                    u if projected == 1 else h,
                                    target,
                                    target_step,
                                    own_count,
                                    peepholes,
                                    3 * d * padded + unit,
                                    low,
                                    high,
                                    lengths,
                                    t,
                                    n0,
                                    last_n,
                                )
                            elif mode == GRU:
                                of_rows.gru(
                                    plan,
                                    a,
                                    q,
                                    spacing,
                                    h,
                                    h_before + unit,
                                    h_after + unit,
                                    count,
                                    lengths,
                                    t,
                                    n0,
                                    last_n,
                                )
                            else:
                                of_rows.rnn(plan, a, q, h, h_after + unit, count, lengths, t, n0, last_n)
                        if own_y == 1 and mode == LSTM:
                            of_rows.keep_ended(c, c_before + unit, c_after + unit, padded, U, lengths, t, n0, n1)
                    first, last = b * block_units, min(H, (b + 1) * block_units)
                else:
                    first, last = b * subs // columns, (b + 1) * subs // columns
                    rows_product(
                        plan,
                        LAYER.to_output,
                        table,
                        address(offset(u, u_now)),
                        padded * size,
                        0,
                        1,
                        H,
                        address(offset(w_out, d * packed_out)),
                        address(offset(h, h_after)),
                        P * size,
                        first,
                        last,
                        last_n - n0,
                        address(zero),
                        0,
                    )
                    first, last = first * sub_width, min(P, last * sub_width)
                if own_y == 1 and phase == projected:
                    of_rows.keep_ended(h, h_before + first, h_after + first, P, last - first, lengths, t, n0, n1)
                    of_rows.write_output(
                        y, y_now + first, width, h, h_after + first, P, last - first, lengths, t, n0, n1
                    )
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)


def backward(
    task: int,
    worker: int,
    gy: Array,
    gy_given: int,
    gcells: Array,
    gcells_given: int,
    a: Array,
    da: Array,
    h: Array,
    c: Array,
    w: Array,
    w_out: Array,
    g_out: Array,
    gh: Array,
    gu: Array,
    gc: Array,
    peepholes: Array,
    zero: Array,
    lengths: Table,
    plan: Table,
    low: float,
    high: float,
    to_start: int,
    scratch: Table,
    scratch_words: int,
    state: Table,
) -> None:
    """All steps of a chain, in reverse: ``da`` becomes the gradient of the pre-activations.

    ``gh`` and ``gc`` start as the gradients of the last states and, if ``to_start``, end as those of the first ones;
    ``g_out`` becomes the gradient of a projected h at every step. Denormals, to which gradients decay over many steps,
    are flushed to 0: they would take ten times as long.
    """
    before_denormals = without_denormals()
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[LAYER.steps], plan[LAYER.rows], plan[LAYER.units], plan[LAYER.output]
    U, panels, padded, mode = plan[LAYER.units_per_panel], plan[LAYER.panels], plan[LAYER.padded], plan[LAYER.mode]
    step, projected, block_units = plan[LAYER.row], plan[LAYER.projected], plan[LAYER.backward_block]
    blocks, columns, wide = plan[LAYER.row_blocks], plan[LAYER.column_blocks], plan[LAYER.output_padded]
    subs, sub_width = plan[LAYER.from_gates + PRODUCT.sub_panels], plan[LAYER.from_gates + PRODUCT.width] // size
    packed, packed_out = plan[LAYER.packed_gates], plan[LAYER.packed_from_output]
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, directions = plan[LAYER.reverse + d], plan[LAYER.directions]
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, CACHE_LINE * chain * (columns + 1)))
    phases = 1 + projected
    gh_0, gc_0 = (d * N + n0) * wide, (d * N + n0) * padded
    last_n = n0
    for s in range(steps + to_start):
        t = s if reverse == 1 else steps - 1 - s
        previous_t, previous_last = t - 1 if reverse == 1 else t + 1, last_n
        last_n = active_end(lengths, t, n0, n1)
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
                            gh,
                            gh_0 + begin,
                            wide,
                            gy,
                            upstream * P + begin,
                            directions * P,
                            min(P, last * sub_width) - begin,
                            lengths,
                            t,
                            n0,
                            n1,
                        )
                    if previous_last > n0:
                        source = ((d * panels * steps + previous_t) * N + n0) * step + plan[LAYER.h_slot] * U
                        rows_product(
                            plan,
                            LAYER.from_gates,
                            table,
                            address(offset(da, source)),
                            step * size,
                            steps * N * step * size,
                            panels,
                            plan[LAYER.gates] * U,
                            address(offset(w, d * packed)),
                            address(offset(gh, gh_0)),
                            wide * size,
                            first,
                            last,
                            previous_last - n0,
                            address(zero),
                            1,
                        )
                    if projected == 1 and s < steps:
                        of_rows.take_projected(
                            g_out,
                            out_now * wide + begin,
                            gh,
                            gh_0 + begin,
                            wide,
                            min(wide, last * sub_width) - begin,
                            lengths,
                            t,
                            n0,
                            n1,
                        )
                elif s < steps and last_n > n0:
                    width = plan[LAYER.from_output + PRODUCT.width] // size
                    rows_product(
                        plan,
                        LAYER.from_output,
                        table,
                        address(offset(g_out, out_now * wide)),
                        wide * size,
                        0,
                        1,
                        P,
                        address(offset(w_out, d * packed_out)),
                        address(offset(gu, gc_0)),
                        padded * size,
                        low_unit // width,
                        (high_unit + width - 1) // width,
                        last_n - n0,
                        address(zero),
                        0,
                    )
                if phase == projected and s < steps:
                    for p in range(low_unit // U, (high_unit + U - 1) // U):
                        unit, count, q = p * U, min(U, H - p * U), (((d * panels + p) * steps + t) * N + n0) * step
                        of_rows.clear_ended(da, q, step, step, lengths, t, n0, n1)
                        if last_n > n0 and mode == LSTM:
                            if gcells_given == 1:
                                of_rows.add_rows(
                                    gc,
                                    gc_0 + unit,
                                    padded,
                                    gcells,
                                    upstream * H + unit,
                                    directions * H,
                                    count,
                                    lengths,
                                    t,
                                    n0,
                                    n1,
                                )
                            g, g_at, g_step = gh, gh_0 + unit, wide
                            if projected == 1:
                                g, g_at, g_step = gu, gc_0 + unit, padded
                            next_q = steps * N * step  # the next panel; for the last one, the first at the next step
                            if unit + U >= high_unit:
                                next_q = (low_unit - unit) // U * next_q + (step if reverse == 1 else -step) * N
                            of_rows.lstm_grad(
                                plan,
                                a,
                                da,
                                q,
                                next_q,
                                c,
                                before * padded + unit,
                                after * padded + unit,
                                g,
                                g_at,
                                g_step,
                                gc,
                                gc_0 + unit,
                                peepholes,
                                3 * d * padded + unit,
                                low,
                                high,
                                1 - projected,
                                lengths,
                                t,
                                n0,
                                last_n,
                            )
                        elif last_n > n0 and mode == GRU:
                            of_rows.gru_grad(
                                plan,
                                a,
                                da,
                                q,
                                h,
                                before * P + unit,
                                gh,
                                gh_0 + unit,
                                wide,
                                count,
                                lengths,
                                t,
                                n0,
                                last_n,
                            )
                        elif last_n > n0:
                            of_rows.rnn_grad(
                                plan, da, q, h, after * P + unit, gh, gh_0 + unit, wide, count, lengths, t, n0, last_n
                            )
                        if count < U:
                            for n in range(last_n - n0):
                                of_rows.clear_padding(da, q + n * step, step, U, count)
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)
    with_denormals_as(before_denormals)
