"""SIMD value types, their LLVM code generation, and constant registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from ..target import vector_bytes

# ---- The types of SIMD values ---------------------------------------------------------------------------------------

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
ELEMENT = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: I32, types.int64: I64}
BITS = {types.float32: 32, types.float64: 64, types.int32: 32, types.int64: 64}


class Vector(types.Type):  # type: ignore[misc]
    """A register full of ``dtype``."""

    lanes: int
    dtype: types.Type

    def __init__(self, dtype: types.Type, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype} x {lanes})")

    @property
    def key(self) -> tuple[types.Type, int]:
        return self.dtype, self.lanes


class Mask(types.Type):  # type: ignore[misc]
    """A mask: one boolean per lane."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


def vector_of(element: types.Type) -> Vector:
    """The vector type of one register of ``element``."""
    return Vector(element, vector_bytes() * 8 // BITS[element])


def integer_of(x: Vector) -> Vector:
    """The vector type of integers as wide as the lanes of ``x``."""
    return Vector(types.int32 if x.dtype == types.float32 else types.int64, x.lanes)


def llvm_vector(vector: Vector) -> ir.VectorType:
    """LLVM's type of a register."""
    return ir.VectorType(ELEMENT[vector.dtype], vector.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, llvm_vector(vector))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, mask: Mask) -> None:
        super().__init__(manager, mask, ir.VectorType(I1, mask.lanes))


# ---- LLVM instructions shared by the operations on SIMD values and the micro-kernel ---------------------------------


