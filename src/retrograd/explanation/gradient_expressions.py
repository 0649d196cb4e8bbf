"""Gradients typed in by the reader, such as ``g * (abs(x) <= 1)``: one expression, or one for each array.

The text is parsed as Python and evaluated node by node with a list of known functions; no Python is executed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..engine.backward_pass import grad
from ..engine.function import Function
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor, wrap
from ..ops.pointwise.piecewise import maximum, minimum, where
from .explanation import Case, Explanation
from .measurements import Arrays, Curve, gradients
from .operators.function import jacobian_case

__all__ = ["FUNCTIONS", "as_gradient", "as_gradients", "retyped", "with_gradient"]

Rule = Callable[[Mapping[str, Tensor], tuple[int, ...]], Tensor]  # of the named arrays, for a gradient of this shape

_LONGEST = 200  # characters of one expression
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
_SUM = "sum"  # sum(g, 0), whose axis is a number
_NUMBERS = {"pi": math.pi, "e": math.e}
_BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.MatMult: operator.matmul,
}
_COMPARISONS: dict[type, Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def as_gradient(text: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Parse an expression of g and x to a function: what backward returns for the upstream gradient g.

    Raises:
        ValueError: the text is too long, is not an expression, or contains anything but numbers, g, x, the operations
            + - * / ** @ & |, comparisons, ``.T``, ``sum(g, 0)`` and FUNCTIONS.
    """
    rule = _rule(text, ("g", "x"))
    return lambda g, x: rule({"g": g, "x": x}, g.array.shape)


def as_gradients(text: str, inputs: Mapping[str, Any]) -> dict[str, Rule]:
    """Parse gradients such as ``ga = g * b; gb = g * a``, by input; they may use g, the inputs, and n.

    An expression without a name is the gradient of the only input. n is the number of entries of the first input.

    Raises:
        ValueError: as `as_gradient`; or there is no such gradient, or one is declared twice.
    """
    named = [each for each in text.split(";") if each.strip()]
    known = ("g", *inputs, "n")
    if len(inputs) == 1 and not re.match(r"\s*\w+\s*=[^=]", text):
        return {next(iter(inputs)): _rule(text, ("g", *inputs))}
    found: dict[str, Rule] = {}
    for each in named:
        name, equals, expression = each.partition("=")
        target = name.strip()
        if not equals or target[1:] not in inputs or target[:1] != "g" or target[1:] in found:
            expected = "; ".join(f"g{name} = ..." for name in inputs)
            raise ValueError(
                f"explain: {each.strip()[:40]!r} does not declare a gradient, or declares it again; write {expected}"
            )
        found[target[1:]] = _rule(expression, known)
    if not found:
        raise ValueError(f"explain: {text[:40]!r} declares no gradient")
    return found


