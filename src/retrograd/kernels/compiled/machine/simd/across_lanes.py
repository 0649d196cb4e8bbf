"""Operations across lanes: a register or a mask to one value, and the transpose of a square of registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import first_lanes, larger, masked_load, masked_store, smaller, vector_align, vector_pointer
from .vector import I32, I64, llvm_vector, vector_of


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


total = _tree(lambda builder, a, b: builder.fadd(a, b))
largest, smallest = _tree(larger), _tree(smaller)


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


totals = _trees(lambda builder, a, b: builder.fadd(a, b))
products = _trees(lambda builder, a, b: builder.fmul(a, b))
largest_of_each, smallest_of_each = _trees(larger), _trees(smaller)


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


sums_before = _prefix(lambda builder, a, b: builder.fadd(a, b), 0.0, 1)
sums_after = _prefix(lambda builder, a, b: builder.fadd(a, b), 0.0, -1)
products_before = _prefix(lambda builder, a, b: builder.fmul(a, b), 1.0, 1)
products_after = _prefix(lambda builder, a, b: builder.fmul(a, b), 1.0, -1)


def _one_lane(place: Callable[[int], int]) -> Any:
    @intrinsic
    def spread(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            count = args[0].type.count
            order = ir.Constant(ir.VectorType(I32, count), [place(count)] * count)
            return builder.shuffle_vector(args[0], ir.Constant(args[0].type, ir.Undefined), order)

        return x(x), generate

    return spread


first_lane, last_lane = _one_lane(lambda count: 0), _one_lane(lambda count: count - 1)  # in every lane


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


@intrinsic
def transpose_first(
    typing: Any, source: Any, source_step: Any, target: Any, target_step: Any, rows: Any, columns: Any
) -> Any:
    """``transpose`` of the first ``rows`` and ``columns`` of source alone; nothing else is read or written."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        count = vector.count

        def masks(extent: ir.Value, across: ir.Value) -> list[ir.Value]:
            """Per row: the first ``across`` lanes where the row is below ``extent``, else none."""
            some = first_lanes(builder, across, count)
            none = ir.Constant(some.type, None)
            return [builder.select(builder.icmp_signed("<", I64(i), extent), some, none) for i in range(count)]

        read, written = masks(args[4], args[5]), masks(args[5], args[4])
        values = []
        for i in range(count):
            place = vector_pointer(builder, args[0], builder.mul(args[1], I64(i)), vector)
            values.append(masked_load(builder, place, read[i], ir.Constant(vector, None)))
        for i, value in enumerate(_transposed(builder, values)):
            place = vector_pointer(builder, args[2], builder.mul(args[3], I64(i)), vector)
            masked_store(builder, value, place, written[i])
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64, types.int64), generate
