"""Tuples of pointers: loads and stores of one register for each of several arrays.

A pointer to elements gives a vector, one to booleans a mask, so one loop serves any number of operands and results.
A load returns a tuple that ends with the loop's numbers: the arguments of a function.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..target import vector_bytes
from .vector import (
    BITS,
    I32,
    I64,
    Mask,
    declare,
    first_lanes,
    llvm_vector,
    masked_load,
    masked_store,
    vector_align,
    vector_of,
    vector_pointer,
)
from .vector import splat as splat_of

_BYTE = ir.IntType(8)
_AHEAD = 4096  # bytes, as in memory.py


def _lanes(pointers: Any) -> int:
    """The lanes of one register; as many booleans are loaded at a time."""
    return next(vector_of(pointer.dtype).lanes for pointer in pointers if pointer.dtype != types.uint8)


def _in_memory(pointers: Any) -> list[ir.VectorType]:
    """The type in memory at each pointer."""
    truths = ir.VectorType(_BYTE, _lanes(pointers))
    return [truths if each.dtype == types.uint8 else llvm_vector(vector_of(each.dtype)) for each in pointers]


def _registers(pointers: Any) -> list[types.Type]:
    lanes = _lanes(pointers)
    return [Mask(lanes) if each.dtype == types.uint8 else vector_of(each.dtype) for each in pointers]


def _parts(builder: ir.IRBuilder, group: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(group, place) for place in range(len(group.type.elements))]


def _load(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, kind: ir.VectorType, count: Any) -> ir.Value:
    """A register, or its first ``count`` lanes."""
    place = vector_pointer(builder, pointer, index, kind)
    if count is None:
        value = builder.load(place)
        value.align = vector_align(kind)
    else:
        value = masked_load(builder, place, first_lanes(builder, count, kind.count), ir.Constant(kind, None))
    return _as_register(builder, value)


def _as_register(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Bytes become a mask."""
    if value.type.element != _BYTE:
        return value
    return builder.icmp_unsigned("!=", value, ir.Constant(value.type, None))


def _prefetch(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, kind: ir.VectorType) -> None:
    """Prefetch the cache line needed soon; not for booleans, which are few bytes."""
    if kind.element == _BYTE:
        return
    place = builder.bitcast(builder.gep(pointer, [index]), _BYTE.as_pointer())
    place = builder.gep(place, [I64(_AHEAD)])
    function = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [place.type, I32, I32, I32])
    builder.call(function, [place, I32(0), I32(3), I32(1)])


@intrinsic
def lanes_of(typing: Any, pointers: Any) -> Any:
    """Elements in one register of the pointers' element type (a constant when compiled)."""
    count = _lanes(pointers)
    return types.int64(pointers), lambda context, builder, signature, args: I64(count)


@intrinsic
def load_each(typing: Any, pointers: Any, index: Any, numbers: Any) -> Any:
    """A register from ``index`` on of each pointer, and the numbers. Prefetches the cache lines that follow."""
    result = types.Tuple((*_registers(pointers), *numbers))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        sources = list(zip(_parts(builder, args[0]), _in_memory(pointers), strict=True))
        for pointer, kind in sources:
            _prefetch(builder, pointer, args[1], kind)
        values = [_load(builder, pointer, args[1], kind, None) for pointer, kind in sources]
        return context.make_tuple(builder, result, [*values, *_parts(builder, args[2])])

    return result(pointers, types.int64, numbers), generate


@intrinsic
def load_each_first(typing: Any, pointers: Any, index: Any, count: Any, numbers: Any) -> Any:
    """As ``load_each``, but only the first ``count`` lanes; the memory of the others is not touched."""
    result = types.Tuple((*_registers(pointers), *numbers))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        sources = zip(_parts(builder, args[0]), _in_memory(pointers), strict=True)
        values = [_load(builder, pointer, args[1], kind, args[2]) for pointer, kind in sources]
        return context.make_tuple(builder, result, [*values, *_parts(builder, args[3])])

    return result(pointers, types.int64, types.int64, numbers), generate


@intrinsic
def repeat_each(typing: Any, pointers: Any, places: Any) -> Any:
    """For each pointer the element at its index, in every lane."""
    result = types.Tuple(_registers(pointers))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        values = []
        sources = zip(_parts(builder, args[0]), _parts(builder, args[1]), _in_memory(pointers), strict=True)
        for pointer, place, kind in sources:
            element = builder.load(builder.gep(pointer, [place]))
            values.append(_as_register(builder, splat_of(builder, element, kind)))
        return context.make_tuple(builder, result, values)

    return result(pointers, places), generate


