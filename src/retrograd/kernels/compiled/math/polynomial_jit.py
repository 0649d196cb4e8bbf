# mypy: ignore-errors
"""Polynomials of a register, with coefficients for each element type."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..machine.simd import declare, suffix


def polynomial(single: tuple[float, ...], double: tuple[float, ...]) -> Any:
    """A function: ``function(x)`` is ``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule, each step rounded once."""

    @intrinsic
    def evaluate(typing: Any, x: Any) -> Any:
        coefficients = single if x.dtype == types.float32 else double

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = args[0].type
            fma = declare(builder, f"llvm.fma.{suffix(vector)}", vector, [vector] * 3)
            constants = [ir.Constant(vector, [ir.Constant(vector.element, c)] * vector.count) for c in coefficients]
            y = constants[-1]
            for constant in reversed(constants[:-1]):
                y = builder.call(fma, [y, args[0], constant])
            return y

        return x(x), generate

    return evaluate
