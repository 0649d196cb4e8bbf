"""The table with every operator and its gradient on one line, from the operator registrations."""

from __future__ import annotations

from typing import Any

from retrograd.engine.operator import OPERATORS
from retrograd.explanation.backward_source import gradient_of
from retrograd.explanation.source_map import place_of

_HEAD = """| operator | Function | gradient |
| --- | --- | --- |
"""


def text() -> str:
    """Return the table in Markdown."""
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
