"""LLVM IR of the batch-reduce micro-kernel, and how a kernel calls it. What it computes stands in ../microkernel.py."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..microkernel import ARGUMENTS, ROW_SLOTS
from ..simd import I32, I64, declare, first_lanes, masked_load, masked_store, splat, suffix
from ..target import vector_bytes

_BYTE = ir.IntType(8).as_pointer()
# Rows of B (and of a dense A) that are asked for ahead of use. Without it a panel that comes from L2 costs a quarter.
_AHEAD = 16
_UNROLL = 4
_SOON = (I32(0), I32(3), I32(1))  # read, into L1, data


def build(name: str, dtype: str, form: str, rows: int, vectors: int, masked: bool) -> str:
    """Text of a module with the micro-kernel ``name``."""
    element = ir.FloatType() if dtype == "f" else ir.DoubleType()
    size = 4 if dtype == "f" else 8
    lanes = vector_bytes() // size
    vector = ir.VectorType(element, lanes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS)), name)
    table, entries, depth, lda, b, b_step, ldb, c, c_step, tail, init, accumulate = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    table = builder.inttoptr(table, _BYTE)
    c = builder.inttoptr(c, _BYTE)
    fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
    prefetch = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    last_mask = first_lanes(builder, tail, lanes)
    nothing = ir.Constant(vector, None)
    tile = [(i, j) for i in range(rows) for j in range(vectors)]

    def at(base: ir.Value, offset: ir.Value | int) -> ir.Value:
        return builder.gep(base, [I64(offset) if isinstance(offset, int) else offset], inbounds=True)

    def pointer(base: ir.Value, offset: ir.Value | int) -> ir.Value:
        return builder.load(builder.bitcast(at(base, offset), _BYTE.as_pointer()))

    def read(base: ir.Value, j: int, mask: bool) -> ir.Value:
        place = builder.bitcast(at(base, j * lanes * size), vector.as_pointer())
        if mask and j == vectors - 1:
            return masked_load(builder, place, last_mask, nothing)
        value = builder.load(place)
        value.align = size
        return value

    # ---- what the tile begins with: its own content, or the same row everywhere
    own, given, begin = (function.append_basic_block(label) for label in ("own", "given", "begin"))
    rows_of_c = [at(pointer(c, 8 * i), c_step) for i in range(rows)]
    builder.cbranch(builder.icmp_signed("!=", accumulate, I64(0)), own, given)
    builder.position_at_end(own)
    from_c = {(i, j): read(rows_of_c[i], j, True) for i, j in tile}
    builder.branch(begin)
    builder.position_at_end(given)
    first = builder.inttoptr(init, _BYTE)
    from_row = [read(first, j, True) for j in range(vectors)]
    builder.branch(begin)
    builder.position_at_end(begin)
    start = {}
    for i, j in tile:
        start[i, j] = builder.phi(vector)
        start[i, j].add_incoming(from_c[i, j], own)
        start[i, j].add_incoming(from_row[j], given)
    b_pointer = builder.inttoptr(b, _BYTE)

    entry, after, end = (function.append_basic_block(label) for label in ("entry", "after", "end"))
    builder.branch(entry)

    # ---- for each entry of the table
    builder.position_at_end(entry)
    e = builder.phi(I64)
    e.add_incoming(I64(0), begin)
    at_entry = {}
    for i, j in tile:
        at_entry[i, j] = builder.phi(vector)
        at_entry[i, j].add_incoming(start[i, j], begin)
    if form == "rows":
        row = at(table, builder.mul(e, I64(8 * ROW_SLOTS)))
        a_rows = [pointer(row, 8 * i) for i in range(rows)]
        b_entry = at(b_pointer, builder.mul(e, b_step))
    else:
        row = at(table, builder.mul(e, I64(16)))
        a_entry, b_entry = at(pointer(row, 0), b_step), at(pointer(row, 8), b)

    # ---- for each k: one row of B, one scalar of each row of A. Four steps to a turn, what is left one at a time.
    start_k: dict[str, Any] = {"k": I64(0), "b": b_entry, "c": dict(at_entry)}
    behind = depth
    if form == "dense":
        start_k["a"] = a_entry
    else:
        start_k["k"] = lda
        behind = builder.add(lda, depth)
    whole = builder.sub(behind, builder.and_(depth, I64(_UNROLL - 1)))
    four, between, one = (function.append_basic_block(label) for label in ("four", "between", "one"))
    builder.cbranch(builder.icmp_signed(">", whole, start_k["k"]), four, between)
    entry_block = builder.block

    def turn(block: ir.Block, sources: list[tuple[ir.Block, dict[str, Any]]], steps: int) -> dict[str, Any]:
        """The body of a loop over k at its beginning: ``steps`` steps; gives the values after them."""
        builder.position_at_end(block)
        k, b_row = builder.phi(I64), builder.phi(_BYTE)
        held = {cell: builder.phi(vector) for cell in tile}
        a_column = builder.phi(_BYTE) if form == "dense" else None
        for origin, values in sources:
            k.add_incoming(values["k"], origin)
            b_row.add_incoming(values["b"], origin)
            if a_column is not None:
                a_column.add_incoming(values["a"], origin)
            for cell in tile:
                held[cell].add_incoming(values["c"][cell], origin)
        phis = {"k": k, "b": b_row, "a": a_column, "c": dict(held)}
        row_b, column_a, sums = b_row, a_column, dict(held)
        for step in range(steps):
            b_values = [read(row_b, j, masked) for j in range(vectors)]
            ahead = builder.gep(row_b, [builder.mul(ldb, I64(_AHEAD))])  # may lie outside of the array
            for j in range(vectors):
                builder.call(prefetch, [builder.gep(ahead, [I64(j * lanes * size)]), *_SOON])
            if column_a is not None:
                ahead = builder.gep(column_a, [builder.mul(lda, I64(_AHEAD))])
                builder.call(prefetch, [ahead, *_SOON])
                if rows > 1:
                    builder.call(prefetch, [builder.gep(ahead, [I64((rows - 1) * size)]), *_SOON])
            for i in range(rows):
                if column_a is None:
                    place = builder.gep(at(a_rows[i], builder.mul(k, I64(size))), [I64(step * size)], inbounds=True)
                else:
                    place = at(column_a, i * size)
                scalar = builder.load(builder.bitcast(place, element.as_pointer()))
                scalar.align = size
                a_value = splat(builder, scalar, vector)
                for j in range(vectors):
                    sums[i, j] = builder.call(fma, [a_value, b_values[j], sums[i, j]])
            row_b = at(row_b, ldb)
            if column_a is not None:
                column_a = at(column_a, lda)
        return {"phis": phis, "k": builder.add(k, I64(steps)), "b": row_b, "a": column_a, "c": sums}

    def join(loop: dict[str, Any], block: ir.Block) -> None:
        """The loop's values come from its own end, too."""
        loop["phis"]["k"].add_incoming(loop["k"], block)
        loop["phis"]["b"].add_incoming(loop["b"], block)
        if form == "dense":
            loop["phis"]["a"].add_incoming(loop["a"], block)
        for cell in tile:
            loop["phis"]["c"][cell].add_incoming(loop["c"][cell], block)

    fours = turn(four, [(entry_block, start_k)], _UNROLL)
    join(fours, four)
    builder.cbranch(builder.icmp_signed("<", fours["k"], whole), four, between)

    builder.position_at_end(between)
    middle: dict[str, Any] = {
        "k": builder.phi(I64),
        "b": builder.phi(_BYTE),
        "c": {cell: builder.phi(vector) for cell in tile},
    }
    if form == "dense":
        middle["a"] = builder.phi(_BYTE)
    for origin, values in ((entry_block, start_k), (four, fours)):
        for name_ in ("k", "b", "a") if form == "dense" else ("k", "b"):
            middle[name_].add_incoming(values[name_], origin)
        for cell in tile:
            middle["c"][cell].add_incoming(values["c"][cell], origin)
    builder.cbranch(builder.icmp_signed("<", middle["k"], behind), one, after)

    ones = turn(one, [(between, middle)], 1)
    join(ones, one)
    builder.cbranch(builder.icmp_signed("<", ones["k"], behind), one, after)

    builder.position_at_end(after)
    new = {}
    for cell in tile:
        new[cell] = builder.phi(vector)
        new[cell].add_incoming(middle["c"][cell], between)
        new[cell].add_incoming(ones["c"][cell], one)
    e_next = builder.add(e, I64(1))
    e.add_incoming(e_next, after)
    for i, j in tile:
        at_entry[i, j].add_incoming(new[i, j], after)
    builder.cbranch(builder.icmp_signed("<", e_next, entries), entry, end)

    # ---- store; the last vector may reach beyond the row
    builder.position_at_end(end)
    for i, j in tile:
        place = builder.bitcast(at(rows_of_c[i], j * lanes * size), vector.as_pointer())
        if j == vectors - 1:
            masked_store(builder, new[i, j], place, last_mask)
        else:
            builder.store(new[i, j], place).align = size
    builder.ret_void()
    return str(module)


@intrinsic
def brgemm(
    typing: Any, function: Any, table: Any, entries: Any, depth: Any, lda: Any, b: Any, b_step: Any, ldb: Any, c: Any,
    c_step: Any, tail: Any, init: Any, accumulate: Any,
) -> Any:  # fmt: skip
    """Call the micro-kernel at the address ``function``; the arguments are those of ``ARGUMENTS``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        callee = ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(ARGUMENTS))), generate
