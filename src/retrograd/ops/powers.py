"""Powers and roots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..formulas.powers import power_grad
from .dtype import as_real, is_number, promote
from .kernel_set import kernels
from .operands import Gradients, binary, recording
from .pointwise import operator, pointwise_of_two, run

__all__ = [
    "hypot",
    "pow",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]


class Pow(Function):
    """x**exponent for a Python number"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return wrap(kernels.power(x.array, exponent))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,), n = ctx.saved_tensors, ctx.exponent
        if n == 0:  # 0 * x**-1 would be NaN at 0
            return wrap(np.zeros_like(g.array)), None
        if n == 1:
            return g * x**0 if recording() else g, None
        if n == 2 and not recording():
            return wrap(kernels.scaled_mul(g.array, x.array, 2.0)), None
        slope = x * n if n == 2 else x ** (n - 1) * n
        return g * slope, None


sqrt = operator("sqrt", "The square root of input: NaN below 0.", saves="result")
rsqrt = operator("rsqrt", "1 / sqrt(input)", saves="result")
reciprocal = operator("reciprocal", "1 / input", saves="result")

PowTensors = pointwise_of_two("pow", exact=np.power)
Hypot = pointwise_of_two("hypot", integers=False)


class PowOfNumber(Function):
    """base**y for a Python number"""

    @staticmethod
    def forward(ctx: Any, base: float, y: Tensor) -> Tensor:
        z = wrap(kernels.pow(np.array(base, y.array.dtype), y.array))
        ctx.save_for_backward(z)
        ctx.factor = math.log(base)
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (z,) = ctx.saved_tensors
        return None, run(power_grad, (g, z), (ctx.factor,))


def square(input: Tensor) -> Tensor:
    """input**2"""
    return pow(input, 2)


def pow(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input**exponent; one of them may be a number. The gradient to input is 0 where the exponent is 0.

    Integers have integer powers; 0**0 is 1; the root of a negative number is NaN. Where an exponent in a Tensor of
    integers is negative, 1 and -1 have powers of 1 and -1, and all other integers 0.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both hold truth values.
        ValueError: the shapes do not broadcast, or integers have a negative integer as exponent.
    """
    if isinstance(input, Tensor) and input.array.dtype.kind == "f" and is_number(exponent):
        return Pow.apply(input, as_real("pow", "exponent", exponent))
    if isinstance(exponent, Tensor) and exponent.array.dtype.kind == "f" and is_number(input) and input > 0:
        return PowOfNumber.apply(as_real("pow", "input", input), exponent)
    x, y = promote("pow", input, exponent, "exponent")
    if x.array.dtype.kind == "b":
        raise TypeError("pow: input and exponent are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind == "i" and (y.array < 0).any():
        if not isinstance(exponent, Tensor):
            raise ValueError("pow: an integer has no negative integer power; convert input with input.float()")
        return _integer_powers(x, y)
    return binary(PowTensors, "pow", x, y)


def _integer_powers(x: Tensor, y: Tensor) -> Tensor:
    """x**y, cut to integers: where y < 0, what is left of 1 / x**-y; 0 there is 0, too."""
    powers = binary(PowTensors, "pow", x, wrap(np.maximum(y.array, 0))).array
    odd = np.where(y.array & 1, x.array, 1)  # of 1 and -1
    return wrap(np.where(y.array < 0, np.where(np.abs(x.array) == 1, odd, 0), powers))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2), without overflow between; as ``add``, but one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    return binary(Hypot, "hypot", input, other)
