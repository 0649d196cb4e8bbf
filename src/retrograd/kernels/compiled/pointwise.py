"""Formulas on registers: what each primitive means there, and the loop that runs a formula over dense memory."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from ...formulas import PAIRS, POINTWISE, PRIMITIVES, arity, broadcasts
from .. import simd
from ..compiler import helper, rename
from . import error_function, exponential, math, powers, trigonometric
from .loops import one, one_and_numbers, pair, three_and_numbers, two, two_and_numbers, two_broadcast

Body = Callable[..., None]


@helper
def _sign(x: Any) -> Any:
    return simd.select(x > 0.0, 1.0, simd.select(x < 0.0, simd.full_like(x, -1.0), 0.0))


ON_REGISTERS: dict[str, Callable[..., Any]] = {
    "absolute": simd.absolute,
    "sqrt": simd.sqrt,
    "floor": simd.floor,
    "ceil": simd.ceil,
    "trunc": simd.truncate,
    "nearest": simd.nearest,
    "sign": _sign,
    "where": simd.select,
    "full_like": simd.full_like,
    "exp": math.exp,
    "exp_negative": math.exp_negative,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": exponential.log1p,
    "sigmoid": math.sigmoid,
    "tanh": math.tanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "asinh": exponential.asinh,
    "acosh": exponential.acosh,
    "atanh": exponential.atanh,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "normal_cdf": error_function.normal,
    "pow": powers.pow,
    "hypot": powers.hypot,
    "atan2": trigonometric.atan2,
}
for _name, _primitive in PRIMITIVES.items():
    rename(_primitive, ON_REGISTERS[_name])

_known: set[Callable[..., Any]] = set(PRIMITIVES.values())


def register(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a formula, and what it calls."""
    if formula not in _known:
        _known.add(formula)
        for name in formula.__code__.co_names:
            called = formula.__globals__.get(name)
            if isfunction(called):
                register(called)
        helper(formula)
    return formula


def loop(formula: Callable[..., Any], broadcast: bool = False) -> Body:
    """A kernel that computes a formula of one to three operands and up to three numbers of each element."""
    operands, numbers = arity(formula)
    register(formula)
    if operands == 3:
        return three_and_numbers(_THREE[operands, numbers](formula))
    if broadcast:
        return two_broadcast(formula)
    if not numbers:
        return one(formula) if operands == 1 else two(formula)
    return (one_and_numbers if operands == 1 else two_and_numbers)(_THREE[operands, numbers](formula))


# the loops with numbers have three of them


def _one_of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, p, q, r: function(x, p))


def _one_of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, p, q, r: function(x, p, q))


def _two_of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, y, p, q, r: function(x, y, p))


def _two_of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, y, p, q, r: function(x, y, p, q))


def _none_of_three(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, y, z, p, q, r: function(x, y, z))


def _one_of_three(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, y, z, p, q, r: function(x, y, z, p))


def _two_of_three(function: Callable[..., Any]) -> Callable[..., Any]:
    return helper(lambda x, y, z, p, q, r: function(x, y, z, p, q))


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


_THREE = {
    (1, 1): _one_of_one,
    (1, 2): _one_of_two,
    (1, 3): _as_it_is,
    (2, 1): _two_of_one,
    (2, 2): _two_of_two,
    (2, 3): _as_it_is,
    (3, 0): _none_of_three,
    (3, 1): _one_of_three,
    (3, 2): _two_of_three,
    (3, 3): _as_it_is,
}


def __getattr__(name: str) -> Body:
    """The kernel of a formula or primitive, or of two gradients. (No name of this file may be that of a formula.)"""
    if name in PAIRS:
        return pair(*map(register, PAIRS[name]))
    if name not in POINTWISE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return loop(POINTWISE[name], broadcasts(POINTWISE[name]))
