# mypy: ignore-errors
"""One task of a convolution with few channels, and its micro-kernel. The plan is made in narrow.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import registers
from ..machine.microkernel_jit import (
    NO_FINISH,
    Cells,
    apply_formula,
    begin_of_tile,
    conditionally,
    finish_line,
    finish_of,
    finished,
    held_after,
    store_cells,
)
from ..machine.simd import (
    I32,
    I64,
    address,
    counting,
    declare,
    first_lanes,
    full,
    lanes,
    load,
    load_first,
    masked_load,
    offset,
    pointer_like,
    splat,
    store,
    store_first,
    suffix,
)
from ..machine.target import vector_bytes
from .borders_jit import is_finite
from .narrow import BLOCK, CUT, KIND, LINE_PHASE, NARROW, SLIDE_ARGUMENTS, TERM_ARGUMENTS

# ---- LLVM IR of the micro-kernel whose terms each have an address ---------------------------------------------------

_BYTE = ir.IntType(8).as_pointer()
_NEAR_ROWS = 3  # rows that share a base register: x86 adds one or two steps in the load


def build(name: str, dtype: str, rows: int, vectors: int, slide: bool, pairs: bool) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``."""
    element = ir.FloatType() if dtype == "f" else ir.DoubleType()
    size = 4 if dtype == "f" else 8
    lanes = vector_bytes() // size
    vector = ir.VectorType(element, lanes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    names = SLIDE_ARGUMENTS if slide else TERM_ARGUMENTS
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(names)), name)
    table, *counts = function.args[:-11]
    move, step, b, b_step, c, c_step, tail, init, accumulate, bounds, residual = function.args[-11:]
    builder = ir.IRBuilder(function.append_basic_block("begin"))
    fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
    prefetch = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    mask, nothing = first_lanes(builder, tail, lanes), ir.Constant(vector, None)
    opaque = ir.FunctionType(_BYTE, [_BYTE])
    tile = [(i, j) for i in range(rows) for j in range(vectors)]

    def at(base: ir.Value, offset: ir.Value | int) -> ir.Value:
        return builder.gep(base, [I64(offset) if isinstance(offset, int) else offset], inbounds=True)

    def hidden(address: ir.Value) -> ir.Value:
        """No instruction; it keeps LLVM from computing all the sums in advance, for which there are no registers."""
        return builder.asm(opaque, "", "=r,0", [address], False)

    def read(base: ir.Value, j: int, masked: bool) -> ir.Value:
        place = builder.bitcast(at(base, j * lanes * size), vector.as_pointer())
        if masked and j == vectors - 1:
            return masked_load(builder, place, mask, nothing)
        value = builder.load(place)
        value.align = size
        return value

    rows_of_c = [at(builder.inttoptr(c, _BYTE), builder.mul(c_step, I64(i))) for i in range(rows)]
    # Prefetch for writing: a large result is in no cache. Sums of a wide tile may be too short for its own prefetches.
    soon = builder.mul(c_step, I64(rows if registers() == 32 else 0))
    for i, j in tile:
        place = builder.gep(rows_of_c[i], [builder.add(soon, I64(j * lanes * size))])  # may lie outside of the array
        builder.call(prefetch, [place, I32(1), I32(3), I32(1)])
    adding = builder.icmp_signed("!=", accumulate, I64(0))
    first = [read(builder.inttoptr(init, _BYTE), j, True) for j in range(vectors)]
    scalar_pointer, first_half = element.as_pointer(), first_lanes(builder, counts[4], lanes) if pairs else None
    start = [builder.select(adding, nothing, value) for value in first]
    slots = builder.inttoptr(table, _BYTE)
    steps = [I64(0), *(builder.mul(step, I64(i)) for i in range(1, _NEAR_ROWS))]
    group_step = builder.mul(step, I64(_NEAR_ROWS))
    b_start = builder.inttoptr(b, _BYTE)

    def add_group(slot: ir.Value, rows_of_b: list[ir.Value], sums: Cells) -> Cells:
        """The products of the taps of a group: that of each row of B is one position further."""
        base = at(builder.load(builder.bitcast(slot, _BYTE.as_pointer())), move)
        values = [[read(row_of_b, j, False) for j in range(vectors)] for row_of_b in rows_of_b]
        new = dict(sums)
        for i in range(rows + len(values) - 1):
            if i and i % _NEAR_ROWS == 0:
                base = hidden(at(base, group_step))
            scalar = builder.load(builder.bitcast(at(base, steps[i % _NEAR_ROWS]), element.as_pointer()))
            scalar.align = size
            a_value = splat(builder, scalar, vector)
            if pairs:
                other = builder.load(builder.bitcast(at(at(base, counts[5]), steps[i % _NEAR_ROWS]), scalar_pointer))
                other.align = size
                a_value = builder.select(first_half, a_value, splat(builder, other, vector))
            for t, of_tap in enumerate(values):
                for j in range(vectors if 0 <= i - t < rows else 0):
                    new[i - t, j] = builder.call(fma, [a_value, of_tap[j], new[i - t, j]])
            if vectors == 1:
                held_after(builder, a_value)
        return new

    def repeat(
        count: ir.Value, begin: list[ir.Value], sums: Cells, step: Callable[[list[ir.Value], Cells], Any]
    ) -> tuple[list[ir.Value], Cells]:
        """Run ``step`` so many times, on pointers and sums; return those after the last time."""
        before, body, after = builder.block, *(function.append_basic_block(label) for label in ("body", "after"))
        builder.cbranch(builder.icmp_signed(">", count, I64(0)), body, after)
        builder.position_at_end(body)
        left = builder.phi(I64)
        places, cells = [builder.phi(_BYTE) for _ in begin], {cell: builder.phi(vector) for cell in sums}
        next_places, new = step(places, cells)
        following = builder.sub(left, I64(1))
        own = [*zip((left, *places), (count, *begin), (following, *next_places), strict=True)]
        own += [(cells[cell], sums[cell], new[cell]) for cell in cells]
        for value, first_value, next_value in own:
            value.add_incoming(first_value, before)
            value.add_incoming(next_value, builder.block)
        builder.cbranch(builder.icmp_signed("!=", following, I64(0)), body, after)
        builder.position_at_end(after)
        merged = []
        for _, first_value, next_value in own[1:]:
            merged.append(builder.phi(first_value.type))
            merged[-1].add_incoming(first_value, before)
            merged[-1].add_incoming(next_value, body)
        return merged[: len(begin)], dict(zip(cells, merged[len(begin) :], strict=True))

    def terms_of(number: int) -> Callable[[list[ir.Value], Cells], Any]:
        def step(places: list[ir.Value], cells: Cells) -> tuple[list[ir.Value], Cells]:
            slot, row_of_b = places
            for _ in range(number):
                cells = add_group(slot, [row_of_b], cells)
                slot, row_of_b = at(slot, 8), at(row_of_b, b_step)
            return [slot, row_of_b], cells

        return step

    def group_of(taps: int) -> Callable[[list[ir.Value], Cells], Any]:
        def step(places: list[ir.Value], cells: Cells) -> tuple[list[ir.Value], Cells]:
            slot, place = places
            rows_of_b = [at(b_start, builder.load(builder.bitcast(place, I64.as_pointer())))]
            for _ in range(taps - 1):
                rows_of_b.append(at(rows_of_b[-1], b_step))
            return [at(slot, 8), at(place, 8)], add_group(slot, rows_of_b, cells)

        return step

    total = {(i, j): start[j] for i, j in tile}
    if slide:
        where = [slots, builder.inttoptr(counts[0], _BYTE)]
        for taps, count in zip((3, 2, 1), counts[1:4], strict=True):
            where, total = repeat(count, where, total, group_of(taps))
    else:
        where = [slots, b_start]
        where, total = repeat(builder.ashr(counts[0], I64(1)), where, total, terms_of(2))
        _, total = repeat(builder.and_(counts[0], I64(1)), where, total, terms_of(1))
    total = conditionally(builder, adding, total, lambda i, j: builder.fadd(read(rows_of_c[i], j, True), total[i, j]))
    total = finished(builder, total, bounds, residual, rows_of_c, read)
    store_cells(builder, total, rows_of_c, vectors, mask)
    builder.ret_void()
    return str(module)


