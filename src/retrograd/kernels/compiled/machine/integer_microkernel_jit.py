# mypy: ignore-errors
"""LLVM IR of the micro-kernel of small integers, and how a kernel calls it. Its definition is in microkernel.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .microkernel import BYTES, INTEGER_ARGUMENTS, ROW_SLOTS, WORD
from .simd import I32, I64, declare, first_lanes, masked_load, masked_store, splat
from .target import integer_bytes

I8, I16 = ir.IntType(8), ir.IntType(16)
_BYTE = I8.as_pointer()
_MOST = 31  # words whose bits, at most 8 of a byte each, a byte can count
_PAIRS = {16: "llvm.x86.sse2.pmadd.wd", 32: "llvm.x86.avx2.pmadd.wd", 64: "llvm.x86.avx512.pmaddw.d.512"}


def build(name: str, result: str, element: str, kind: str, rows: int, vectors: int) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``."""
    size = integer_bytes()
    vector = ir.VectorType(I32, size // WORD)
    written = _written(result, vector.count)
    wide = vector.count // 8 if result == "t" else vector.count * BYTES[result[0]]  # bytes
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(INTEGER_ARGUMENTS)), name)
    table, entries, words, move, b, starts, starts_step, c, c_step, tail, scale, bias, factors = function.args
    labels = ("begin", "entry", "piece", "step", "counted", "flush", "kept", "next", "end")
    blocks = {label: function.append_basic_block(label) for label in labels}
    builder = ir.IRBuilder(blocks["begin"])
    table, b, starts, c = (builder.inttoptr(address, _BYTE) for address in (table, b, starts, c))
    scale, bias, factors = (builder.inttoptr(address, _BYTE) for address in (scale, bias, factors))
    tile = [(i, j) for i in range(rows) for j in range(vectors)]
    nothing = ir.Constant(vector, None)
    in_bytes = kind == "bytes"  # which can overflow: the counts are added to C from time to time
    prepare, multiply = _PRODUCTS[kind](builder, vector, element)

    def at(base: ir.Value, offset: ir.Value) -> ir.Value:
        return builder.gep(base, [offset], inbounds=True)

    def row_of(table: ir.Value, i: int, move: ir.Value) -> ir.Value:
        slots = builder.bitcast(table, _BYTE.as_pointer())
        return at(builder.load(builder.gep(slots, [I64(i)])), move)

    def cell(base: ir.Value, j: int) -> ir.Value:
        return builder.bitcast(at(base, I64(j * size)), vector.as_pointer())

    def phi(kind: ir.Type, **incoming: ir.Value) -> ir.Value:
        value = builder.phi(kind)
        for label, given in incoming.items():
            value.add_incoming(given, blocks[label])
        return value

    def sums(**incoming: dict[Any, ir.Value]) -> dict[Any, ir.Value]:
        return {one: phi(vector, **{label: given[one] for label, given in incoming.items()}) for one in tile}

    def read(place: ir.Value, align: int) -> ir.Value:
        value = builder.load(place)
        value.align = align
        return value

    def add_counts(counts: dict[Any, ir.Value]) -> dict[Any, ir.Value]:
        return {one: builder.add(read(kept[one], WORD), _sum_of_bytes(builder, counts[one])) for one in tile}

    zeros = dict.fromkeys(tile, nothing)
    kept = {}
    if in_bytes:
        memory = builder.alloca(vector, len(tile))
        for n, one in enumerate(tile):
            kept[one] = builder.gep(memory, [I64(n)])
            builder.store(nothing, kept[one]).align = WORD
    most = I64(_MOST) if in_bytes else words
    largest = builder.select(builder.icmp_signed("<", words, most), words, most)  # words of a piece, at most
    builder.branch(blocks["entry"])

    builder.position_at_end(blocks["entry"])
    e, b_entry, used_entry = phi(I64, begin=I64(0)), phi(_BYTE, begin=b), phi(I64, begin=I64(0))
    at_entry = sums(begin=zeros)
    rows_of_entry = at(table, builder.mul(e, I64(8 * ROW_SLOTS)))
    a_rows = [row_of(rows_of_entry, i, move) for i in range(rows)]
    builder.branch(blocks["piece"])

    # ---- a piece of the entry: as many words as the byte counters can count
    builder.position_at_end(blocks["piece"])
    begin, b_piece = phi(I64, entry=I64(0)), phi(_BYTE, entry=b_entry)
    used, at_piece = phi(I64, entry=used_entry), sums(entry=at_entry)
    left = builder.sub(words, begin)
    count = builder.select(builder.icmp_signed("<", left, largest), left, largest)
    stop = builder.add(begin, count)
    builder.branch(blocks["step"])

    # ---- for each word: one row of B, one word of each row of A
    builder.position_at_end(blocks["step"])
    k, b_row, held = phi(I64, piece=begin), phi(_BYTE, piece=b_piece), sums(piece=at_piece)
    b_values = []
    for j in range(vectors):
        b_values.append(prepare(read(cell(b_row, j), WORD)))
    new = {}
    for i, row in enumerate(a_rows):
        word = read(builder.bitcast(at(row, builder.mul(k, I64(WORD))), I32.as_pointer()), 1)
        a_value = prepare(splat(builder, word, vector), True)
        for j in range(vectors):
            new[i, j] = multiply(held[i, j], a_value, b_values[j])
    k_next, b_next = builder.add(k, I64(1)), at(b_row, I64(vectors * size))
    for value, after in ((k, k_next), (b_row, b_next), *((held[one], new[one]) for one in tile)):
        value.add_incoming(after, blocks["step"])
    builder.cbranch(builder.icmp_signed("<", k_next, stop), blocks["step"], blocks["counted"])

    builder.position_at_end(blocks["counted"])
    used_now = builder.add(used, count)
    full = builder.icmp_signed(">", builder.add(used_now, largest), I64(_MOST)) if in_bytes else ir.IntType(1)(0)
    builder.cbranch(full, blocks["flush"], blocks["kept"])
    builder.position_at_end(blocks["flush"])
    if in_bytes:
        for one, value in add_counts(new).items():
            builder.store(value, kept[one]).align = WORD
    builder.branch(blocks["kept"])
    builder.position_at_end(blocks["kept"])
    used_after, after = phi(I64, counted=used_now, flush=I64(0)), sums(counted=new, flush=zeros)
    for value, following in (
        (begin, stop),
        (b_piece, b_next),
        (used, used_after),
        *((at_piece[one], after[one]) for one in tile),
    ):
        value.add_incoming(following, blocks["kept"])
    builder.cbranch(builder.icmp_signed("<", stop, words), blocks["piece"], blocks["next"])

    builder.position_at_end(blocks["next"])
    e_next = builder.add(e, I64(1))
    for value, following in (
        (e, e_next),
        (b_entry, b_next),
        (used_entry, used_after),
        *((at_entry[one], after[one]) for one in tile),
    ):
        value.add_incoming(following, blocks["next"])
    builder.cbranch(builder.icmp_signed("<", e_next, entries), blocks["entry"], blocks["end"])

    builder.position_at_end(blocks["end"])
    total = add_counts(after) if in_bytes else after
    last, branches = first_lanes(builder, tail, vector.count), [function.append_basic_block() for _ in range(2)]
    builder.cbranch(builder.icmp_signed("<", tail, I64(vector.count)), *branches)
    for branch, part in zip(
        branches, (True, False), strict=True
    ):  # what a masked store wrote is slow to load soon after
        builder.position_at_end(branch)

        def columns(base: ir.Value, j: int, kind: ir.VectorType, part: bool = part) -> ir.Value:
            """Those of vector j of a row of numbers."""
            bytes = vector.count * (8 if kind.element == ir.DoubleType() else WORD)
            place = builder.bitcast(at(base, I64(j * bytes)), kind.as_pointer())
            if part and j == vectors - 1:
                return masked_load(builder, place, last, ir.Constant(kind, None))
            return read(place, WORD)

        finish = _finished(builder, result, columns, scale, bias, factors, vector.count)
        for i in range(rows):
            start, row, of_row = row_of(starts, i, starts_step), row_of(c, i, c_step), finish(i)
            for j in range(vectors):
                value = total[i, j]
                if element == "binary":
                    value = builder.mul(value, ir.Constant(vector, [-2] * vector.count))
                value = of_row(builder.add(read(cell(start, j), WORD), value), j)
                place = builder.bitcast(at(row, I64(j * wide)), written.as_pointer())
                if result == "t":
                    value = builder.and_(value, last) if part and j == vectors - 1 else value
                    builder.store(builder.bitcast(value, written), place).align = 1
                elif part and j == vectors - 1:
                    masked_store(builder, value, place, last)
                else:
                    builder.store(value, place).align = 1
        builder.ret_void()
    return str(module)


