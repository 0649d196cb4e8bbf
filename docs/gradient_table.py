"""The page that lists every operator with its gradient on one line, made from the registrations."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from retrograd.autograd import Function
from retrograd.engine.operator import OPERATORS
from retrograd.explanation.where import functions_in, place_of

_LONGEST = 110  # characters of a gradient that is read off the backward
_HEAD = """# Every operator and its gradient

One line for each operator and Function: g is the gradient of the result y, and names are those of the Function's
forward. Gradients of single elements are formulas; the others are what backward returns, with the steps between put in,
or what its author says where that would be long. `rg.backward_source(operator)` prints the whole text. Operators that
are made of others have the gradients of these, and are not listed.

| operator | Function | gradient |
| --- | --- | --- |
"""


def text() -> str:
    """The page in Markdown."""
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


def gradient_of(function: type[Function]) -> list[tuple[str, str]]:
    """The name of each argument and its gradient, in one line; without a name, words."""
    if function.gradient:
        return [("", function.gradient)]
    if hasattr(function, "slope"):
        body = ast.parse(textwrap.dedent(inspect.getsource(function.slope))).body[0].body  # type: ignore[attr-defined]
        return [("x", f"g * ({ast.unparse(body[-1].value)})")]
    formulas = [each for each in getattr(function, "formulas", ()) if "_grad" in each.__name__]
    if formulas:
        return [(_operand(each.__name__), _first(each)) for each in formulas]
    try:
        found = [*_returned(function)]
    except (SyntaxError, OSError, IndexError):
        found = []
    if not found or max(len(value) for _, value in found) > _LONGEST:
        passes = inspect.unwrap(function.backward)
        words = passes.__doc__ if passes.__qualname__.startswith(function.__name__) else ""
        words = inspect.cleandoc(words or function.__doc__ or "")
        return [("", words.split("\n\n")[0].replace("\n", " "))]
    return found


def _operand(name: str) -> str:
    return name.rpartition("_grad_")[2] if "_grad_" in name else "x"


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def _returned(function: type[Function]) -> Iterator[tuple[str, str]]:
    """What backward returns for each argument, as far as it is an expression."""
    passes = inspect.unwrap(function.backward)
    names = [*inspect.signature(inspect.unwrap(function.forward)).parameters][1:]
    body = ast.parse(textwrap.dedent(inspect.getsource(passes))).body[0].body  # type: ignore[attr-defined]
    values: dict[str, ast.expr] = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id in values:
                return  # in several steps
            values[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            several = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            inner = {each.__name__: _first(each) for each in functions_in(passes) if each.__name__.endswith("Grad")}
            for name, value in zip(names, several):  # noqa: B905  numbers have none
                text = ast.unparse(_Clear(values).visit(ast.parse(ast.unparse(value), mode="eval").body))
                for other, words in inner.items():
                    if re.fullmatch(rf"{other}\(.*\)", text):
                        text = words
                if text != "None":
                    yield name, text
            return
        elif not isinstance(statement, ast.Assign | ast.Expr):
            return


class _Clear(ast.NodeTransformer):
    """Puts the values of names in, and leaves out what is no mathematics."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        if value is None:
            return node
        rest = {name: each for name, each in self._values.items() if name != node.id}
        return _Clear(rest).visit(ast.parse(ast.unparse(value), mode="eval").body)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr in ("array", "apply"):
            return node.value
        if isinstance(node.value, ast.Name) and node.value.id in ("ctx", "kernels", "np"):
            return ast.Name(node.attr, ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and node.func.id in ("wrap", "Tensor", "asarray")
        return node.args[0] if plain and node.args else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.orelse, ast.Constant) and node.orelse.value is None:
            return node.body
        return node
