"""Interleave a few registers lane by lane into contiguous memory, and back: few channels of adjacent positions.

Two stages of shuffles: pairs of channels first, whose registers then serve several results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import first_lanes, masked_load, masked_store, vector_pointer
from .vector import I32, I64, llvm_vector, vector_of

Place = tuple[int, int]  # channel, position
Register = tuple[ir.Value, list[Place]]


def _collect(builder: ir.IRBuilder, sources: list[Register], wanted: list[Place]) -> Register:
    """A register of the elements ``wanted``, all found in ``sources``."""
    holds = [(value, {place: lane for lane, place in enumerate(places)}) for value, places in sources]
    used = [(value, held) for value, held in holds if any(place in held for place in wanted)]
    result, have = used[0]
    for value, held in used[1:] or [(result, {})]:
        order = [have.get(place, len(wanted) + held.get(place, 0)) for place in wanted]
        result = builder.shuffle_vector(result, value, ir.Constant(ir.VectorType(I32, len(wanted)), order))
        have = {place: lane for lane, place in enumerate(wanted) if place in have or place in held}
    return result, wanted


def _rearrange(builder: ir.IRBuilder, sources: list[Register], targets: list[list[Place]]) -> list[ir.Value]:
    """The registers ``targets``, by way of pairs of channels."""
    count, lanes = len(sources), len(sources[0][1])
    pairs = []
    for c in range(0, count - 1, 2):
        for begin in (0, lanes // 2):
            places = [(c + i, begin + p) for p in range(lanes // 2) for i in (0, 1)]
            pairs.append(_collect(builder, sources, places))
    if count % 2:
        pairs.append(_collect(builder, sources, [(count - 1, p) for p in range(lanes)]))
    return [_collect(builder, pairs, wanted)[0] for wanted in targets]


def _apart(count: int, lanes: int) -> list[list[Place]]:
    """One register for each channel."""
    return [[(c, p) for p in range(lanes)] for c in range(count)]


def _together(count: int, lanes: int) -> list[list[Place]]:
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

    Nothing happens unless there are 2 to half as many channels as lanes.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(vector_of(source.dtype))
        mask, nothing = first_lanes(builder, args[4], vector.count), ir.Constant(vector, None)

        def emit(count: int) -> None:
            rows = _rows(builder, args[0], args[1], count, vector)
            values = [masked_load(builder, place, mask, nothing) for place in rows]
            sources = list(zip(values, _apart(count, vector.count), strict=True))
            merged = _rearrange(builder, sources, _together(count, vector.count))
            for value, (place, some) in zip(merged, _dense(builder, args[2], args[4], count, vector), strict=True):
                masked_store(builder, value, place, some)

        _for_every_count(builder, args[3], vector.count // 2, emit)
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
            sources = list(zip(values, _together(count, vector.count), strict=True))
            rows = _rows(builder, args[1], args[2], count, vector)
            for value, place in zip(_rearrange(builder, sources, _apart(count, vector.count)), rows, strict=True):
                masked_store(builder, value, place, mask)

        _for_every_count(builder, args[3], vector.count // 2, emit)
        return context.get_dummy_value()

    return types.void(source, target, types.int64, types.int64, types.int64), generate
