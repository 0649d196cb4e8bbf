"""The source of a trace: a readable function that runs on Tensors, on arrays and on registers."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from typing import Any

from .primitive import PRIMITIVES
from .symbol import CONSTANTS, Symbol, Trace

_SUM, _PRODUCT, _NEGATIVE, _ATOM = 1, 2, 3, 4  # precedence, increasing
_BINDS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_LONG = 72  # characters, beyond which a value gets a name
NAMES = {**PRIMITIVES, **CONSTANTS}  # that a source may use


def inner(symbol: Symbol) -> Symbol:
    """The operation that computes a value: for a call, the last one of the function."""
    while symbol.operation == "call":
        symbol = symbol.arguments[0]
    return symbol


def function(name: str, comment: str, trace: Trace, results: list[Symbol]) -> Callable[..., Any]:
    """The function of a trace's parameters that returns the results.

    It has a source and ``digest``, a hash of it.
    """
    body = _body(trace, results)
    parameters = [parameter.value for parameter in trace.operands]
    parameters += [f"{parameter.value}: float" for parameter in trace.numbers]
    digest = hashlib.sha256("\n".join((*parameters, *body)).encode()).hexdigest()[:32]
    lines = [f"def {name}({', '.join(parameters)}):", f"    # {comment}", *("    " + line for line in body)]
    text = "\n".join(lines) + "\n"
    file = f"<formula {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"  # a file name per source
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {**NAMES, "__name__": __package__}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    made: Callable[..., Any] = scope[name]
    made.digest = made.kernel = digest  # type: ignore[attr-defined]
    made.text, made.results = text, len(results)  # type: ignore[attr-defined]
    return made


def _body(trace: Trace, results: list[Symbol]) -> list[str]:
    """The lines of the function: a value that is used twice, or is long, gets a name."""
    results = [inner(result) for result in results]
    uses = _uses(results)
    taken = {parameter.value for parameter in trace.parameters} | NAMES.keys()
    names = (name for number in range(1, 2 * len(trace.symbols) + 2) if (name := f"t{number}") not in taken)
    texts: dict[int, tuple[str, int]] = {}
    lines = []
    for symbol in trace.symbols:
        if symbol.place not in uses:
            continue
        text, binds = expression(symbol, [texts[inner(each).place] for each in symbol.arguments])
        if symbol.arguments and (uses[symbol.place] > 1 or len(text) > _LONG):
            local = next(names)
            lines.append(f"{local} = {text}")
            text, binds = local, _ATOM
        texts[symbol.place] = text, binds
    return [*lines, "return " + ", ".join(texts[result.place][0] for result in results)]


def _uses(results: list[Symbol]) -> dict[int, int]:
    """The number of uses of each value that the results need."""
    uses: dict[int, int] = {}
    waiting = list(results)
    while waiting:
        symbol = waiting.pop()
        uses[symbol.place] = uses.get(symbol.place, 0) + 1
        if uses[symbol.place] == 1:
            waiting += [inner(argument) for argument in symbol.arguments]
    return uses


def expression(symbol: Symbol, parts: list[tuple[str, int]]) -> tuple[str, int]:
    """The source of one operation, given that of its operands, and its precedence."""

    def at_least(part: tuple[str, int], level: int) -> str:
        return part[0] if part[1] >= level else f"({part[0]})"

    operation = symbol.operation
    if operation in ("parameter", "literal"):
        return symbol.value, _NEGATIVE if symbol.value.startswith("-") else _ATOM
    if operation in _BINDS:
        binds, right = _BINDS[operation], parts[1]
        if operation in "+-" and symbol.arguments[1].operation == "literal" and right[0].startswith("-"):
            operation, right = "-" if operation == "+" else "+", (right[0][1:], _ATOM)
        return f"{at_least(parts[0], binds)} {operation} {at_least(right, binds + 1)}", binds
    if operation == "negative":
        return f"-{at_least(parts[0], _ATOM)}", _NEGATIVE
    if operation in _COMPARISONS:
        return f"{parts[0][0]} {operation} {parts[1][0]}", 0
    return f"{operation}({', '.join(text for text, _ in parts)})", _ATOM
