"""Numbers too small to be normal, which the CPU takes a hundred times as long for: whether they are 0."""

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
    """From now on they are 0, in this thread; returns what ``with_denormals_as`` takes. Elsewhere than on x86 nothing
    happens."""

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
    """They are what they were ``before``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if machine() in ("x86_64", "AMD64"):
            word = builder.alloca(I32)
            builder.store(args[0], word)
            _control(builder, "ld", word)
        return context.get_dummy_value()

    return types.void(types.int32), generate
