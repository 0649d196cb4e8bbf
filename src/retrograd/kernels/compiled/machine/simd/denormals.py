"""Denormal numbers: whether the CPU treats them as 0. Arithmetic with them takes up to a hundred times as long."""

from __future__ import annotations

from platform import machine
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import declare
from .vector import I32

_FLUSH = 0x8040  # results and operands, in the control word of SSE and AVX
_BYTE = ir.IntType(8).as_pointer()


def _control(builder: ir.IRBuilder, name: str, word: ir.Value) -> None:
    function = declare(builder, f"llvm.x86.sse.{name}mxcsr", ir.VoidType(), [_BYTE])
    builder.call(function, [builder.bitcast(word, _BYTE)])


@intrinsic
def without_denormals(typing: Any) -> Any:
    """Treat denormals as 0 in this thread; returns the state that ``with_denormals_as`` restores. Does nothing except
    on x86."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if machine() not in ("x86_64", "AMD64"):
            return I32(0)
        word = builder.alloca(I32)
        _control(builder, "st", word)
        before = builder.load(word)
        builder.store(builder.or_(before, I32(_FLUSH)), word)
        _control(builder, "ld", word)
        return before

    return types.int32(), generate


@intrinsic
def with_denormals_as(typing: Any, before: Any) -> Any:
    """Restore the state ``before``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if machine() in ("x86_64", "AMD64"):
            word = builder.alloca(I32)
            builder.store(args[0], word)
            _control(builder, "ld", word)
        return context.get_dummy_value()

    return types.void(types.int32), generate
