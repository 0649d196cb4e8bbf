"""Derived gradients of formulas: reverse-mode differentiation of a trace; the gradient is traced, too.

The gradient of each primitive is itself a formula of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .primitive import PRIMITIVES, where
from .registry import FORMULAS, form, gradients_of
from .tracing import FormulaError, Symbol, Trace, inner

Note = Callable[[Symbol, Symbol, list[tuple[Symbol, Symbol]]], None]


def rule_of(name: str, kernel: str = "") -> Callable[..., Any] | None:
    """Return the gradient rule of a primitive or formula, ``rule(g, result, *arguments)``; None if none is declared.

    kernel: the name of the formula, if it differs from ``name``.
    """
    parts = gradients_of(name)
    if not parts:
        return None
    takes = [[*one.operands, *one.numbers][1:] for one in map(form, parts)]
    one = form(PRIMITIVES.get(name) or FORMULAS[kernel or name])
    names = one.operands + one.numbers

    def rule(g: Symbol, result: Symbol, *arguments: Any) -> tuple[Any, ...]:
        values = {"y": result} | dict(zip(names, arguments, strict=True))
        return tuple(
            [part(g, *[values[each] for each in operands]) for part, operands in zip(parts, takes, strict=True)]
        )

    return rule


def derive(trace: Trace, result: Symbol, g: Symbol, operands: list[Symbol], note: Note | None = None) -> list[Symbol]:
    """Return the gradient to each operand, given the gradient g of the result; its operations are added to ``trace``.

    note: called for each value, from the result backward, with its gradient and the parts that its arguments get
    """
    trace.simplify = True
    received: dict[int, Symbol] = {}
    given: list[tuple[Symbol, Symbol]] = []

    def give(symbol: Symbol, gradient: Symbol) -> None:
        given.append((symbol, gradient))
        zero = gradient.operation == "full_like" and gradient.arguments[1].value == "0.0"
        if symbol.kind == "operand" and symbol.operation != "full_like" and not zero:
            before = received.get(symbol.place)
            received[symbol.place] = gradient if before is None else _sum(before, gradient)

    give(result, g)
    for symbol in trace.symbols[result.place :: -1]:
        if symbol.place in received and symbol.arguments:
            given.clear()
            _pass_on(symbol, received[symbol.place], give)
            if note is not None:
                note(symbol, received[symbol.place], [*given])
    zero = trace.full(0.0)
    return [received.get(operand.place, zero) for operand in operands]


def _branch(g: Symbol) -> tuple[Symbol, bool, Symbol] | None:
    """For a gradient that is 0 in one branch of a ``where``: the condition, its value in the other branch, and that
    branch."""
    if g.operation == "where":
        condition, x, y = g.arguments
        if y.value == "0.0":
            return condition, True, x
        if x.value == "0.0":
            return condition, False, y
    return None


def _only_in(condition: Symbol, holds: bool, g: Any) -> Symbol:
    chosen: Symbol = where(condition, g, 0.0) if holds else where(condition, 0.0, g)
    return chosen


def _sum(x: Symbol, y: Symbol) -> Symbol:
    one, other = _branch(x), _branch(y)
    if one and other and one[0] is other[0]:
        if one[1] is other[1]:
            return _only_in(*one[:2], _sum(one[2], other[2]))
        chosen: Symbol = where(one[0], *((one[2], other[2]) if one[1] else (other[2], one[2])))
        return chosen
    total: Symbol = x + y
    return total


def _pass_on(symbol: Symbol, g: Symbol, give: Callable[[Symbol, Any], None]) -> None:
    """Propagate the gradient g of an operation to its arguments.

    Where g is 0 in a branch, their gradients are 0 even if the slope is infinite: 0 times infinity would be NaN.
    """
    branch = _branch(g)
    if branch is None:
        _share(symbol, g, give)
        return
    condition, holds, inside = branch
    _pass_on(symbol, inside, lambda argument, share: give(argument, _only_in(condition, holds, share)))


def _share(symbol: Symbol, g: Symbol, give: Callable[[Symbol, Any], None]) -> None:
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
