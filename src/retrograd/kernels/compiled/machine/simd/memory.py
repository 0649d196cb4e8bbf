"""Memory: loads and stores of whole or partial registers, pointers, and prefetching."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..target import vector_bytes
from .vector import (
    BITS,
    ELEMENT,
    I32,
    I64,
    Mask,
    Vector,
    as_vector,
    declare,
    first_lanes,
    integer_of,
    llvm_vector,
    masked_load,
    masked_store,
    splat,
    vector_align,
    vector_of,
    vector_pointer,
)


@intrinsic
def lanes(typing: Any, pointer: Any) -> Any:
    """Elements of ``pointer``'s type in one register (a constant when compiled)."""
    count = vector_of(pointer.dtype).lanes
    return types.int64(pointer), lambda context, builder, signature, args: I64(count)


@intrinsic
def load(typing: Any, pointer: Any, index: Any) -> Any:
    """The register of elements that starts at ``pointer[index]``."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        value = builder.load(vector_pointer(builder, args[0], args[1], vector))
        value.align = vector_align(vector)
        return value

    return result(pointer, types.int64), generate


@intrinsic
def load_first(typing: Any, pointer: Any, index: Any, count: Any) -> Any:
    """As ``load``, but only the first ``count`` lanes; the others are 0 and their memory is not touched."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        mask = first_lanes(builder, args[2], vector.count)
        return masked_load(builder, vector_pointer(builder, args[0], args[1], vector), mask, ir.Constant(vector, None))

    return result(pointer, types.int64, types.int64), generate


@intrinsic
def load_first_or(typing: Any, pointer: Any, index: Any, count: Any, other: Any) -> Any:
    """As ``load_first``, but the lanes that are not loaded hold ``other``."""
    result = vector_of(pointer.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        mask = first_lanes(builder, args[2], vector.count)
        rest = as_vector(context, builder, args[3], signature.args[3], result)
        return masked_load(builder, vector_pointer(builder, args[0], args[1], vector), mask, rest)

    return result(pointer, types.int64, types.int64, types.unliteral(other)), generate


@intrinsic
def load_integers(typing: Any, pointer: Any, index: Any, count: Any, other: Any, like: Any) -> Any:
    """As ``load_first_or`` of int64 elements, truncated to the width of ``like``'s elements, one for each lane."""
    result = integer_of(like)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(I64, result.lanes)
        mask, rest = first_lanes(builder, args[2], wide.count), splat(builder, args[3], wide)
        value = masked_load(builder, vector_pointer(builder, args[0], args[1], wide), mask, rest)
        return builder.trunc(value, llvm_vector(result))

    return result(pointer, types.int64, types.int64, types.int64, like), generate


@intrinsic
def store(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
    """Write a register to ``pointer[index]`` and the elements after it."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        instruction = builder.store(args[2], vector_pointer(builder, args[0], args[1], args[2].type))
        instruction.align = vector_align(args[2].type)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), generate


@intrinsic
def stream(typing: Any, pointer: Any, index: Any, value: Any) -> Any:
    """As ``store``, past the caches; the address is a multiple of a register's size. Call ``settle`` at the end."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        instruction = builder.store(args[2], vector_pointer(builder, args[0], args[1], args[2].type))
        instruction.align = vector_bytes()
        instruction.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), generate


@intrinsic
def settle(typing: Any) -> Any:
    """Make what ``stream`` wrote visible to other threads, before the task is reported as done."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def store_first(typing: Any, pointer: Any, index: Any, value: Any, count: Any) -> Any:
    """As ``store``, but only the first ``count`` lanes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        mask = first_lanes(builder, args[3], args[2].type.count)
        masked_store(builder, args[2], vector_pointer(builder, args[0], args[1], args[2].type), mask)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64), generate


@intrinsic
def store_integers(typing: Any, pointer: Any, index: Any, value: Any, count: Any) -> Any:
    """As ``store_first`` of an integer vector to int64 elements, whatever its own width."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(I64, args[2].type.count)
        integers = args[2] if args[2].type == wide else builder.sext(args[2], wide)
        mask = first_lanes(builder, args[3], wide.count)
        masked_store(builder, integers, vector_pointer(builder, args[0], args[1], wide), mask)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64), generate


@intrinsic
def load_mask(typing: Any, pointer: Any, index: Any, like: Any) -> Any:
    """A mask with the lanes of ``like``: set where the bytes from ``pointer[index]`` on are not 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(ir.IntType(8), like.lanes)
        value = builder.load(vector_pointer(builder, args[0], args[1], wide))
        value.align = 1
        return builder.icmp_unsigned("!=", value, ir.Constant(wide, None))

    return Mask(like.lanes)(pointer, types.int64, like), generate


@intrinsic
def load_first_mask(typing: Any, pointer: Any, index: Any, like: Any, count: Any) -> Any:
    """As ``load_mask``, but only the first ``count`` lanes; the others are not set and their memory is not touched."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(ir.IntType(8), like.lanes)
        some, none = first_lanes(builder, args[3], like.lanes), ir.Constant(wide, None)
        value = masked_load(builder, vector_pointer(builder, args[0], args[1], wide), some, none)
        return builder.icmp_unsigned("!=", value, none)

    return Mask(like.lanes)(pointer, types.int64, like, types.int64), generate


@intrinsic
def store_first_mask(typing: Any, pointer: Any, index: Any, mask: Any, count: Any) -> Any:
    """Write the first ``count`` lanes of a mask as bytes, 1 or 0, to ``pointer[index]`` and the bytes after it."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(ir.IntType(8), mask.lanes)
        some = first_lanes(builder, args[3], mask.lanes)
        masked_store(builder, builder.zext(args[2], wide), vector_pointer(builder, args[0], args[1], wide), some)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, mask, types.int64), generate


