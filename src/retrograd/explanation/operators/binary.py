"""Elementwise functions of two numbers: each gradient is gy times a slope, summed where an input was broadcast."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from ...engine.operator import OPERATORS as ALL
from ...engine.operator import Operator as Described
from ...ops.pointwise import arithmetic, exponential
from ..explanation import Case, Setting
from ..measurements import Arrays
from .function import jacobian_case
from .operator import Operator, arguments, call_text
from .pointwise import between

__all__ = ["OPERATORS"]

Domain = tuple[float, float]
_WIDE: Domain = (-3.0, 3.0)
_SETTINGS = (
    Setting("rows", 3, (1, 2, 3, 4), "rows of a"),
    Setting("columns", 4, (1, 2, 3, 4, 6), "columns of a"),
    Setting("b", "array", ("array", "row", "column", "number"), "the shape of b, which is broadcast to that of a"),
)


class _Row(NamedTuple):
    """A function of a and b, the domains of its example, and its gradients as one would type them.

    name: of the function in the package, if the operator has another name
    """

    function: Callable[..., Any]
    domains: tuple[Domain, ...]
    rules: tuple[str, str]
    name: str = ""


def _read_off(operator: Described) -> tuple[str, str]:
    """Return the expressions of a and b that the formulas of the gradients return."""
    found = []
    for text in [each for each in operator.functions[0].formulas if "_grad" in each.__name__]:  # type: ignore[attr-defined]
        body = ast.parse(textwrap.dedent(inspect.getsource(text))).body[0].body  # type: ignore[attr-defined]
        for node in ast.walk(body[-1]):
            if isinstance(node, ast.Name):
                node.id = {"x": "a", "y": "b"}.get(node.id, node.id)
        found.append(ast.unparse(body[-1].value))
    first, second = found
    return first, second


_RULES = {
    "maximum": ("g * (a > b)", "g * (b > a)"),
    "minimum": ("g * (a < b)", "g * (b < a)"),
    "fmax": ("g * (a > b)", "g * (b > a)"),
    "fmin": ("g * (a < b)", "g * (b < a)"),
    "hypot": ("g * a / sqrt(a**2 + b**2)", "g * b / sqrt(a**2 + b**2)"),
    "atan2": ("g * b / (a**2 + b**2)", "-g * a / (a**2 + b**2)"),
    "logaddexp": ("g * sigmoid(a - b)", "g * sigmoid(b - a)"),
    "logaddexp2": ("g / (1 + 2 ** (b - a))", "g / (1 + 2 ** (a - b))"),
    "xlogy": ("g * log(b)", "g * a / b"),
    "copysign": ("g * where(a * b > 0, 1, -1)", "0 * g"),
}
_TABLE: Final = {
    "add": _Row(arithmetic.add, (_WIDE, _WIDE), ("g", "g")),
    "sub": _Row(arithmetic.sub, (_WIDE, _WIDE), ("g", "-g")),
    "mul": _Row(arithmetic.mul, (_WIDE, _WIDE), ("g * b", "g * a")),
    "div": _Row(arithmetic.div, (_WIDE, (0.5, 3.0)), ("g / b", "-g * a / b**2")),
    "power": _Row(exponential.pow, ((0.5, 3.0), _WIDE), ("g * b * a ** (b - 1)", "g * log(a) * a ** b"), "pow"),
    **{
        each.name: _Row(each.function, domains, _RULES.get(each.name) or _read_off(each))
        for each in ALL
        if len(domains := each.domains) == 2
    },
}


def _operator(name: str, row: _Row) -> Operator:
    def example(options: Mapping[str, Any]) -> Arrays:
        rows, columns = options["rows"], options["columns"]
        shape = {"array": (rows, columns), "row": (columns,), "column": (rows, 1), "number": ()}[options["b"]]
        a, b = between(*row.domains[0], (rows, columns), 1), between(*row.domains[1], shape, 2)
        return {"a": a, "b": b + np.float32(1 / 64)}  # never equal to an entry of a, where maximum has a kink

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        arguments(name, options, {}, _SETTINGS)
        a, b = inputs["a"], inputs["b"]
        if np.broadcast_shapes(a.shape, b.shape) != a.shape:
            raise ValueError(
                f"explain: {name} can be explained only if b has the shape of a or is broadcast to it; "
                f"the shapes are {a.shape} and {b.shape}"
            )
        about = {"a": "the first operand", "b": "the second operand"}
        source = call_text(f"rg.{row.name or name}", inputs, {})
        found = jacobian_case(name, row.function, inputs, source, True, about)
        return replace(found, rules=dict(zip(inputs, row.rules, strict=True)))

    return Operator(name, ("a", "b"), (), _SETTINGS, example, case)


OPERATORS = {name: _operator(name, row) for name, row in _TABLE.items()}
