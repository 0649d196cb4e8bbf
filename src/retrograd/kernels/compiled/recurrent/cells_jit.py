# mypy: ignore-errors
"""The units of a panel at one step, for the rows of a block, forward and backward; see recurrent.py.

``q``: start of the slots of the first row; ``before`` and ``after``: its states of the previous step and of this one;
``count``: the units of the panel without padding; ``first``: index of the peepholes of its first unit. Rows whose
sequence has ended, or in the reverse direction not yet begun, are skipped; ``keep_ended`` and ``clear_ended`` handle
them.
"""

from __future__ import annotations

from ....formulas import gates
from ....formulas.activation import relu, relu_grad
from ....formulas.piecewise import clamp, clamp_grad
from ....formulas.primitive import tanh
from ....formulas.transcendental import tanh_grad
from ..machine.compiler import helper
from ..machine.simd import ahead_by, full, lanes, load, load_first, store, store_first
from ..pointwise_jit import register
from .plan import LAYER, RNN_RELU

for _formula in (
    gates.gru_cell,
    gates.gru_cell_grad,
    gates.lstm_cell,
    gates.lstm_cell_grad,
    gates.lstm_output,
    gates.lstm_output_grad,
    gates.mixture_cell,
    gates.mixture_grad,
    gates.with_peephole,
    gates.without_nan,
    clamp,
    clamp_grad,
    relu,
    relu_grad,
    tanh_grad,
):
    register(_formula)
_prefetch = ahead_by(0, write=True)


@helper
def _get(x, at, count):
    if count >= lanes(x):
        return load(x, at)
    return load_first(x, at, max(0, count))


@helper
def _put(x, at, value, count):
    if count >= lanes(x):
        store(x, at, value)
    elif count > 0:
        store_first(x, at, value, count)


# ------------------------------------------------------------------------------------------------------- forward


@helper
def lstm(
    plan, a, q, U, c, before, after, out, out_at, out_step, count, peepholes, first, low, high, lengths, t, n0, n1
):
    """Gates and cell states of all rows, then their outputs: the CPU overlaps the work of several rows.

    ``U``: elements from slot to slot. Where they are half a register, each store also writes over the next slot, which
    was read before and is stored after.
    """
    L, padded, step = lanes(a), plan[LAYER.padded], plan[LAYER.row]
    coupled, clip, peephole = plan[LAYER.coupled], plan[LAYER.clip], plan[LAYER.peephole]
    o_slot = (plan[LAYER.slots] - 1) * U
    row, old, new = q, before, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                cell = load(c, old + j)
                f, g, o = load(a, row + o_slot - 2 * U + j), load(a, row + o_slot - U + j), load(a, row + o_slot + j)
                if peephole == 1:
                    f = gates.with_peephole(f, load(peepholes, first + (1 - coupled) * padded + j), cell)
                if coupled == 1:
                    g, f, cell = gates.mixture_cell(g, f, cell, tanh)
                else:
                    i = load(a, row + j)
                    if peephole == 1:
                        i = gates.with_peephole(i, load(peepholes, first + j), cell)
                    i, f, g, cell = gates.lstm_cell(i, f, g, cell, tanh)
                    store(a, row + j, i)
                if clip == 2:
                    cell = gates.without_nan(cell, high)
                if clip > 0:
                    cell = clamp(cell, low, high)
                if peephole == 1:
                    o = gates.with_peephole(o, load(peepholes, first + (2 - coupled) * padded + j), cell)
                store(a, row + o_slot - 2 * U + j, f)
                store(a, row + o_slot - U + j, g)
                if peephole == 1 or U < L:
                    store(a, row + o_slot + j, o)
                store(c, new + j, cell)
        row, old, new = row + step, old + padded, new + padded
    row, new, target = q + o_slot, after, out_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                o, value = gates.lstm_output(load(a, row + j), load(c, new + j), tanh)
                store(a, row + j, o)
                _put(out, target + j, value, count - j)
        row, new, target = row + step, new + padded, target + out_step


@helper
def gru(plan, a, q, U, h, before, after, count, lengths, t, n0, n1):
    """``U``: as above; m is not stored, and lost where U is half a register."""
    L, P, step = lanes(a), plan[LAYER.output], plan[LAYER.row]
    row, old, new = q, before, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                n_gate, r, z, value = gates.gru_cell(
                    load(a, row + j),
                    load(a, row + U + j),
                    load(a, row + 2 * U + j),
                    load(a, row + 3 * U + j),
                    _get(h, old + j, count - j),
                    tanh,
                )
                store(a, row + j, n_gate)
                store(a, row + U + j, r)
                store(a, row + 2 * U + j, z)
                _put(h, new + j, value, count - j)
        row, old, new = row + step, old + P, new + P


@helper
def rnn(plan, a, q, h, after, count, lengths, t, n0, n1):
    L, U, P, step = lanes(a), plan[LAYER.units_per_panel], plan[LAYER.output], plan[LAYER.row]
    is_relu = plan[LAYER.mode] == RNN_RELU
    row, new = q, after
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                value = load(a, row + j)
                _put(h, new + j, relu(value) if is_relu else tanh(value), count - j)
        row, new = row + step, new + P


@helper
def keep_ended(x, before, after, step, count, lengths, t, n0, n1):
    """Keep the state of skipped rows."""
    old, new = before, after
    for n in range(n0, n1):
        if t >= lengths[n]:
            for j in range(0, count, lanes(x)):
                _put(x, new + j, _get(x, old + j, count - j), count - j)
        old, new = old + step, new + step


