# mypy: ignore-errors
"""Products of a recurrent layer: rows times a packed panel, the input's share of the gates, gradients of the weights.

See recurrent.py; the records are declared in plan.py.
"""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import ROW_SLOTS
from ..machine.microkernel_jit import brgemm
from ..machine.simd import (
    address,
    double,
    full,
    lanes,
    load,
    load_first,
    offset,
    rounded,
    store,
    store_first,
    transpose,
    transpose_first,
)
from .plan import LAYER, PRODUCT, WEIGHT


@helper
def rows_product(
    plan, at, table, a, a_step, a_entry, entries, depth, b, c, c_step, first, last, rows, init, accumulate
):
    """``c[i, j] (+)= sum over e, k of a_e[i, k] b_e[k, j]`` for ``rows`` rows and the sub-panels first..last of b.

    ``a``, ``b``, ``c`` and ``init`` are addresses, the steps are in bytes. b is packed: [sub-panel][entry][k][width].
    """
    tallest, width, subs, near, most = (
        plan[at + PRODUCT.tallest],
        plan[at + PRODUCT.width],
        plan[at + PRODUCT.sub_panels],
        plan[at + PRODUCT.near],
        plan[at + PRODUCT.group],
    )
    if rows == 0:
        return
    tiles = (rows + tallest - 1) // tallest
    least, extra = rows // tiles, rows % tiles
    table_at, rows_at = address(table), address(offset(table, ROW_SLOTS * most))
    for begin in range(0, entries, most):  # this part of b stays in L2 for all rows
        some = min(most, entries - begin)
        adding = accumulate if begin == 0 else 1
        for sub in range(first, last):
            micro, tail = at + PRODUCT.micro, lanes_in(plan, at, sub)
            if sub == subs - 1:
                micro = at + PRODUCT.last_micro
            panel = b + (sub * entries + begin) * depth * width
            i = 0
            for tile in range(tiles):
                r = least + (1 if tile < extra else 0)
                source, target = a + begin * a_entry + i * a_step, c + i * c_step
                if near == 1:
                    for e in range(some):
                        for row in range(r):
                            table[ROW_SLOTS * e + row] = source + e * a_entry + row * a_step
                    for row in range(r):
                        table[ROW_SLOTS * most + row] = target + row * c_step
                    brgemm(
                        plan[micro + r],
                        table_at,
                        some,
                        depth,
                        0,
                        panel,
                        depth * width,
                        width,
                        rows_at,
                        sub * width,
                        tail,
                        init + sub * width,
                        adding,
                        0,
                        0,
                    )
                else:
                    for e in range(some):
                        table[e] = source + e * a_entry
                    brgemm(
                        plan[micro + r],
                        table_at,
                        some,
                        depth,
                        a_step,
                        panel,
                        depth * width,
                        width,
                        target + sub * width,
                        c_step,
                        tail,
                        init + sub * width,
                        adding,
                        0,
                        0,
                    )
                i += r


@helper
def lanes_in(plan, at, sub):
    """Columns of the last register of a sub-panel."""
    if sub == plan[at + PRODUCT.sub_panels] - 1:
        return plan[at + PRODUCT.tail]
    return plan[at + PRODUCT.full_tail]


@helper
def _columns(w, source, row_step, count, depth, packed, target, width):
    """``packed[target + k*width + j] = w[source + j*row_step + k]`` for a register of j; zeros from ``count`` on."""
    L = lanes(packed)
    zero = full(packed, 0.0)
    if count < L:
        for k in range(depth):
            store(packed, target + k * width, zero)
    whole = depth // L * L if count == L else 0
    for k in range(0, whole, L):
        transpose(offset(w, source + k), row_step, offset(packed, target + k * width), width)
    if count > 0:
        for k in range(whole, depth, L):
            transpose_first(
                offset(w, source + k), row_step, offset(packed, target + k * width), width, count, min(L, depth - k)
            )


