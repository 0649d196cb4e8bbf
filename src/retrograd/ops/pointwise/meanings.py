"""Public operators inside users' formulas, where they act on symbols."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

from ...formulas import FORMULAS, PRIMITIVES, form
from ...formulas.derive import rule_of
from ...formulas.symbol import FormulaError, Symbol
from ...formulas.tracing import Meanings
from ..creation import creation
from . import (
    activation,
    comparison,
    elementwise,
    piecewise,
    powers,
    rectifier,
    rounding,
    transcendental,
    trigonometry,
)

_FAMILIES = (elementwise, comparison, transcendental, trigonometry, powers, rounding, piecewise, rectifier, activation)
_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _of_table(name: str, kernel: str = "") -> Callable[..., Any]:
    """A formula of the table on symbols, with the gradients that the table declares for ``name``."""
    value, rule = FORMULAS[kernel or name], rule_of(name, kernel)
    one = form(value)

    def call(*values: Any) -> Any:
        trace = next((each.trace for each in values if isinstance(each, Symbol)), None)
        if trace is None:
            return value(*values)
        count = len(one.operands)
        symbols = [trace.full(each) for each in values[:count]] + [trace.symbol(each) for each in values[count:]]
        result = value(*symbols)
        return result if rule is None else trace.call(trace.full(result), symbols, rule)

    call.__name__ = name
    return call


def _with_defaults(function: Any, formula: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The formula as the operator is called: its numbers may be given by name, or left out."""
    numbers = getattr(function, "operator", None) and function.operator.numbers
    if not numbers or name not in FORMULAS or len(form(FORMULAS[name]).numbers) != len(numbers):
        return formula
    call = signature(function)

    def meaning(*args: Any, **kwargs: Any) -> Any:
        bound = call.bind(*args, **kwargs)
        bound.apply_defaults()
        values = [*bound.arguments.values()]
        return formula(*values[: len(form(FORMULAS[name]).operands) + len(numbers)])

    return meaning


@cache
def meanings() -> Meanings:
    """The public operators on symbols."""
    of = {name: _of_table(name) for name in FORMULAS if not name.endswith("_grad")}
    of |= PRIMITIVES  # the same function under either name
    known: dict[Callable[..., Any], Callable[..., Any]] = {
        formula: _of_table(name) for name, formula in FORMULAS.items() if not name.endswith("_grad")
    }
    for family in _FAMILIES:
        for name in family.__all__:
            formula = of.get(name)
            if formula is not None:
                function = getattr(family, name)
                known[function] = _with_defaults(function, formula, name)
    alpha, scale = _SELU
    hardtanh = _of_table("hardtanh", "clamp")

    def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
        y = input if min is None else PRIMITIVES["where"](input < min, min, input)
        return y if max is None else PRIMITIVES["where"](y > max, max, y)

    def round(input: Any, *, decimals: int = 0) -> Any:
        if not decimals:
            return of["nearest"](input)
        return of["round_places" if decimals > 0 else "round_tens"](input, 10.0 ** max(decimals, -decimals))

    def nan_to_num(input: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
        if posinf is None or neginf is None:
            raise FormulaError("nan_to_num: name posinf and neginf, which depend on the type of input")
        return of["nan_to_num"](input, nan, posinf, neginf)

    def logit(input: Any, eps: float | None = None) -> Any:
        return of["logit"](input, *((-math.inf, math.inf) if eps is None else (eps, 1.0 - eps)))

    def lerp(input: Any, end: Any, weight: Any) -> Any:
        is_operand = isinstance(weight, Symbol) and weight.kind == "operand"
        return of["lerp" if is_operand else "lerp_number"](input, end, weight)

    known |= {
        rounding.round: round,
        creation.full_like: PRIMITIVES["full_like"],
        creation.zeros_like: lambda x: PRIMITIVES["full_like"](x, 0.0),
        creation.ones_like: lambda x: PRIMITIVES["full_like"](x, 1.0),
        elementwise.add: lambda x, y, *, alpha=1: x + y * alpha,
        elementwise.sub: lambda x, y, *, alpha=1: x - y * alpha,
        elementwise.mul: lambda x, y: x * y,
        elementwise.div: lambda x, y: x / y,
        elementwise.true_divide: lambda x, y: x / y,
        elementwise.lerp: lerp,
        elementwise.addcmul: lambda x, y, z, *, value=1.0: x + y * z * value,
        elementwise.addcdiv: lambda x, y, z, *, value=1.0: x + y / z * value,
        elementwise.positive: lambda x: x,
        comparison.gt: lambda x, y: x > y,
        comparison.ge: lambda x, y: x >= y,
        comparison.logical_and: lambda x, y: x & y,
        comparison.logical_or: lambda x, y: x | y,
        comparison.logical_not: lambda x: ~x,
        transcendental.logit: logit,
        powers.pow: lambda x, p: x**p,
        powers.square: lambda x: x * x,
        piecewise.clamp: clamp,
        piecewise.clamp_min: lambda x, min: clamp(x, min),
        piecewise.clamp_max: lambda x, max: clamp(x, None, max),
        piecewise.nan_to_num: nan_to_num,
        rectifier.threshold: lambda x, threshold, value: of["threshold"](x, threshold, value),
        rectifier.hardtanh: lambda x, min_val=-1.0, max_val=1.0: hardtanh(x, min_val, max_val),
        rectifier.relu6: lambda x: hardtanh(x, 0.0, 6.0),
        activation.gelu: lambda x, approximate="none": of["gelu_tanh" if approximate == "tanh" else "gelu"](x),
        activation.logsigmoid: of["log_sigmoid"],
        activation.elu: lambda x, alpha=1.0: of["elu"](x, alpha, 1.0, 1.0),
        activation.celu: lambda x, alpha=1.0: of["elu"](x, alpha, 1.0, 1.0 / alpha),
        activation.selu: lambda x: of["elu"](x, alpha * scale, scale, 1.0),
    }
    return Meanings(known)