def _rule(text: str, known: tuple[str, ...]) -> Rule:
    """Return the function that an expression defines."""
    if len(text) > _LONGEST:
        raise ValueError(f"explain: the rule has {len(text)} characters, the limit is {_LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"explain: {text!r} is not an expression such as g * (abs(x) <= 1)") from None
    _check(tree, known)

    def gradient(names: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        dtype = names["g"].array.dtype
        try:
            with np.errstate(all="ignore"):  # as for all operations on tensors
                value = _fitting(_value(tree, names).array, shape)
        except (ValueError, TypeError) as error:
            raise ValueError(f"explain: {text.strip()!r} cannot be computed: {error}") from None
        return wrap(value.astype(dtype))

    return gradient


def _fitting(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a value in the shape of the gradient: broadcast, or summed over the axes along which its input was."""
    extra = max(value.ndim - len(shape), 0)
    value = value.sum(tuple(range(extra)))
    first = len(shape) - value.ndim
    over = [axis for axis in range(value.ndim) if shape[first + axis] == 1]
    return np.broadcast_to(value.sum(tuple(over), keepdims=True), shape)


def _check(node: ast.expr, known: tuple[str, ...]) -> None:
    """Reject unknown names and operations before anything is computed."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.Name) and (node.id in known or node.id in _NUMBERS):
        return
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        parts = [node.operand]
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        parts = [node.value]
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (*FUNCTIONS, _SUM):
        name, count = node.func.id, FUNCTIONS.get(node.func.id, (2,))[0]
        if len(node.args) != count or node.keywords:
            raise ValueError(f"explain: {name} takes {count} argument{'s' * (count > 1)}")
        parts = node.args
        if name == _SUM:
            if not (isinstance(node.args[1], ast.Constant) and type(node.args[1].value) is int):
                raise ValueError("explain: sum takes a value and the number of its axis, as in sum(g, 0)")
            parts = node.args[:1]
    if not parts:
        names = ", ".join([*known, "numbers"])
        raise ValueError(
            f"explain: {ast.unparse(node)[:40]!r} is unknown; known are {names}, and {', '.join(FUNCTIONS)}"
        )
    for part in parts:
        _check(part, known)


def _value(node: ast.expr, names: Mapping[str, Tensor]) -> Any:
    """Evaluate a checked node; numbers become Tensors, so that no Python integer grows without bound."""
    if isinstance(node, ast.Constant):
        return _constant(float(node.value), names)  # type: ignore[arg-type]  # checked
    if isinstance(node, ast.Name):
        return names[node.id] if node.id in names else _constant(_NUMBERS[node.id], names)
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, names)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Attribute):
        return wrap(_value(node.value, names).array.T)
    if isinstance(node, ast.Compare):
        values = [_value(each, names) for each in (node.left, *node.comparators)]
        found = [_COMPARISONS[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False)]
        result = found[0]
        for each in found[1:]:
            result = result & each
        return result
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if node.func.id == _SUM:
        assert isinstance(node.args[1], ast.Constant)
        return wrap(np.asarray(_value(node.args[0], names).array.sum(node.args[1].value)))
    return FUNCTIONS[node.func.id][1](*[_value(each, names) for each in node.args])


def _constant(value: float, names: Mapping[str, Tensor]) -> Tensor:
    return wrap(np.full((), value, names["g"].array.dtype))


def retyped(explanation: Explanation, text: str) -> Explanation:
    """Return the explanation with the typed gradient in place of the function's own gradient.

    Raises: as ``with_gradient``.
    """
    case = with_gradient(explanation.case, text)
    return Explanation(case, explanation.gy, explanation.settings, explanation.options, text)


def with_gradient(case: Case, text: str) -> Case:
    """Return the case of a function with a typed gradient in place of its own, or with typed gradients for some inputs.

    Raises:
        ValueError: no rule can be typed for the function, or the text is not a valid gradient (see ``as_gradients``).
    """
    if not case.takes_rules:
        raise ValueError(
            f"explain: a gradient can be typed in for elementwise functions, linear and losses, not for {case.name}"
        )
    inputs = {name: array.values for name, array in case.inputs.items()}
    typed = _typed(case.call, inputs, as_gradients(text, inputs))
    if case.curve is None:
        found = jacobian_case(
            case.name,
            typed,
            inputs,
            case.source,
            False,
            {name: each.about for name, each in case.inputs.items()},
            slope="the factor by which the typed rule multiplies gy",
        )
        found = replace(found, rules=case.rules)
        return found if _is_linear(typed, inputs, found) else replace(found, sums=lambda arrays: {})
    low, high = case.curve.low, case.curve.high
    function_name = case.source.partition("(")[0]
    rule = re.sub(rf"\b({'|'.join(FUNCTIONS)})\(", r"rg.\1(", text)
    program = f"rg.override_backward({function_name}, lambda g, x: g * 0 + ({rule}))(lambda x: {case.source})(x)"
    if not function_name.startswith(("F.", "rg.")) or "=" in text.replace("<=", "").replace(">=", "").replace("==", ""):
        program = ""
    found = jacobian_case(
        case.name,
        typed,
        inputs,
        case.source,
        False,
        {"x": "the input"},
        Curve(typed, low, high),
        "the factor by which the typed rule multiplies gy",
        program,
        pointwise=True,
    )
    return found if _is_linear(typed, inputs, found) else replace(found, sums=lambda arrays: {})


def _typed(function: Callable[..., Tensor], inputs: Arrays, rules: Mapping[str, Rule]) -> Callable[..., Tensor]:
    """Return the function with the typed gradients, and its own for the other inputs."""

    class TypedGradient(Function):
        """The function with the typed gradients."""

        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Tensor:
            ctx.save_for_backward(*tensors)
            return wrap(function(*tensors).array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            named = dict(zip(inputs, ctx.saved_tensors, strict=True))
            names = {**named, "g": g, "n": _constant(float(next(iter(named.values())).array.size), {"g": g})}
            own = {} if rules.keys() == inputs.keys() else _own_gradients(function, named, g)
            return tuple(
                [
                    rules[name](names, tensor.array.shape) if name in rules else own.get(name)
                    for name, tensor in named.items()
                ]
            )

    return TypedGradient.apply


def _own_gradients(function: Callable[..., Tensor], named: Mapping[str, Tensor], g: Tensor) -> dict[str, Tensor | None]:
    """Return the function's own gradients."""
    tensors = {name: Tensor(each.array, requires_grad=each.array.dtype.kind == "f") for name, each in named.items()}
    differentiated = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
    with enable_grad():
        y = function(*tensors.values())
    return dict(zip(differentiated, grad(y, [*differentiated.values()], g, allow_unused=True), strict=True))


def _is_linear(typed: Callable[..., Tensor], inputs: Arrays, case: Case) -> bool:
    """Return whether the typed gradients are linear in g, by comparing the measured ones with those for another g."""
    y = gradients(typed, inputs, None, "compiled")["y"]
    probe = np.linspace(-2, 3, y.size).reshape(y.shape).astype(y.dtype)
    arrays = {name: array.values for name, array in case.inner({}).items()} | {"gy": probe}
    found = gradients(typed, inputs, probe, "compiled")
    for name, sums in case.sums(arrays).items():
        total = np.zeros(found[name].size)
        for products in sums:
            products.add_to(total, arrays)
        if not np.allclose(found[name].ravel(), total, rtol=1e-4, atol=1e-4, equal_nan=True):
            return False
    return True
