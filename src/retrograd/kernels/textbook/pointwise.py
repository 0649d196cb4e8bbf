"""Elementwise kernels: formulas, comparisons, logic, integers, and floating-point parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from ...formulas import FUSED, POINTWISE, form
from .ieee import ieee

__all__ = [
    "at_zero",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "choose",
    "clamp_masks",
    "clamp_parts",
    "formula_kernel",
    "frexp",
    "gcd",
    "integer_powers",
    "isclose",
    "lcm",
    "ldexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "nextafter",
    "shortfall",
    "signbit",
    "unit_step",
]


# ---- The kernels of all formulas ------------------------------------------------------------------------------------


def _truncated_quotient(x: np.ndarray, y: np.ndarray) -> Any:
    down = np.floor_divide(x, y)  # one too low where the quotient is negative and inexact
    return down + ((down < 0) & (down * y != x))


# NumPy's functions of integers and booleans, which are exact and have no intermediate rounding
_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "ceil": np.positive,
    "floor": np.positive,
    "trunc": np.positive,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "where": np.where,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
    "trunc_divide": _truncated_quotient,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def _kind(arrays: tuple[Any, ...]) -> Any:
    """The array to pass as ``like=``: one of another library, if there is one among the operands."""
    return next((each for each in arrays if type(each) is not np.ndarray), arrays[-1])


def on_arrays(formula: Callable[..., Any], of_integers: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The kernel of a formula: the formula itself, in the type of its operands.

    If a formula has several results, the last arguments say which are needed; the others are None. of_integers: the
    function that computes integers and booleans instead.
    """
    one = form(formula)
    last = len(one.operands) - 1

    @ieee
    def run(*values: Any) -> np.ndarray:
        dtype = np.bool_ if one.truth else values[last].dtype
        return np.asarray(formula(*values), dtype, like=_kind(values[: last + 1]))

    exactly: Any = of_integers

    def run_one(x: np.ndarray) -> np.ndarray:
        return run(x) if x.dtype.kind == "f" else np.asarray(exactly(x), like=x)

    def run_two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if y.dtype.kind == "f" and x.dtype.kind not in "iu":
            return run(x, y)
        return np.asarray(exactly(x, y), like=_kind((x, y)))

    def run_three(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return run(condition, x, y) if y.dtype.kind == "f" else np.asarray(exactly(condition, x, y), like=condition)

    @ieee
    def run_several(*values: Any) -> tuple[np.ndarray | None, ...]:
        needed, dtype = values[-one.results :], values[last].dtype
        like = _kind(values[: last + 1])
        pairs = zip(formula(*values[: -one.results]), needed, strict=True)
        return tuple([np.asarray(result, dtype, like=like) if need else None for result, need in pairs])

    if of_integers is not None:
        return wraps(formula)((run_one, run_two, run_three)[last])
    return wraps(formula)(run if one.results == 1 else run_several)


KERNELS: dict[str, Callable[..., Any]] = {
    name: on_arrays(formula, _OF_INTEGERS.get(name)) for name, formula in (POINTWISE | FUSED).items()
}


# ---- Users' formulas: they run on the arrays themselves -------------------------------------------------------------


@cache
def formula_kernel(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a formula of operands of one shape and type, and of up to three numbers.

    If it has several results, the last arguments say which of them are needed.
    """
    return on_arrays(formula)


# ---- Tests and logic of elements of any type, with boolean results. Operands broadcast ------------------------------
# The comparisons themselves are formulas.


def logical_and(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical AND: True where x and y are both nonzero."""
    return np.asarray(np.logical_and(x, y), like=x)


def logical_or(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical OR: True where x, y or both are nonzero."""
    return np.asarray(np.logical_or(x, y), like=x)


def logical_xor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logical XOR: True where exactly one of x and y is nonzero."""
    return np.asarray(np.logical_xor(x, y), like=x)


def logical_not(x: np.ndarray) -> np.ndarray:
    """Logical NOT: True where x is 0."""
    return np.asarray(np.logical_not(x), like=x)


def at_zero(x: np.ndarray) -> np.ndarray:
    """1 where x is 0, else 0, in x's type"""
    return np.asarray(x == 0, x.dtype, like=x)


def unit_step(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mask x == 0, and the unit step in x's type: 1 where x > 0, else 0."""
    return np.asarray(x == 0, like=x), np.asarray(x > 0, x.dtype, like=x)


def signbit(x: np.ndarray) -> np.ndarray:
    """True where the sign bit of x is set, as it is for x < 0 and for -0.0."""
    return np.asarray(np.signbit(x) if x.dtype.kind == "f" else x < 0, like=x)


def isclose(x: np.ndarray, y: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """True where |x - y| <= atol + rtol |y|; equal infinities are close, and NaN is close to NaN if ``equal_nan``."""
    with np.errstate(over="ignore"):  # a tolerance beyond the type's range
        return np.asarray(np.isclose(x, y, rtol, atol, equal_nan), like=x)


def clamp_masks(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masks: where the clamped value is x (low <= x <= high), low (x < low < high), high (x > high or low > high)."""
    inside, below = (x >= low) & (x <= high), (low < high) & (x < low)
    return np.asarray(inside, like=x), np.asarray(below, like=x), np.asarray((x > high) | (low > high), like=x)


# ---- Bits, divisors and powers of integers. Operands broadcast and have one type ------------------------------------


def bitwise_and(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bitwise AND; logical AND of booleans."""
    return np.asarray(np.bitwise_and(x, y), like=x)


def bitwise_or(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bitwise OR; logical OR of booleans."""
    return np.asarray(np.bitwise_or(x, y), like=x)


def bitwise_xor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bitwise XOR; logical XOR of booleans."""
    return np.asarray(np.bitwise_xor(x, y), like=x)


def bitwise_not(x: np.ndarray) -> np.ndarray:
    """Bitwise NOT: -x - 1 for signed integers; logical NOT of booleans."""
    return np.asarray(np.invert(x), like=x)


def bitwise_left_shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x 2**y, without the bits beyond the type"""
    return np.asarray(np.left_shift(x, y), like=x)


def bitwise_right_shift(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / 2**y, rounded down"""
    return np.asarray(np.right_shift(x, y), like=x)


def gcd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The greatest common divisor, at least 0."""
    return np.asarray(np.gcd(x, y), like=x)


def lcm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least common multiple, at least 0."""
    return np.asarray(np.lcm(x, y), like=x)


def integer_powers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x**y, truncated for y < 0: then 1 or -1 for x = 1 and x = -1, and 0 for all other x"""
    powers = np.power(x, np.maximum(y, 0))
    odd = np.where(y & 1, x, 1)  # the powers of 1 and -1
    return np.where(y < 0, np.where(np.abs(x) == 1, odd, 0), powers)


# ---- The binary form of floating-point numbers: mantissa and exponent, and neighbors --------------------------------


def frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mantissa, with 1/2 <= |mantissa| < 1, and the exponent (int32): x = mantissa 2**exponent"""
    mantissa, exponent = np.frexp(x)
    return np.asarray(mantissa, like=x), np.array(exponent, np.int32, like=x)


def ldexp(x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """x 2**exponent for integers ``exponent``; both broadcast"""
    return np.asarray(np.ldexp(x, exponent), like=x)


def nextafter(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next number after x towards y; both broadcast"""
    return np.asarray(np.nextafter(x, y), like=x)


# ---- Numbers chosen by a condition, and the parts of a lower limit --------------------------------------------------


def choose(mask: np.ndarray, yes: float, no: float, dtype: np.dtype[Any]) -> np.ndarray:
    """The number ``yes`` where the mask is not 0, else ``no``, in this type."""
    return np.asarray(np.where(mask, yes, no), dtype, like=mask)


@ieee
def clamp_parts(x: np.ndarray, low: float) -> tuple[np.ndarray, np.ndarray]:
    """kept and added with x kept + added = max(x, low): 0 and ``low`` where x is below, else 1 and 0; in x's type."""
    below = x < low
    return np.asarray(1 - below, x.dtype, like=x), np.asarray(low * below, x.dtype, like=x)


@ieee
def shortfall(x: np.ndarray, low: float) -> np.ndarray:
    """low - x where x is below ``low``, else 0: what is to be added for max(x, low)."""
    return np.asarray(np.where(x < low, low - x, 0), x.dtype, like=x)
