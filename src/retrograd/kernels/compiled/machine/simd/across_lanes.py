"""Operations across lanes: reductions, scans, transposes, and interleaving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vector import (
    I32,
    I64,
    first_lanes,
    larger,
    llvm_vector,
    masked_load,
    masked_store,
    smaller,
    vector_align,
    vector_of,
    vector_pointer,
)

# ---- Operations across lanes ----------------------------------------------------------------------------------------


def _tree(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Any:
    @intrinsic
    def reduce(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            value, count = args[0], args[0].type.count
            while count > 1:  # combine halves: a fixed order
                count //= 2
                low = ir.Constant(ir.VectorType(I32, count), list(range(count)))
                high = ir.Constant(ir.VectorType(I32, count), list(range(count, 2 * count)))
                undefined = ir.Constant(value.type, ir.Undefined)
                value = combine(
                    builder,
                    builder.shuffle_vector(value, undefined, low),
                    builder.shuffle_vector(value, undefined, high),
                )
            return builder.extract_element(value, I32(0))

        return x.dtype(x), generate

    return reduce


total: Final = _tree(lambda builder, a, b: builder.fadd(a, b))
largest: Final = _tree(larger)
smallest: Final = _tree(smaller)


def _trees(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Any:
    """``_tree`` of as many consecutive registers as one has lanes: lane i is the result of the i-th."""

    @intrinsic
    def reduce(typing: Any, pointer: Any) -> Any:
        result = vector_of(pointer.dtype)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = llvm_vector(result)
            values = []
            for i in range(vector.count):
                values.append(builder.load(vector_pointer(builder, args[0], I64(i * vector.count), vector)))
                values[-1].align = vector_align(vector)
            part = vector.count  # lanes left of each register
            while part > 1:  # two registers become one: the low half of each part onto the high one
                low = [k for k in range(2 * vector.count) if k % part < part // 2]
                masks = [ir.Constant(ir.VectorType(I32, vector.count), [k + m for k in low]) for m in (0, part // 2)]
                values = [
                    combine(builder, *(builder.shuffle_vector(values[i], values[i + 1], mask) for mask in masks))
                    for i in range(0, len(values), 2)
                ]
                part //= 2
            return values[0]

        return result(pointer), generate

    return reduce


totals: Final = _trees(lambda builder, a, b: builder.fadd(a, b))
products: Final = _trees(lambda builder, a, b: builder.fmul(a, b))
largest_of_each: Final = _trees(larger)
smallest_of_each: Final = _trees(smaller)


def _prefix(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value], start: float, step: int) -> Any:
    """Each lane combined with all before it (step 1) or after it (-1); ``start`` is the neutral element."""

    @intrinsic
    def scan(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            value, count = args[0], args[0].type.count
            nothing = ir.Constant(value.type, [start] * count)
            distance = 1
            while distance < count:
                sources = [lane - step * distance for lane in range(count)]
                order = [lane if 0 <= lane < count else count for lane in sources]
                moved = builder.shuffle_vector(value, nothing, ir.Constant(ir.VectorType(I32, count), order))
                value = combine(builder, value, moved)
                distance *= 2
            return value

        return x(x), generate

    return scan


sums_before: Final = _prefix(lambda builder, a, b: builder.fadd(a, b), 0.0, 1)
sums_after: Final = _prefix(lambda builder, a, b: builder.fadd(a, b), 0.0, -1)
products_before: Final = _prefix(lambda builder, a, b: builder.fmul(a, b), 1.0, 1)
products_after: Final = _prefix(lambda builder, a, b: builder.fmul(a, b), 1.0, -1)


def _one_lane(place: Callable[[int], int]) -> Any:
    @intrinsic
    def spread(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            count = args[0].type.count
            order = ir.Constant(ir.VectorType(I32, count), [place(count)] * count)
            return builder.shuffle_vector(args[0], ir.Constant(args[0].type, ir.Undefined), order)

        return x(x), generate

    return spread


first_lane: Final = _one_lane(lambda count: 0)  # in every lane
last_lane: Final = _one_lane(lambda count: count - 1)


def _every_other(first: int) -> Any:
    @intrinsic
    def pick(typing: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            count = args[0].type.count
            order = ir.Constant(ir.VectorType(I32, count), list(range(first, 2 * count, 2)))
            return builder.shuffle_vector(args[0], args[1], order)

        return x(x, y), generate

    return pick


evens: Final = _every_other(0)  # the lanes 0, 2, ... of x and then of y
odds: Final = _every_other(1)


@intrinsic
def any_lane(typing: Any, mask: Any) -> Any:
    """Whether a lane of ``mask`` is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        word = builder.bitcast(args[0], ir.IntType(args[0].type.count))
        return builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    return types.boolean(mask), generate


