# mypy: ignore-errors
"""LLVM IR of the tiles of a depthwise convolution: registers of a few channels at adjacent positions.

Up to four taps, one after the other, slide over a row of pixels: each pixel is loaded once for all of them. A mask has
a bit for each pixel that exists and is needed; the others are padding, which is never multiplied: 0 * NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..machine.microkernel import registers
from ..machine.microkernel_jit import clamped
from ..machine.simd import I32, I64, Vector, declare, first_lanes, masked_load, masked_store, suffix
from ..machine.simd.vector import llvm_vector, vector_align, vector_of
from .depthwise import GATHER_TAPS, GATHER_TILE, SUMS_TAPS, SUMS_TILE

_TOGETHER = 4  # pixels that are tested together
# sums of a tap in the weight gradient, so that they need not wait for each other, by the number of taps
_CHAINS = (4, 4, 3, 2) if registers() == 32 else (4, 2, 2, 1)


def _tile(vector: Vector, positions: int) -> types.Type:
    return types.UniTuple(vector, positions)


def _access(count: ir.Value | None, vector: ir.VectorType, builder: ir.IRBuilder) -> Any:
    """Functions that read and write a register, or its first ``count`` lanes."""
    mask = None if count is None else first_lanes(builder, count, vector.count)

    def read(place: ir.Value) -> ir.Value:
        place = builder.bitcast(place, vector.as_pointer())
        if mask is not None:
            return masked_load(builder, place, mask, ir.Constant(vector, None))
        value = builder.load(place)
        value.align = vector_align(vector)
        return value

    def write(value: ir.Value, place: ir.Value) -> None:
        place = builder.bitcast(place, vector.as_pointer())
        if mask is not None:
            masked_store(builder, value, place, mask)
        else:
            builder.store(value, place).align = vector_align(vector)

    return read, write


def _if_bit(
    builder: ir.IRBuilder, mask: ir.Value, bit: int, values: list[ir.Value], run: Callable[[], dict[int, ir.Value]]
) -> None:
    """If the bit is set, replace the values that ``run`` returns."""
    chosen = builder.icmp_unsigned("!=", builder.and_(mask, I32(1 << bit)), I32(0))
    before, inside, after = builder.block, builder.append_basic_block("inside"), builder.append_basic_block("after")
    builder.cbranch(chosen, inside, after)
    builder.position_at_end(inside)
    changed = run()
    inside = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    for place, value in changed.items():
        merged = builder.phi(value.type)
        merged.add_incoming(values[place], before)
        merged.add_incoming(value, inside)
        values[place] = merged


def _join(builder: ir.IRBuilder, values: list[list[ir.Value]], blocks: list[ir.Block]) -> list[ir.Value]:
    """The values that come from each of the blocks, all of which branch here."""
    merged = []
    for column in zip(*values, strict=True):
        merged.append(builder.phi(column[0].type))
        for value, block in zip(column, blocks, strict=True):
            merged[-1].add_incoming(value, block)
    return merged


def _per_taps(
    builder: ir.IRBuilder, taps: ir.Value, most: int, emit: Callable[[int], list[ir.Value]]
) -> list[ir.Value]:
    """The results of the code that ``emit`` generates for the number of taps, ``most`` at most."""
    starts = [builder.append_basic_block(f"taps{count}") for count in range(1, most + 1)]
    end = builder.append_basic_block("end")
    choice = builder.switch(taps, starts[-1])
    values, blocks = [], []
    for count, start in enumerate(starts, 1):
        if count < most:
            choice.add_case(I64(count), start)
        builder.position_at_end(start)
        values.append(emit(count))
        blocks.append(builder.block)
        builder.branch(end)
    builder.position_at_end(end)
    return _join(builder, values, blocks)


def _elements(builder: ir.IRBuilder, tile: ir.Value) -> list[ir.Value]:
    return [builder.extract_value(tile, place) for place in range(tile.type.count)]


@intrinsic
def tile_of(typing: Any, value: Any) -> Any:
    """The register ``value`` at every position."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return context.make_tuple(builder, signature.return_type, list(args) * GATHER_TILE)

    return _tile(value, GATHER_TILE)(value), generate