def _call(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    """Call the function at the first argument, with the others."""
    callee = ir.FunctionType(ir.VoidType(), [I64] * (len(args) - 1)).as_pointer()
    builder.call(builder.inttoptr(args[0], callee), args[1:])
    return context.get_dummy_value()


@intrinsic
def add_terms(
    typing: Any,
    function: Any,
    table: Any,
    terms: Any,
    move: Any,
    step: Any,
    b: Any,
    b_step: Any,
    c: Any,
    c_step: Any,
    tail: Any,
    init: Any,
    accumulate: Any,
    bounds: Any,
    residual: Any,
) -> Any:
    """Call the micro-kernel at the address ``function``; the arguments are those of ``TERM_ARGUMENTS``."""
    return types.void(*[types.int64] * (1 + len(TERM_ARGUMENTS))), _call


@intrinsic
def add_groups(
    typing: Any,
    function: Any,
    table: Any,
    places: Any,
    threes: Any,
    twos: Any,
    ones: Any,
    half: Any,
    other: Any,
    move: Any,
    step: Any,
    b: Any,
    b_step: Any,
    c: Any,
    c_step: Any,
    tail: Any,
    init: Any,
    accumulate: Any,
    bounds: Any,
    residual: Any,
) -> Any:
    """Call the micro-kernel at the address ``function``; the arguments are those of ``SLIDE_ARGUMENTS``."""
    return types.void(*[types.int64] * (1 + len(SLIDE_ARGUMENTS))), _call


# ---- One task of a convolution with few channels --------------------------------------------------------------------


@helper
def _clear_ends(copies, at, plan, count):  # type: ignore[no-untyped-def]
    """Zero the padding of ``count`` lines."""
    zero = full(copies, 0.0)
    left, middle, pitch = plan[NARROW.left], plan[NARROW.middle], plan[NARROW.pitch]
    for _ in range(count):
        for i in range(0, left, lanes(copies)):
            store_first(copies, at + i, zero, left - i)
        for i in range(left + middle, pitch, lanes(copies)):
            store_first(copies, at + i, zero, pitch - i)
        at += pitch


@helper
def _copy(source, place, count, copies, at):  # type: ignore[no-untyped-def]
    """``count`` elements at the address ``place``."""
    line, whole = pointer_like(source, place), count // lanes(copies) * lanes(copies)
    for i in range(0, whole, lanes(copies)):
        store(copies, at + i, load(line, i))
    if whole < count:
        store_first(copies, at + whole, load_first(line, whole, count - whole), count - whole)


@helper
def _lines(source, nothing, plan, kind, n, base_d, base_h, copies, own, scratch, tags, lines_at):  # type: ignore[no-untyped-def]
    """The address of each line that the taps read; a line of zeros for padding."""
    size, span = plan[NARROW.size], plan[NARROW.span + 1]
    extent_d, extent_h = plan[NARROW.extent], plan[NARROW.extent + 1]
    for row in range(plan[kind + KIND.rows]):
        in_d = base_d + plan[kind + KIND.list + 2 * row]
        in_h = base_h + plan[kind + KIND.list + 2 * row + 1]
        place = nothing
        if 0 <= in_d < extent_d and 0 <= in_h < extent_h:
            place = address(source) + n * plan[NARROW.source] + plan[NARROW.begin] * size
            place += in_d * plan[NARROW.source + 1] + in_h * plan[NARROW.source + 2]
            if plan[NARROW.copy] != 0:
                slot = in_d % plan[NARROW.span] * span + in_h % span
                at = own + slot * plan[NARROW.pitch]
                tag = (n * extent_d + in_d) * extent_h + in_h
                if scratch[tags + slot] != tag:  # the next lines read it, too
                    scratch[tags + slot] = tag
                    _copy(source, place, plan[NARROW.middle], copies, at + plan[NARROW.left])
                place = address(offset(copies, at))
        scratch[lines_at + row] = place


@helper
def _fill(target, init, positions, columns):  # type: ignore[no-untyped-def]
    """The initial row at all positions of a line; + 0, because the empty sum turns -0 into 0."""
    zero, whole = full(target, 0.0), columns // lanes(target) * lanes(target)
    for w in range(positions if whole > 0 else 0):
        for i in range(0, whole, lanes(target)):
            store(target, w * columns + i, load(init, i) + zero)
    if whole < columns:
        left = columns - whole
        value = load_first(init, whole, left) + zero
        for w in range(positions):
            store_first(target, w * columns + whole, value, left)


@helper
def _groups_of_line(plan, kind, phase, nothing, scratch, lines_at, table):  # type: ignore[no-untyped-def]
    """The tables of the groups of taps: their addresses, and places of their weights; how many have 3, 2 and 1 taps.

    If all rows of taps read only padding and are left out, one stays, of zeros.
    """
    rows, depth, size = plan[kind + KIND.rows], plan[NARROW.depth], plan[NARROW.size]
    row_of_weights, inside = plan[NARROW.width] * size, 0
    outside = nothing if plan[NARROW.skip] != 0 else 0
    for row in range(rows):
        inside += 1 if scratch[lines_at + row] != outside else 0
    at, own, places = table, phase + LINE_PHASE.list, plan[NARROW.places]
    for kind_of_group in range(3):
        count = plan[phase + LINE_PHASE.groups + kind_of_group]
        for row in range(rows):
            place = scratch[lines_at + row]
            if place != outside or (inside == 0 and row == 0):
                for group in range(count):
                    move = plan[own + 2 * group]
                    weights = plan[own + 2 * group + 1] + row * plan[phase + LINE_PHASE.row]
                    for i in range(0, depth, lanes(scratch)):
                        store(scratch, at + i, (counting(scratch) + (move + i)) * size + place)
                        store(scratch, at + places + i, (counting(scratch) + i) * row_of_weights + weights)
                    at += depth
        own += 2 * count
    each, groups = max(inside, 1) * depth, phase + LINE_PHASE.groups
    return plan[groups] * each, plan[groups + 1] * each, plan[groups + 2] * each


@helper
def _show_left_out(plan, kind, phase, nothing, scratch, lines_at, weights, at, place):  # type: ignore[no-untyped-def]
    """Write NaN to a place of the result if a weight of the rows left out is not finite, so that borders.py sees it."""
    for row in range(plan[kind + KIND.rows]):
        if scratch[lines_at + row] == nothing:
            taps, count = pointer_like(weights, at + row * plan[phase + LINE_PHASE.row]), plan[phase + LINE_PHASE.row]
            if not is_finite(taps, count // plan[NARROW.size]):
                pointer_like(weights, place)[0] = float("nan")


@helper
def _slide_line(plan, phase, cut, finish, threes, twos, ones, scratch, table, source_group, b, to, tail, init, column):  # type: ignore[no-untyped-def]
    """All tiles of a line of one group of channels, whose terms are in groups of taps, block by block."""
    step = plan[NARROW.source_step]
    all_groups, taps = threes + twos + ones, 3 if threes > 0 else 2
    blocks = (all_groups * taps + BLOCK - 1) // BLOCK
    for block in range(blocks):
        first, last = block * all_groups // blocks, (block + 1) * all_groups // blocks
        after = finish if block == blocks - 1 else NO_FINISH
        for tile in range(plan[cut + CUT.tiles]):
            position = begin_of_tile(tile, plan[cut + CUT.least], plan[cut + CUT.extra])
            add_groups(
                plan[cut + CUT.kernels + (1 if tile < plan[cut + CUT.extra] else 0)],
                address(offset(scratch, table + first)),
                address(offset(scratch, table + plan[NARROW.places] + first)),
                max(0, min(last, threes) - first),
                max(0, min(last, threes + twos) - max(first, threes)),
                max(0, last - max(first, threes + twos)),
                plan[NARROW.half],
                plan[NARROW.source_group] // 2,
                position * step + source_group,
                step,
                b,
                plan[phase + LINE_PHASE.step],
                to + position * plan[NARROW.target_step],
                plan[NARROW.target_step],
                tail,
                address(init) + column,
                block,
                after[0],
                after[1],
            )


def conv(
    task: int,
    worker: int,
    source: Array,
    weights: Array,
    init: Array,
    target: Array,
    zeros: Array,
    copies: Array,
    copied: int,
    plan: Table,
    scratch: Table,
    scratch_words: int,
    residual: Array,
    bounds: Array,
) -> None:
    """A range of lines of ``target[q] = init + sum over taps of source[q*step + tap] @ weights[tap]``."""
    size, width = plan[NARROW.size], plan[NARROW.width]
    extent_d, extent_h = plan[NARROW.positions], plan[NARROW.positions + 1]
    period_d, period_h = plan[NARROW.period], plan[NARROW.period + 1]
    columns, panels = plan[NARROW.columns], plan[NARROW.panels]
    all_lines, tasks, slots = plan[NARROW.lines], plan[NARROW.tasks], plan[NARROW.span] * plan[NARROW.span + 1]
    own, tags, finish = worker * copied, worker * scratch_words, finish_of(target, bounds, residual)
    lines_at = tags + (slots + 7) // 8 * 8
    table = lines_at + (plan[NARROW.most_rows] + 7) // 8 * 8
    if plan[NARROW.copy] != 0:
        _clear_ends(copies, own, plan, slots)
        for slot in range(slots):
            scratch[tags + slot] = -1
    for line in range(task * all_lines // tasks, (task + 1) * all_lines // tasks):
        h, rest = line % extent_h, line // extent_h
        d, n = rest % extent_d, rest // extent_d
        kind = plan[NARROW.kinds + d % period_d * plan[NARROW.kinds_h] + h % period_h]
        base_d, base_h = d // period_d * plan[NARROW.step], h // period_h * plan[NARROW.step + 1]
        begin = n * plan[NARROW.target] + d * plan[NARROW.target + 1] + h * plan[NARROW.target + 2]
        if plan[kind + KIND.fill] != 0:  # no tap reaches some positions
            all_columns = plan[NARROW.groups] * columns
            _fill(pointer_like(target, address(target) + begin), init, plan[NARROW.positions + 2], all_columns)
            finish_line(target, begin // size, plan[NARROW.positions + 2] * all_columns, residual, bounds)
        _lines(source, address(zeros), plan, kind, n, base_d, base_h, copies, own, scratch, tags, lines_at)
        phase = kind + KIND.list + 2 * plan[kind + KIND.rows]
        for _ in range(plan[kind + KIND.phases]):
            runs, at, sliding = plan[phase + LINE_PHASE.runs], table, plan[phase + LINE_PHASE.step] != 0
            for row in range(0 if sliding else plan[kind + KIND.rows]):
                place = scratch[lines_at + row]
                for run in range(runs):
                    move, length = plan[phase + LINE_PHASE.list + 2 * run], plan[phase + LINE_PHASE.list + 2 * run + 1]
                    for i in range(0, length, lanes(scratch)):
                        store(scratch, at + i, (counting(scratch) + (move + i)) * size + place)
                    at += length
            if sliding:
                threes, twos, ones = _groups_of_line(plan, kind, phase, address(zeros), scratch, lines_at, table)
            terms, blocks = plan[phase + LINE_PHASE.terms], plan[phase + LINE_PHASE.blocks]
            for panel in range(plan[NARROW.groups] * panels):  # a panel of the weights stays in L1 for all tiles
                group, panel_of_group = panel // panels, panel % panels
                cut, tail = phase + LINE_PHASE.whole, lanes(target)
                if panel_of_group == panels - 1:
                    cut, tail = phase + LINE_PHASE.last, plan[NARROW.tail]
                column = (group * columns + panel_of_group * width) * size
                source_group = group * plan[NARROW.source_group]
                b = address(weights) + panel * plan[NARROW.panel_step] + plan[phase + LINE_PHASE.weights]
                to = address(target) + begin + plan[phase + LINE_PHASE.target] + column
                if sliding:
                    _slide_line(
                        plan,
                        phase,
                        cut,
                        finish,
                        threes,
                        twos,
                        ones,
                        scratch,
                        table,
                        source_group,
                        b,
                        to,
                        tail,
                        init,
                        column,
                    )
                    if plan[NARROW.skip] != 0 and (line == 0 or line == all_lines - 1):
                        at = to if line == 0 else to + (plan[NARROW.positions + 2] - 1) * plan[NARROW.target_step]
                        _show_left_out(plan, kind, phase, address(zeros), scratch, lines_at, weights, b, at)
                for block in range(0 if sliding else blocks):
                    first_term = block * terms // blocks
                    some = (block + 1) * terms // blocks - first_term
                    after = finish if block == blocks - 1 else NO_FINISH
                    for tile in range(plan[cut + CUT.tiles]):
                        first = begin_of_tile(tile, plan[cut + CUT.least], plan[cut + CUT.extra])
                        add_terms(
                            plan[cut + CUT.kernels + (1 if tile < plan[cut + CUT.extra] else 0)],
                            address(offset(scratch, table + first_term)),
                            some,
                            first * plan[NARROW.source_step] + source_group,
                            plan[NARROW.source_step],
                            b + first_term * width * size,
                            width * size,
                            to + first * plan[NARROW.target_step],
                            plan[NARROW.target_step],
                            tail,
                            address(init) + column,
                            block,
                            after[0],
                            after[1],
                        )
                rows = begin_of_tile(plan[cut + CUT.tiles], plan[cut + CUT.least], plan[cut + CUT.extra])
                own_columns = min(width, columns - panel_of_group * width)
                apply_formula(finish, to, rows, plan[NARROW.target_step], own_columns)
            phase += LINE_PHASE.list + 2 * runs