@intrinsic
def all_lanes(typing: Any, mask: Any) -> Any:
    """Whether every lane of ``mask`` is set."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        word = builder.bitcast(args[0], ir.IntType(args[0].type.count))
        return builder.icmp_unsigned("==", word, ir.Constant(word.type, -1))

    return types.boolean(mask), generate


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, by swapping ever smaller off-diagonal blocks between two rows."""
    rows, count = list(rows), len(rows)
    width = count // 2
    while width:
        low = [k if not k & width else k - width + count for k in range(count)]
        high = [k + width if not k & width else k + count for k in range(count)]
        masks = [ir.Constant(ir.VectorType(I32, count), order) for order in (low, high)]
        for i in range(count):
            if not i & width:
                a, b = rows[i], rows[i + width]
                rows[i] = builder.shuffle_vector(a, b, masks[0])
                rows[i + width] = builder.shuffle_vector(a, b, masks[1])
        width //= 2
    return rows


_BYTE = 8
_table = ir.ArrayType(ir.VectorType(ir.IntType(8), _BYTE), 1 << _BYTE)


def _bits_of_bytes() -> ir.Constant:
    """For each byte the numbers of its bits that are set; zeros follow."""
    rows = []
    for byte in range(1 << _BYTE):
        places = [bit for bit in range(_BYTE) if byte >> bit & 1]
        rows.append(ir.Constant(_table.element, places + [0] * (_BYTE - len(places))))
    return ir.Constant(_table, rows)


@intrinsic
def write_places(typing: Any, target: Any, index: Any, byte: Any, first: Any) -> Any:
    """Write ``first`` plus the number of each bit that is set in a byte from ``target[index]`` on, and return how many
    there are. Eight elements of int64 are written."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        name, module = "bits_of_bytes", builder.module
        table = module.globals.get(name)
        if table is None:
            table = ir.GlobalVariable(module, _table, name)
            table.linkage, table.global_constant, table.initializer = "private", True, _bits_of_bytes()
        wide = ir.VectorType(I64, _BYTE)
        places = builder.zext(builder.load(builder.gep(table, [I64(0), args[2]])), wide)
        start = builder.insert_element(ir.Constant(wide, ir.Undefined), args[3], I32(0))
        start = builder.shuffle_vector(start, start, ir.Constant(ir.VectorType(I32, _BYTE), None))
        place = builder.bitcast(builder.gep(args[0], [args[1]]), wide.as_pointer())
        builder.store(builder.add(places, start), place).align = 8
        return builder.ctpop(args[2])

    return types.int64(target, types.int64, types.int64, types.int64), generate


@intrinsic
def transpose(typing: Any, source: Any, source_step: Any, target: Any, target_step: Any) -> Any:
    """``target[j*target_step + i] = source[i*source_step + j]`` for i, j below the lanes; steps in elements."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        count = vector.count
        rows = []
        for i in range(count):
            place = vector_pointer(builder, args[0], builder.mul(args[1], I64(i)), vector)
            rows.append(builder.load(place))
            rows[-1].align = vector_align(vector)
        columns = _transposed(builder, rows)
        for i in range(count):
            place = vector_pointer(builder, args[2], builder.mul(args[3], I64(i)), vector)
            builder.store(columns[i], place).align = vector_align(vector)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


