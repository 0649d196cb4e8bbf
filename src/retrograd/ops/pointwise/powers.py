"""Powers and roots."""

from __future__ import annotations

import math

import numpy as np

from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_real, is_number
from ..dtypes.promotion import promote
from .operands import binary
from .pointwise import operator, operator_of_two, pointwise

__all__ = [
    "hypot",
    "pow",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]


sqrt = operator("sqrt", "The square root of input: NaN below 0.", (0.5, 2.0))
rsqrt = operator("rsqrt", "1 / sqrt(input)", (0.5, 2.0))
reciprocal = operator("reciprocal", "1 / input", (0.5, 2.0))

Pow = pointwise("power", title="Pow")  # of a Tensor to a Python number
PowOfNumber = pointwise("power_of_number", title="PowOfNumber")
PowTensors = pointwise("pow", title="PowTensors", exact=np.power)
hypot = operator_of_two(
    "hypot",
    """sqrt(input**2 + other**2) without intermediate overflow; as ``add``, but one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """,
    ((0.5, 2.0), (0.5, 2.0)),
    integers=False,
)


def square(input: Tensor) -> Tensor:
    """input**2"""
    return pow(input, 2)


def pow(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input**exponent; one of them may be a number. The gradient to input is 0 where the exponent is 0.

    Powers of integers are integers; 0**0 is 1; roots of negative numbers are NaN. A negative exponent in a Tensor of
    integers gives powers 1 or -1 of 1 and -1, and 0 of all other integers.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both hold truth values.
        ValueError: the shapes do not broadcast, or integers have a negative integer as exponent.
    """
    if isinstance(input, Tensor) and input.array.dtype.kind == "f" and is_number(exponent):
        return Pow.apply(input, as_real("pow", "exponent", exponent))
    if isinstance(exponent, Tensor) and exponent.array.dtype.kind == "f" and is_number(input) and input > 0:
        base = as_real("pow", "input", input)
        return PowOfNumber.apply(exponent, base, math.log(base))
    x, y = promote("pow", input, exponent, "exponent")
    if x.array.dtype.kind == "b":
        raise TypeError("pow: input and exponent are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind in "iu" and (y.array < 0).any():
        if not isinstance(exponent, Tensor):
            raise ValueError("pow: an integer has no negative integer power; convert input with input.float()")
        return _integer_powers(x, y)
    return binary(PowTensors, "pow", x, y)


def _integer_powers(x: Tensor, y: Tensor) -> Tensor:
    """x**y truncated to integers, where y < 0 too: 1 / x**-y, truncated, and 0 for x = 0."""
    powers = binary(PowTensors, "pow", x, wrap(np.maximum(y.array, 0))).array
    odd = np.where(y.array & 1, x.array, 1)  # of 1 and -1
    return wrap(np.where(y.array < 0, np.where(np.abs(x.array) == 1, odd, 0), powers))