def _store_narrow(bits: int) -> Any:
    """A function: ``function(address, value, count)`` writes the first ``count`` lanes, whose values are integers, as
    integers of this width to the memory at ``address``."""

    @intrinsic
    def narrow(typing: Any, address: Any, value: Any, count: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            lanes = args[1].type.count
            numbers = builder.fptosi(args[1], ir.VectorType(I32, lanes))
            few = builder.trunc(numbers, ir.VectorType(ir.IntType(bits), lanes))
            place = builder.inttoptr(args[0], few.type.as_pointer())
            with builder.if_else(builder.icmp_signed(">=", args[2], I64(lanes))) as (whole, part):
                with whole:  # where there are no masks for such lanes, a masked store is one of each
                    builder.store(few, place).align = 1
                with part:
                    masked_store(builder, few, place, first_lanes(builder, args[2], lanes))
            return context.get_dummy_value()

        return types.void(types.int64, value, types.int64), generate

    return narrow


store_bytes: Final = _store_narrow(8)
store_shorts: Final = _store_narrow(16)


def buffer(count: int, in_double: bool = False) -> Any:
    """A function: ``function(p)`` is memory for ``count`` elements of ``p``'s type, or of float64, until the kernel
    returns."""

    @intrinsic
    def allocate(typing: Any, pointer: Any) -> Any:
        result = types.CPointer(types.float64) if in_double else pointer

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            memory = cgutils.alloca_once(builder, ELEMENT[result.dtype], size=count)
            memory.align = vector_bytes()  # loads and stores across two cache lines are slower
            return memory

        return result(pointer), generate

    return allocate


@intrinsic
def load_double(typing: Any, pointer: Any, index: Any, like: Any) -> Any:
    """The float64 elements from ``pointer[index]`` on, one for each lane of ``like``; ``store`` writes them."""
    result = Vector(types.float64, like.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        value = builder.load(vector_pointer(builder, args[0], args[1], vector))
        value.align = vector_align(vector)
        return value

    return result(pointer, types.int64, like), generate


@intrinsic
def offset(typing: Any, pointer: Any, index: Any) -> Any:
    """The pointer to ``pointer[index]``."""
    return pointer(pointer, types.int64), lambda context, builder, signature, args: builder.gep(args[0], [args[1]])


@intrinsic
def until_aligned(typing: Any, pointer: Any, index: Any) -> Any:
    """The number of elements from ``pointer[index]`` to the next address that is a multiple of a register's size."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        place = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        rest = builder.and_(builder.neg(place), I64(vector_bytes() - 1))
        return builder.udiv(rest, I64(BITS[pointer.dtype] // 8))

    return types.int64(pointer, types.int64), generate


@intrinsic
def address(typing: Any, pointer: Any) -> Any:
    """A pointer as an integer."""
    return types.int64(pointer), lambda context, builder, signature, args: builder.ptrtoint(args[0], I64)


@intrinsic
def pointer_like(typing: Any, pointer: Any, address: Any) -> Any:
    """An integer address as a pointer of ``pointer``'s type."""
    generate = lambda context, builder, signature, args: builder.inttoptr(args[1], args[0].type)  # noqa: E731
    return pointer(pointer, types.int64), generate


@intrinsic
def word_at(typing: Any, address: Any) -> Any:
    """The int64 at an address."""
    generate = lambda context, builder, signature, args: builder.load(builder.inttoptr(args[0], I64.as_pointer()))  # noqa: E731
    return types.int64(types.int64), generate


@intrinsic
def call_with_words(typing: Any, function: Any, record: Any, words: Any) -> Any:
    """Call the kernel at the address ``function``, with a record; its task is the address of the words."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        memory = cgutils.alloca_once(builder, I64, size=words.count)
        for at in range(words.count):
            builder.store(builder.extract_value(args[2], at), builder.gep(memory, [I64(at)]))
        callee = ir.FunctionType(ir.VoidType(), [I64, I64, I64]).as_pointer()
        builder.call(builder.inttoptr(args[0], callee), [builder.ptrtoint(memory, I64), I64(0), args[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, words), generate


def ahead_by(distance: int, write: bool = False) -> Any:
    """A function: ``function(p, i)`` prefetches the cache line ``distance`` bytes after ``p[i]``, for reading or, with
    ``write``, for writing."""

    @intrinsic
    def prefetch(typing: Any, pointer: Any, index: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            byte = ir.IntType(8).as_pointer()
            function = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, I32, I32, I32])
            place = builder.gep(args[0], [builder.add(args[1], I64(distance * 8 // BITS[pointer.dtype]))])
            builder.call(function, [builder.bitcast(place, byte), I32(int(write)), I32(3), I32(1)])
            return context.get_dummy_value()

        return types.void(pointer, types.int64), generate

    return prefetch


ahead: Final = ahead_by(4096)  # a page of memory: the hardware prefetcher stops at page ends
