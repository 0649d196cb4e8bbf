"""Absolute value, sign, rounding, and division with remainder."""

from __future__ import annotations

from typing import Any, Final

from ...arrays import all_true
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_count, require_float
from ..dtypes.promotion import promote
from .pointwise import Binary, Pointwise, binary, unary_exact, unary_float

__all__ = [
    "abs",
    "absolute",
    "ceil",
    "fix",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "remainder",
    "round",
    "sgn",
    "sign",
    "trunc",
]


class Abs(Pointwise, formula="abs"):
    """|x|"""


class Sign(Pointwise, formula="sign"):
    """1 where x > 0, -1 where x < 0, 0 elsewhere, including at NaN"""


class Ceil(Pointwise, formula="ceil"):
    """The smallest integer not below x."""


class Floor(Pointwise, formula="floor"):
    """The largest integer not above x."""


class Trunc(Pointwise, formula="trunc"):
    """x rounded toward 0."""


class Round(Pointwise, formula="round"):
    """The nearest integer; halves round to even."""


class RoundPlaces(Pointwise, formula="round_places"):
    """x rounded to n decimal places, with factor = 10**n"""


class RoundTens(Pointwise, formula="round_tens"):
    """x rounded to multiples of factor, a power of 10"""


class Frac(Pointwise, formula="frac"):
    """x - trunc(x)"""


class Fmod(Pointwise, Binary, formula="fmod"):
    """x - y trunc(x / y), exactly: the remainder with the sign of x"""

    exact = True


class Remainder(Pointwise, Binary, formula="remainder"):
    """x - y floor(x / y), exactly: the remainder with the sign of y"""

    exact = True


class FloorDivide(Pointwise, Binary, formula="floor_divide"):
    """floor(x / y) for the exact quotient; x / y where y is 0"""

    exact = True


class TruncDivide(Pointwise, Binary, formula="trunc_divide"):
    """trunc(x / y)"""

    exact = True


@operator(records=Abs, methods="abs absolute __abs__", in_place=True, numpy="absolute fabs", dtypes="if")
def abs(input: Tensor) -> Tensor:
    """|input|; the gradient at 0 is 0."""
    if interpreters and (seen := interpreted(abs, locals())) is not None:
        return seen
    return unary_exact(Abs, "abs", input)


@operator(records=Sign, methods="sign sgn", in_place=True, numpy="sign", dtypes="bif")
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1, and 0 for NaN; the gradient is 0. Booleans are their own sign."""
    if interpreters and (seen := interpreted(sign, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.kind == "b":
        return wrap(kernels.reshaped(input.array, input.array.shape))
    return unary_exact(Sign, "sign", input)


@operator(records=Ceil, methods="ceil", in_place=True, numpy="ceil", dtypes="if")
def ceil(input: Tensor) -> Tensor:
    """The smallest integer not below input; the gradient is 0."""
    if interpreters and (seen := interpreted(ceil, locals())) is not None:
        return seen
    return unary_exact(Ceil, "ceil", input)


@operator(records=Floor, methods="floor", in_place=True, numpy="floor", dtypes="if")
def floor(input: Tensor) -> Tensor:
    """The largest integer not above input; the gradient is 0."""
    if interpreters and (seen := interpreted(floor, locals())) is not None:
        return seen
    return unary_exact(Floor, "floor", input)


@operator(records=Trunc, methods="trunc fix", in_place=True, numpy="trunc", dtypes="if")
def trunc(input: Tensor) -> Tensor:
    """input rounded toward 0; the gradient is 0."""
    if interpreters and (seen := interpreted(trunc, locals())) is not None:
        return seen
    return unary_exact(Trunc, "trunc", input)


@operator(records=(RoundPlaces, RoundTens, Round), methods="round", in_place=True, numpy="rint", dtypes="if")
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """input rounded to ``decimals`` decimal places (negative: left of the point), halves to even.

    The gradient is 0.

    Raises:
        TypeError: input is neither floating-point nor int64, or decimals is given for int64.
    """
    if interpreters and (seen := interpreted(round, locals())) is not None:
        return seen
    decimals = as_count("round", "decimals", decimals, -308, 308)
    if isinstance(input, Tensor) and input.array.dtype.kind in "iu" and not decimals:
        return wrap(kernels.reshaped(input.array, input.array.shape))
    require_float("round", input)
    if decimals:
        return (RoundPlaces if decimals > 0 else RoundTens).apply(input, 10.0 ** max(decimals, -decimals))
    return Round.apply(input)


@operator(records=Frac, methods="frac", in_place=True)
def frac(input: Tensor) -> Tensor:
    """input - trunc(input)"""
    if interpreters and (seen := interpreted(frac, locals())) is not None:
        return seen
    return unary_float(Frac, "frac", input)


@operator(records=Fmod, methods="fmod", in_place=True, numpy="fmod", dtypes="ihf")
def fmod(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * trunc(input / other), with the sign of input; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    if interpreters and (seen := interpreted(fmod, locals())) is not None:
        return seen
    return _divided(Fmod, "fmod", input, other)


@operator(records=Remainder, methods="remainder __mod__", in_place=True, numpy="remainder", dtypes="ihf")
def remainder(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * floor(input / other), with the sign of other, like Python's %; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    if interpreters and (seen := interpreted(remainder, locals())) is not None:
        return seen
    return _divided(Remainder, "remainder", input, other)


@operator(records=FloorDivide, methods="floor_divide __floordiv__", in_place=True, numpy="floor_divide", dtypes="ihf")
def floor_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """floor(input / other), like Python's //; shapes broadcast; the gradient is 0.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    if interpreters and (seen := interpreted(floor_divide, locals())) is not None:
        return seen
    return _divided(FloorDivide, "floor_divide", input, other)


def trunc_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """trunc(input / other): ``div`` with rounding_mode="trunc"."""
    return _divided(TruncDivide, "div", input, other)


def _divided(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    x, y = promote(name, x, y)
    if x.array.dtype.kind == "b":
        raise TypeError(f"{name}: input and other are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind in "iu" and not all_true(y.array, "whether a divisor is 0"):
        raise ZeroDivisionError(f"{name}: other contains 0, integers have no inf; convert input with input.float()")
    return binary(operator, name, x, y)


absolute: Final = abs
sgn: Final = sign
fix: Final = trunc
