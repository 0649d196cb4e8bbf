"""Page with every operator and its gradient on one line, generated from the operator registrations."""

from __future__ import annotations

from typing import Any

from retrograd.engine.operator import OPERATORS
from retrograd.explanation.backward_source import gradient_of
from retrograd.explanation.source_map import place_of

_HEAD = """# Every operator and its gradient

One line for each operator and Function: g is the gradient of the result y, and names are those of the Function's
forward. Elementwise gradients are formulas. The others are the expressions that backward returns, with intermediate
steps substituted, or the author's description where that would be long. `rg.backward_source(operator)` prints the whole
source. Operators composed of other operators have the gradients of these, and are not listed.

| operator | Function | gradient |
| --- | --- | --- |
"""


def text() -> str:
    """Return the page in Markdown."""
    seen: set[Any] = set()
    lines = []
    for operator in sorted(OPERATORS, key=lambda each: each.name.lower()):
        name = f"`{operator.name}`" if operator.name.isidentifier() else ""
        for function in operator.functions if name and not operator.name.startswith("_") else ():
            if (operator.name, function) in seen:
                continue
            seen.add((operator.name, function))
            gradients = "; ".join(f"{key}: `{value}`" if key else value for key, value in gradient_of(function))
            escaped = gradients.replace("|", "\\|")
            lines.append(f"| {name} | {function.__name__}, {place_of(function)} | {escaped} |")
    return _HEAD + "\n".join(lines) + "\n"
