"""The derivation of a formula's gradient as text: the formula, the rule of each step, and the resulting function.

``formulas/differentiation.py`` derives the gradient; this module writes down its steps, next to the declared gradient.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..formulas.differentiation import derive
from ..formulas.primitive import PRIMITIVES
from ..formulas.registry import form, gradients_of
from ..formulas.tracing import FormulaError, Symbol, Trace, expression, function, inner
from .measurements import Arrays, ulps

__all__ = ["derivation"]

_RULES = {
    "+": "a sum passes the gradient on to both operands",
    "-": "a difference passes the gradient on, to the second operand with a minus sign",
    "*": "product rule: each factor gets the gradient times the other factor",
    "/": "quotient rule: the derivative of u / v is 1 / v in u, and −u / v² in v",
    "negative": "a negation passes the gradient on with a minus sign",
    "where": "each branch gets the gradient where it was selected, 0 elsewhere",
}


def derivation(call: Callable[..., Tensor], inputs: Arrays, gy: np.ndarray) -> dict[str, Any] | None:
    """Return ``{"formula", "called", ...}`` of the last operator of the call; None if it is not a formula.

    called: for each input that the formula names differently, its name there
    values: one line for each operation of the formula, ``name = expression``
    steps: ``{"value", "rule", "gives"}``, from the result back to the inputs
    derived: the source of the derived gradient; if it is empty, why_not gives the reason
    declared: the sources of the declared gradients, which run instead, if any
    apart: the largest difference between derived and declared gradients on these inputs, in units of the last place;
        None if not compared
    """
    tensors = [Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in inputs.values()]
    node = call(*tensors).grad_fn
    if node is None or node.region is not None:
        return None
    formulas = [each for each in getattr(node.function, "formulas", ()) if callable(each)]
    declared = [each for each in formulas if "_grad" in each.__name__]
    written = next((each for each in formulas if each not in declared), None)
    own = getattr(node.function.backward, "__wrapped__", None)  # for a user's formula
    found: dict[str, Any] = {
        "formula": "",
        "values": [],
        "steps": [],
        "derived": "",
        "why_not": "",
        "apart": None,
        "called": {},
    }
    found["declared"] = [_source(each) for each in declared]
    if written is None:
        if not declared:
            return None
        why_not = "this is a primitive, one of the operations that formulas are made of: its gradient is declared"
        return found | {"why_not": why_not}
    if own is not None and not declared and "derived" not in _source(own):
        found["declared"] = [_source(own)]
    found["formula"] = _source(written)
    one = form(written)
    found["called"] = {each: name for each, name in zip(inputs, one.operands, strict=False) if each != name}
    trace = Trace(["g", *one.operands], [*one.numbers])
    g, *operands = trace.operands
    try:
        result = trace.full(written(*operands, *trace.numbers))
    except FormulaError:  # the formula reads a shape, or combines entries
        why_not = "it is written for whole arrays, so no gradient can be derived from it: its gradient is declared"
        return found | {"why_not": why_not} if found["declared"] else None
    writer = _Writer(operands, result)
    found["values"] = writer.values
    try:
        gradients = derive(trace, result, g, operands, writer.note)
    except FormulaError as error:
        return found | {"why_not": str(error)}
    derived = function(f"{written.__name__}_grad", "derived", trace, gradients)
    text: str = derived.source  # type: ignore[attr-defined]
    text = text.replace("    # derived\n", "")
    numbers = tuple(getattr(node, "numbers", ()) or ())
    apart = _apart(derived, declared, inputs, gy, numbers) if declared else None
    return found | {"steps": writer.steps, "derived": text, "apart": apart}


class _Writer:
    """Names of a formula's values, u1, u2 and so on, and the steps of its derivation, as text."""

    def __init__(self, operands: list[Symbol], result: Symbol) -> None:
        self.names = {each.place: each.value for each in operands}
        self._result = "result" if "y" in self.names.values() else "y"
        self.values: list[str] = []
        self.steps: list[dict[str, Any]] = []
        self._written: dict[int, str] = {}
        needed = self._needed(result)
        for symbol in operands[0].trace.symbols[: result.place + 1]:
            if symbol.place in needed and symbol.kind == "operand" and symbol.operation not in _BARE:
                text = self._text(symbol, fresh=True)
                name = self._result if symbol is inner(result) else f"u{len(self.values) + 1}"
                self.names[symbol.place] = name
                self._written[symbol.place] = f"{name} = {text}"
                self.values.append(self._written[symbol.place])

    def note(self, symbol: Symbol, received: Symbol, given: list[tuple[Symbol, Symbol]]) -> None:
        """Record a step of ``derive``: a value, the gradient that it received, and those that its arguments get."""
        symbol = inner(symbol)
        if symbol.place not in self._written:
            return
        if received.place not in self.names or self.names[received.place].startswith("g"):
            self.names[received.place] = self._gradient(symbol)
        gives = [
            f"{self._gradient(inner(each))} += {self._text(gradient)}"
            for each, gradient in given
            if inner(each).place in self.names
        ]
        rule = _RULES.get(symbol.operation) or _declared(symbol.operation)
        self.steps.append({"value": self._written[symbol.place], "rule": rule, "gives": gives})

    def _gradient(self, symbol: Symbol) -> str:
        name = self.names[symbol.place]
        return "g" if name == self._result else f"g{name}" if symbol.operation == "parameter" else f"g_{name}"

    def _needed(self, result: Symbol) -> set[int]:
        found: set[int] = set()
        waiting = [inner(result)]
        while waiting:
            symbol = waiting.pop()
            if symbol.place not in found:
                found.add(symbol.place)
                waiting += map(inner, symbol.arguments)
        return found

    def _text(self, symbol: Symbol, fresh: bool = False) -> str:
        return self._parts(symbol, fresh)[0]

    def _parts(self, symbol: Symbol, fresh: bool = False) -> tuple[str, int]:
        """Return the text of a value (its name, or its operation with the text of the operands) and its precedence."""
        symbol = inner(symbol)
        if symbol.place in self.names and not fresh:
            return self.names[symbol.place], _ATOM
        if symbol.operation == "full_like":
            return self._parts(symbol.arguments[1])
        return expression(symbol, [self._parts(each) for each in symbol.arguments])


