"""Absolute value, sign, rounding, and division with remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_count, require_float
from ..dtypes.promotion import promote
from .operands import Binary, binary, unary_exact, unary_float
from .pointwise import pointwise

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


Abs = pointwise("abs")


Sign = pointwise("sign")
Ceil = pointwise("ceil")
Floor = pointwise("floor")
Trunc = pointwise("trunc")
Round = pointwise("round")
RoundPlaces = pointwise("round_places")
RoundTens = pointwise("round_tens")
Frac = pointwise("frac")
Fmod = pointwise("fmod", exact=np.fmod)
Remainder = pointwise("remainder", exact=np.remainder)
FloorDivide = pointwise("floor_divide", exact=np.floor_divide)


def _towards_0(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    down = np.floor_divide(x, y)  # one too low where the quotient is negative and inexact
    return np.asarray(down + ((down < 0) & (down * y != x)))


TruncDivide = pointwise("trunc_divide", exact=_towards_0)


def abs(input: Tensor) -> Tensor:
    """|input|; the gradient at 0 is 0."""
    return unary_exact(Abs, "abs", np.abs, input)


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1, and 0 for NaN; the gradient is 0. Truth values are their own sign."""
    if isinstance(input, Tensor) and input.array.dtype.kind == "b":
        return wrap(input.array.copy())
    return unary_exact(Sign, "sign", np.sign, input)


def ceil(input: Tensor) -> Tensor:
    """The least integer that is not below input; the gradient is 0."""
    return unary_exact(Ceil, "ceil", np.positive, input)


def floor(input: Tensor) -> Tensor:
    """The largest integer that is not above input; the gradient is 0."""
    return unary_exact(Floor, "floor", np.positive, input)


def trunc(input: Tensor) -> Tensor:
    """The integer next to input towards 0; the gradient is 0."""
    return unary_exact(Trunc, "trunc", np.positive, input)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """input rounded to ``decimals`` decimal places (negative: left of the point), halves to the even digit.

    The gradient is 0.

    Raises:
        TypeError: input is neither floating-point nor int64, or decimals are given for int64.
    """
    decimals = as_count("round", "decimals", decimals, -308, 308)
    if isinstance(input, Tensor) and input.array.dtype.kind in "iu" and not decimals:
        return wrap(input.array.copy())
    require_float("round", input)
    if decimals:
        return (RoundPlaces if decimals > 0 else RoundTens).apply(input, 10.0 ** max(decimals, -decimals))
    return Round.apply(input)


def frac(input: Tensor) -> Tensor:
    """input - trunc(input)"""
    return unary_float(Frac, "frac", input)


def fmod(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * trunc(input / other), with the sign of input; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(Fmod, "fmod", input, other)


def remainder(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input - other * floor(input / other), with the sign of other, as Python's %; shapes broadcast.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(Remainder, "remainder", input, other)


def floor_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """floor(input / other), as Python's //; shapes broadcast; the gradient is 0.

    Raises:
        ZeroDivisionError: integers are divided by 0.
    """
    return _divided(FloorDivide, "floor_divide", input, other)


def trunc_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """trunc(input / other): ``div`` with rounding_mode="trunc"."""
    return _divided(TruncDivide, "div", input, other)


def _divided(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    x, y = promote(name, x, y)
    if x.array.dtype.kind == "b":
        raise TypeError(f"{name}: input and other are bool, needs numbers; convert one with .long()")
    if x.array.dtype.kind in "iu" and not y.array.all():
        raise ZeroDivisionError(f"{name}: other contains 0, integers have no inf; convert input with input.float()")
    return binary(operator, name, x, y)


absolute, sgn, fix = abs, sign, trunc