def _slide(first: bool) -> Any:
    @intrinsic
    def slide(
        typing: Any,
        x: Any,
        source: Any,
        step: Any,
        w: Any,
        weight: Any,
        weight_step: Any,
        taps: Any,
        mask: Any,
        count: Any,
        tile: Any,
    ) -> Any:
        """``tile[p] += sum over t < taps of x[source + (p + t)*step] * w[weight + t*weight_step]``.

        mask: the pixels p + t that are read. count: the number of channels, for ``first``.
        """
        numbers = [types.int64] * 3

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x, source, step, w, weight, weight_step, taps, mask, count, tile = args
            vector = llvm_vector(vector_of(signature.args[0].dtype))
            read, _ = _access(count if first else None, vector, builder)
            fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
            mask = builder.trunc(mask, I32)
            begin = _elements(builder, tile)

            def emit(number: int) -> list[ir.Value]:
                place, weights = builder.gep(w, [weight]), []
                for _ in range(number):
                    weights.append(read(place))
                    place = builder.gep(place, [weight_step])
                sums, pixel = list(begin), builder.gep(x, [source])

                def products(j: int, pixel: ir.Value, sums: list[ir.Value]) -> dict[int, ir.Value]:
                    value = read(pixel)
                    return {
                        j - t: builder.call(fma, [value, weights[t], sums[j - t]])
                        for t in range(number)
                        if 0 <= j - t < GATHER_TILE
                    }

                pixels, middle = GATHER_TILE + number - 1, -(-GATHER_TILE // 2 // _TOGETHER) * _TOGETHER
                for first in range(0, pixels, _TOGETHER):
                    if first == middle:  # short rows end here
                        short, of_short, rest = sums, builder.block, builder.append_basic_block("rest")
                        end = builder.append_basic_block("end")
                        builder.cbranch(builder.icmp_unsigned("<", mask, I32(1 << middle)), end, rest)
                        builder.position_at_end(rest)
                    some = range(first, min(first + _TOGETHER, pixels))
                    bits = I32(sum(1 << j for j in some))
                    every, each, after = (builder.append_basic_block(name) for name in ("every", "each", "after"))
                    builder.cbranch(builder.icmp_unsigned("==", builder.and_(mask, bits), bits), every, each)
                    found, blocks = [], []
                    for block, tested in ((every, False), (each, True)):
                        builder.position_at_end(block)
                        values = list(sums)
                        for j in some:
                            place = builder.gep(pixel, [builder.mul(step, I64(j - first))])
                            run = partial(products, j, place, values)
                            if tested:
                                _if_bit(builder, mask, j, values, run)
                            else:
                                for p, value in run().items():
                                    values[p] = value
                        found.append(values)
                        blocks.append(builder.block)
                        builder.branch(after)
                    builder.position_at_end(after)
                    sums = _join(builder, found, blocks)
                    pixel = builder.gep(pixel, [builder.mul(step, I64(_TOGETHER))])
                block = builder.block
                builder.branch(end)
                builder.position_at_end(end)
                return _join(builder, [short, sums], [of_short, block])

            return context.make_tuple(builder, signature.return_type, _per_taps(builder, taps, GATHER_TAPS, emit))

        return tile(x, *numbers[:2], w, *numbers[:2], types.int64, types.int64, types.int64, tile), generate

    return slide


def _load_tile(first: bool) -> Any:
    @intrinsic
    def load_tile(typing: Any, pointer: Any, index: Any, step: Any, begin: Any, count: Any) -> Any:
        """The registers at ``pointer[index + (p - begin)*step]`` for p from ``begin`` on; before it, zeros."""
        vector = vector_of(pointer.dtype)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            pointer, index, step, begin, count = args
            read, _ = _access(count if first else None, llvm_vector(vector), builder)
            place = builder.gep(pointer, [builder.sub(index, builder.mul(begin, step))])
            mask = builder.shl(I32(-1), builder.trunc(begin, I32))
            values = [ir.Constant(llvm_vector(vector), None)] * SUMS_TILE
            for p in range(SUMS_TILE):
                _if_bit(builder, mask, p, values, lambda p=p, place=place: {p: read(place)})
                place = builder.gep(place, [step])
            return context.make_tuple(builder, signature.return_type, values)

        return _tile(vector, SUMS_TILE)(pointer, types.int64, types.int64, types.int64, types.int64), generate

    return load_tile


def _store_tile(first: bool) -> Any:
    @intrinsic
    def store_tile(
        typing: Any, pointer: Any, index: Any, step: Any, tile: Any, positions: Any, count: Any, bounds: Any
    ) -> Any:
        """Write the first ``positions`` registers to ``pointer[index + p*step]``.

        bounds: 0, or the address of two elements between which they are clamped before.
        """

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            pointer, index, step, tile, positions, count, bounds = args
            cells = {(p, 0): value for p, value in enumerate(_elements(builder, tile))}
            values = [*clamped(builder, cells, bounds).values()]
            _, write = _access(count if first else None, values[0].type, builder)
            place = builder.gep(pointer, [index])
            for p, value in enumerate(values):
                with builder.if_then(builder.icmp_signed(">", positions, I64(p))):
                    write(value, place)
                place = builder.gep(place, [step])
            return context.get_dummy_value()

        number = types.int64
        return types.void(pointer, number, number, tile, number, number, number), generate

    return store_tile


def _correlate(first: bool) -> Any:
    @intrinsic
    def correlate(
        typing: Any,
        x: Any,
        source: Any,
        step: Any,
        sums: Any,
        at: Any,
        sum_step: Any,
        taps: Any,
        mask: Any,
        begin: Any,
        count: Any,
        tile: Any,
    ) -> Any:
        """``sums[at + t*sum_step] += sum over p >= begin of x[source + (p - begin + t)*step] * tile[p]``.

        mask: the pixels p + t that are read.
        """

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x, source, step, sums, at, sum_step, taps, mask, begin, count, tile = args
            vector = llvm_vector(vector_of(signature.args[0].dtype))
            read, _ = _access(count if first else None, vector, builder)
            whole, write = _access(None, vector, builder)
            fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
            mask = builder.trunc(mask, I32)
            factors, start = _elements(builder, tile), builder.gep(x, [source])

            def emit(number: int) -> list[ir.Value]:
                """The first pixels meet fewer taps; for each ``begin`` there is code for them."""
                chains = _CHAINS[number - 1]

                def pixel(j: int, number_here: int, place: ir.Value, values: list[ir.Value]) -> None:
                    def products() -> dict[int, ir.Value]:
                        value, changed = read(place), {}
                        for t in range(number_here):
                            if 0 <= j - t < SUMS_TILE:
                                chain = t * chains + j % chains
                                changed[chain] = builder.call(fma, [value, factors[j - t], values[chain]])
                        return changed

                    _if_bit(builder, mask, j, values, products)

                place, places = builder.gep(sums, [at]), []
                zero, before = ir.Constant(vector, None), []
                for _ in range(number):
                    places.append(place)
                    before += [whole(place)] + [zero] * (chains - 1)
                    place = builder.gep(place, [sum_step])
                entries = [builder.append_basic_block(f"begin{p}") for p in range(SUMS_TILE)]
                choice = builder.switch(begin, entries[0])
                arriving: list[tuple[list[ir.Value], ir.Block]] = []
                for p, entry in enumerate(entries):
                    if p:
                        choice.add_case(I64(p), entry)
                    builder.position_at_end(entry)
                    values, place = list(before), start
                    for i in range(number - 1):
                        pixel(p + i, i + 1, place, values)
                        place = builder.gep(place, [step])
                    arriving.append(([*values, place], builder.block))
                values = []
                block = None
                for p in range(SUMS_TILE):
                    following = builder.append_basic_block(f"pixel{p}")
                    sources = [arriving[p]] if block is None else [arriving[p], ([*values, place], block)]
                    for _, each in sources:
                        builder.position_at_end(each)
                        builder.branch(following)
                    builder.position_at_end(following)
                    *values, place = _join(builder, [each for each, _ in sources], [each for _, each in sources])
                    pixel(p + number - 1, number, place, values)
                    place = builder.gep(place, [step])
                    block = builder.block
                for t, place in enumerate(places):
                    one, *others = values[t * chains : (t + 1) * chains]
                    for other in others:
                        one = builder.fadd(one, other)
                    write(one, place)
                return []

            _per_taps(builder, taps, SUMS_TAPS, emit)
            return context.get_dummy_value()

        number = types.int64
        arguments = (x, number, number, sums, *[number] * 6, tile)
        return types.void(*arguments), generate

    return correlate


class Tiles(NamedTuple):
    """Access to whole registers of channels, or to the first ``count`` channels of a tensor with fewer than lanes."""

    slide: Any
    correlate: Any
    load: Any
    store: Any


WHOLE: Final = Tiles(_slide(False), _correlate(False), _load_tile(False), _store_tile(False))
PART: Final = Tiles(_slide(True), _correlate(True), _load_tile(True), _store_tile(True))
