# mypy: ignore-errors
"""Formulas on registers: the primitives, and the loop that runs a formula over memory."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from ....formulas import FUSED, POINTWISE, PRIMITIVES, form
from ....formulas.registry import Together
from ..machine import simd
from ..machine.compiler import helper, rename
from ..math import elementary_jit as math
from ..math import error_function_jit as error_function
from ..math import exponential_jit as exponential
from ..math import powers_jit as powers
from ..math import trigonometric_jit as trigonometric
from .loops_jit import Body, dense, rows
from .pointwise import OFTEN, in_rows


@helper
def _sign(x: Any) -> Any:
    return simd.select(x > 0.0, 1.0, simd.select(x < 0.0, simd.full_like(x, -1.0), 0.0))


@helper
def _pow(x: Any, y: Any) -> Any:
    return powers.pow(x, simd.full_like(x, y))  # y may be a number


# x - q y is exact for q = trunc(x / y), and for the integer next to it, which rounding may have given instead
_many = math.number(2.0**23, 2.0**52)
_any_fmod = simd.by_lane("fmod")


@helper
def _fmod(x: Any, y: Any) -> Any:
    quotient = x / y
    if not simd.all_lanes(simd.absolute(quotient) < _many(x)):
        return _any_fmod(x, y)
    r = simd.fma(-simd.truncate(quotient), y, x)
    wrong = simd.select(x < 0.0, -r, r) < 0.0
    r = simd.select(wrong, r + simd.select(x < 0.0, -simd.absolute(y), simd.absolute(y)), r)
    return simd.copy_sign(simd.select(simd.absolute(y) == float("inf"), x, r), x)


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
    "pow": _pow,
    "fmod": _fmod,
    "hypot": powers.hypot,
    "atan2": trigonometric.atan2,
}
_known: set[Callable[..., Any]] = set(PRIMITIVES.values())


def register(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a formula and the formulas it calls."""
    if isinstance(formula, Together):
        for part in formula.parts:
            register(part)
    elif formula not in _known:
        _known.add(formula)
        for name in formula.__code__.co_names:
            called = formula.__globals__.get(name)
            if isfunction(called):
                register(called)
        helper(formula)
    return formula


for _name, _primitive in PRIMITIVES.items():
    rename(_primitive, ON_REGISTERS.get(_name) or register(_primitive.__wrapped__))


def loop(formula: Callable[..., Any], in_rows: bool) -> Body:
    """A kernel that computes a formula of each element: over dense memory, or in rows of operands that broadcast."""
    one = form(register(formula))
    if not in_rows:
        return dense(formula, len(one.operands), len(one.numbers))
    if one.results > 1:
        formula = _of_wanted(formula)
    sources = tuple("Truth" if condition else "Array" for condition in one.conditions)
    return rows(formula, sources, len(one.numbers), ("Truth" if one.truth else "Array",) * one.results)


def _of_wanted(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of several results that also takes flags of those wanted, and computes only these if separate."""
    one, parts = form(formula), formula.parts if isinstance(formula, Together) else ()
    flags = [f"want_{place}" for place in range(one.results)]
    texts = [f"_{place}({', '.join(sum(form(part)[:2], ()))})" for place, part in enumerate(parts)]
    first = one.operands[0]
    chosen = [f"{text} if {flag} else {first}" for text, flag in zip(texts, flags, strict=False)]
    result = f"({', '.join(chosen)})" if parts else f"formula({', '.join(one.operands + one.numbers)})"
    scope = {f"_{place}": part for place, part in enumerate(parts)} | {"formula": formula}
    return helper(eval(f"lambda {', '.join((*one.operands, *one.numbers, *flags))}: {result}", scope))


def __getattr__(name: str) -> Body:
    """The kernel of a formula or primitive, or of several gradients. (No other name of this file may be one's.)"""
    own = name.removesuffix("_broadcast")
    formula = FUSED.get(own) or POINTWISE.get(own)
    if formula is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return loop(formula, own != name or (own not in OFTEN and in_rows(own, formula)))
