"""Four registers as one value: LLVM splits the operations, and the CPU overlaps the four dependency chains.

A loop body that takes an ``Access`` is written once and compiled twice: for whole blocks of four registers, and for the
remainder, a register at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiler import helper
from .arithmetic import widen
from .memory import lanes, load, load_first, load_first_or, store, store_first, store_integers
from .vector import I32, Vector, llvm_vector, vector_align, vector_of, vector_pointer

REGISTERS = 4


@intrinsic
def load_wide(typing: Any, pointer: Any, index: Any) -> Any:
    """The four registers of elements that start at ``pointer[index]``; ``store`` writes them."""
    one = vector_of(pointer.dtype)
    result = Vector(one.dtype, REGISTERS * one.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = llvm_vector(result)
        value = builder.load(vector_pointer(builder, args[0], args[1], vector))
        value.align = vector_align(vector)
        return value

    return result(pointer, types.int64), generate


@intrinsic
def four_times(typing: Any, x: Any) -> Any:
    """Four copies of a register."""
    count = x.lanes

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        order = ir.Constant(ir.VectorType(I32, REGISTERS * count), list(range(count)) * REGISTERS)
        return builder.shuffle_vector(args[0], ir.Constant(args[0].type, ir.Undefined), order)

    return Vector(x.dtype, REGISTERS * count)(x), generate


def _half(first: int) -> Any:
    @intrinsic
    def half(typing: Any, x: Any) -> Any:
        count = x.lanes // 2

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            order = ir.Constant(ir.VectorType(I32, count), list(range(first * count, (first + 1) * count)))
            return builder.shuffle_vector(args[0], ir.Constant(args[0].type, ir.Undefined), order)

        return Vector(x.dtype, count)(x), generate

    return half


low_half: Final = _half(0)
high_half: Final = _half(1)


def folded(combine: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A function: ``function(x)`` combines four registers to one."""

    @helper
    def fold(x: Any) -> Any:
        two = combine(low_half(x), high_half(x))
        return combine(low_half(two), high_half(two))

    return fold


def wide_ahead(prefetch: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """``prefetch``, a function like ``ahead``, for four registers."""

    @helper
    def four(pointer: Any, index: int) -> None:
        for i in range(index, index + REGISTERS * lanes(pointer), lanes(pointer)):
            prefetch(pointer, i)

    return four


class Access(NamedTuple):
    """Loads and stores of a block. ``n``: its number of elements; the others are 0, or ``other``."""

    registers: int
    load: Callable[[Any, int, int], Any]  # (pointer, index, n)
    load_or: Callable[[Any, int, int, float], Any]  # (pointer, index, n, other)
    store: Callable[[Any, int, Any, int], None]  # (pointer, index, value, n)
    store_integers: Callable[[Any, int, Any, int], None]  # as ``store``, to int64
    ahead: Callable[[Any], Any]  # from a function like ``simd.ahead``, makes one for the whole block


def _whole(registers: int, read: Callable[[Any, int], Any], ahead: Callable[[Any], Any]) -> Access:
    """Access to a full block."""

    @helper
    def load(pointer: Any, index: int, n: int) -> Any:
        return read(pointer, index)

    @helper
    def load_or(pointer: Any, index: int, n: int, other: float) -> Any:
        return read(pointer, index)

    return Access(registers, load, load_or, _store, _store_integers, ahead)


@helper
def _store(pointer: Any, index: int, value: Any, n: int) -> None:
    store(pointer, index, value)


@helper
def _store_integers(pointer: Any, index: int, value: Any, n: int) -> None:
    store(pointer, index, widen(value))


def _same(prefetch: Any) -> Any:
    return prefetch


WIDE, ONE = _whole(REGISTERS, load_wide, wide_ahead), _whole(1, load, _same)
PART = Access(1, load_first, load_first_or, store_first, store_integers, _same)