# ---- what is written: sums, floating-point numbers, codes, or bits
_NUMBERS = {"i": I32, "f": ir.FloatType(), "d": ir.DoubleType(), "b": I8, "h": I16}


def _written(result: str, lanes: int) -> ir.Type:
    """The type in memory of one vector of results."""
    return ir.IntType(lanes) if result == "t" else ir.VectorType(_NUMBERS[result[0]], lanes)


def _finished(
    builder: ir.IRBuilder,
    result: str,
    columns: Callable[..., ir.Value],
    scale: ir.Value,
    bias: ir.Value,
    factors: ir.Value,
    lanes: int,
) -> Callable[[int], Callable[[ir.Value, int], ir.Value]]:
    """A function of a row: a function of a vector of sums and its place, which gives what is written."""
    kind = ir.VectorType(ir.DoubleType() if result[0] == "d" else ir.FloatType(), lanes)
    sums = ir.VectorType(I32, lanes)

    def everywhere(address: ir.Value, place: int) -> ir.Value:
        """A number in memory in every lane."""
        pointer = builder.bitcast(address, kind.element.as_pointer())
        return splat(builder, builder.load(builder.gep(pointer, [I64(place)])), kind)

    def scaled(value: ir.Value, j: int) -> ir.Value:
        return builder.fmul(builder.sitofp(value, kind), columns(scale, j, kind))  # rounded: nothing is fused

    def numbers(i: int) -> Callable[[ir.Value, int], ir.Value]:
        slots, factor = builder.bitcast(factors, _BYTE.as_pointer()), None
        if "k" in result:
            factor = everywhere(builder.load(builder.gep(slots, [I64(i)])), 0)

        def number(value: ir.Value, j: int) -> ir.Value:
            value = scaled(value, j)
            value = value if factor is None else builder.fmul(value, factor)
            return builder.fadd(value, columns(bias, j, kind)) if "b" in result else value

        return number

    def code(value: ir.Value, j: int) -> ir.Value:
        q = builder.fadd(builder.call(nearest, [scaled(value, j)]), zero_point)
        q = builder.select(builder.fcmp_ordered(">=", q, low), q, low)
        q = builder.select(builder.fcmp_ordered("<=", q, high), q, high)
        return builder.trunc(builder.fptosi(q, sums), _written(result, lanes))

    def bit(value: ir.Value, j: int) -> ir.Value:
        flip = builder.icmp_signed("!=", columns(bias, j, sums), ir.Constant(sums, None))
        return builder.xor(builder.icmp_signed(">=", value, columns(scale, j, sums)), flip)

    if result in "bh":
        zero_point, low, high = (everywhere(bias, place) for place in range(3))
        nearest = declare(builder, f"llvm.rint.v{lanes}f32", kind, [kind])
    return numbers if result[0] in "fd" else lambda i: {"i": lambda value, j: value, "t": bit}.get(result, code)


