"""The table with every operator and its gradient on one line, from the operator registrations."""

from __future__ import annotations

import re
from typing import Any

import public_names

import formulas
from retrograd.engine.operator import OPERATORS
from retrograd.explanation.backward_source import gradient_of
from retrograd.explanation.source_map import place_of

_HEAD = """| operator | Function | gradient |
| --- | --- | --- |
"""


_PACKAGES = ("", "nn.functional.", "linalg.", "special.", "fft.", "Tensor.", "nn.grad.")  # where operators are
_LONG = 48  # characters; a longer formula would not fit into its column, and does not wrap


def typeset() -> str:
    """Return the table with links to the operators, and with formulas in place of their text."""
    # a description may have code of its own
    return re.sub(r"(?<!`)`([^`\n]+)`(?!`)", _typeset, text())


def _typeset(match: re.Match[str]) -> str:
    content = match[1].replace("\\|", "|")
    if match.string[max(match.start() - 3, 0) : match.start()].endswith("\n| "):
        paths = (f"retrograd.{package}{content}" for package in _PACKAGES)
        path = next((each for each in paths if each in public_names.public()), "")
        return f"{{py:obj}}`{content} <{path}>`" if path else match[0]
    parts = formulas.clauses(content)
    if parts is None or len(content) > _LONG:
        return formulas.typeset(content, _LONG).replace("|", "&#124;") if " " in content else match[0]
    shown = [formulas.mathml(part) if part and not index % 2 else part for index, part in enumerate(parts)]
    return "".join(part or "" for part in shown).replace("|", "&#124;")


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
