"""The chain of steps of a recurrent layer, forward and backward: one launch for all steps; see ../recurrent.py.

A chain is a block of rows in one direction. Where its steps are long, its hidden units are cut into column blocks, and
the threads meet after each step: a block is claimed by whoever comes first, and a step is over when all its blocks are
done. So one thread alone may run all tasks, one after the other: what another task has done is claimed already.
"""

from __future__ import annotations

from numba import types

from .. import recurrent_plan as word
from ..compiler import helper
from ..simd import address, full, lanes, load, load_first, offset, select, store, store_first
from .math import sigmoid, tanh
from .pool import add, exchange_if, get, pause
from .recurrent_cells import clipped, coupled_gates_grad, gru_gates, gru_gates_grad, inside, lstm_gates_grad
from .recurrent_products import rows_product

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


@helper
def _get(x, at, count):  # type: ignore[no-untyped-def]
    if count >= lanes(x):
        return load(x, at)
    return load_first(x, at, max(0, count))


@helper
def _put(x, at, value, count):  # type: ignore[no-untyped-def]
    if count >= lanes(x):
        store(x, at, value)
    elif count > 0:
        store_first(x, at, value, count)


# ------------------------------------------------------------------------------------------------- a row of a panel
# ``q``: where its slots begin; ``before``, ``after``: of cells or states, at its first unit; ``count``: its units that
# exist in h and y


@helper
def _lstm(plan, a, q, c, before, after, h, target, y, y_at, own_y, count, holes, hole, low, high):  # type: ignore[no-untyped-def]
    L, U, padded = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.PADDED]
    coupled, clip, peephole = plan[word.COUPLED], plan[word.CLIP], plan[word.PEEPHOLE]
    forget = q if coupled == 1 else q + U
    last_hole = hole + (1 if coupled == 1 else 2) * padded
    for j in range(0, U, L):
        f, g, o = load(a, forget + j), load(a, forget + U + j), load(a, forget + 2 * U + j)
        cell = load(c, before + j)
        if peephole == 1:
            f = f + load(holes, last_hole - padded + j) * cell
        f, g = sigmoid(f), tanh(g)
        if coupled == 1:
            cell = f * cell + (1.0 - f) * g
        else:
            i = load(a, q + j)
            if peephole == 1:
                i = i + load(holes, hole + j) * load(c, before + j)
            i = sigmoid(i)
            store(a, q + j, i)
            cell = f * cell + i * g
        cell = clipped(cell, low, high, clip)
        if peephole == 1:
            o = o + load(holes, last_hole + j) * cell
        o = sigmoid(o)
        store(a, forget + j, f)
        store(a, forget + U + j, g)
        store(a, forget + 2 * U + j, o)
        store(c, after + j, cell)
        value = o * tanh(cell)
        _put(h, target + j, value, count - j)
        if own_y == 1:
            _put(y, y_at + j, value, count - j)


@helper
def _gru(plan, a, q, h, before, target, y, y_at, own_y, count):  # type: ignore[no-untyped-def]
    L, U = lanes(a), plan[word.UNITS_PER_PANEL]
    for j in range(0, U, L):
        n, r, z, value = gru_gates(
            load(a, q + j), load(a, q + U + j), load(a, q + 2 * U + j), load(a, q + 3 * U + j),
            _get(h, before + j, count - j),
        )  # fmt: skip
        store(a, q + j, n)
        store(a, q + U + j, r)
        store(a, q + 2 * U + j, z)
        _put(h, target + j, value, count - j)
        if own_y == 1:
            _put(y, y_at + j, value, count - j)


@helper
def _rnn(plan, a, q, h, target, y, y_at, own_y, count):  # type: ignore[no-untyped-def]
    L, U = lanes(a), plan[word.UNITS_PER_PANEL]
    relu = plan[word.MODE] == word.RNN_RELU
    for j in range(0, U, L):
        value = load(a, q + j)
        value = select(value < 0.0, full(a, 0.0), value) if relu else tanh(value)  # NaN stays
        _put(h, target + j, value, count - j)
        if own_y == 1:
            _put(y, y_at + j, value, count - j)


@helper
def _keep(x, before, after, count, y, y_at, own_y):  # type: ignore[no-untyped-def]
    """A row whose sequence is over, or has not begun: the state stays, y is 0."""
    L = lanes(x)
    zero = full(x, 0.0)
    for j in range(0, count, L):
        _put(x, after + j, _get(x, before + j, count - j), count - j)
        if own_y == 1:
            _put(y, y_at + j, zero, count - j)


# ------------------------------------------------------------------------------------------------------ forward