def declare(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    """An LLVM function of the module, declared at most once."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def suffix(vector: ir.VectorType) -> str:
    """LLVM's name of a vector type in intrinsics: v16f32."""
    element = {"float": "f32", "double": "f64"}.get(str(vector.element), str(vector.element))
    return f"v{vector.count}{element}"


def splat(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """A vector that holds ``scalar`` in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count))


def as_vector(context: Any, builder: ir.IRBuilder, value: ir.Value, source: types.Type, target: Vector) -> ir.Value:
    """A scalar in every lane; a vector as it is."""
    if source == target:
        return value
    return splat(builder, context.cast(builder, value, source, target.dtype), llvm_vector(target))


def larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger one of each lane; NaN wins."""
    return _further(builder, ">", a, b)


def smaller(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """The smaller one of each lane; NaN wins."""
    return _further(builder, "<", a, b)


def _further(builder: ir.IRBuilder, symbol: str, a: ir.Value, b: ir.Value) -> ir.Value:
    # One x86 instruction, which gives a if either is NaN; then b where b is NaN. If a is the extreme so far, the second
    # comparison does not wait for it.
    further = builder.select(builder.fcmp_ordered(symbol, b, a), b, a)
    return builder.select(builder.fcmp_unordered("uno", b, b), b, further)


def first_lanes(builder: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    """A mask of the first ``count`` lanes (an i64; a count outside 0..lanes saturates)."""
    few = builder.select(builder.icmp_signed("<", count, I64(lanes)), count, I64(lanes))
    few = builder.select(builder.icmp_signed(">", few, I64(0)), few, I64(0))
    if vector_bytes() == 32:  # masks are vectors; to make one of bits takes 30 instructions
        kind = ir.VectorType(ir.IntType(min(64, 256 // lanes)), lanes)
        numbers = ir.Constant(kind, list(range(lanes)))
        few = few if kind.element == I64 else builder.trunc(few, kind.element)
        return builder.icmp_signed("<", numbers, splat(builder, few, kind))
    bits = builder.not_(builder.shl(I64(-1), few))  # in scalar registers: the vector ports are busier
    word = ir.IntType(lanes)
    return builder.bitcast(builder.trunc(bits, word), ir.VectorType(ir.IntType(1), lanes))


def vector_pointer(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Pointer to the ``vector`` at ``pointer[index]``."""
    return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())


def vector_align(vector: ir.VectorType) -> int:
    """Arrays are aligned only to their elements."""
    return {"i8": 1, "i16": 2, "float": 4, "i32": 4}.get(str(vector.element), 8)


def masked_load(builder: ir.IRBuilder, pointer: ir.Value, mask: ir.Value, other: ir.Value) -> ir.Value:
    """Lanes of memory where ``mask`` is set, of ``other`` elsewhere; masked lanes are not touched."""
    vector = other.type
    name = f"llvm.masked.load.{suffix(vector)}.p0"
    function = declare(builder, name, vector, [vector.as_pointer(), I32, mask.type, vector])
    return builder.call(function, [pointer, I32(vector_align(vector)), mask, other])


def masked_store(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
    """Write the lanes where ``mask`` is set."""
    masked_stores(builder, [(value, pointer)], mask)


def masked_stores(builder: ir.IRBuilder, stores: Sequence[tuple[ir.Value, ir.Value]], mask: ir.Value) -> None:
    """Write several vectors, each to its pointer: the lanes where ``mask`` is set."""

    def masked(value: ir.Value, pointer: ir.Value) -> None:
        vector = value.type
        name = f"llvm.masked.store.{suffix(vector)}.p0"
        function = declare(builder, name, ir.VoidType(), [vector, vector.as_pointer(), I32, mask.type])
        builder.call(function, [value, pointer, I32(vector_align(vector)), mask])

    if vector_bytes() == 64:
        for value, pointer in stores:
            masked(value, pointer)
        return
    # a masked store of 32 bytes takes 12 cycles of an AMD Zen; where there are none, it is one store for each lane
    word = ir.IntType(mask.type.count)
    is_whole = builder.icmp_unsigned("==", builder.bitcast(mask, word), word(-1))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            for value, pointer in stores:
                builder.store(value, pointer).align = vector_align(value.type)
        with part:
            if len(stores) > 1:
                _store_by_halves(builder, stores, mask)
            else:
                masked(*stores[0])


def _store_by_halves(builder: ir.IRBuilder, stores: Sequence[tuple[ir.Value, ir.Value]], mask: ir.Value) -> None:
    """Write the first lanes of vectors, not all: a half if so many are left, a quarter if so many are left, ..."""
    values, pointers = [value for value, _ in stores], [pointer for _, pointer in stores]
    element, lanes, size = values[0].type.element, mask.type.count, vector_align(values[0].type)
    left, at = builder.bitcast(mask, ir.IntType(lanes)), ir.Constant(I64, 0)
    half = lanes // 2
    while half:
        before, inside, after = builder.block, builder.append_basic_block("half"), builder.append_basic_block("rest")
        is_left = builder.icmp_unsigned("!=", builder.and_(left, left.type(1 << (half - 1))), left.type(0))
        builder.cbranch(is_left, inside, after)
        builder.position_at_end(inside)
        few, undefined = ir.VectorType(element, half), ir.Constant(values[0].type, ir.Undefined)
        first = ir.Constant(ir.VectorType(I32, half), list(range(half)))
        others = ir.Constant(ir.VectorType(I32, lanes), [(lane + half) % lanes for lane in range(lanes)])
        for value, pointer in zip(values, pointers, strict=True):
            place = builder.gep(builder.bitcast(pointer, ir.IntType(8).as_pointer()), [at])
            low = builder.shuffle_vector(value, undefined, first)
            builder.store(low, builder.bitcast(place, few.as_pointer())).align = size
        moved = [builder.add(at, I64(half * size)), builder.lshr(left, left.type(half))]
        moved += [builder.shuffle_vector(value, undefined, others) for value in values]
        builder.branch(after)
        builder.position_at_end(after)
        merged = []
        for new, old in zip(moved, [at, left, *values], strict=True):
            merged.append(builder.phi(new.type))
            merged[-1].add_incoming(old, before)
            merged[-1].add_incoming(new, inside)
        at, left, *values = merged
        half //= 2


# ---- Registers not loaded from memory: a number in every lane, or 0, 1, 2, ... --------------------------------------


@intrinsic
def full(typing: Any, pointer: Any, value: Any) -> Any:
    """A register of ``pointer``'s type with ``value`` in every lane."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return as_vector(context, builder, args[1], signature.args[1], result)

    return result(pointer, value), generate


@intrinsic
def full_like(typing: Any, like: Any, value: Any) -> Any:
    """A vector of ``like``'s type with ``value`` in every lane."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return as_vector(context, builder, args[1], signature.args[1], like)

    return like(like, value), generate


@intrinsic
def counting(typing: Any, pointer: Any) -> Any:
    """The register 0, 1, 2, ... of ``pointer``'s type."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return ir.Constant(llvm_vector(result), list(range(result.lanes)))

    return result(pointer), generate


@intrinsic
def positions(typing: Any, pointer: Any) -> Any:
    """The int64 numbers 0, 1, 2, ..., as many as a register of ``pointer``'s type has lanes."""
    result = Vector(types.int64, vector_of(pointer.dtype).lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return ir.Constant(llvm_vector(result), list(range(result.lanes)))

    return result(pointer), generate
