"""Denormal numbers: whether the CPU treats them as 0. Arithmetic with them takes up to a hundred times as long."""

from __future__ import annotations

from platform import machine
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import declare
from .vector import I32, I64

_X86, _ARM = machine() in ("x86_64", "AMD64"), machine() in ("aarch64", "arm64")
_FLUSH = 0x8040 if _X86 else 1 << 24  # results and operands: in MXCSR of SSE and AVX, or FZ in FPCR of ARM
_BYTE = ir.IntType(8).as_pointer()


def _read(builder: ir.IRBuilder) -> ir.Value:
    """The control word of floating-point arithmetic."""
    if _ARM:
        return builder.trunc(builder.call(declare(builder, "llvm.aarch64.get.fpcr", I64, []), []), I32)
    word = builder.alloca(I32)
    _with_word(builder, "st", word)
    return builder.load(word)


def _write(builder: ir.IRBuilder, value: ir.Value) -> None:
    if _ARM:
        builder.call(declare(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), [I64]), [builder.zext(value, I64)])
        return
    word = builder.alloca(I32)
    builder.store(value, word)
    _with_word(builder, "ld", word)


def _with_word(builder: ir.IRBuilder, name: str, word: ir.Value) -> None:
    function = declare(builder, f"llvm.x86.sse.{name}mxcsr", ir.VoidType(), [_BYTE])
    builder.call(function, [builder.bitcast(word, _BYTE)])


@intrinsic
def without_denormals(typing: Any) -> Any:
    """Treat denormals as 0 in this thread; returns the state that ``with_denormals_as`` restores. Does nothing except
    on x86 and 64-bit ARM."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if not (_X86 or _ARM):
            return I32(0)
        before = _read(builder)
        _write(builder, builder.or_(before, I32(_FLUSH)))
        return before

    return types.int32(), generate


@intrinsic
def with_denormals_as(typing: Any, before: Any) -> Any:
    """Restore the state ``before``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if _X86 or _ARM:
            _write(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int32), generate