_ATOM = 4  # the highest precedence, as in formulas/tracing.py
_BARE = ("parameter", "literal", "full_like")


def _declared(operation: str) -> str:
    """Return the rule of a primitive, as described by its declared gradient."""
    docs = [inspect.getdoc(each) or each.__name__ for each in gradients_of(operation)]
    parts = [text.partition("\n")[0].replace("``", "") for text in docs]
    kind = "a primitive" if operation in PRIMITIVES else "a formula"
    return f"{operation} is {kind} with the gradient {' and '.join(parts)}" if parts else operation


def _source(written: Callable[..., Any]) -> str:
    text = getattr(written, "text", None)
    if isinstance(text, str):
        return text
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(written)))
    except (OSError, TypeError):
        return written.__name__


def _apart(
    derived: Callable[..., Any], declared: list[Callable[..., Any]], inputs: Arrays, gy: np.ndarray, numbers: Any
) -> float | None:
    """Return the largest difference of derived and declared gradients, in units in the last place; None if unknown."""
    one = form(derived)
    values: dict[str, Any] = dict(zip(one.operands[1:], inputs.values(), strict=False))
    values |= dict(zip(one.numbers, numbers, strict=False))
    if any(each.shape != gy.shape for each in inputs.values()) or len(values) != len(one.operands + one.numbers) - 1:
        return None
    worst = 0.0
    with np.errstate(all="ignore"):
        results = derived(gy, *values.values())
        for mine, other in zip(results if one.results > 1 else (results,), declared, strict=False):
            names = [*form(other).operands, *form(other).numbers][1:]
            if not set(names) <= values.keys():
                return None
            theirs = other(gy, *[values[name] for name in names])
            a, b = (np.broadcast_to(each, gy.shape).astype(gy.dtype) for each in (mine, theirs))
            worst = max(worst, ulps(a, b))
    return worst
