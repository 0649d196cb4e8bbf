"""The units of a panel at one step, for the rows of a block, forward and backward; see ../recurrent.py.

``q``: where the slots of the first row begin, ``before`` and ``after``: its states of the step before and of this one,
``count``: the units of the panel that exist where nothing is filled up. Rows whose sequence is over, or has not begun,
are left out here: ``rest`` and ``emptied`` are for them.
"""

from __future__ import annotations

from .. import recurrent_plan as word
from ..compiler import helper
from ..simd import ahead_by, full, lanes, load, load_first, select, store, store_first
from .math import sigmoid, tanh
from .recurrent_cells import clipped, coupled_gates_grad, gru_gates, gru_gates_grad, inside, lstm_gates_grad

_ask = ahead_by(0, write=True)


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


# ------------------------------------------------------------------------------------------------------- forward


@helper
def lstm(plan, a, q, c, before, after, out, out_at, out_step, count, holes, hole, low, high, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """Gates and cells; then what is put out, o * tanh(c): so the processor is at several rows at a time."""
    L, U, padded, step = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.PADDED], plan[word.ROW]
    coupled, clip, peephole = plan[word.COUPLED], plan[word.CLIP], plan[word.PEEPHOLE]
    plain = coupled + clip + peephole == 0
    o_slot = step - U
    row, old, new = q, before, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                cell = load(c, old + j)
                if plain:
                    i, f = sigmoid(load(a, row + j)), sigmoid(load(a, row + U + j))
                    g, o = tanh(load(a, row + 2 * U + j)), sigmoid(load(a, row + o_slot + j))
                    cell = f * cell + i * g
                    store(a, row + j, i)
                else:
                    f, g, o = (
                        load(a, row + o_slot - 2 * U + j),
                        load(a, row + o_slot - U + j),
                        load(a, row + o_slot + j),
                    )
                    if peephole == 1:
                        f = f + load(holes, hole + (1 - coupled) * padded + j) * cell
                    f, g = sigmoid(f), tanh(g)
                    if coupled == 1:
                        cell = f * cell + (1.0 - f) * g
                    else:
                        i = load(a, row + j)
                        if peephole == 1:
                            i = i + load(holes, hole + j) * cell
                        i = sigmoid(i)
                        store(a, row + j, i)
                        cell = f * cell + i * g
                    cell = clipped(cell, low, high, clip)
                    if peephole == 1:
                        o = o + load(holes, hole + (2 - coupled) * padded + j) * cell
                    o = sigmoid(o)
                store(a, row + o_slot - 2 * U + j, f)
                store(a, row + o_slot - U + j, g)
                store(a, row + o_slot + j, o)
                store(c, new + j, cell)
        row, old, new = row + step, old + padded, new + padded
    row, new, target = q + o_slot, after, out_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                _put(out, target + j, load(a, row + j) * tanh(load(c, new + j)), count - j)
        row, new, target = row + step, new + padded, target + out_step


@helper
def gru(plan, a, q, h, before, after, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    L, U, P, step = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.OUTPUT], plan[word.ROW]
    row, old, new = q, before, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                n_gate, r, z, value = gru_gates(
                    load(a, row + j), load(a, row + U + j), load(a, row + 2 * U + j), load(a, row + 3 * U + j),
                    _get(h, old + j, count - j),
                )  # fmt: skip
                store(a, row + j, n_gate)
                store(a, row + U + j, r)
                store(a, row + 2 * U + j, z)
                _put(h, new + j, value, count - j)
        row, old, new = row + step, old + P, new + P


@helper
def rnn(plan, a, q, h, after, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    L, U, P, step = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.OUTPUT], plan[word.ROW]
    relu = plan[word.MODE] == word.RNN_RELU
    row, new = q, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                value = load(a, row + j)
                value = select(value < 0.0, full(a, 0.0), value) if relu else tanh(value)  # NaN stays
                _put(h, new + j, value, count - j)
        row, new = row + step, new + P


