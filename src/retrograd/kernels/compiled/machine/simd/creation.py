"""Registers not loaded from memory: a number in every lane, or 0, 1, 2, ..."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .codegen import as_vector
from .vector import Vector, llvm_vector, vector_of


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
