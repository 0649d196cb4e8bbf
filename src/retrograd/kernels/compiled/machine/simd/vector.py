"""The types of SIMD values: a register of numbers, a truth value per lane, and what LLVM calls them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from ..target import vector_bytes

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
ELEMENT = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: I32, types.int64: I64}
BITS = {types.float32: 32, types.float64: 64, types.int32: 32, types.int64: 64}


class Vector(types.Type):  # type: ignore[misc]
    """A register full of ``dtype``."""

    lanes: int

    def __init__(self, dtype: types.Type, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype} x {lanes})")

    @property
    def key(self) -> tuple[types.Type, int]:
        return self.dtype, self.lanes


class Mask(types.Type):  # type: ignore[misc]
    """One truth value per lane."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


def vector_of(element: types.Type) -> Vector:
    """The vector type of one register of ``element``."""
    return Vector(element, vector_bytes() * 8 // BITS[element])


def integer_of(x: Vector) -> Vector:
    """The vector type of integers as wide as the lanes of ``x``."""
    return Vector(types.int32 if x.dtype == types.float32 else types.int64, x.lanes)


def llvm_vector(vector: Vector) -> ir.VectorType:
    """LLVM's type of a register."""
    return ir.VectorType(ELEMENT[vector.dtype], vector.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, llvm_vector(vector))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, mask: Mask) -> None:
        super().__init__(manager, mask, ir.VectorType(I1, mask.lanes))
