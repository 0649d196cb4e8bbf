"""Powers and roots."""

from __future__ import annotations

import math

import numpy as np

from ...arrays import any_true, zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..arguments.checks import as_float, as_real, is_number
from ..dtypes.promotion import promote
from ..shape.broadcasting import broadcast_shape
from .operands import Binary, binary
from .pointwise import Pointwise

__all__ = [
    "hypot",
    "pow",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]


class Sqrt(Pointwise, formula="sqrt"):
    """The square root; NaN below 0."""


@operator(records=Sqrt, domains=((0.5, 2.0),), methods="sqrt", in_place=True, numpy="sqrt", dtypes="bif")
def sqrt(input: Tensor) -> Tensor:
    """The square root of input: NaN below 0."""
    if interpreters and (seen := interpreted(sqrt, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Sqrt.apply(input)
    return Sqrt.apply(as_float("sqrt", input))


class Rsqrt(Pointwise, formula="rsqrt"):
    """1 / sqrt(x)"""


@operator(records=Rsqrt, domains=((0.5, 2.0),), methods="rsqrt", in_place=True, dtypes="bif")
def rsqrt(input: Tensor) -> Tensor:
    """1 / sqrt(input)"""
    if interpreters and (seen := interpreted(rsqrt, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Rsqrt.apply(input)
    return Rsqrt.apply(as_float("rsqrt", input))


class Reciprocal(Pointwise, formula="reciprocal"):
    """1 / x"""


@operator(
    records=Reciprocal,
    domains=((0.5, 2.0),),
    methods="reciprocal",
    in_place=True,
    numpy="reciprocal",
    dtypes="bif",
)
def reciprocal(input: Tensor) -> Tensor:
    """1 / input"""
    if interpreters and (seen := interpreted(reciprocal, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Reciprocal.apply(input)
    return Reciprocal.apply(as_float("reciprocal", input))


class Pow(Pointwise, formula="power"):  # of a Tensor to a Python number
    """x**exponent"""


class PowOfNumber(Pointwise, formula="power_of_number"):
    """base**x for a positive base, whose logarithm the gradient uses"""


class PowTensors(Pointwise, Binary, formula="pow"):
    """x**y; NaN for a negative x and a y that is not an integer"""

    exact = True


class Hypot(Pointwise, Binary, formula="hypot"):
    """sqrt(x**2 + y**2), without overflow between"""

    integers = False


@operator(records=Hypot, domains=((0.5, 2.0), (0.5, 2.0)), methods="hypot", in_place=True, numpy="hypot", dtypes="hf")
def hypot(input: Tensor | float, other: Tensor | float) -> Tensor:
    """sqrt(input**2 + other**2) without intermediate overflow; as ``add``, but one operand must be floating-point.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: neither operand is floating-point, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(hypot, locals())) is not None:
        return seen
    return binary(Hypot, "hypot", input, other)


@operator(methods="square", in_place=True, numpy="square", dtypes="bihf")
def square(input: Tensor) -> Tensor:
    """input**2"""
    if interpreters and (seen := interpreted(square, locals())) is not None:
        return seen
    return pow(input, 2)


@operator(records=(Pow, PowOfNumber, PowTensors), methods="pow __pow__", in_place=True, numpy="power", dtypes="bihf")
def pow(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input**exponent; one of them may be a number. The gradient to input is 0 where the exponent is 0.

    Powers of integers are integers; 0**0 is 1; roots of negative numbers are NaN. A negative exponent in a Tensor of
    integers gives powers 1 or -1 of 1 and -1, and 0 of all other integers.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or both hold truth values.
        ValueError: the shapes do not broadcast, or integers have a negative integer as exponent.
    """
    if interpreters and (seen := interpreted(pow, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.kind == "f" and is_number(exponent):
        return Pow.apply(input, as_real("pow", "exponent", exponent))
    if isinstance(exponent, Tensor) and exponent.array.dtype.kind == "f" and is_number(input) and input > 0:
        base = as_real("pow", "input", input)
        return PowOfNumber.apply(exponent, base, math.log(base))
    x, y = promote("pow", input, exponent, "exponent")
    if x.array.dtype.kind == "b":
        raise TypeError("pow: input and exponent are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind in "iu" and _any_negative(y.array):
        if not isinstance(exponent, Tensor):
            raise ValueError("pow: an integer has no negative integer power; convert input with input.float()")
        return _integer_powers(x, y)
    return binary(PowTensors, "pow", x, y)


def _integer_powers(x: Tensor, y: Tensor) -> Tensor:
    """x**y truncated to integers, where y < 0 too: 1 / x**-y, truncated, and 0 for x = 0."""
    broadcast_shape("pow", x.array.shape, y.array.shape)
    return wrap(kernels.integer_powers(x.array, y.array))


def _any_negative(y: np.ndarray) -> bool:
    return any_true(exact("lt")(y, zeros((), y.dtype, like=y)), "whether an exponent is negative")