def _each_below(builder: ir.IRBuilder, extent: ir.Value, most: int, emit: Callable[[int], None]) -> list[ir.Block]:
    """Run the code of ``emit(i)`` for i below ``extent``, 1 to ``most``; the blocks after each, which all lead here.

    A masked access with an empty mask is no substitute: where memory is not there, it takes hundreds of cycles.
    """
    end, blocks = builder.append_basic_block("end"), []
    for i in range(most):
        emit(i)
        blocks.append(builder.block)
        if i == most - 1:
            builder.branch(end)
        else:
            more = builder.append_basic_block("more")
            builder.cbranch(builder.icmp_signed(">", extent, I64(i + 1)), more, end)
            builder.position_at_end(more)
    builder.position_at_end(end)
    return blocks


def _edge_transpose(padded: bool) -> Any:
    """``transpose`` of the first rows and columns of source; if ``padded``, whole registers are written."""

    @intrinsic
    def part(typing: Any, source: Any, source_step: Any, target: Any, target_step: Any, rows: Any, columns: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = llvm_vector(vector_of(source.dtype))
            count, zero = vector.count, ir.Constant(vector, None)
            read, written = first_lanes(builder, args[5], count), first_lanes(builder, args[4], count)
            rows: list[ir.Value] = []

            def load(i: int) -> None:
                place = vector_pointer(builder, args[0], builder.mul(args[1], I64(i)), vector)
                rows.append(masked_load(builder, place, read, zero))

            def store(i: int) -> None:
                place = vector_pointer(builder, args[2], builder.mul(args[3], I64(i)), vector)
                if padded:  # masked stores are slow on many CPUs
                    builder.store(columns[i], place).align = vector_align(vector)
                else:
                    masked_store(builder, columns[i], place, written)

            blocks = _each_below(builder, args[4], count, load)
            merged = [builder.phi(vector) for _ in rows]
            other = zero if padded else ir.Constant(vector, ir.Undefined)
            for i, row in enumerate(rows):
                for j, block in enumerate(blocks):
                    merged[i].add_incoming(row if j >= i else other, block)
            columns = _transposed(builder, merged)
            _each_below(builder, args[5], count, store)
            return context.get_dummy_value()

        return types.void(source, types.int64, target, types.int64, types.int64, types.int64), generate

    return part


# transpose_first(source, source_step, target, target_step, rows, columns): ``transpose`` of the first ``rows`` and
# ``columns`` of source alone, both at least 1. ``transpose_padded``: also writes zeros to the other lanes of each row
# of the target.
transpose_first: Final = _edge_transpose(padded=False)
transpose_padded: Final = _edge_transpose(padded=True)


# ---- Interleave a few registers lane by lane into contiguous memory, and back: few channels -------------------------
# of adjacent positions. Two stages of shuffles: pairs of channels first, whose registers then serve several results.

MOST_INTERLEAVED = 8  # channels, and at most one for each lane
Place = tuple[int, int]  # channel, position
Register = tuple[ir.Value, list[Place]]


def _collect(builder: ir.IRBuilder, sources: list[Register], requested: list[Place]) -> Register:
    """A register of the elements ``requested``, all found in ``sources``."""
    holds = [(value, {place: lane for lane, place in enumerate(places)}) for value, places in sources]
    used = [(value, held) for value, held in holds if any(place in held for place in requested)]
    result, have = used[0]
    for value, held in used[1:] or [(result, {})]:
        order = [have.get(place, len(requested) + held.get(place, 0)) for place in requested]
        result = builder.shuffle_vector(result, value, ir.Constant(ir.VectorType(I32, len(requested)), order))
        have = {place: lane for lane, place in enumerate(requested) if place in have or place in held}
    return result, requested


def _rearrange(builder: ir.IRBuilder, sources: list[Register], targets: list[list[Place]]) -> list[ir.Value]:
    """The registers ``targets``, made from pairs of channels."""
    count, lanes = len(sources), len(sources[0][1])
    pairs = []
    for c in range(0, count - 1, 2):
        for begin in (0, lanes // 2):
            places = [(c + i, begin + p) for p in range(lanes // 2) for i in (0, 1)]
            pairs.append(_collect(builder, sources, places))
    if count % 2:
        pairs.append(_collect(builder, sources, [(count - 1, p) for p in range(lanes)]))
    return [_collect(builder, pairs, requested)[0] for requested in targets]


def _by_channel(count: int, lanes: int) -> list[list[Place]]:
    """One register for each channel."""
    return [[(c, p) for p in range(lanes)] for c in range(count)]


def _by_position(count: int, lanes: int) -> list[list[Place]]:
    """Positions one after the other, each with all its channels."""
    places = [(c, p) for p in range(lanes) for c in range(count)]
    return [places[begin : begin + lanes] for begin in range(0, count * lanes, lanes)]


def _for_every_count(builder: ir.IRBuilder, channels: ir.Value, most: int, emit: Callable[[int], None]) -> None:
    """Run the code that ``emit`` generates for the number of channels: 2 to ``most``."""
    end = builder.append_basic_block("end")
    choice = builder.switch(channels, end)
    for count in range(2, most + 1):
        builder.position_at_end(builder.append_basic_block(f"channels{count}"))
        choice.add_case(I64(count), builder.block)
        emit(count)
        builder.branch(end)
    builder.position_at_end(end)


def _rows(builder: ir.IRBuilder, plane: ir.Value, step: ir.Value, count: int, vector: ir.VectorType) -> list[ir.Value]:
    return [vector_pointer(builder, plane, builder.mul(step, I64(c)), vector) for c in range(count)]


def _dense(
    builder: ir.IRBuilder, memory: ir.Value, positions: ir.Value, count: int, vector: ir.VectorType
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The addresses of the registers of ``count`` interleaved channels, and the mask of the elements of each."""
    elements = builder.mul(positions, I64(count))
    for begin in range(0, count * vector.count, vector.count):
        place = vector_pointer(builder, memory, I64(begin), vector)
        yield place, first_lanes(builder, builder.sub(elements, I64(begin)), vector.count)


@intrinsic
def interleave_first(typing: Any, source: Any, step: Any, target: Any, channels: Any, positions: Any) -> Any:
    """``target[p*channels + c] = source[c*step + p]`` for p below ``positions``, at most the lanes.

    Nothing happens unless there are 2 to ``MOST_INTERLEAVED`` channels, and no more than lanes.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        mask, nothing = first_lanes(builder, args[4], vector.count), ir.Constant(vector, None)

        def emit(count: int) -> None:
            rows = _rows(builder, args[0], args[1], count, vector)
            values = [masked_load(builder, place, mask, nothing) for place in rows]
            sources = list(zip(values, _by_channel(count, vector.count), strict=True))
            merged = _rearrange(builder, sources, _by_position(count, vector.count))
            for value, (place, some) in zip(merged, _dense(builder, args[2], args[4], count, vector), strict=True):
                masked_store(builder, value, place, some)

        _for_every_count(builder, args[3], min(vector.count, MOST_INTERLEAVED), emit)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate


@intrinsic
def deinterleave_first(typing: Any, source: Any, target: Any, step: Any, channels: Any, positions: Any) -> Any:
    """``target[c*step + p] = source[p*channels + c]``: the inverse of ``interleave_first``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        mask, nothing = first_lanes(builder, args[4], vector.count), ir.Constant(vector, None)

        def emit(count: int) -> None:
            dense = _dense(builder, args[0], args[4], count, vector)
            values = [masked_load(builder, place, some, nothing) for place, some in dense]
            sources = list(zip(values, _by_position(count, vector.count), strict=True))
            rows = _rows(builder, args[1], args[2], count, vector)
            for value, place in zip(_rearrange(builder, sources, _by_channel(count, vector.count)), rows, strict=True):
                masked_store(builder, value, place, mask)

        _for_every_count(builder, args[3], min(vector.count, MOST_INTERLEAVED), emit)
        return context.get_dummy_value()

    return types.void(source, target, types.int64, types.int64, types.int64), generate
