# mypy: ignore-errors
"""LLVM IR of the micro-kernels of thin products, and their tasks; see thin_product.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .machine.compiler import Array, Table, helper
from .machine.microkernel import registers
from .machine.microkernel_jit import apply_formula, clamped, finish_line, finish_of
from .machine.simd import (
    I32,
    I64,
    address,
    buffer,
    declare,
    first_lanes,
    fma,
    full,
    lanes,
    load,
    load_first,
    masked_load,
    masked_store,
    offset,
    splat,
    store,
    store_first,
    suffix,
)
from .machine.target import vector_bytes
from .matmul import PART
from .memory.packing_jit import pack_block
from .thin_product import BLOCK, DOT_ARGUMENTS, DOTS, LINE_BLOCK, LINES, STACK, STRIP_ARGUMENTS, STRIPS

_BYTE = ir.IntType(8).as_pointer()
_LINE, _AHEAD = 64, 8  # bytes of a line of the cache; rows of B to prefetch


class _Kernel:
    """The function of a micro-kernel while it is built. Variables are memory, which LLVM turns into registers."""

    def __init__(self, name: str, dtype: str, arguments: tuple[str, ...], lanes: int) -> None:
        self.element = ir.FloatType() if dtype == "f" else ir.DoubleType()
        self.size = 4 if dtype == "f" else 8
        self.lanes = lanes
        self.vector = ir.VectorType(self.element, self.lanes)
        self.module = ir.Module(name)
        self.module.triple = llvm.get_process_triple()
        self.function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [I64] * len(arguments)), name)
        self.begin = ir.IRBuilder(self.function.append_basic_block("begin"))
        self.build = ir.IRBuilder(self.function.append_basic_block("body"))
        self.fma = declare(self.build, f"llvm.fma.{suffix(self.vector)}", self.vector, [self.vector] * 3)
        self.zero = ir.Constant(self.vector, None)

    def variable(self, value: ir.Value) -> ir.Value:
        memory = self.begin.alloca(value.type)
        self.build.store(value, memory)
        return memory

    def get(self, variable: ir.Value) -> ir.Value:
        return self.build.load(variable)

    def add(self, variable: ir.Value, value: ir.Value) -> None:
        self.build.store(self.build.add(self.build.load(variable), value), variable)

    def label(self) -> ir.Block:
        return self.function.append_basic_block()

    @contextmanager
    def loop(self, condition: Callable[[], ir.Value]) -> Iterator[None]:
        """Repeat the block while ``condition`` holds."""
        head, body, end = self.label(), self.label(), self.label()
        self.build.branch(head)
        self.build.position_at_end(head)
        self.build.cbranch(condition(), body, end)
        self.build.position_at_end(body)
        yield
        self.build.branch(head)
        self.build.position_at_end(end)

    @contextmanager
    def count(self, first: ir.Value, last: ir.Value) -> Iterator[ir.Value]:
        """Repeat the block with an index from ``first`` to before ``last``."""
        index = self.variable(first)
        with self.loop(lambda: self.build.icmp_signed("<", self.get(index), last)):
            yield self.get(index)
            self.add(index, I64(1))

    def read(self, address: ir.Value, kind: ir.Type | None = None) -> ir.Value:
        """A vector, or a value of another ``kind``, from an address."""
        value = self.build.load(self.build.inttoptr(address, (kind or self.vector).as_pointer()))
        value.align = self.size
        return value

    def write(self, value: ir.Value, address: ir.Value) -> None:
        self.build.store(value, self.build.inttoptr(address, value.type.as_pointer())).align = self.size

    def source(self) -> str:
        self.build.ret_void()
        self.begin.branch(self.function.blocks[1])
        return str(self.module)

    def finished(
        self, cells: dict[Any, ir.Value], arguments: dict[str, ir.Value], read: Callable[[Any, ir.Value], ir.Value]
    ) -> dict[Any, ir.Value]:
        """The cells plus the residual, clamped; ``read`` reads what belongs to a cell, so many bytes after C."""
        build, variables = self.build, {cell: self.variable(value) for cell, value in cells.items()}
        bounds, residual = arguments["bounds"], arguments["residual"]
        with build.if_then(build.icmp_signed("!=", bounds, I64(0))):
            with build.if_then(build.icmp_signed("!=", residual, I64(0))):
                for cell, place in variables.items():
                    build.store(build.fadd(self.get(place), read(cell, residual)), place)
            before = {(at, 0): self.get(place) for at, place in enumerate(variables.values())}
            after = clamped(build, before, bounds)
            for value, place in zip(after.values(), variables.values(), strict=True):
                build.store(value, place)
        return {cell: self.get(place) for cell, place in variables.items()}

    def sums(
        self,
        cells: list[Any],
        start: dict[Any, ir.Value],
        depth: ir.Value,
        unit: int,
        phases: int,
        step: int,
        multiply: Callable[[int, ir.Value | None, Callable[[int, Any], ir.Value]], None],
    ) -> dict[Any, ir.Value]:
        """The sums of ``depth`` terms for all cells.

        ``multiply(units, few, sum_of)`` adds so many units of terms, or the ``few`` last terms of a unit; unit i of a
        cell goes to the variable ``sum_of(i, cell)``. The units take turns in ``phases`` sums, so that an addition
        does not wait for the one before. Long sums are blocked, as in microkernel.py.
        """
        build = self.build
        parts = {
            (p, cell): self.variable(start[cell] if p == 0 else self.zero) for p in range(phases) for cell in cells
        }
        kept = {cell: self.begin.alloca(self.vector) for cell in cells}
        for cell, memory in kept.items():  # hidden from LLVM, so that it stays in memory
            kept[cell] = self.begin.asm(ir.FunctionType(memory.type, [memory.type]), "", "=r,0", [memory], True)
        most = BLOCK * phases * unit
        several = build.icmp_signed(">", depth, I64(most))

        def joined(cell: Any) -> ir.Value:
            values = [self.get(parts[p, cell]) for p in range(phases)]
            while len(values) > 1:
                values = [build.fadd(x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
            return values[0]

        def sum_of(i: int, cell: Any) -> ir.Value:
            return parts[i % phases, cell]

        with build.if_then(several, likely=False):
            for cell in cells:
                build.store(self.zero, kept[cell])
        left = self.variable(depth)
        with self.loop(lambda: build.icmp_signed(">", self.get(left), I64(0))):
            count = build.select(build.icmp_signed("<", self.get(left), I64(most)), self.get(left), I64(most))
            todo = self.variable(count)
            for units in dict.fromkeys((step, 1)):
                with self.loop(lambda units=units: build.icmp_signed(">=", self.get(todo), I64(units * unit))):
                    multiply(units, None, sum_of)
                    self.add(todo, I64(-units * unit))
            if unit > 1:
                with build.if_then(build.icmp_signed(">", self.get(todo), I64(0))):
                    multiply(1, self.get(todo), sum_of)
            self.add(left, build.neg(count))
            with build.if_then(build.icmp_signed(">", self.get(left), I64(0)), likely=False):
                for cell in cells:
                    build.store(build.fadd(build.load(kept[cell]), joined(cell)), kept[cell])
                    for p in range(phases):
                        build.store(self.zero, parts[p, cell])
        result = {cell: self.variable(joined(cell)) for cell in cells}
        with build.if_then(several, likely=False):
            for cell in cells:
                build.store(build.fadd(build.load(kept[cell]), self.get(result[cell])), result[cell])
        return {cell: self.get(value) for cell, value in result.items()}


# ---- Strips: rows of vectors of C, for each k a row of B times an element of each row of A -------------------------


def build_strip(
    name: str, dtype: str, dense: bool, rows: int, vectors: int, lanes: int, phases: int, masked: bool, far: bool
) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``.

    ``dense``: the columns of A are contiguous, not its rows. ``lanes``: of a vector. ``masked``: C is narrower than
    one. ``far``: B comes from memory that the CPU does not prefetch by itself, pieces of rows.
    """
    code = _Kernel(name, dtype, STRIP_ARGUMENTS, lanes)
    build, size, at = code.build, code.size, code.build.add
    arguments = dict(zip(STRIP_ARGUMENTS, code.function.args, strict=True))
    a_step, ldb, c_row, last = (arguments[key] for key in ("a_step", "ldb", "c_row", "last"))
    cells = [(i, j) for i in range(rows) for j in range(vectors)]
    wide = code.lanes * size
    places = [I64(j * wide) for j in range(vectors - 1)] + [last]
    mask = first_lanes(build, arguments["tail"], code.lanes) if masked else None

    def read(base: ir.Value, j: int) -> ir.Value:
        place = at(base, places[j])
        if mask is None:
            return code.read(place)
        return masked_load(build, build.inttoptr(place, code.vector.as_pointer()), mask, code.zero)

    prefetch = declare(build, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    b_ahead = build.mul(ldb, I64(_AHEAD))
    a_tile, c_tile = code.variable(arguments["a"]), code.variable(arguments["c"])
    with code.count(I64(0), arguments["tiles"]):
        with code.count(arguments["first"], arguments["end"]) as panel:
            column = build.mul(panel, arguments["panel"])
            moved = arguments["last_panel"]
            column = build.select(build.icmp_signed("<", column, moved), column, moved)
            first = [read(at(arguments["init"], column), j) for j in range(vectors)]
            b_row, a_k = code.variable(at(arguments["b"], column)), code.variable(I64(0))
            base = code.get(a_tile)
            a_rows = [at(base, I64(i * size) if dense else build.mul(a_step, I64(i))) for i in range(rows)]

            def multiply(units: int, few: None, sum_of: Callable[[int, Any], ir.Value]) -> None:
                b_at, a_at = code.get(b_row), code.get(a_k)
                for unit in range(units):
                    values = [read(b_at, j) for j in range(vectors)]
                    for j in range(0, vectors, max(1, _LINE // wide)) if far else ():
                        place = build.inttoptr(at(at(b_at, places[j]), b_ahead), _BYTE)
                        build.call(prefetch, [place, I32(0), I32(3), I32(1)])
                    for i in range(rows):
                        scalar = code.read(at(a_rows[i], a_at), code.element)
                        factor = splat(build, scalar, code.vector)
                        for j in range(vectors):
                            total = sum_of(unit, (i, j))
                            build.store(build.call(code.fma, [factor, values[j], code.get(total)]), total)
                    b_at, a_at = at(b_at, ldb), at(a_at, a_step if dense else I64(size))
                build.store(b_at, b_row)
                build.store(a_at, a_k)

            step = max(phases, 4 if len(cells) <= 4 else 2)
            sums = code.sums(cells, {(i, j): first[j] for i, j in cells}, arguments["depth"], 1, phases, step, multiply)
            target = [at(at(code.get(c_tile), column), build.mul(c_row, I64(i))) for i in range(rows)]

            def read_residual(cell: tuple[int, int], residual: ir.Value) -> ir.Value:
                return read(at(target[cell[0]], residual), cell[1])

            sums = code.finished(sums, arguments, read_residual)

            def write(with_mask: bool) -> None:
                for i, j in cells:
                    place = at(target[i], places[j])
                    if with_mask:
                        masked_store(build, sums[i, j], build.inttoptr(place, code.vector.as_pointer()), mask)
                    else:
                        code.write(sums[i, j], place)

            if not masked or registers() == 32:
                write(masked)
            else:  # masked stores are slow; each row overwrites what the one before wrote to it
                end = at(target[-1], I64(wide))
                with build.if_else(build.icmp_signed("<=", end, arguments["c_end"])) as (inside, border):
                    with inside:
                        write(False)
                    with border:
                        write(True)
        code.add(a_tile, I64(rows * size) if dense else build.mul(a_step, I64(rows)))
        code.add(c_tile, build.mul(c_row, I64(rows)))
    return code.source()


# ---- Dots: rows of A times rows of B, both contiguous --------------------------------------------------------------


def build_dots(name: str, dtype: str, rows: int, columns: int, phases: int, ahead: int) -> str:
    """Return the LLVM IR of a module with the micro-kernel ``name``, which prefetches ``ahead`` lines for each unit."""
    code = _Kernel(name, dtype, DOT_ARGUMENTS, vector_bytes() // (4 if dtype == "f" else 8))
    build, size, lanes, at = code.build, code.size, code.lanes, code.build.add
    arguments = dict(zip(DOT_ARGUMENTS, code.function.args, strict=True))
    a_row, b_row, c_row = (arguments[key] for key in ("a_row", "b_row", "c_row"))
    cells = [(i, j) for i in range(rows) for j in range(columns)]
    part = ir.VectorType(code.element, columns)
    prefetch = declare(build, "llvm.prefetch.p0", ir.VoidType(), [_BYTE, I32, I32, I32])
    line_ahead = code.variable(arguments["ahead"])
    a_tile, c_line = code.variable(arguments["a"]), code.variable(arguments["c"])
    with code.count(I64(0), arguments["a_tiles"]):
        b_tile, column = code.variable(arguments["b"]), code.variable(I64(0))
        with code.count(I64(0), arguments["b_tiles"]):
            at_k = code.variable(I64(0))
            a_rows = [at(code.get(a_tile), build.mul(a_row, I64(i))) for i in range(rows)]
            b_rows = [at(code.get(b_tile), build.mul(b_row, I64(j))) for j in range(columns)]

            def multiply(units: int, few: ir.Value | None, sum_of: Callable[[int, Any], ir.Value]) -> None:
                place = code.get(at_k)
                mask = None if few is None else first_lanes(build, few, lanes)

                def read(base: ir.Value) -> ir.Value:
                    if mask is None:
                        return code.read(at(base, place))
                    pointer = build.inttoptr(at(base, place), code.vector.as_pointer())
                    return masked_load(build, pointer, mask, code.zero)

                for unit in range(units):
                    factors = [read(base) for base in b_rows]
                    for i, base in enumerate(a_rows):
                        value = read(base)
                        for j in range(columns):
                            total = sum_of(unit, (i, j))
                            build.store(build.call(code.fma, [value, factors[j], code.get(total)]), total)
                    place = at(place, I64(lanes * size))
                    for _ in range(ahead):
                        line = build.inttoptr(code.get(line_ahead), _BYTE)
                        build.call(prefetch, [line, I32(0), I32(2), I32(1)])
                        code.add(line_ahead, arguments["ahead_step"])
                build.store(place, at_k)

            zeros = dict.fromkeys(cells, code.zero)
            sums = code.sums(cells, zeros, arguments["depth"], lanes, phases, phases, multiply)
            totals = _totals(build, [sums[cell] for cell in cells], code.vector)
            places = [at(at(code.get(c_line), code.get(column)), build.mul(c_row, I64(i))) for i in range(rows)]
            lines = {}
            for i in range(rows):
                chosen = ir.Constant(ir.VectorType(I32, columns), [i * columns + j for j in range(columns)])
                line = build.shuffle_vector(totals, ir.Constant(code.vector, ir.Undefined), chosen)
                start = code.read(at(arguments["init"], code.get(column)), part)
                lines[i] = build.fadd(start, line)

            def read_residual(i: int, residual: ir.Value) -> ir.Value:
                return code.read(at(places[i], residual), part)

            for i, line in code.finished(lines, arguments, read_residual).items():
                code.write(line, places[i])
            code.add(b_tile, build.mul(b_row, I64(columns)))
            code.add(column, I64(columns * size))
        code.add(a_tile, build.mul(a_row, I64(rows)))
        code.add(c_line, build.mul(c_row, I64(rows)))
    return code.source()


def _totals(build: ir.IRBuilder, values: list[ir.Value], vector: ir.VectorType) -> ir.Value:
    """Lane i is the sum of the lanes of value i, a tree in a fixed order."""
    values = values + [ir.Constant(vector, None)] * (vector.count - len(values))
    part = vector.count  # lanes left of each
    while part > 1:  # two vectors become one: the low half of each part onto the high one
        low = [k for k in range(2 * vector.count) if k % part < part // 2]
        masks = [ir.Constant(ir.VectorType(I32, vector.count), [k + m for k in low]) for m in (0, part // 2)]
        values = [
            build.fadd(*(build.shuffle_vector(x, y, mask) for mask in masks))
            for x, y in zip(values[::2], values[1::2], strict=True)
        ]
        part //= 2
    return values[0]


# ---- Tasks ---------------------------------------------------------------------------------------------------------


def _caller(count: int) -> Any:
    @intrinsic
    def call(typing: Any, function: Any, arguments: Any) -> Any:
        """Call the micro-kernel at the address ``function``."""

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            callee = ir.FunctionType(ir.VoidType(), [I64] * count).as_pointer()
            values = [builder.extract_value(args[1], i) for i in range(count)]
            builder.call(builder.inttoptr(args[0], callee), values)
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.int64, count)), generate

    return call


_strip, _dots = _caller(len(STRIP_ARGUMENTS)), _caller(len(DOT_ARGUMENTS))
_on_stack = buffer(STACK)


def strips(
    task: int,
    worker: int,
    a: Array,
    b: Array,
    init: Array,
    c: Array,
    packed: Array,
    packed_words: int,
    plan: Table,
    residual: Array,
    bounds: Array,
) -> None:
    """Tiles and panels of ``c = init + a @ b``, each tile from its first to its last panel."""
    size, depth, columns, packing = plan[STRIPS.size], plan[STRIPS.depth], plan[STRIPS.columns], plan[STRIPS.packing]
    a_tile_row, a_step, c_row = plan[STRIPS.a_row] * size, plan[STRIPS.a_step] * size, columns * size
    high, extra = plan[STRIPS.least] + 1, plan[STRIPS.extra]
    copy = offset(packed, worker * packed_words) if packed_words > 0 else _on_stack(packed)
    finish = finish_of(c, bounds, residual)
    for part in range(task * plan[STRIPS.each], min(plan[STRIPS.count], (task + 1) * plan[STRIPS.each])):
        at = STRIPS.parts + PART.words * part
        b_at, ldb = address(b) + plan[at + PART.b] * size, plan[STRIPS.b_depth] * size
        if packing != 0:
            pack_block(
                b, plan[at + PART.b], plan[STRIPS.b_depth], plan[STRIPS.b_column], depth, columns, copy, 0, packing
            )
            b_at, ldb = address(copy), packing * size
        first, end = plan[at + PART.tile_first], plan[at + PART.tile_last]
        c_end = address(c) + plan[at + PART.c] * size + (end * (high - 1) + min(end, extra)) * c_row
        for panel in range(plan[at + PART.panel_first], plan[at + PART.panel_last], plan[STRIPS.group]):
            for short in range(2):  # tiles of the larger height come first
                begin, stop = (max(first, extra), end) if short else (first, min(end, extra))
                if begin < stop:
                    row, row_end = begin * (high - 1) + min(begin, extra), stop * (high - 1) + min(stop, extra)
                    panel_end = min(panel + plan[STRIPS.group], plan[at + PART.panel_last])
                    c_at = address(c) + plan[at + PART.c] * size + row * c_row
                    _strip(
                        plan[STRIPS.short if short else STRIPS.tall],
                        (
                            address(a) + plan[at + PART.a] * size + row * a_tile_row,
                            a_step,
                            b_at,
                            ldb,
                            c_at,
                            c_row,
                            c_end,
                            address(init),
                            depth,
                            stop - begin,
                            panel,
                            panel_end,
                            plan[STRIPS.panel],
                            plan[STRIPS.last_panel],
                            plan[STRIPS.last],
                            columns,
                            finish[0],
                            finish[1],
                        ),
                    )
                    column = min(panel * plan[STRIPS.panel], plan[STRIPS.last_panel])
                    written = min(panel_end * plan[STRIPS.panel], c_row) - column
                    apply_formula(finish, c_at + column, row_end - row, c_row, written // size)


def dots(
    task: int,
    worker: int,
    a: Array,
    b: Array,
    init: Array,
    c: Array,
    packed: Array,
    packed_words: int,
    plan: Table,
    residual: Array,
    bounds: Array,
) -> None:
    """Tiles of ``c = init + a @ b`` from rows of a and columns of b that are contiguous, or are copied to be."""
    size, depth, columns, packing = plan[DOTS.size], plan[DOTS.depth], plan[DOTS.columns], plan[DOTS.packing]
    a_row, b_row, c_row = plan[DOTS.a_row] * size, plan[DOTS.b_column] * size, columns * size
    low, extra_rows, narrow, extra_columns = (
        plan[DOTS.least],
        plan[DOTS.extra],
        plan[DOTS.narrow],
        plan[DOTS.wide_tiles],
    )
    group, b_step = plan[DOTS.group], plan[DOTS.b_column]
    ahead_step = plan[DOTS.ahead_step]  # from one pass over a tile to the next: as many lines as it prefetches
    ahead_of_pass = plan[DOTS.ahead] * ahead_step
    copy = offset(packed, worker * packed_words) if packed_words > 0 else _on_stack(packed)
    finish = finish_of(c, bounds, residual)
    for part in range(task * plan[DOTS.each], min(plan[DOTS.count], (task + 1) * plan[DOTS.each])):
        at = DOTS.parts + PART.words * part
        b_at = address(b) + plan[at + PART.b] * size
        if packing != 0:
            pack_block(b, plan[at + PART.b], b_step, plan[DOTS.b_depth], columns, depth, copy, 0, packing)
            b_at, b_row = address(copy), packing * size
        first, end = plan[at + PART.tile_first], plan[at + PART.tile_last]
        for from_tile in range(plan[at + PART.panel_first], plan[at + PART.panel_last], group):
            to_tile = min(from_tile + group, plan[at + PART.panel_last])
            line_ahead = b_at + (to_tile * narrow + min(to_tile, extra_columns)) * b_row  # of the next group
            for kind in range(4):
                short, thin = kind // 2, kind % 2
                begin, stop = (max(first, extra_rows), end) if short else (first, min(end, extra_rows))
                left, right = (
                    (max(from_tile, extra_columns), to_tile) if thin else (from_tile, min(to_tile, extra_columns))
                )
                if begin < stop and left < right:
                    row, column = begin * low + min(begin, extra_rows), left * narrow + min(left, extra_columns)
                    c_at = address(c) + plan[at + PART.c] * size + row * c_row + column * size
                    _dots(
                        plan[DOTS.kernels + kind],
                        (
                            address(a) + plan[at + PART.a] * size + row * a_row,
                            a_row,
                            b_at + column * b_row,
                            b_row,
                            c_at,
                            c_row,
                            address(init) + column * size,
                            depth,
                            stop - begin,
                            right - left,
                            line_ahead,
                            ahead_step,
                            finish[0],
                            finish[1],
                        ),
                    )
                    line_ahead += (stop - begin) * (right - left) * ahead_of_pass
                    own_rows = stop * low + min(stop, extra_rows) - row
                    own_columns = right * narrow + min(right, extra_columns) - column
                    apply_formula(finish, c_at, own_rows, c_row, own_columns)


@helper
def add_rows(a, a_step, b, b_step, terms, count, sums):  # type: ignore[no-untyped-def]
    """``sums[j] += sum of a[k * a_step] * b[k * b_step + j]``, four rows of b at a time: the CPU prefetches them."""
    L, k = lanes(sums), 0
    while k + 4 <= terms:
        x0, x1, x2, x3 = a[k * a_step], a[(k + 1) * a_step], a[(k + 2) * a_step], a[(k + 3) * a_step]
        y0 = offset(b, k * b_step)
        y1, y2, y3 = offset(y0, b_step), offset(y0, 2 * b_step), offset(y0, 3 * b_step)
        j = 0
        while j + L <= count:
            s = fma(load(y1, j), x1, fma(load(y0, j), x0, load(sums, j)))
            store(sums, j, fma(load(y3, j), x3, fma(load(y2, j), x2, s)))
            j += L
        if j < count:
            few = count - j
            s = fma(load_first(y1, j, few), x1, fma(load_first(y0, j, few), x0, load(sums, j)))
            store(sums, j, fma(load_first(y3, j, few), x3, fma(load_first(y2, j, few), x2, s)))
        k += 4
    while k < terms:
        x, y = a[k * a_step], offset(b, k * b_step)
        for j in range(0, count, L):
            row = load(y, j) if count - j >= L else load_first(y, j, count - j)
            store(sums, j, fma(row, x, load(sums, j)))
        k += 1


def lines(
    task: int,
    worker: int,
    a: Array,
    b: Array,
    init: Array,
    c: Array,
    packed: Array,
    packed_words: int,
    plan: Table,
    residual: Array,
    bounds: Array,
) -> None:
    """Parts of the single row of ``c = init + a @ b``, whose sums stay in L1 while long pieces of B stream by."""
    depth, columns, width = plan[LINES.depth], plan[LINES.columns], plan[LINES.width]
    L, sums = lanes(c), _on_stack(c)
    for part in range(task * plan[LINES.each], min(plan[LINES.count], (task + 1) * plan[LINES.each])):
        at = LINES.parts + PART.words * part
        x, y, z = offset(a, plan[at + PART.a]), offset(b, plan[at + PART.b]), plan[at + PART.c]
        last = min(columns, plan[at + PART.panel_last] * width)
        for left in range(plan[at + PART.panel_first] * width, last, STACK):
            count = min(STACK, last - left)
            for k in range(0, depth, LINE_BLOCK):
                for j in range(0, count, L):
                    store(sums, j, full(c, 0.0))
                terms, row = min(LINE_BLOCK, depth - k), offset(y, k * plan[LINES.b_depth] + left)
                add_rows(
                    offset(x, k * plan[LINES.a_depth]),
                    plan[LINES.a_depth],
                    row,
                    plan[LINES.b_depth],
                    terms,
                    count,
                    sums,
                )
                before = offset(init, left) if k == 0 else offset(c, z + left)
                for j in range(0, count, L):
                    if count - j >= L:
                        store(c, z + left + j, load(before, j) + load(sums, j))
                    else:
                        few = count - j
                        store_first(c, z + left + j, load_first(before, j, few) + load(sums, j), few)
            finish_line(c, z + left, count, residual, bounds)
