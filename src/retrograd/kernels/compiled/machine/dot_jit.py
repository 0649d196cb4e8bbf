# mypy: ignore-errors
"""LLVM IR of the micro-kernel that adds up products of planes over positions."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .microkernel import DOT_ARGUMENTS
from .simd import (
    I64,
    declare,
    first_lanes,
    masked_load,
    suffix,
)
from .target import vector_bytes

_BYTE = ir.IntType(8).as_pointer()


def build(name: str, dtype: str, rows: int, columns: int) -> str:
    """Return the LLVM IR of a module with the kernel ``name``."""
    element = ir.FloatType() if dtype == "f" else ir.DoubleType()
    size = 4 if dtype == "f" else 8
    lanes = vector_bytes() // size
    vector = ir.VectorType(element, lanes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(DOT_ARGUMENTS)), name)
    a, a_move, a_line, b, b_move, b_line, lines, whole, tail, c, c_move = function.args
    blocks = {label: function.append_basic_block(label) for label in ("begin", "line", "vectors", "last", "end")}
    builder = ir.IRBuilder(blocks["begin"])
    fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
    add = declare(builder, f"llvm.vector.reduce.fadd.{suffix(vector)}", element, [element, vector])
    nothing = ir.Constant(vector, None)
    mask = first_lanes(builder, tail, lanes)
    tile = [(i, j) for i in range(rows) for j in range(columns)]

    def addresses(table: ir.Value, move: ir.Value, count: int) -> list[ir.Value]:
        slots = builder.inttoptr(table, I64.as_pointer())
        found = [builder.add(builder.load(builder.gep(slots, [I64(i)])), move) for i in range(count)]
        return [builder.inttoptr(value, _BYTE) for value in found]

    def read(base: ir.Value, at: ir.Value, masked: bool) -> ir.Value:
        place = builder.bitcast(builder.gep(base, [at]), vector.as_pointer())
        if masked:
            return masked_load(builder, place, mask, nothing)
        value = builder.load(place)
        value.align = size
        return value

    def step(sums: dict[Any, ir.Value], a_at: ir.Value, b_at: ir.Value, masked: bool) -> dict[Any, ir.Value]:
        b_values = [read(base, b_at, masked) for base in b_rows]
        new = {}
        for i, base in enumerate(a_rows):
            a_value = read(base, a_at, masked)
            for j in range(columns):
                new[i, j] = builder.call(fma, [a_value, b_values[j], sums[i, j]])
        return new

    a_rows, b_rows = addresses(a, a_move, rows), addresses(b, b_move, columns)
    builder.branch(blocks["line"])

    builder.position_at_end(blocks["line"])
    line, a_start, b_start = (builder.phi(I64) for _ in range(3))
    at_line = {cell: builder.phi(vector) for cell in tile}
    builder.cbranch(builder.icmp_signed(">", whole, I64(0)), blocks["vectors"], blocks["last"])

    builder.position_at_end(blocks["vectors"])
    at = builder.phi(I64)
    held = {cell: builder.phi(vector) for cell in tile}
    inside = step(held, builder.add(a_start, at), builder.add(b_start, at), False)
    at_next = builder.add(at, I64(lanes * size))
    builder.cbranch(builder.icmp_signed("<", at_next, whole), blocks["vectors"], blocks["last"])
    at.add_incoming(I64(0), blocks["line"])
    at.add_incoming(at_next, blocks["vectors"])
    for cell in tile:
        held[cell].add_incoming(at_line[cell], blocks["line"])
        held[cell].add_incoming(inside[cell], blocks["vectors"])

    builder.position_at_end(blocks["last"])
    before = {cell: builder.phi(vector) for cell in tile}
    for cell in tile:
        before[cell].add_incoming(at_line[cell], blocks["line"])
        before[cell].add_incoming(inside[cell], blocks["vectors"])
    after = step(before, builder.add(a_start, whole), builder.add(b_start, whole), True)
    next_line = builder.add(line, I64(1))
    for value, begin, following in (
        (line, I64(0), next_line),
        (a_start, I64(0), builder.add(a_start, a_line)),
        (b_start, I64(0), builder.add(b_start, b_line)),
        *((at_line[cell], nothing, after[cell]) for cell in tile),
    ):
        value.add_incoming(begin, blocks["begin"])
        value.add_incoming(following, blocks["last"])
    builder.cbranch(builder.icmp_signed("<", next_line, lines), blocks["line"], blocks["end"])

    builder.position_at_end(blocks["end"])
    for j, target in enumerate(addresses(c, c_move, columns)):
        row = builder.bitcast(target, element.as_pointer())
        for i in range(rows):
            place = builder.gep(row, [I64(i)])
            # a tree of sums: LLVM chooses its shape once, at compile time
            total = builder.call(add, [ir.Constant(element, -0.0), after[i, j]], fastmath=("reassoc",))
            builder.store(builder.fadd(builder.load(place), total), place)
    builder.ret_void()
    return str(module)


@intrinsic
def dot(
    typing: Any,
    function: Any,
    a: Any,
    a_move: Any,
    a_line: Any,
    b: Any,
    b_move: Any,
    b_line: Any,
    lines: Any,
    whole: Any,
    tail: Any,
    c: Any,
    c_move: Any,
) -> Any:
    """Call the kernel at the address ``function``; the arguments are those of ``DOT_ARGUMENTS``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        callee = ir.FunctionType(ir.VoidType(), [I64] * len(DOT_ARGUMENTS)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(DOT_ARGUMENTS))), generate