def _load_steps(first: bool) -> Any:
    """Shared by ``load_steps`` and ``load_steps_first``."""

    def compile_for(pointers: Any, still: Any, numbers: Any) -> Any:
        result = types.Tuple((*still, *numbers))

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            group, places, steps, offset, *more = args
            count = more.pop(0) if first else None
            values = []
            parts = [_parts(builder, each) for each in (group, places, steps, more[0])]
            for pointer, place, step, value, kind in zip(*parts, _in_memory(pointers), strict=True):
                before = builder.block
                with builder.if_then(builder.icmp_signed("==", step, I64(1))):
                    index = builder.add(place, offset)
                    if count is None:
                        _prefetch(builder, pointer, index, kind)
                    loaded = _load(builder, pointer, index, kind, count)
                    inside = builder.block
                chosen = builder.phi(value.type)
                chosen.add_incoming(value, before)
                chosen.add_incoming(loaded, inside)
                values.append(chosen)
            return context.make_tuple(builder, result, [*values, *_parts(builder, more[1])])

        return result, generate

    return compile_for


@intrinsic
def load_steps(typing: Any, pointers: Any, places: Any, steps: Any, offset: Any, still: Any, numbers: Any) -> Any:
    """For each pointer with step 1 the register ``offset`` elements after its index, else its value in ``still``."""
    result, generate = _load_steps(False)(pointers, still, numbers)
    return result(pointers, places, steps, types.int64, still, numbers), generate


@intrinsic
def load_steps_first(
    typing: Any, pointers: Any, places: Any, steps: Any, offset: Any, count: Any, still: Any, numbers: Any
) -> Any:
    """As ``load_steps``, but only the first ``count`` lanes."""
    result, generate = _load_steps(True)(pointers, still, numbers)
    return result(pointers, places, steps, types.int64, types.int64, still, numbers), generate


@intrinsic
def places_of(typing: Any, outer: Any, outer_steps: Any, middle: Any, middle_steps: Any) -> Any:
    """outer * its step + middle * its step, for each pointer."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        steps = zip(_parts(builder, args[1]), _parts(builder, args[3]), strict=True)
        places = [builder.add(builder.mul(args[0], p), builder.mul(args[2], q)) for p, q in steps]
        return context.make_tuple(builder, outer_steps, places)

    return outer_steps(types.int64, outer_steps, types.int64, middle_steps), generate


def _store_each(first: bool, pointers: Any, values: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        group, index, results, *count, numbers = args
        results = _parts(builder, results) if isinstance(values, types.BaseTuple) else [results]
        flags = _parts(builder, numbers)[-len(results) :] if len(results) > 1 else [None]
        for pointer, value, flag in zip(_parts(builder, group), results, flags, strict=True):
            if flag is None:
                _store(builder, pointer, index, value, *count)
            else:
                with builder.if_then(builder.icmp_signed("!=", flag, I64(0))):
                    _store(builder, pointer, index, value, *count)
        return context.get_dummy_value()

    return generate


def _store(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, value: ir.Value, count: Any = None) -> None:
    if value.type.element == ir.IntType(1):
        value = builder.zext(value, ir.VectorType(_BYTE, value.type.count))
    place = vector_pointer(builder, pointer, index, value.type)
    if count is None:
        _prefetch(builder, pointer, index, value.type)
        builder.store(value, place).align = vector_align(value.type)
    else:
        masked_store(builder, value, place, first_lanes(builder, count, value.type.count))


@intrinsic
def store_each(typing: Any, pointers: Any, index: Any, values: Any, numbers: Any) -> Any:
    """Write a register, or each of a tuple, to ``index`` of its pointer; of several only those whose flag, at the end
    of the numbers, is set.

    Prefetches the cache lines that follow.
    """
    return types.void(pointers, types.int64, values, numbers), _store_each(False, pointers, values)


@intrinsic
def store_each_first(typing: Any, pointers: Any, index: Any, values: Any, count: Any, numbers: Any) -> Any:
    """As ``store_each``, but only the first ``count`` lanes."""
    return types.void(pointers, types.int64, values, types.int64, numbers), _store_each(True, pointers, values)


@intrinsic
def until_first_aligned(typing: Any, pointers: Any, index: Any) -> Any:
    """The number of elements from ``index`` of the first pointer to the next multiple of a register's size.

    0 for booleans.
    """
    element = pointers[0].dtype

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if element == types.uint8:
            return I64(0)
        place = builder.ptrtoint(builder.gep(builder.extract_value(args[0], 0), [args[1]]), I64)
        rest = builder.and_(builder.neg(place), I64(vector_bytes() - 1))
        return builder.udiv(rest, I64(BITS[element] // 8))

    return types.int64(pointers, types.int64), generate
