# mypy: ignore-errors
"""LLVM IR of the matrix micro-kernels, and the loop over their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from platform import machine
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiler import helper
from .microkernel import ARGUMENTS, FINISH_FORMULA, PRODUCT, ROW_SLOTS, registers
from .simd import (
    I32,
    I64,
    address,
    call_with_words,
    declare,
    first_lanes,
    full,
    lanes,
    load,
    load_first,
    masked_load,
    masked_stores,
    offset,
    select,
    splat,
    store,
    store_first,
    suffix,
    word_at,
)
from .target import vector_bytes

# ---- LLVM IR of the batch-reduce micro-kernel -----------------------------------------------------------------------


_BYTE = ir.IntType(8).as_pointer()
# Rows of B (and of a dense A) to prefetch. Without it a panel in L2 costs a quarter more.
_AHEAD = 16
_FURTHER = 64  # the same of B with several rows of taps: nothing else reads it again
_CACHE_LINE = 64  # bytes
_POINTERS = 8  # rows of A, at most, whose addresses fit the registers
_SOON = (I32(0), I32(3), I32(1))  # read, into L1, data
# Terms per block, before its sum is added to the blocks before: errors grow with its root. The first sum is stored
# without reading zeros, so that the blocks cost less than a hundredth. It is even, so that only the last step of an
# entry is a single one. Up to two blocks of terms are halved, unless they are few.
_BLOCK, _ALONE = 64, 48


Cells = dict[tuple[int, int], ir.Value]  # of a tile, by row and vector


def conditionally(
    builder: ir.IRBuilder, condition: ir.Value, cells: Cells, changed: Callable[[int, int], ir.Value]
) -> Cells:
    """The cells of a tile, replaced by what ``changed`` computes for each if the condition holds."""
    before = builder.block
    inside, after = builder.append_basic_block("inside"), builder.append_basic_block("after")
    builder.cbranch(condition, inside, after)
    builder.position_at_end(inside)
    others = {cell: changed(*cell) for cell in cells}
    inside = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    merged = {}
    for cell, value in cells.items():
        merged[cell] = builder.phi(value.type)
        merged[cell].add_incoming(value, before)
        merged[cell].add_incoming(others[cell], inside)
    return merged


def finished(
    builder: ir.IRBuilder,
    cells: Cells,
    bounds: ir.Value,
    residual: ir.Value,
    rows_of_c: list[ir.Value],
    read: Callable[[ir.Value, int, bool], ir.Value],
) -> Cells:
    """The cells with the residual added and clamped, where ``bounds`` is not 0; see ``ARGUMENTS``."""
    wanted = builder.icmp_signed("!=", bounds, I64(0))
    wanted = builder.select(wanted, builder.icmp_signed("!=", residual, I64(0)), wanted)

    def with_residual(i: int, j: int) -> ir.Value:
        return builder.fadd(cells[i, j], read(builder.gep(rows_of_c[i], [residual]), j, True))

    return clamped(builder, conditionally(builder, wanted, cells, with_residual), bounds)


def store_cells(builder: ir.IRBuilder, cells: Cells, rows_of_c: list[ir.Value], vectors: int, mask: ir.Value) -> None:
    """Write a tile to its rows; of the last of the vectors, the lanes of the mask."""
    last = []
    for (i, j), value in cells.items():
        size = 4 if isinstance(value.type.element, ir.FloatType) else 8
        place = builder.gep(rows_of_c[i], [I64(j * value.type.count * size)], inbounds=True)
        place = builder.bitcast(place, value.type.as_pointer())
        if j == vectors - 1:
            last.append((value, place))
        else:
            builder.store(value, place).align = size
    masked_stores(builder, last, mask)


def clamped(builder: ir.IRBuilder, cells: Cells, bounds: ir.Value) -> Cells:
    """The cells between two elements at the address ``bounds``, if that is not 0; NaN stays NaN."""
    limits: list[ir.Value] = []

    def between(i: int, j: int) -> ir.Value:
        value = cells[i, j]
        if not limits:
            pair = builder.inttoptr(bounds, value.type.element.as_pointer())
            limits.extend(splat(builder, builder.load(builder.gep(pair, [I64(k)])), value.type) for k in range(2))
        low, high = limits
        value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">", value, high), high, value)

    return conditionally(builder, builder.icmp_signed("!=", bounds, I64(0)), cells, between)


def held_after(builder: ir.IRBuilder, value: ir.Value) -> None:
    """Use a broadcast value after its only multiply-add, without an instruction, where there are 16 registers.

    LLVM would put the sum into its register, and move the sums of a tall tile back in every step, through memory.
    """
    if registers() == 16 and machine() in ("x86_64", "AMD64"):
        builder.asm(ir.FunctionType(ir.VoidType(), [value.type]), "", "x", [value], True)


def _block_of(builder: ir.IRBuilder, entries: ir.Value, depth: ir.Value, terms: ir.Value) -> ir.Value:
    """Terms of a block, even. Where they are half of all, and there are several entries, those are not divided."""
    half = builder.ashr(builder.add(terms, I64(1)), I64(1))
    whole = builder.sub(builder.add(half, depth), I64(1))
    even = builder.and_(builder.add(half, I64(1)), I64(-2))
    part = builder.select(builder.icmp_signed(">", entries, I64(1)), whole, even)
    return builder.select(builder.icmp_signed("<=", terms, I64(2 * _BLOCK)), part, I64(_BLOCK))


def build(name: str, dtype: str, form: str, rows: int, vectors: int, masked: bool) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``."""
    element = ir.FloatType() if dtype == "f" else ir.DoubleType()
    size = 4 if dtype == "f" else 8
    lanes = vector_bytes() // size
    vector = ir.VectorType(element, lanes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS)), name)
    paired, by_line, near = form.endswith("pairs"), form.startswith("line"), form.startswith("near")
    by_rows = "rows" in form
    # of the dense form: pointers of A in an entry, each for the same number of rows
    planes = int(form[-1]) if form[-1].isdigit() else 1
    # a row of C; in pairs, a lane of a sum and the next one belong to the same column
    row_of_c = ir.VectorType(element, lanes // 2) if paired else vector
    by_pointer = by_rows or (by_line and rows <= _POINTERS)  # a register for each row of A
    table, entries, depth, lda, b, b_step, ldb, c, c_step, tail, init, accumulate, bounds, residual = function.args
    entry_block = function.append_basic_block("entry")
    builder = ir.IRBuilder(entry_block)
    table = builder.inttoptr(table, _BYTE)
    c = builder.inttoptr(c, _BYTE)
    fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
    prefetch = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    last_mask = first_lanes(builder, tail, row_of_c.count)
    nothing = ir.Constant(vector, None)
    opaque = ir.FunctionType(_BYTE, [_BYTE])
    tile = [(i, j) for i in range(rows) for j in range(vectors)]

    def at(base: ir.Value, offset: ir.Value | int) -> ir.Value:
        return builder.gep(base, [I64(offset) if isinstance(offset, int) else offset], inbounds=True)

    def hidden(address: ir.Value) -> ir.Value:
        """No instruction; it hides the sum from LLVM, so that the addresses of the loads stay simple."""
        return builder.asm(opaque, "", "=r,0", [address], False)

    def pointer(base: ir.Value, offset: ir.Value | int) -> ir.Value:
        return builder.load(builder.bitcast(at(base, offset), _BYTE.as_pointer()))

    def read(base: ir.Value, j: int, mask: bool) -> ir.Value:
        if mask and j == vectors - 1:
            place = builder.bitcast(at(base, j * lanes * size), row_of_c.as_pointer())
            return masked_load(builder, place, last_mask, ir.Constant(row_of_c, None))
        place = builder.bitcast(at(base, j * lanes * size), vector.as_pointer())
        value = builder.load(place)
        value.align = size
        return value

    def lanes_of(a: ir.Value, b: ir.Value, places: Iterable[int]) -> ir.Value:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(list(places))), list(places)))

    def keep(cell: tuple[int, int], value: ir.Value) -> None:
        builder.store(value, builder.gep(blocks, [I64(tile.index(cell))])).align = lanes * size

    def kept(cell: tuple[int, int]) -> ir.Value:
        value = builder.load(builder.gep(blocks, [I64(tile.index(cell))]))
        value.align = lanes * size
        return value

    # ---- the tile starts from one row everywhere, or from zeros to which the content of C is added at the end
    other, given, begin = (function.append_basic_block(label) for label in ("other", "given", "begin"))
    # With several blocks: the sum of those before, in memory. (An aligned alloca would cost a frame register.)
    memory = builder.ptrtoint(builder.alloca(ir.ArrayType(I64, (len(tile) + 1) * lanes * size // 8)), I64)
    memory = builder.and_(builder.add(memory, I64(lanes * size - 1)), I64(-lanes * size))
    blocks = builder.bitcast(hidden(builder.inttoptr(memory, _BYTE)), vector.as_pointer())
    rows_of_c = [at(c, builder.mul(c_step, I64(i))) if by_line else at(pointer(c, 8 * i), c_step) for i in range(rows)]
    adding = builder.icmp_signed("!=", accumulate, I64(0))
    term_count = builder.mul(entries, depth)
    several = builder.icmp_signed(">", term_count, I64(_ALONE))
    if by_line or registers() == 16:  # prefetch for writing: a large result is in no cache
        for i, j in tile:
            builder.call(prefetch, [at(rows_of_c[i], j * lanes * size), I32(1), I32(3), I32(1)])
    builder.cbranch(adding, other, given)
    builder.position_at_end(given)
    first = builder.inttoptr(init, _BYTE)
    from_row = [read(first, j, True) for j in range(vectors)]
    if paired:
        half = lanes // 2
        from_row = [lanes_of(from_row[0], ir.Constant(row_of_c, None), [i // 2 + i % 2 * half for i in range(lanes)])]
    builder.branch(other)
    builder.position_at_end(other)
    start = []
    for j in range(vectors):
        start.append(builder.phi(vector))
        start[j].add_incoming(nothing, entry_block)
        start[j].add_incoming(from_row[j], given)
    builder.branch(begin)
    builder.position_at_end(begin)
    of_block = _block_of(builder, entries, depth, term_count)
    remaining_in_first = builder.select(several, of_block, I64(_ALONE))
    b_pointer = builder.inttoptr(b, _BYTE)

    ahead_of_a, ahead_of_b = builder.mul(lda, I64(_AHEAD)), builder.mul(ldb, I64(_AHEAD if planes == 1 else _FURTHER))
    entry, end = function.append_basic_block("entry"), function.append_basic_block("end")
    builder.branch(entry)

    # ---- for each entry of the table
    builder.position_at_end(entry)
    e = builder.phi(I64)
    e.add_incoming(I64(0), begin)
    remaining = builder.phi(I64)  # terms left in this block
    remaining.add_incoming(remaining_in_first, begin)
    held = builder.phi(ir.IntType(1))  # whether a block is kept already
    held.add_incoming(held.type(0), begin)
    at_entry = {}
    for i, j in tile:
        at_entry[i, j] = builder.phi(vector)
        at_entry[i, j].add_incoming(start[j], begin)
    if by_rows:
        row = at(table, builder.mul(e, I64(8 * ROW_SLOTS)))
        a_rows, a_entry = [pointer(row, 8 * i) for i in range(rows)], row
        b_entry = at(b_pointer, builder.mul(e, b_step))
    elif by_line:
        a_entry, b_entry = pointer(table, builder.mul(e, I64(8))), at(b_pointer, builder.mul(e, b_step))
        a_rows = [hidden(at(a_entry, builder.mul(lda, I64(i)))) for i in range(rows)] if by_pointer else []
    else:
        row = at(table, builder.mul(e, I64(8 * (planes + 1))))
        a_entry, b_entry = at(pointer(row, 0), b_step), at(pointer(row, 8 * planes), b)
        origin = builder.ptrtoint(pointer(row, 0), I64)
        moves = [builder.sub(builder.ptrtoint(pointer(row, 8 * i), I64), origin) for i in range(1, planes)]

    # ---- for each k: one row of B, one scalar of each row of A. Unroll k by two: every non-FMA instruction costs one
    # of four issue slots, and fewer of them save up to an eighth.
    def multiply(a_column: ir.Value, k: ir.Value, b_row: ir.Value, sums: Any, steps: int) -> dict[Any, ir.Value]:
        sums, rows_of_b = dict(sums), []

        def add_row(i: int, place: ir.Value, b_values: list[ir.Value]) -> None:
            if paired and steps == 2:
                scalar = builder.load(builder.bitcast(place, ir.VectorType(element, 2).as_pointer()))
                a_value = lanes_of(scalar, scalar, [lane % 2 for lane in range(lanes)])
            else:
                scalar = builder.load(builder.bitcast(place, element.as_pointer()))
                a_value = splat(builder, scalar, vector)
            scalar.align = size
            if paired and steps == 1:  # the last term has no other beside it
                a_value = lanes_of(a_value, nothing, [lane + lane % 2 * lanes for lane in range(lanes)])
            for j in range(vectors):
                sums[i, j] = builder.call(fma, [a_value, b_values[j], sums[i, j]])
            if vectors == 1:
                held_after(builder, a_value)

        for second in range(1 if paired else steps):
            row_of_b = at(b_row, ldb) if second else b_row
            column = at(a_column, lda) if second else a_column  # of the dense form
            rows_of_b.append([read(row_of_b, j, masked) for j in range(vectors)])
            if not near:
                ahead = builder.gep(row_of_b, [ahead_of_b])  # may lie outside of the array
                for j in range(vectors):
                    builder.call(prefetch, [builder.gep(ahead, [I64(j * lanes * size)]), *_SOON])
            if not by_rows and not by_line and not near and planes == 1:
                ahead = builder.gep(column, [ahead_of_a])
                for i in sorted({*range(0, rows, _CACHE_LINE // size), rows - 1}):
                    builder.call(prefetch, [builder.gep(ahead, [I64(i * size)]), *_SOON])
            if by_line and not second:  # prefetch the rows of the next tile, piece by piece
                ahead = builder.add(builder.mul(lda, I64(rows)), builder.mul(k, I64(rows * size)))
                for line in range(0, steps * rows * size, _CACHE_LINE):
                    builder.call(prefetch, [builder.gep(a_entry, [builder.add(ahead, I64(line))]), *_SOON])
            for i in range(rows if by_pointer or not by_line else 0):
                place = at(column, i * size)
                if i >= rows // planes and not by_pointer:
                    place = at(at(column, moves[i // (rows // planes) - 1]), i % (rows // planes) * size)
                if by_pointer:
                    place = at(a_rows[i], builder.mul(builder.add(k, I64(second)), I64(size)))
                add_row(i, place, rows_of_b[second])
        for i in range(0 if by_pointer or not by_line else rows):  # one row address for both steps
            if i > 0:
                a_column = hidden(at(a_column, lda))
            for second in range(len(rows_of_b)):
                add_row(i, at(a_column, second * size), rows_of_b[second])
        return sums

    names = ("piece", "full", "flush", "more", "terms", "step", "pairs", "last", "joined", "after")
    labels = (function.append_basic_block(name) for name in names)
    piece, full, flush, more, terms, step, pairs, last_one, joined, after_entry = labels
    step_of_a = 2 * size if by_line else builder.mul(lda, I64(2))
    begin_k, end_k = (lda, builder.add(lda, depth)) if by_rows else (I64(0), depth)  # rows: lda elements precede
    builder.branch(piece)

    # ---- a piece of the entry: as much as fits the block; a full block is added to those before
    builder.position_at_end(piece)
    k_piece, b_piece, a_piece, remaining_piece, held_piece = (
        builder.phi(kind) for kind in (I64, _BYTE, _BYTE, I64, held.type)
    )
    at_piece = {cell: builder.phi(vector) for cell in tile}
    for value, given_value in (
        (k_piece, begin_k),
        (b_piece, b_entry),
        (a_piece, a_entry),
        (remaining_piece, remaining),
        (held_piece, held),
    ):
        value.add_incoming(given_value, entry)
    for cell in tile:
        at_piece[cell].add_incoming(at_entry[cell], entry)
    left = builder.sub(end_k, k_piece)
    count = builder.select(builder.icmp_signed("<", left, of_block), left, of_block)
    builder.cbranch(builder.icmp_signed(">", count, remaining_piece), full, terms)
    builder.position_at_end(full)
    builder.cbranch(held_piece, more, flush)
    for block in (flush, more):
        builder.position_at_end(block)
        for cell in tile:
            keep(cell, at_piece[cell] if block is flush else builder.fadd(kept(cell), at_piece[cell]))
        builder.branch(terms)
    builder.position_at_end(terms)
    remaining_terms, held_terms = builder.phi(I64), builder.phi(held.type)
    at_terms = {cell: builder.phi(vector) for cell in tile}
    for block, of_remaining, of_held in (
        (piece, remaining_piece, held_piece),
        (flush, of_block, held.type(1)),
        (more, of_block, held.type(1)),
    ):
        remaining_terms.add_incoming(of_remaining, block)
        held_terms.add_incoming(of_held, block)
        for cell in tile:
            at_terms[cell].add_incoming(at_piece[cell] if block is piece else nothing, block)
    odd = builder.and_(count, I64(1))
    end_piece = builder.add(k_piece, count)
    whole = builder.sub(end_piece, odd)
    builder.cbranch(builder.icmp_signed(">", whole, k_piece), step, pairs)

    builder.position_at_end(step)
    k, b_row = builder.phi(I64), builder.phi(_BYTE)
    a_column = builder.phi(_BYTE)
    sums = {cell: builder.phi(vector) for cell in tile}
    k.add_incoming(k_piece, terms)
    b_row.add_incoming(b_piece, terms)
    a_column.add_incoming(a_piece, terms)
    for cell in tile:
        sums[cell].add_incoming(at_terms[cell], terms)
    new = multiply(a_column, k, b_row, sums, 2)
    next_k = builder.add(k, I64(2))
    next_b = at(b_row, builder.mul(ldb, I64(2)))
    next_a = a_column if by_pointer else at(a_column, step_of_a)
    k.add_incoming(next_k, step)
    b_row.add_incoming(next_b, step)
    a_column.add_incoming(next_a, step)
    for cell in tile:
        sums[cell].add_incoming(new[cell], step)
    builder.cbranch(builder.icmp_signed("<", next_k, whole), step, pairs)

    builder.position_at_end(pairs)
    a_last, b_last = builder.phi(_BYTE), builder.phi(_BYTE)
    even = {cell: builder.phi(vector) for cell in tile}
    for value, without, after_pairs in ((a_last, a_piece, next_a), (b_last, b_piece, next_b)):
        value.add_incoming(without, terms)
        value.add_incoming(after_pairs, step)
    for cell in tile:
        even[cell].add_incoming(at_terms[cell], terms)
        even[cell].add_incoming(new[cell], step)
    builder.cbranch(builder.icmp_signed("!=", odd, I64(0)), last_one, joined)
    builder.position_at_end(last_one)
    one_more = multiply(a_last, whole, b_last, even, 1)
    builder.branch(joined)
    builder.position_at_end(joined)
    new = {cell: builder.phi(vector) for cell in tile}
    for cell in tile:
        new[cell].add_incoming(even[cell], pairs)
        new[cell].add_incoming(one_more[cell], last_one)
    remaining_after = builder.sub(remaining_terms, count)
    for value, next_piece in (
        (k_piece, end_piece),
        (b_piece, b_last),
        (a_piece, a_last),
        (remaining_piece, remaining_after),
        (held_piece, held_terms),
    ):
        value.add_incoming(next_piece, joined)
    for cell in tile:
        at_piece[cell].add_incoming(new[cell], joined)
    builder.cbranch(builder.icmp_signed("<", end_piece, end_k), piece, after_entry)

    builder.position_at_end(after_entry)
    e_next = builder.add(e, I64(1))
    e.add_incoming(e_next, after_entry)
    remaining.add_incoming(remaining_after, after_entry)
    held.add_incoming(held_terms, after_entry)
    for cell in tile:
        at_entry[cell].add_incoming(new[cell], after_entry)
    builder.cbranch(builder.icmp_signed("<", e_next, entries), entry, end)

    # ---- add the blocks before, then the content of C; clamp and store. The last vector may extend past the row.
    builder.position_at_end(end)

    def joined_total(i: int, j: int) -> ir.Value:
        return builder.fadd(kept((i, j)), new[i, j])

    total = conditionally(builder, several, new, joined_total)
    if paired:
        evens, odds = range(0, lanes, 2), range(1, lanes, 2)
        total = {
            cell: builder.fadd(lanes_of(value, value, evens), lanes_of(value, value, odds))
            for cell, value in total.items()
        }
    total = conditionally(builder, adding, total, lambda i, j: builder.fadd(read(rows_of_c[i], j, True), total[i, j]))
    total = finished(builder, total, bounds, residual, rows_of_c, read)
    store_cells(builder, total, rows_of_c, vectors, last_mask)
    builder.ret_void()
    return str(module)


@intrinsic
def brgemm(
    typing: Any,
    function: Any,
    table: Any,
    entries: Any,
    depth: Any,
    lda: Any,
    b: Any,
    b_step: Any,
    ldb: Any,
    c: Any,
    c_step: Any,
    tail: Any,
    init: Any,
    accumulate: Any,
    bounds: Any,
    residual: Any,
) -> Any:
    """Call the micro-kernel at the address ``function``; the arguments are those of ``ARGUMENTS``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        callee = ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(ARGUMENTS))), generate


# ---- The tiles and panels of a matrix product, each computed by its micro-kernel ------------------------------------


NO_FINISH = 0, 0, 0  # neither bounds nor a residual nor a formula


@helper
def finish_of(y, bounds, residual):  # type: ignore[no-untyped-def]
    """``finish`` of ``multiply`` for a result y; y itself stands for no bounds and for no residual.

    The last part is the address of a formula that is applied to what has been stored, or 0.
    """
    if address(bounds) == address(y):
        return 0, 0, 0
    return address(bounds), address(residual) - address(y), word_at(address(bounds) + 8 * FINISH_FORMULA)


@helper
def apply_formula(finish, at, rows, step, count):  # type: ignore[no-untyped-def]
    """Apply the formula of a finish to ``count`` elements of each of the rows: from address ``at`` on, ``step`` bytes
    apart. They have just been stored, and are still in the cache."""
    if finish[2] != 0:
        call_with_words(finish[2], finish[0] + 8 * (FINISH_FORMULA + 1), (at, rows, step, count))


@helper
def apply_formula_each(finish, table, rows, move, count):  # type: ignore[no-untyped-def]
    """The same for the rows at the addresses in a table, plus ``move``: equally spaced ones at once."""
    first = 0
    while first < rows if finish[2] != 0 else False:
        at, last = word_at(table + 8 * first), first + 1
        step = word_at(table + 8 * last) - at if last < rows else 0
        while last < rows and word_at(table + 8 * last) == at + (last - first) * step:
            last += 1
        apply_formula(finish, at + move, last - first, step, count)
        first = last


@helper
def finish_vector(value, y, at, count, residual, bounds):  # type: ignore[no-untyped-def]
    """The first ``count`` lanes of a result for ``y[at]`` and the following: plus the residual, clamped."""
    if address(bounds) != address(y):
        if address(residual) != address(y):
            value = value + load_first(residual, at, count)
        low, high = full(y, bounds[0]), full(y, bounds[1])
        value = select(value < low, low, value)
        value = select(value > high, high, value)
    return value


@helper
def finish_line(y, at, count, residual, bounds):  # type: ignore[no-untyped-def]
    """The same for ``count`` results that are stored already, and then the formula."""
    one = lanes(y)
    if address(bounds) != address(y):
        last = at + count // one * one
        for i in range(at, last, one):
            store(y, i, finish_vector(load(y, i), y, i, one, residual, bounds))
        left = at + count - last
        if left > 0:
            store_first(y, last, finish_vector(load_first(y, last, left), y, last, left, residual, bounds), left)
    apply_formula(finish_of(y, bounds, residual), address(offset(y, at)), 1, 0, count)


@helper
def begin_of_tile(tile, least, extra):  # type: ignore[no-untyped-def]
    """First row of a tile when the first ``extra`` tiles have ``least + 1`` rows and the others ``least``."""
    return tile * least + min(tile, extra)


@helper
def rows_of_tile(product, tile):  # type: ignore[no-untyped-def]
    """First row of a tile, and how many it has."""
    least, extra = product[PRODUCT.least], product[PRODUCT.extra]
    return begin_of_tile(tile, least, extra), least + (1 if tile < extra else 0)


@helper
def multiply(  # type: ignore[no-untyped-def]
    product, rows, panel, table, entries, depth, lda, b, b_step, ldb, c, c_step, init, accumulate, finish
):
    """One tile: ``rows`` rows of a panel. ``finish``: bounds and residual; the others as for the micro-kernel."""
    micro, tail = PRODUCT.whole, product[PRODUCT.lanes]
    if panel == product[PRODUCT.panels] - 1:
        micro, tail = PRODUCT.last, product[PRODUCT.tail]
    brgemm(
        product[micro + rows],
        table,
        entries,
        depth,
        lda,
        b,
        b_step,
        ldb,
        c,
        c_step,
        tail,
        init,
        accumulate,
        finish[0],
        finish[1],
    )


@helper
def multiply_panels(  # type: ignore[no-untyped-def]
    product, rows, first, last, table, entries, depth, lda, b, b_panel, b_step, ldb, c, init, accumulate, finish
):
    """The tiles of ``rows`` rows in the panels from ``first`` to ``last``.

    ``b`` is of panel 0, ``b_panel`` the step to the next one. C and ``init`` are as wide as all panels together.
    """
    for panel in range(first, last):
        column = panel * product[PRODUCT.row]
        multiply(
            product,
            rows,
            panel,
            table,
            entries,
            depth,
            lda,
            b + panel * b_panel,
            b_step,
            ldb,
            c,
            column,
            init + column,
            accumulate,
            finish,
        )