@helper
def rest(x, before, after, step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """The state of a row whose sequence is over, or has not begun, stays."""
    old, new = before, after
    for n in range(n0, n1):
        if t >= lengths[n]:
            for j in range(0, count, lanes(x)):
                _put(x, new + j, _get(x, old + j, count - j), count - j)
        old, new = old + step, new + step


@helper
def emptied(x, at, step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """0 where the sequence is over; count: whole registers."""
    zero, begin = full(x, 0.0), at
    for n in range(n0, n1):
        if t >= lengths[n]:
            for j in range(0, count, lanes(x)):
                store(x, begin + j, zero)
        begin += step


@helper
def shown(y, y_at, y_step, h, at, step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """y is h, and 0 where the sequence is over."""
    zero = full(y, 0.0)
    source, target = at, y_at
    for n in range(n0, n1):
        for j in range(0, count, lanes(y)):
            if t < lengths[n]:
                _put(y, target + j, _get(h, source + j, count - j), count - j)
            else:
                _put(y, target + j, zero, count - j)
        source, target = source + step, target + y_step


# ------------------------------------------------------------------------------------------------------ backward


@helper
def lstm_grad(  # type: ignore[no-untyped-def]
    plan, a, da, q, next_q, c, before, after, gh, gh_at, gh_step, gc, gc_at, holes, hole, low, high, leave_0, lengths,
    t, n0, n1,
):  # fmt: skip
    """``leave_0``: 1 leaves zeros in gh, to which the step before adds its own. What stands ``next_q`` behind q, and
    behind ``before``, is asked for: it is what comes next, and not in the cache."""
    L, U, padded, step = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.PADDED], plan[word.ROW]
    coupled, clip, peephole = plan[word.COUPLED], plan[word.CLIP], plan[word.PEEPHOLE]
    o_slot = step - U
    zero = full(a, 0.0)
    row, old, new, of_h, of_c = q, before, after, gh_at, gc_at
    for n in range(n0, n1):
        for j in range(0, step, L):
            _ask(a, row + next_q + j)
        if t < lengths[n]:
            for j in range(0, U, L):
                f, g, o = load(a, row + o_slot - 2 * U + j), load(a, row + o_slot - U + j), load(a, row + o_slot + j)
                seen, g_h, g_c = load(c, old + j), load(gh, of_h + j), load(gc, of_c + j)
                y = tanh(load(c, new + j))
                ao = g_h * y * o * (1.0 - o)
                g_c = g_c + g_h * o * (1.0 - y * y)
                if peephole == 1:
                    g_c = g_c + ao * load(holes, hole + (2 - coupled) * padded + j)
                if coupled == 1:
                    g_c = inside(g_c, f * seen + (1.0 - f) * g, low, high, clip)
                    af, ag, back = coupled_gates_grad(g_c, f, g, seen)
                else:
                    i = load(a, row + j)
                    g_c = inside(g_c, f * seen + i * g, low, high, clip)
                    ai, af, ag, back = lstm_gates_grad(g_c, i, f, g, seen)
                    if peephole == 1:
                        back = back + ai * load(holes, hole + j)
                    store(da, row + j, ai)
                if peephole == 1:
                    back = back + af * load(holes, hole + (1 - coupled) * padded + j)
                store(da, row + o_slot - 2 * U + j, af)
                store(da, row + o_slot - U + j, ag)
                store(da, row + o_slot + j, ao)
                store(gc, of_c + j, back)
                if leave_0 == 1:
                    store(gh, of_h + j, zero)
        row, old, new, of_h, of_c = row + step, old + padded, new + padded, of_h + gh_step, of_c + padded


@helper
def gru_grad(plan, a, da, q, h, before, gh, gh_at, gh_step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    L, U, P, step = lanes(a), plan[word.UNITS_PER_PANEL], plan[word.OUTPUT], plan[word.ROW]
    row, old, of_h = q, before, gh_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                an, ar, az, am, back = gru_gates_grad(
                    load(gh, of_h + j), load(a, row + j), load(a, row + U + j), load(a, row + 2 * U + j),
                    load(a, row + 3 * U + j), _get(h, old + j, count - j),
                )  # fmt: skip
                store(da, row + j, an)
                store(da, row + U + j, ar)
                store(da, row + 2 * U + j, az)
                store(da, row + 3 * U + j, am)
                store(gh, of_h + j, back)
        row, old, of_h = row + step, old + P, of_h + gh_step


@helper
def rnn_grad(plan, da, q, h, after, gh, gh_at, gh_step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    L, U, P, step = lanes(da), plan[word.UNITS_PER_PANEL], plan[word.OUTPUT], plan[word.ROW]
    relu = plan[word.MODE] == word.RNN_RELU
    zero = full(da, 0.0)
    row, new, of_h = q, after, gh_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                value, g = _get(h, new + j, count - j), load(gh, of_h + j)
                g = select(value <= 0.0, zero, g) if relu else g * (1.0 - value * value)
                store(da, row + j, g)
                store(gh, of_h + j, zero)
        row, new, of_h = row + step, new + P, of_h + gh_step


@helper
def without_filling(da, q, step, units, count):  # type: ignore[no-untyped-def]
    """0 for the units of a row that are not there: what an infinite x makes of them, times weights of 0, is NaN."""
    L = lanes(da)
    zero = full(da, 0.0)
    for slot in range(q, q + step, units):
        first = slot + count // L * L
        if count % L > 0:
            store(da, first, load_first(da, first, count % L))
            first += L
        for at in range(first, slot + units, L):
            store(da, at, zero)


@helper
def add_rows(target, at, step, source, begin, source_step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """Upstream gradients of this step: to h or to the cells."""
    to, of = at, begin
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, count, lanes(target)):
                store(target, to + j, load(target, to + j) + _get(source, of + j, count - j))
        to, of = to + step, of + source_step


@helper
def taken(g_out, at, gh, gh_at, step, count, lengths, t, n0, n1):  # type: ignore[no-untyped-def]
    """The gradient of a projected h at this step, and zeros in its place; 0 where the sequence is over."""
    zero = full(gh, 0.0)
    to, of = at, gh_at
    for n in range(n0, n1):
        for j in range(0, count, lanes(gh)):
            value = zero
            if t < lengths[n]:
                value = load(gh, of + j)
                store(gh, of + j, zero)
            store(g_out, to + j, value)
        to, of = to + step, of + step
