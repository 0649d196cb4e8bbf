"""Gradients of formulas, derived: the trace of a formula is gone through backwards, and what it takes is traced, too.

The gradient of each primitive is itself a formula of the table: ``<name>_grad``, of g and the input x or the result y.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .primitive import Operand, exp_negative, where
from .symbol import FormulaError, Symbol, Trace
from .table import FORMULAS, PAIRS
from .text import inner

_INVERSE_ROOT = 0.3989422804014327  # 1 / sqrt(2 pi)


def normal_cdf_grad(g: Operand, x: Operand) -> Operand:
    """g exp(-x**2 / 2) / sqrt(2 pi)"""
    return g * exp_negative(x * x * -0.5) * _INVERSE_ROOT


_MORE = {
    "absolute": FORMULAS["abs_grad"],
    "normal_cdf": normal_cdf_grad,
    "exp_negative": FORMULAS["exp_grad"],
}


_STEPS = frozenset(("ceil", "floor", "nearest", "sign", "trunc"))  # constant between their steps


def rule_of(name: str) -> Callable[..., Any] | None:
    """The gradient that the table declares for a primitive or formula: ``rule(g, result, *arguments)``."""
    if name in _STEPS:
        return lambda g, result, x: (0.0,)
    if f"{name}_grad" in PAIRS:
        pair = PAIRS[f"{name}_grad"]
        return lambda g, result, x, y: tuple([to_operand(g, x, y) for to_operand in pair])
    gradient = _MORE.get(name) or FORMULAS.get(f"{name}_grad")
    if gradient is None:
        return None
    takes_result = list(inspect.signature(gradient).parameters)[1] == "y"

    def rule(g: Symbol, result: Symbol, x: Any, *numbers: Any) -> tuple[Any, ...]:
        return (gradient(g, result if takes_result else x, *numbers),)

    return rule


def derive(trace: Trace, result: Symbol, g: Symbol, operands: list[Symbol]) -> list[Symbol]:
    """The gradient of each operand, for the gradient g of the result; ``trace`` holds what computes the result."""
    trace.simplify = True
    received: dict[int, Symbol] = {}

    def give(symbol: Symbol, gradient: Symbol) -> None:
        if symbol.kind == "operand" and symbol.operation != "full_like":
            before = received.get(symbol.place)
            received[symbol.place] = gradient if before is None else before + gradient

    give(result, g)
    for symbol in trace.symbols[result.place :: -1]:
        if symbol.place in received and symbol.arguments:
            _pass_on(symbol, received[symbol.place], give)
    zero = trace.full(0.0)
    return [received.get(operand.place, zero) for operand in operands]


def _pass_on(symbol: Symbol, g: Symbol, give: Callable[[Symbol, Any], None]) -> None:
    """Give the arguments of an operation their shares of its gradient g."""
    arguments, operation = symbol.arguments, symbol.operation
    if operation == "+":
        give(arguments[0], g)
        give(arguments[1], g)
    elif operation == "-":
        give(arguments[0], g)
        give(arguments[1], -g)
    elif operation == "*":
        x, y = arguments
        give(x, g * y)
        give(y, g * x)
    elif operation == "/":
        x, y = arguments
        gx = g / y
        give(x, gx)
        give(y, -(gx * inner(symbol)))
    elif operation == "negative":
        give(arguments[0], -g)
    elif operation == "where":
        condition, x, y = arguments
        give(x, where(condition, g, 0.0))
        give(y, where(condition, 0.0, g))
    elif operation == "call":
        gradients = symbol.rule(g, inner(symbol), *arguments[1:])
        operands = [argument for argument in arguments[1:] if argument.kind == "operand"]
        for operand, gradient in zip(operands, gradients, strict=True):
            give(operand, g.trace.full(gradient))
    else:
        rule = rule_of(operation)
        if rule is None:
            raise FormulaError(f"no gradient of {operation} is known; declare that of the formula")
        for argument, gradient in zip(arguments, rule(g, symbol, *arguments), strict=False):  # numbers have none
            give(argument, g.trace.full(gradient))
