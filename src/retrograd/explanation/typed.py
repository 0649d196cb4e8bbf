"""A gradient that the reader types: ``g * (abs(x) <= 1)`` in place of a function's own.

The text is parsed as a Python expression and evaluated node by node with a list of known functions; no Python is run.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..ops.pointwise.piecewise import maximum, minimum, where
from .curves import Curve
from .explanation import Case, Explanation
from .measure import gradients
from .operators.function import jacobian_case

__all__ = ["FUNCTIONS", "as_gradient", "retyped", "with_gradient"]

_LONGEST = 200  # characters
_METHODS = (
    *("abs", "exp", "log", "sqrt", "square", "tanh", "sigmoid", "relu", "sign", "floor", "ceil", "round"),
    *("sin", "cos", "atan", "erf"),
)
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    **{name: (1, getattr(Tensor, name)) for name in _METHODS},
    "maximum": (2, maximum),
    "minimum": (2, minimum),
    "clamp": (3, lambda x, low, high: minimum(maximum(x, low), high)),
    "where": (3, where),
}
_NUMBERS = {"pi": math.pi, "e": math.e}
_BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARISONS: dict[type, Callable[..., Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def as_gradient(text: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The function of g and x that an expression of them is: what backward returns for the upstream gradient g.

    Raises:
        ValueError: the text is too long, is no expression, or has something else in it than numbers, g, x, the
            operations + - * / ** & |, comparisons, and FUNCTIONS.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"explain: the rule has {len(text)} characters, at most {_LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"explain: {text!r} is no expression such as g * (abs(x) <= 1)") from None
    _check(tree)

    def gradient(g: Tensor, x: Tensor) -> Tensor:
        with np.errstate(all="ignore"):  # as everywhere on tensors
            value = _value(tree, {"g": g, "x": x}).array
        return wrap(np.broadcast_to(value, g.array.shape).astype(g.array.dtype))

    return gradient


def _check(node: ast.expr) -> None:
    """Refuse what is not known, before anything is computed."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.Name) and (node.id in ("g", "x") or node.id in _NUMBERS):
        return
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        parts = [node.operand]
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        name, count = node.func.id, FUNCTIONS[node.func.id][0]
        if len(node.args) != count or node.keywords:
            raise ValueError(f"explain: {name} takes {count} argument{'s' * (count > 1)}")
        parts = node.args
    if not parts:
        known = ", ".join(FUNCTIONS)
        raise ValueError(f"explain: {ast.unparse(node)[:40]!r} is not known here; known are g, x, numbers, and {known}")
    for part in parts:
        _check(part)


def _value(node: ast.expr, names: dict[str, Tensor]) -> Any:
    """The value of a checked node; numbers become Tensors, so that no Python number grows."""
    if isinstance(node, ast.Constant):
        return _constant(float(node.value), names)  # type: ignore[arg-type]  # checked
    if isinstance(node, ast.Name):
        return names[node.id] if node.id in names else _constant(_NUMBERS[node.id], names)
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, names)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Compare):
        values = [_value(each, names) for each in (node.left, *node.comparators)]
        found = [_COMPARISONS[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False)]
        result = found[0]
        for each in found[1:]:
            result = result & each
        return result
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return FUNCTIONS[node.func.id][1](*[_value(each, names) for each in node.args])


def _constant(value: float, names: dict[str, Tensor]) -> Tensor:
    return wrap(np.full((), value, names["g"].array.dtype))


def retyped(explanation: Explanation, text: str) -> Explanation:
    """The explanation with the typed gradient in place of the function's own.

    Raises: as ``with_gradient``.
    """
    case = with_gradient(explanation.case, text)
    return Explanation(case, explanation.gy, explanation.settings, explanation.options, text)


def with_gradient(case: Case, text: str) -> Case:
    """The case of a function of single numbers with the typed gradient in place of its own.

    Raises:
        ValueError: the function has several inputs, or the text is no such gradient (see ``as_gradient``).
    """
    if not case.takes_rules or case.curve is None:
        raise ValueError(f"explain: a rule can be typed for functions of one array of numbers, not for {case.name}")
    gradient, function = as_gradient(text), case.call

    class Typed(Function):
        """The function, with the typed gradient."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(function(x).array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradient(g, x)

    x, low, high = case.inputs["x"].values, case.curve.low, case.curve.high
    function_name = case.source.partition("(")[0]
    rule = re.sub(rf"\b({'|'.join(FUNCTIONS)})\(", r"rg.\1(", text)
    program = f"rg.override_backward({function_name}, lambda g, x: g * 0 + ({rule}))(lambda x: {case.source})(x)"
    if not function_name.startswith(("F.", "rg.")):
        program = ""
    found = jacobian_case(
        case.name, Typed.apply, {"x": x}, case.source, False, {"x": "the input"}, Curve(Typed.apply, low, high),
        "what the typed rule multiplies gy by", program, pointwise=True,
    )  # fmt: skip
    probe = np.linspace(-2, 3, x.size).reshape(x.shape).astype(x.dtype)
    slope = found.inner({})["slope"].values
    if not np.allclose(gradients(Typed.apply, {"x": x}, probe, "compiled")["gx"], probe * slope, equal_nan=True):
        return replace(found, sums=lambda arrays: {})  # not linear in g: no sum of products
    return found
