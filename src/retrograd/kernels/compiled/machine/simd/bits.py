"""Conversions of lanes: the bits of floating-point numbers as integers, shifts, and float64 for sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import as_vector
from .vector import Vector, integer_of, llvm_vector


def _float_of(x: Vector) -> Vector:
    return Vector(types.float32 if x.dtype == types.int32 else types.float64, x.lanes)


def _conversion(method: str, result_of: Callable[[Vector], Vector]) -> Any:
    @intrinsic
    def apply(typing: Any, x: Any) -> Any:
        result = result_of(x)
        generate = lambda context, builder, signature, args: getattr(builder, method)(args[0], llvm_vector(result))  # noqa: E731
        return result(x), generate

    return apply


bits_of = _conversion("bitcast", integer_of)  # same bits
float_from_bits = _conversion("bitcast", _float_of)  # same bits
widen = _conversion("sext", lambda x: Vector(types.int64, x.lanes))  # 64 bits per lane, maybe several registers


@intrinsic
def double(typing: Any, x: Any) -> Any:
    """The same numbers in float64, maybe in several registers."""
    result = Vector(types.float64, x.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return args[0] if x == result else builder.fpext(args[0], llvm_vector(result))

    return result(x), generate


@intrinsic
def rounded(typing: Any, x: Any, like: Any) -> Any:
    """Numbers in float64 as elements of the array or vector ``like``."""
    result = Vector(like.dtype, x.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return args[0] if x == result else builder.fptrunc(args[0], llvm_vector(result))

    return result(x, like), generate


@intrinsic
def shift_left(typing: Any, x: Any, count: Any) -> Any:
    """``x << count`` of an integer vector."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.shl(args[0], as_vector(context, builder, args[1], signature.args[1], x))

    return x(x, count), generate


@intrinsic
def shift_right(typing: Any, x: Any, count: Any) -> Any:
    """``x >> count`` of an integer vector, the sign kept."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.ashr(args[0], as_vector(context, builder, args[1], signature.args[1], x))

    return x(x, count), generate