def pack_columns(
    task: int,
    worker: int,
    w: Array,
    packed: Array,
    b: Array,
    b_too: Array,
    init: Array,
    depth: int,
    units: int,
    per_panel: int,
    slots: int,
    gates: int,
    width: int,
    last: int,
    biases: int,
    init_slots: int,
    plan: Table,
) -> None:
    """A panel of W (gates*units, depth) for products from the right: [sub-panel][k][width], columns by slot and unit.

    ``last``: columns from slot to slot in the last panel, fewer than ``per_panel`` if these are all its units.
    ``biases``: 1 also fills ``init``, the initial row of the pre-activations, b + b_too; 2 that of a GRU, whose m has a
    separate bias.
    """
    L = lanes(packed)
    subs = (slots * per_panel + width - 1) // width
    if last < per_panel and (task + 1) * per_panel > units:
        for slot in range(slots):
            row, column = plan[gates + slot] * units + task * per_panel, slot * last
            target, start = task * subs + column // width, task * init_slots * per_panel
            for k in range(0, depth, L):
                place = offset(packed, target * depth * width + column % width + k * width)
                transpose_first(offset(w, row * depth + k), depth, place, width, last, min(L, depth - k))
            if biases > 0:
                value = load_first(b, row, last)
                if biases == 1 or slot > 0:
                    value = value + load_first(b_too, row, last)
                store_first(init, start + column, value, last)
                if biases == 2 and slot == 0:
                    store_first(init, start + slots * last, load_first(b_too, row, last), last)
        return
    for column in range(0, slots * per_panel, L):
        slot, unit = column // per_panel, task * per_panel + column % per_panel
        row = plan[gates + slot] * units + unit
        sub = task * subs + column // width
        count = max(0, min(L, units - unit))
        _columns(w, row * depth, depth, count, depth, packed, sub * depth * width + column % width, width)
        if biases > 0:
            value = load_first(b, row, count)
            if biases == 1 or slot > 0:
                value = value + load_first(b_too, row, count)
            store(init, task * init_slots * per_panel + column, value)
            if biases == 2 and slot == 0:
                store(init, (task * init_slots + slots) * per_panel + column, load_first(b_too, row, count))


def pack_rows(
    task: int,
    worker: int,
    w: Array,
    packed: Array,
    columns: int,
    units: int,
    per_panel: int,
    slots: int,
    gates: int,
    width: int,
    subs: int,
    sub_step: int,
    plan: Table,
) -> None:
    """A panel's rows of W (gates*units, columns) for products from the left: [sub-panel][slot and unit][width].

    ``sub_step``: elements from one sub-panel to the next (those of other panels and directions lie between). Rows are
    read from their start to their end, since the steps between rows of W may cause cache conflicts.
    """
    L = lanes(packed)
    zero = full(packed, 0.0)
    row = task * slots * per_panel * width
    for slot in range(slots):
        for unit in range(task * per_panel, (task + 1) * per_panel):
            source, target = (plan[gates + slot] * units + unit) * columns, row
            for begin in range(0, subs * width, width):
                for j in range(begin, begin + width, L):
                    left = columns - j
                    if unit >= units or left <= 0:
                        store(packed, target + j - begin, zero)
                    elif left >= L:
                        store(packed, target + j - begin, load(w, source + j))
                    else:
                        store(packed, target + j - begin, load_first(w, source + j, left))
                target += sub_step
            row += width


@helper
def active_end(lengths, t, n0, n1):
    """One past the last active row of n0..n1 at step t."""
    n = n1
    while n > n0 and lengths[n - 1] <= t:
        n -= 1
    return n


@helper
def _run_of_rows(lengths, rows, row, end):
    """The end, at most ``end``, of the run of active rows over consecutive steps that begins with ``row``."""
    t = row // rows
    stop = t * rows + active_end(lengths, t, 0, rows)
    while stop == (t + 1) * rows and stop < end:
        t += 1
        stop = t * rows + active_end(lengths, t, 0, rows)
    return max(row, min(stop, end))


