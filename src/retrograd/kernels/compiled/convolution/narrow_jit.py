# mypy: ignore-errors
"""One task of a convolution with few channels, and its micro-kernel. The plan is made in narrow.py."""

from __future__ import annotations

from platform import machine
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import registers
from ..machine.microkernel_jit import (
    NO_FINISH,
    apply_formula,
    begin_of_tile,
    conditionally,
    finish_of,
    finished,
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
from .narrow import CUT, KIND, LINE_PHASE, NARROW, TERM_ARGUMENTS

# ---- LLVM IR of the micro-kernel whose terms each have an address ---------------------------------------------------

_BYTE = ir.IntType(8).as_pointer()
_NEAR_ROWS = 3  # rows that share a base register: x86 adds one or two steps in the load


def build(name: str, dtype: str, rows: int, vectors: int) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``."""
    element = ir.FloatType() if dtype == "f" else ir.DoubleType()
    size = 4 if dtype == "f" else 8
    lanes = vector_bytes() // size
    vector = ir.VectorType(element, lanes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(TERM_ARGUMENTS)), name)
    table, terms, move, step, b, b_step, c, c_step, tail, init, accumulate, bounds, residual = function.args
    blocks = {label: function.append_basic_block(label) for label in ("begin", "pairs", "odd", "last", "end")}
    builder = ir.IRBuilder(blocks["begin"])
    fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
    prefetch = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    mask, nothing = first_lanes(builder, tail, lanes), ir.Constant(vector, None)
    opaque = ir.FunctionType(_BYTE, [_BYTE])
    tile = [(i, j) for i in range(rows) for j in range(vectors)]
    # A use of the broadcast value after its multiply-add, without an instruction: else LLVM puts the sum into its
    # register, and moves the sums back in every step.
    in_place = vectors == 1 and registers() == 16 and machine() in ("x86_64", "AMD64")

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
    start = [builder.select(adding, nothing, value) for value in first]
    slots = builder.inttoptr(table, _BYTE)
    steps = [I64(0), *(builder.mul(step, I64(i)) for i in range(1, _NEAR_ROWS))]
    group_step = builder.mul(step, I64(_NEAR_ROWS))
    even = builder.and_(terms, I64(-2))
    table_end = at(slots, builder.mul(even, I64(8)))
    b_start = builder.inttoptr(b, _BYTE)
    builder.cbranch(builder.icmp_signed(">", even, I64(0)), blocks["pairs"], blocks["odd"])

    def add_term(slot: ir.Value, row_of_b: ir.Value, sums: dict[Any, ir.Value]) -> dict[Any, ir.Value]:
        base = at(builder.load(builder.bitcast(slot, _BYTE.as_pointer())), move)
        values = [read(row_of_b, j, False) for j in range(vectors)]
        new = {}
        for i in range(rows):
            if i and i % _NEAR_ROWS == 0:
                base = hidden(at(base, group_step))
            scalar = builder.load(builder.bitcast(at(base, steps[i % _NEAR_ROWS]), element.as_pointer()))
            scalar.align = size
            a_value = splat(builder, scalar, vector)
            for j in range(vectors):
                new[i, j] = builder.call(fma, [a_value, values[j], sums[i, j]])
            if in_place:
                builder.asm(ir.FunctionType(ir.VoidType(), [vector]), "", "x", [a_value], True)
        return new

    builder.position_at_end(blocks["pairs"])
    slot, row_of_b = builder.phi(_BYTE), builder.phi(_BYTE)
    sums = {cell: builder.phi(vector) for cell in tile}
    one = add_term(slot, row_of_b, sums)
    two = add_term(at(slot, 8), at(row_of_b, b_step), one)
    next_slot, next_b = at(slot, 16), at(row_of_b, builder.mul(b_step, I64(2)))
    for value, begin, following in (
        (slot, slots, next_slot),
        (row_of_b, b_start, next_b),
        *((sums[i, j], start[j], two[i, j]) for i, j in tile),
    ):
        value.add_incoming(begin, blocks["begin"])
        value.add_incoming(following, blocks["pairs"])
    builder.cbranch(builder.icmp_unsigned("!=", next_slot, table_end), blocks["pairs"], blocks["odd"])

    builder.position_at_end(blocks["odd"])
    last_slot, last_b = builder.phi(_BYTE), builder.phi(_BYTE)
    paired = {cell: builder.phi(vector) for cell in tile}
    for value, begin, following in (
        (last_slot, slots, next_slot),
        (last_b, b_start, next_b),
        *((paired[i, j], start[j], two[i, j]) for i, j in tile),
    ):
        value.add_incoming(begin, blocks["begin"])
        value.add_incoming(following, blocks["pairs"])
    builder.cbranch(builder.icmp_signed("!=", even, terms), blocks["last"], blocks["end"])

    builder.position_at_end(blocks["last"])
    one_more = add_term(last_slot, last_b, paired)
    builder.branch(blocks["end"])

    builder.position_at_end(blocks["end"])
    total = {cell: builder.phi(vector) for cell in tile}
    for cell in tile:
        total[cell].add_incoming(paired[cell], blocks["odd"])
        total[cell].add_incoming(one_more[cell], blocks["last"])
    total = conditionally(builder, adding, total, lambda i, j: builder.fadd(read(rows_of_c[i], j, True), total[i, j]))
    total = finished(builder, total, bounds, residual, rows_of_c, read)
    store_cells(builder, total, rows_of_c, vectors, mask)
    builder.ret_void()
    return str(module)


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

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        callee = ir.FunctionType(ir.VoidType(), [I64] * len(TERM_ARGUMENTS)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(TERM_ARGUMENTS))), generate


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
        _lines(source, address(zeros), plan, kind, n, base_d, base_h, copies, own, scratch, tags, lines_at)
        phase = kind + KIND.list + 2 * plan[kind + KIND.rows]
        for _ in range(plan[kind + KIND.phases]):
            runs, at = plan[phase + LINE_PHASE.runs], table
            for row in range(plan[kind + KIND.rows]):
                place = scratch[lines_at + row]
                for run in range(runs):
                    move, length = plan[phase + LINE_PHASE.list + 2 * run], plan[phase + LINE_PHASE.list + 2 * run + 1]
                    for i in range(0, length, lanes(scratch)):
                        store(scratch, at + i, (counting(scratch) + (move + i)) * size + place)
                    at += length
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
                for block in range(blocks):
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
