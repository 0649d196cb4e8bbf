"""Export of pointwise formulas: the source that kernels are generated from runs on values of a graph.

Source: ONNX Operators.html, operators of the same meaning; ``_COMPOSED`` has those that ONNX lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .writer import Value, Writer

SAME = {  # primitives and formulas that ONNX has under another name
    "absolute": "Abs",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "nearest": "Round",
    "exp": "Exp",
    "exp_negative": "Exp",
    "log": "Log",
    "tanh": "Tanh",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "pow": "Pow",
    "sign": "Sign",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
}


class Register:
    """A value in a formula; arithmetic and comparisons write nodes."""

    kind: np.dtype[Any]
    value: Value
    writer: Writer

    __hash__ = object.__hash__

    def __init__(self, writer: Writer, value: Value, kind: np.dtype[Any]) -> None:
        self.writer, self.value, self.kind = writer, value, kind

    @staticmethod
    def __primitive__(name: str, operands: tuple[Any, ...]) -> Any:
        first = next(each for each in operands if isinstance(each, Register))
        if name in SAME:
            return first.node(SAME[name], *operands)
        composed = _COMPOSED.get(name)
        if composed is None:
            raise UnsupportedError(f"the function {name} in a formula")
        return composed(*operands)

    def node(self, operator: str, *operands: Any, dtype: Any = None, **attributes: Any) -> Register:
        """Write a node with these operands, which may include numbers."""
        values = [each.value if isinstance(each, Register) else self.number(each) for each in operands]
        kind = self.kind if dtype is None else np.dtype(dtype)
        return Register(self.writer, self.writer.node(operator, *values, dtype=kind, **attributes), self.kind)

    def number(self, number: Any) -> Value:
        """Return a number as a constant in the type of the formula's operands."""
        return self.writer.constant(number, self.kind)

    def __add__(self, other: Any) -> Register:
        return self.node("Add", self, other)

    def __radd__(self, other: Any) -> Register:
        return self.node("Add", other, self)

    def __sub__(self, other: Any) -> Register:
        return self.node("Sub", self, other)

    def __rsub__(self, other: Any) -> Register:
        return self.node("Sub", other, self)

    def __mul__(self, other: Any) -> Register:
        return self.node("Mul", self, other)

    def __rmul__(self, other: Any) -> Register:
        return self.node("Mul", other, self)

    def __truediv__(self, other: Any) -> Register:
        return self.node("Div", self, other)

    def __rtruediv__(self, other: Any) -> Register:
        return self.node("Div", other, self)

    def __neg__(self) -> Register:
        return self.node("Neg", self)

    def __lt__(self, other: Any) -> Register:
        return self.node("Less", self, other, dtype=np.bool_)

    def __le__(self, other: Any) -> Register:
        return self.node("LessOrEqual", self, other, dtype=np.bool_)

    def __gt__(self, other: Any) -> Register:
        return self.node("Greater", self, other, dtype=np.bool_)

    def __ge__(self, other: Any) -> Register:
        return self.node("GreaterOrEqual", self, other, dtype=np.bool_)

    def __eq__(self, other: Any) -> Register:  # type: ignore[override]
        return self.node("Equal", self, other, dtype=np.bool_)

    def __ne__(self, other: Any) -> Register:  # type: ignore[override]
        return (self == other).node("Not", self == other, dtype=np.bool_)

    def __and__(self, other: Any) -> Register:
        return self.node("And", self, other, dtype=np.bool_)

    def __or__(self, other: Any) -> Register:
        return self.node("Or", self, other, dtype=np.bool_)

    def __invert__(self) -> Register:
        return self.node("Not", self, dtype=np.bool_)


def _where(condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, Register):  # a comparison of numbers
        return x if condition else y
    return condition.node("Where", condition, x, y)


def _full_like(x: Register, number: Any) -> Register:
    shape = x.writer.node("Shape", x.value, dtype=np.int64)
    value = number.value if isinstance(number, Register) else x.number(number)
    return Register(x.writer, x.writer.node("Expand", value, shape), x.kind)


def _atan2(y: Any, x: Any) -> Any:
    """Write atan2 by the half-planes of x; the signs of zeros are ignored."""
    first = x if isinstance(x, Register) else y
    angle = first.node("Atan", first.node("Div", y, x))
    turned = _where(y >= 0.0, angle + math.pi, angle - math.pi)
    upright = first.node("Sign", y) * (math.pi / 2)
    return _where(x > 0.0, angle, _where(x < 0.0, turned, upright))


def _log1p(x: Register) -> Register:
    """Write log(1 + x), or 2 atanh(x / (2 + x)) near 0, where that is exact."""
    near = x.node("Atanh", x / (x + 2.0)) * 2.0
    return x.node("Where", x.node("Abs", x) < 0.5, near, x.node("Log", x + 1.0))


def _divided(x: Any, y: Any, down: bool) -> Register:
    """Write (x - fmod(x, y)) / y, which is exact; if ``down``, minus 1 where the remainder and y differ in sign."""
    first = x if isinstance(x, Register) else y
    rest = first.node("Mod", x, y, fmod=1)
    whole = first.node("Round", (x - rest) / y)
    if down:
        lower = (rest != 0.0) & ((rest < 0.0) != first.node("Less", y, 0.0, dtype=np.bool_))
        whole = _where(lower, whole - 1.0, whole)
    return _where(first.node("Equal", y, 0.0, dtype=np.bool_), first.node("Div", x, y), whole)


def _normal_cdf(x: Register) -> Register:
    return (x.node("Erf", x * math.sqrt(0.5)) + 1.0) * 0.5


_COMPOSED: dict[str, Callable[..., Any]] = {
    "where": _where,
    "full_like": _full_like,
    "trunc": lambda x: _where(x < 0.0, x.node("Ceil", x), x.node("Floor", x)),
    "exp2": lambda x: x.node("Pow", 2.0, x),
    "expm1": lambda x: x.node("Tanh", x * 0.5) * (x.node("Exp", x) + 1.0),  # exact near 0
    "log2": lambda x: x.node("Log", x) * (1 / math.log(2)),
    "log10": lambda x: x.node("Log", x) * (1 / math.log(10)),
    "log1p": _log1p,
    "fmod": lambda x, y: (x if isinstance(x, Register) else y).node("Mod", x, y, fmod=1),
    "hypot": lambda x, y: (x * x + y * y).node("Sqrt", x * x + y * y),
    "atan2": _atan2,
    "floor_divide": lambda x, y: _divided(x, y, True),
    "trunc_divide": lambda x, y: _divided(x, y, False),
    "erfc": lambda x: 1.0 - x.node("Erf", x),
    "normal_cdf": _normal_cdf,
}


def write_pointwise(writer: Writer, *values: Any, operator: Any) -> Value:
    """Write the nodes of a Function that has a formula, for these operands and numbers.

    Raises:
        UnsupportedError: the formula uses a function that ONNX lacks.
    """
    operands = [each for each in values if isinstance(each, Value)]
    kind = next(each.dtype for each in operands if each.dtype.kind == "f")
    registers = [Register(writer, each, kind) for each in operands]
    result = operator.formula(*registers, *values[len(operands) :])
    assert isinstance(result, Register), "a formula of operands gives one of them"
    return result.value