@helper
def start_panel(plan, table, x, w, init, a, d, p, first, end, move, kept, lengths):
    """``a = init + x W_ih^T`` for the active ones of the rows first..end of all steps, in panel p of direction d.

    ``kept``: rows of a panel in ``a``; row r is at ``r + move``.
    """
    L = lanes(a)
    size = address(offset(x, 1)) - address(x)
    of_step, inputs, packed = plan[LAYER.rows], plan[LAYER.inputs], plan[LAYER.packed_x]
    panels, slots, per_panel = plan[LAYER.panels], plan[LAYER.slots], plan[LAYER.units_per_panel]
    step = slots * per_panel
    begin = (d * panels + p) * step
    row, product, spacing = first, LAYER.from_x, per_panel
    if p == panels - 1:
        product, spacing = LAYER.last_from_x, plan[LAYER.spacing]
    while row < end:
        stop = _run_of_rows(lengths, of_step, row, end)
        target = begin * kept + (row + move) * step
        rows_product(
            plan,
            product,
            table,
            address(offset(x, row * inputs)),
            inputs * size,
            0,
            1,
            inputs,
            address(offset(w, d * packed + p * (packed // panels))),
            address(offset(a, target)),
            step * size,
            0,
            plan[product + PRODUCT.sub_panels],
            stop - row,
            address(offset(init, begin)),
            0,
        )
        for slot in range(plan[LAYER.gates], slots):  # of a GRU: m
            for j in range(slot * spacing, (slot + 1) * spacing, L):
                value = load(init, begin + j)
                for at in range(target + j, target + j + (stop - row) * step, step):
                    store(a, at, value)
        row = stop if stop == end else (stop // of_step + 1) * of_step


def from_x(
    task: int,
    worker: int,
    x: Array,
    w: Array,
    init: Array,
    a: Array,
    plan: Table,
    piece: int,
    groups: int,
    lengths: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """Start the pre-activations, ``a = init + x @ W_ih^T``, for a piece of all rows and a group of panels."""
    total, panels = plan[LAYER.steps] * plan[LAYER.rows], plan[LAYER.panels]
    pieces = (total + piece - 1) // piece
    d, rest = task // (pieces * groups), task % (pieces * groups)
    first, group = rest // groups * piece, rest % groups
    for p in range(group * panels // groups, (group + 1) * panels // groups):
        start_panel(
            plan,
            offset(scratch, worker * scratch_words),
            x,
            w,
            init,
            a,
            d,
            p,
            first,
            min(total, first + piece),
            0,
            total,
            lengths,
        )


def to_x(
    task: int,
    worker: int,
    da: Array,
    w: Array,
    gx: Array,
    zero: Array,
    plan: Table,
    inputs: int,
    piece: int,
    lengths: Table,
    scratch: Table,
    scratch_words: int,
) -> None:
    """``gx = da @ W_ih`` for a piece of all rows: one sum over the panels of all directions."""
    L = lanes(gx)
    size = address(offset(gx, 1)) - address(gx)
    total, step = plan[LAYER.steps] * plan[LAYER.rows], plan[LAYER.slots] * plan[LAYER.units_per_panel]
    row, of_step = task * piece, plan[LAYER.rows]
    end = min(total, row + piece)
    while row < end:
        stop = _run_of_rows(lengths, of_step, row, end)
        rows_product(
            plan,
            LAYER.to_x,
            offset(scratch, worker * scratch_words),
            address(offset(da, row * step)),
            step * size,
            total * step * size,
            plan[LAYER.directions] * plan[LAYER.panels],
            plan[LAYER.gates] * plan[LAYER.units_per_panel],
            address(w),
            address(offset(gx, row * inputs)),
            inputs * size,
            0,
            plan[LAYER.to_x + PRODUCT.sub_panels],
            stop - row,
            address(zero),
            0,
        )
        row = stop if stop == end else min(end, (stop // of_step + 1) * of_step)
        for at in range(stop * inputs, row * inputs, L):
            store_first(gx, at, full(gx, 0.0), min(L, row * inputs - at))


def weight_grads(
    task: int,
    worker: int,
    da: Array,
    x: Array,
    h: Array,
    g_out: Array,
    u: Array,
    g_ih: Array,
    g_hh: Array,
    g_hr: Array,
    zero: Array,
    plan: Table,
    rows: Table,
    count: int,
    memory: Array,
    memory_count: int,
    scratch: Table,
    scratch_words: int,
) -> None:
    """Gradients of the weight matrices; a task is a group of panels of one of them.

    ``rows``: the ``count`` active rows of all steps; unused if all are active.
    """
    table, block = offset(scratch, worker * scratch_words), offset(memory, worker * memory_count)
    of_h = offset(plan, WEIGHT.words)
    to_h, to_hr = task - plan[WEIGHT.tasks], task - plan[WEIGHT.tasks] - of_h[WEIGHT.tasks]
    if to_h < 0:
        _weight_grad(task, da, x, g_ih, zero, plan, rows, count, table, block)
    elif to_hr < 0:
        _weight_grad(to_h, da, h, g_hh, zero, of_h, rows, count, table, block)
    else:
        _weight_grad(to_hr, g_out, u, g_hr, zero, offset(of_h, WEIGHT.words), rows, count, table, block)


@helper
def _weight_grad(task, a, b, gw, zero, plan, rows, depth, table, block):
    """``gw[gate, unit] = sum over the rows of all steps of a[row, slot, unit] b[row]`` for a group of panels.

    The rows are processed in chunks, in order, whatever the groups: so the bits depend on the shape alone. Some columns
    of a chunk of b are copied first, since the distance of its rows may cause cache conflicts; then each panel of a is
    multiplied by all of them, while L2 holds it and the copy. If some rows are inactive, the others are copied from a,
    too.
    """
    L = lanes(a)
    size = address(offset(gw, 1)) - address(gw)
    panels, groups, units, per_panel = (
        plan[WEIGHT.a_panels],
        plan[WEIGHT.groups],
        plan[WEIGHT.units],
        plan[WEIGHT.a_units],
    )
    columns, chunk, at = plan[WEIGHT.columns], plan[WEIGHT.chunk], WEIGHT.dense
    d, group = task // groups, task % groups
    slots, subs, most = plan[WEIGHT.gates], plan[at + PRODUCT.sub_panels], plan[WEIGHT.copied]
    tall, tallest, width = slots * per_panel, plan[at + PRODUCT.tallest], plan[at + PRODUCT.width] // size
    tiles = (tall + tallest - 1) // tallest
    least, extra = tall // tiles, tall % tiles
    unused = address(offset(block, most * chunk * width))  # for the results of padding units
    copy_of_a = offset(block, (most * chunk + subs) * width)
    rows_at = address(offset(table, 2))
    some_left_out, a_step = depth < plan[WEIGHT.all_rows], plan[WEIGHT.a_step]
    between = tall if some_left_out else a_step  # from row to row of the operand
    for first in range(0, depth, chunk):
        some = min(chunk, depth - first)
        for sub_0 in range(0, subs, most):
            for sub in range(sub_0, min(subs, sub_0 + most)):
                target, column = (sub - sub_0) * chunk * width, sub * width
                begin = d * plan[WEIGHT.b_direction] + plan[WEIGHT.b_begin + d] + column
                for row in range(first, first + some):
                    source = begin + (rows[row] if some_left_out else row) * plan[WEIGHT.b_step]
                    for j in range(0, min(width, columns - column), L):
                        count = columns - column - j
                        value = load(b, source + j) if count >= L else load_first(b, source + j, count)
                        store(block, target + j, value)
                    target += width
            for p in range(group * panels // groups, (group + 1) * panels // groups):
                place = 2
                for slot in range(slots):
                    gate = plan[WEIGHT.a_gates + slot] + d * plan[WEIGHT.gates]
                    for unit in range(p * per_panel, (p + 1) * per_panel):
                        table[place] = address(offset(gw, (gate * units + unit) * columns)) if unit < units else unused
                        place += 1
                begin = d * plan[WEIGHT.a_direction] + p * plan[WEIGHT.a_panel] + plan[WEIGHT.a_begin]
                source_of_a = address(offset(a, begin + first * a_step))
                if some_left_out:
                    source_of_a = address(copy_of_a)
                    for row in range(some):
                        for j in range(0, tall, L):
                            store(copy_of_a, row * tall + j, load(a, begin + rows[first + row] * a_step + j))
                for sub in range(sub_0, min(subs, sub_0 + most)):
                    micro = at + (PRODUCT.last_micro if sub == subs - 1 else PRODUCT.micro)
                    table[1] = address(offset(block, (sub - sub_0) * chunk * width))
                    i = 0
                    for tile in range(tiles):
                        r = least + (1 if tile < extra else 0)
                        table[0] = source_of_a + i * size
                        brgemm(
                            plan[micro + r],
                            address(table),
                            1,
                            some,
                            between * size,
                            0,
                            0,
                            width * size,
                            rows_at + 8 * i,
                            sub * width * size,
                            lanes_in(plan, at, sub),
                            address(zero),
                            0 if first == 0 else 1,
                            0,
                            0,
                        )
                        i += r


@helper
def _sum_over_rows(da, at, step, count):
    """The sum of a register over ``count`` rows, in float64, two rows at a time."""
    even, odd = double(full(da, 0.0)), double(full(da, 0.0))
    for row in range(0, count - 1, 2):
        even = even + double(load(da, at + row * step))
        odd = odd + double(load(da, at + (row + 1) * step))
    if count % 2 == 1:
        even = even + double(load(da, at + (count - 1) * step))
    return rounded(even + odd, da)


def bias_grad(task: int, worker: int, da: Array, gb: Array, gb_too: Array, plan: Table) -> None:
    """Gradients of the biases of a panel: sums over the rows of all steps."""
    L = lanes(da)
    panels, slots, per_panel, units = (
        plan[LAYER.panels],
        plan[LAYER.slots],
        plan[LAYER.units_per_panel],
        plan[LAYER.units],
    )
    total, step, gates = plan[LAYER.steps] * plan[LAYER.rows], slots * per_panel, plan[LAYER.gates]
    d, p = task // panels, task % panels
    for unit in range(p * per_panel, min(units, (p + 1) * per_panel), L):
        count = min(L, units - unit)
        for slot in range(slots):
            begin = task * total * step + slot * per_panel + unit - p * per_panel
            value, h_slot = _sum_over_rows(da, begin, step, total), slot - plan[LAYER.h_slot]
            if slot < gates:
                store_first(gb, (d * gates + plan[LAYER.x_gates + slot]) * units + unit, value, count)
            if h_slot >= 0:
                store_first(gb_too, (d * gates + plan[LAYER.h_gates + h_slot]) * units + unit, value, count)


def peephole_grad(task: int, worker: int, da: Array, c: Array, gp: Array, plan: Table) -> None:
    """Gradients of the peepholes of a panel: sums over the rows of all steps, in float64."""
    L = lanes(da)
    panels, slots, per_panel, units = (
        plan[LAYER.panels],
        plan[LAYER.slots],
        plan[LAYER.units_per_panel],
        plan[LAYER.units],
    )
    rows, step, padded = plan[LAYER.rows], slots * per_panel, plan[LAYER.padded]
    total, d, p = plan[LAYER.steps] * rows, task // panels, task % panels
    reverse = plan[LAYER.reverse + d]
    cells = d * (plan[LAYER.steps] + 1)
    for row_of in range(slots - 1):  # i and f use the previous cell state, o the new one; coupled gates have no i
        slot = row_of if row_of < slots - 2 else slots - 1
        next_state = 1 - reverse if slot == slots - 1 else reverse
        for unit in range(p * per_panel, min(units, (p + 1) * per_panel), L):
            begin = task * total * step + slot * per_panel + unit - p * per_panel
            seen = (cells + next_state) * rows * padded + unit
            everything = double(full(da, 0.0))
            for row in range(total):
                everything = everything + double(load(da, begin + row * step) * load(c, seen + row * padded))
            store_first(gp, (d * (slots - 1) + row_of) * units + unit, rounded(everything, da), min(L, units - unit))