def forward(
    task: int, worker: int, a: Array, w: Array, w_out: Array, u: Array, h: Array, c: Array, y: Array, holes: Array,
    zero: Array, lengths: Table, plan: Table, low: float, high: float, packed: int, packed_out: int, h_ring: int,
    c_ring: int, u_ring: int, own_y: int, scratch: Table, scratch_words: int, state: Table,
) -> None:  # fmt: skip
    """All steps of a chain. ``a`` holds x W_ih^T and the biases and becomes the gates.

    The rings: how many steps of h, c and u = o * tanh(c) are kept. ``own_y``: y is not the memory of h.
    """
    L = lanes(a)
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[word.STEPS], plan[word.ROWS], plan[word.UNITS], plan[word.OUTPUT]
    U, panels, padded, mode = plan[word.UNITS_PER_PANEL], plan[word.PANELS], plan[word.PADDED], plan[word.MODE]
    step, projected, block_units = plan[word.SLOTS] * U, plan[word.PROJECTED], plan[word.FORWARD_BLOCK]
    blocks, columns, subs = plan[word.ROW_BLOCKS], plan[word.COLUMN_BLOCKS], plan[word.TO_OUTPUT + word.SUB_PANELS]
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, width = plan[word.REVERSE + d], plan[word.DIRECTIONS] * P
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, _LINE * chain * (columns + 1)))
    phases = 1 + projected
    for s in range(steps):
        t = steps - 1 - s if reverse == 1 else s
        h_before = (d * h_ring + (t + reverse) % h_ring) * N
        h_after = (d * h_ring + (t + 1 - reverse) % h_ring) * N
        c_before = (d * c_ring + (t + reverse) % c_ring) * N
        c_after = (d * c_ring + (t + 1 - reverse) % c_ring) * N
        u_now = (d * u_ring + t % u_ring) * N
        for phase in range(phases):
            number = s * phases + phase
            for turn in range(columns):
                b = (own + turn) % columns
                if columns > 1 and not _claim(shared, b, number):
                    continue
                if phase == 0:
                    for p in range(b * block_units // U, min(panels, (b + 1) * block_units // U)):
                        panel = ((d * panels + p) * steps + t) * N
                        begin = address(offset(a, (panel + n0) * step + plan[word.H_SLOT] * U))
                        rows_product(
                            plan, word.BY_H, table, address(offset(h, (h_before + n0) * P)), P * size, 0, 1, P,
                            address(offset(w, d * packed + p * (packed // panels))), begin, step * size, 0,
                            plan[word.BY_H + word.SUB_PANELS], n1 - n0, address(zero), 1,
                        )  # fmt: skip
                        unit, count = p * U, min(U, H - p * U)
                        for n in range(n0, n1):
                            active = t < lengths[n]
                            q, y_at = (panel + n) * step, (t * N + n) * width + d * P + unit
                            old, new = (c_before + n) * padded + unit, (c_after + n) * padded + unit
                            before, after = (h_before + n) * P + unit, (h_after + n) * P + unit
                            if active and mode == word.LSTM:
                                if projected == 1:
                                    _lstm(
                                        plan, a, q, c, old, new, u, (u_now + n) * padded + unit, y, y_at, 0, U, holes,
                                        3 * d * padded + unit, low, high,
                                    )  # fmt: skip
                                else:
                                    _lstm(
                                        plan, a, q, c, old, new, h, after, y, y_at, own_y, count, holes,
                                        3 * d * padded + unit, low, high,
                                    )  # fmt: skip
                            elif active and mode == word.GRU:
                                _gru(plan, a, q, h, before, after, y, y_at, own_y, count)
                            elif active:
                                _rnn(plan, a, q, h, after, y, y_at, own_y, count)
                            else:
                                if mode == word.LSTM:
                                    _keep(c, old, new, U, y, y_at, 0)
                                if projected == 0:
                                    _keep(h, before, after, count, y, y_at, own_y)
                                else:
                                    for j in range(0, U, L):
                                        store(u, (u_now + n) * padded + unit + j, full(u, 0.0))
                else:
                    first, last = b * subs // columns, (b + 1) * subs // columns
                    rows_product(
                        plan, word.TO_OUTPUT, table, address(offset(u, (u_now + n0) * padded)), padded * size, 0, 1, H,
                        address(offset(w_out, d * packed_out)), address(offset(h, (h_after + n0) * P)), P * size, first,
                        last, n1 - n0, address(zero), 0,
                    )  # fmt: skip
                    unit = first * plan[word.TO_OUTPUT + word.WIDTH] // size
                    count = min(P, last * plan[word.TO_OUTPUT + word.WIDTH] // size) - unit
                    for n in range(n0, n1):
                        after, y_at = (h_after + n) * P + unit, (t * N + n) * width + d * P + unit
                        if t >= lengths[n]:
                            _keep(h, (h_before + n) * P + unit, after, count, y, y_at, own_y)
                        elif own_y == 1:
                            for j in range(0, count, L):
                                _put(y, y_at + j, _get(h, after + j, count - j), count - j)
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)


# ------------------------------------------------------------------------------------------------------ backward


@helper
def _lstm_grad(plan, a, da, q, c, before, after, gh, h_at, gc, c_at, holes, hole, low, high, carry):  # type: ignore[no-untyped-def]
    L, U, padded = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.PADDED]
    coupled, clip, peephole = plan[word.COUPLED], plan[word.CLIP], plan[word.PEEPHOLE]
    forget = q if coupled == 1 else q + U
    last_hole = hole + (1 if coupled == 1 else 2) * padded
    zero = full(a, 0.0)
    for j in range(0, U, L):
        f, g, o = load(a, forget + j), load(a, forget + U + j), load(a, forget + 2 * U + j)
        old, g_h, g_c = load(c, before + j), load(gh, h_at + j), load(gc, c_at + j)
        t = tanh(load(c, after + j))
        ao = g_h * t * o * (1.0 - o)
        g_c = g_c + g_h * o * (1.0 - t * t)
        if peephole == 1:
            g_c = g_c + ao * load(holes, last_hole + j)
        if coupled == 1:
            g_c = inside(g_c, f * old + (1.0 - f) * g, low, high, clip)
            af, ag, back = coupled_gates_grad(g_c, f, g, old)
        else:
            i = load(a, q + j)
            g_c = inside(g_c, f * old + i * g, low, high, clip)
            ai, af, ag, back = lstm_gates_grad(g_c, i, f, g, old)
            if peephole == 1:
                back = back + ai * load(holes, hole + j)
            store(da, q + j, ai)
        if peephole == 1:
            back = back + af * load(holes, last_hole - padded + j)
        store(da, forget + j, af)
        store(da, forget + U + j, ag)
        store(da, forget + 2 * U + j, ao)
        store(gc, c_at + j, back)
        if carry == 1:
            store(gh, h_at + j, zero)


@helper
def _gru_grad(plan, a, da, q, h, before, gh, h_at, count):  # type: ignore[no-untyped-def]
    L, U = lanes(a), plan[word.UNITS_PER_PANEL]
    for j in range(0, U, L):
        an, ar, az, am, back = gru_gates_grad(
            load(gh, h_at + j), load(a, q + j), load(a, q + U + j), load(a, q + 2 * U + j), load(a, q + 3 * U + j),
            _get(h, before + j, count - j),
        )  # fmt: skip
        store(da, q + j, an)
        store(da, q + U + j, ar)
        store(da, q + 2 * U + j, az)
        store(da, q + 3 * U + j, am)
        store(gh, h_at + j, back)


@helper
def _rnn_grad(plan, da, q, h, after, gh, h_at, count):  # type: ignore[no-untyped-def]
    L, U = lanes(da), plan[word.UNITS_PER_PANEL]
    relu = plan[word.MODE] == word.RNN_RELU
    zero = full(da, 0.0)
    for j in range(0, U, L):
        value, g = _get(h, after + j, count - j), load(gh, h_at + j)
        g = select(value > 0.0, g, zero) if relu else g * (1.0 - value * value)
        store(da, q + j, g)
        store(gh, h_at + j, zero)


@helper
def _add_row(target, at, source, begin, count):  # type: ignore[no-untyped-def]
    for j in range(0, count, lanes(target)):
        store(target, at + j, load(target, at + j) + _get(source, begin + j, count - j))


def backward(
    task: int, worker: int, gy: Array, gy_given: int, gcells: Array, gcells_given: int, a: Array, da: Array, h: Array,
    c: Array, w: Array, w_out: Array, g_out: Array, gh: Array, gu: Array, gc: Array, holes: Array, zero: Array,
    lengths: Table, plan: Table, low: float, high: float, packed: int, packed_out: int, to_start: int, scratch: Table,
    scratch_words: int, state: Table,
) -> None:  # fmt: skip
    """All steps of a chain, backwards: ``da`` becomes the gradient of the pre-activations.

    ``gh`` and ``gc`` begin with the gradients of the last states and, where it is asked ``to_start``, end with those of
    the first ones; ``g_out`` becomes the gradient of a projected h at every step.
    """
    L = lanes(a)
    size = address(offset(a, 1)) - address(a)
    table = offset(scratch, worker * scratch_words)
    steps, N, H, P = plan[word.STEPS], plan[word.ROWS], plan[word.UNITS], plan[word.OUTPUT]
    U, panels, padded, mode = plan[word.UNITS_PER_PANEL], plan[word.PANELS], plan[word.PADDED], plan[word.MODE]
    step, projected, block_units = plan[word.SLOTS] * U, plan[word.PROJECTED], plan[word.BACKWARD_BLOCK]
    blocks, columns, wide = plan[word.ROW_BLOCKS], plan[word.COLUMN_BLOCKS], plan[word.OUTPUT_PADDED]
    subs, sub_width = plan[word.FROM_GATES + word.SUB_PANELS], plan[word.FROM_GATES + word.WIDTH] // size
    chain, own = task // columns, task % columns
    d, block = chain // blocks, chain % blocks
    reverse, directions = plan[word.REVERSE + d], plan[word.DIRECTIONS]
    n0, n1 = block * N // blocks, (block + 1) * N // blocks
    shared = address(offset(state, _LINE * chain * (columns + 1)))
    phases = 1 + projected
    nothing = full(a, 0.0)
    for s in range(steps + to_start):
        t = s if reverse == 1 else steps - 1 - s
        later = t - 1 if reverse == 1 else t + 1
        before = (d * (steps + 1) + t + reverse) * N
        after = (d * (steps + 1) + t + 1 - reverse) * N
        out_now = (d * steps + t) * N
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
                    count = min(P, last * sub_width) - begin
                    if s < steps and gy_given == 1:
                        for n in range(n0, n1):
                            if t < lengths[n]:
                                source = ((t * N + n) * directions + d) * P + begin
                                _add_row(gh, (d * N + n) * wide + begin, gy, source, count)
                    if s > 0:
                        source = ((d * panels * steps + later) * N + n0) * step + plan[word.H_SLOT] * U
                        rows_product(
                            plan, word.FROM_GATES, table, address(offset(da, source)), step * size,
                            steps * N * step * size, panels, plan[word.H_SLOTS] * U,
                            address(offset(w, d * packed)), address(offset(gh, (d * N + n0) * wide)), wide * size,
                            first, last, n1 - n0, address(zero), 1,
                        )  # fmt: skip
                    if projected == 1 and s < steps:
                        for n in range(n0, n1):
                            active = t < lengths[n]
                            for j in range(begin, min(wide, last * sub_width), L):
                                value = nothing
                                if active:
                                    value = load(gh, (d * N + n) * wide + j)
                                    store(gh, (d * N + n) * wide + j, nothing)
                                store(g_out, (out_now + n) * wide + j, value)
                elif s < steps:
                    width = plan[word.FROM_OUTPUT + word.WIDTH] // size
                    rows_product(
                        plan, word.FROM_OUTPUT, table, address(offset(g_out, (out_now + n0) * wide)), wide * size, 0, 1,
                        P, address(offset(w_out, d * packed_out)), address(offset(gu, (d * N + n0) * padded)),
                        padded * size, low_unit // width, (high_unit + width - 1) // width, n1 - n0, address(zero), 0,
                    )  # fmt: skip
                if phase == phases - 1 and s < steps:
                    for p in range(low_unit // U, (high_unit + U - 1) // U):
                        unit, count = p * U, min(U, H - p * U)
                        for n in range(n0, n1):
                            q = (((d * panels + p) * steps + t) * N + n) * step
                            c_at, h_at = (d * N + n) * padded + unit, (d * N + n) * wide + unit
                            if t >= lengths[n]:
                                for j in range(0, step, L):
                                    store(da, q + j, nothing)
                            elif mode == word.LSTM:
                                if gcells_given == 1:
                                    source = ((t * N + n) * directions + d) * H + unit
                                    _add_row(gc, c_at, gcells, source, count)
                                old, new = (before + n) * padded + unit, (after + n) * padded + unit
                                hole = 3 * d * padded + unit
                                if projected == 1:
                                    _lstm_grad(
                                        plan, a, da, q, c, old, new, gu, c_at, gc, c_at, holes, hole, low, high, 0
                                    )
                                else:
                                    _lstm_grad(
                                        plan, a, da, q, c, old, new, gh, h_at, gc, c_at, holes, hole, low, high, 1
                                    )
                            elif mode == word.GRU:
                                _gru_grad(plan, a, da, q, h, (before + n) * P + unit, gh, h_at, count)
                            else:
                                _rnn_grad(plan, da, q, h, (after + n) * P + unit, gh, h_at, count)
                if columns > 1:
                    add(shared, 0, 1)
            if columns > 1:
                _wait(shared, (number + 1) * columns)