# ---- the products: (prepare, multiply); prepare(value, of_a) is applied once to each register that is read
Prepare = Callable[..., Any]
Products = tuple[Prepare, Callable[[ir.Value, Any, Any], ir.Value]]


def _as_is(value: ir.Value, of_a: bool = False) -> ir.Value:
    return value


def _bits(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    count = declare(builder, f"llvm.ctpop.v{vector.count}i32", vector, [vector])
    return _as_is, lambda total, a, b: builder.add(total, builder.call(count, [builder.xor(a, b)]))


def _bytes(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    bytes = ir.VectorType(I8, WORD * vector.count)
    count = declare(builder, f"llvm.ctpop.v{bytes.count}i8", bytes, [bytes])

    def multiply(total: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        counted = builder.call(count, [builder.bitcast(builder.xor(a, b), bytes)])
        return builder.bitcast(builder.add(builder.bitcast(total, bytes), counted), vector)

    return _as_is, multiply


def _sum_of_bytes(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The sum of the four bytes of each lane."""
    for bits, mask in ((8, 0x00FF00FF), (16, 0x0000FFFF)):
        lane = ir.Constant(value.type, [mask] * value.type.count)
        high = builder.lshr(value, ir.Constant(value.type, [bits] * value.type.count))
        value = builder.add(builder.and_(value, lane), builder.and_(high, lane))
    return value


def _dot(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    """VNNI. (LLVM knows the intrinsics of AVX-VNNI by these names, too.)"""
    job = {"int8": "vpdpbusd", "int16": "vpdpwssd"}[element]
    function = declare(builder, f"llvm.x86.avx512.{job}.{32 * vector.count}", vector, [vector] * 3)
    return _as_is, lambda total, a, b: builder.call(function, [total, a, b])


def _pairs(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    """Products of int16, added in pairs. Bytes are widened: vpmaddubsw, which need not, saturates."""
    halves = ir.VectorType(I16, 2 * vector.count)
    function = declare(builder, _PAIRS[WORD * vector.count], vector, [halves, halves])
    eight, low = ir.Constant(halves, [8] * halves.count), ir.Constant(halves, [255] * halves.count)

    def prepare(value: ir.Value, of_a: bool = False) -> list[ir.Value]:
        value = builder.bitcast(value, halves)
        if element == "int16":
            return [value]
        if of_a:
            return [builder.and_(value, low), builder.lshr(value, eight)]
        return [builder.ashr(builder.shl(value, eight), eight), builder.ashr(value, eight)]

    def multiply(total: ir.Value, a: list[ir.Value], b: list[ir.Value]) -> ir.Value:
        for pair in zip(a, b, strict=True):
            total = builder.add(total, builder.call(function, pair))
        return total

    return prepare, multiply


def _lanes(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    """The numbers of a word one after the other, each in the whole lane: for any CPU."""
    width = {"int8": 8, "int16": 16}[element]

    def shift(operation: Callable[..., ir.Value], value: ir.Value, bits: int) -> ir.Value:
        return operation(value, ir.Constant(vector, [bits] * vector.count)) if bits else value

    def prepare(value: ir.Value, of_a: bool = False) -> list[ir.Value]:
        unsigned = of_a and element == "int8"
        down = builder.lshr if unsigned else builder.ashr
        raised = (shift(builder.shl, value, 32 - width - first) for first in range(0, 32, width))
        return [shift(down, one, 32 - width) for one in raised]

    def multiply(total: ir.Value, a: list[ir.Value], b: list[ir.Value]) -> ir.Value:
        for x, y in zip(a, b, strict=True):
            total = builder.add(total, builder.mul(x, y))
        return total

    return prepare, multiply


def _sdot(builder: ir.IRBuilder, vector: ir.VectorType, element: str) -> Products:
    """Arm's dot product of signed bytes: 128 is subtracted from those of A."""
    bytes = ir.VectorType(I8, WORD * vector.count)
    function = declare(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", vector, [vector, bytes, bytes])
    sign = ir.Constant(bytes, [0x80] * bytes.count)

    def prepare(value: ir.Value, of_a: bool = False) -> ir.Value:
        value = builder.bitcast(value, bytes)
        return builder.xor(value, sign) if of_a else value

    return prepare, lambda total, a, b: builder.call(function, [total, a, b])


_PRODUCTS: dict[str, Callable[..., Products]] = {
    "bits": _bits,
    "bytes": _bytes,
    "dot": _dot,
    "pairs": _pairs,
    "lanes": _lanes,
    "sdot": _sdot,
}


@intrinsic
def dot(
    typing: Any,
    function: Any,
    table: Any,
    entries: Any,
    words: Any,
    move: Any,
    b: Any,
    starts: Any,
    starts_step: Any,
    c: Any,
    c_step: Any,
    tail: Any,
    scale: Any,
    bias: Any,
    factors: Any,
) -> Any:
    """Call the micro-kernel at the address ``function``; the arguments are those of ``INTEGER_ARGUMENTS``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        callee = ir.FunctionType(ir.VoidType(), [I64] * len(INTEGER_ARGUMENTS)).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(INTEGER_ARGUMENTS))), generate