@helper
def clear_ended(x, at, step, count, lengths, t, n0, n1):
    """Write 0 to skipped rows; count: whole registers."""
    zero, begin = full(x, 0.0), at
    for n in range(n0, n1):
        if t >= lengths[n]:
            for j in range(0, count, lanes(x)):
                store(x, begin + j, zero)
        begin += step


@helper
def write_output(y, y_at, y_step, h, at, step, count, lengths, t, n0, n1):
    """y is h, and 0 in skipped rows."""
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
def lstm_grad(
    plan,
    a,
    da,
    q,
    next_q,
    c,
    before,
    after,
    gh,
    gh_at,
    gh_step,
    gc,
    gc_at,
    peepholes,
    first,
    low,
    high,
    leave_0,
    lengths,
    t,
    n0,
    n1,
):
    """``leave_0``: 1 leaves zeros in gh, to which the previous step adds its gradient. The rows at ``q + next_q``,
    which are next and not in the cache, are prefetched."""
    L, U, padded, step = lanes(a), plan[LAYER.units_per_panel], plan[LAYER.padded], plan[LAYER.row]
    coupled, clip, peephole = plan[LAYER.coupled], plan[LAYER.clip], plan[LAYER.peephole]
    o_slot = step - U
    zero = full(a, 0.0)
    row, old, new, of_h, of_c = q, before, after, gh_at, gc_at
    for n in range(n0, n1):
        for j in range(0, step, L):
            _prefetch(a, row + next_q + j)
        if t < lengths[n]:
            for j in range(0, U, L):
                f, g, o = load(a, row + o_slot - 2 * U + j), load(a, row + o_slot - U + j), load(a, row + o_slot + j)
                seen, g_h, g_c = load(c, old + j), load(gh, of_h + j), load(gc, of_c + j)
                ao, of_output = gates.lstm_output_grad(g_h, o, load(c, new + j))
                g_c = g_c + of_output
                if peephole == 1:
                    g_c = gates.with_peephole(g_c, load(peepholes, first + (2 - coupled) * padded + j), ao)
                if coupled == 1:
                    if clip > 0:
                        g_c = clamp_grad(g_c, gates.mixture(g, f, seen), low, high)
                    ag, af, back = gates.mixture_grad(g_c, g, f, seen)
                else:
                    i = load(a, row + j)
                    if clip > 0:
                        g_c = clamp_grad(g_c, gates.lstm_state(i, f, g, seen), low, high)
                    ai, af, ag, back = gates.lstm_cell_grad(g_c, i, f, g, seen)
                    if peephole == 1:
                        back = gates.with_peephole(back, load(peepholes, first + j), ai)
                    store(da, row + j, ai)
                if peephole == 1:
                    back = gates.with_peephole(back, load(peepholes, first + (1 - coupled) * padded + j), af)
                store(da, row + o_slot - 2 * U + j, af)
                store(da, row + o_slot - U + j, ag)
                store(da, row + o_slot + j, ao)
                store(gc, of_c + j, back)
                if leave_0 == 1:
                    store(gh, of_h + j, zero)
        row, old, new, of_h, of_c = row + step, old + padded, new + padded, of_h + gh_step, of_c + padded


@helper
def gru_grad(plan, a, da, q, h, before, gh, gh_at, gh_step, count, lengths, t, n0, n1):
    L, U, P, step = lanes(a), plan[LAYER.units_per_panel], plan[LAYER.output], plan[LAYER.row]
    row, old, of_h = q, before, gh_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                an, ar, az, am, back = gates.gru_cell_grad(
                    load(gh, of_h + j),
                    load(a, row + j),
                    load(a, row + U + j),
                    load(a, row + 2 * U + j),
                    load(a, row + 3 * U + j),
                    _get(h, old + j, count - j),
                )
                store(da, row + j, an)
                store(da, row + U + j, ar)
                store(da, row + 2 * U + j, az)
                store(da, row + 3 * U + j, am)
                store(gh, of_h + j, back)
        row, old, of_h = row + step, old + P, of_h + gh_step


@helper
def rnn_grad(plan, da, q, h, after, gh, gh_at, gh_step, count, lengths, t, n0, n1):
    L, U, P, step = lanes(da), plan[LAYER.units_per_panel], plan[LAYER.output], plan[LAYER.row]
    is_relu = plan[LAYER.mode] == RNN_RELU
    zero = full(da, 0.0)
    row, new, of_h = q, after, gh_at
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, U, L):
                value, g = _get(h, new + j, count - j), load(gh, of_h + j)
                store(da, row + j, relu_grad(g, value) if is_relu else tanh_grad(g, value))
                store(gh, of_h + j, zero)
        row, new, of_h = row + step, new + P, of_h + gh_step


@helper
def clear_padding(da, q, step, units, count):
    """Write 0 to the padding units of a row: an infinite x times their zero weights is NaN."""
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
def add_rows(target, at, step, source, begin, source_step, count, lengths, t, n0, n1):
    """Add the upstream gradients of this step, to h or to the cell states."""
    to, of = at, begin
    for n in range(n0, n1):
        if t < lengths[n]:
            for j in range(0, count, lanes(target)):
                store(target, to + j, load(target, to + j) + _get(source, of + j, count - j))
        to, of = to + step, of + source_step


@helper
def take_projected(g_out, at, gh, gh_at, step, count, lengths, t, n0, n1):
    """Move the gradient of a projected h to g_out and leave zeros; g_out is 0 in skipped rows."""
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
