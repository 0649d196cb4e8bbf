"""Pointwise operators: a node of ONNX where it has one, else the nodes of the formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....engine.gradients import Copy
from ....engine.inplace import Replaced
from ....engine.subgraph import Identity
from ....ops.dtypes.dtype import cast
from ....ops.pointwise import activation, elementwise, piecewise, powers, rectifier, rounding
from ....ops.pointwise.gating import Glu
from ....ops.pointwise.operands import binary, unary_exact
from ....ops.shape.shape import Clone
from ..formulas import write_pointwise
from ..writer import Value, Writer
from .registry import converter, converter_of


@converter(piecewise.Relu)
def relu(w: Writer, x: Value) -> Value:
    return w.node("Relu", x)


@converter(activation.Elu)
def elu(w: Writer, x: Value, alpha: float, scale: float, rate: float) -> Value:
    if rate == 1.0:
        return w.node("Elu", x, alpha=alpha) if scale == 1.0 else w.node("Selu", x, alpha=alpha / scale, gamma=scale)
    if scale == 1.0 and math.isclose(alpha * rate, 1.0):
        return w.node("Celu", x, alpha=alpha)
    return write_pointwise(w, x, alpha, scale, rate, operator=activation.Elu)


@converter(activation.Softplus)
def softplus(w: Writer, x: Value, *numbers: float) -> Value:
    return w.node("Softplus", x) if numbers[0] == 1.0 else write_pointwise(w, x, *numbers, operator=activation.Softplus)


@converter(activation.Softsign)
def softsign(w: Writer, x: Value) -> Value:
    return w.node("Softsign", x)


@converter(activation.Mish)
def mish(w: Writer, x: Value) -> Value:
    return w.node("Mish", x)


@converter(activation.Silu)
def silu(w: Writer, x: Value) -> Value:
    return w.node("Mul", x, w.node("Sigmoid", x))


@converter(rectifier.LeakyRelu)
def leaky_relu(w: Writer, x: Value, slope: float) -> Value:
    return w.node("LeakyRelu", x, alpha=slope)


@converter(rectifier.Prelu)
def prelu(w: Writer, x: Value, slope: Value) -> Value:
    return w.node("PRelu", x, slope)


@converter(rectifier.Hardsigmoid)
def hardsigmoid(w: Writer, x: Value) -> Value:
    return w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@converter(rectifier.Hardswish)
def hardswish(w: Writer, x: Value) -> Value:
    return w.node("HardSwish", x)


@converter(rectifier.Hardtanh, piecewise.Clamp)
def clamp(w: Writer, x: Value, low: float, high: float) -> Value:
    limits = [None if math.isinf(number) else w.constant(number, x.dtype) for number in (low, high)]
    return w.node("Clip", x, *limits)


@converter(piecewise.ClampTensors)
def clamp_between(w: Writer, x: Value, low: Value, high: Value) -> Value:
    return w.node("Min", w.node("Max", x, low), high)


@converter(piecewise.Maximum)
def maximum(w: Writer, x: Value, y: Value) -> Value:
    return w.node("Max", x, y)


@converter(piecewise.Minimum)
def minimum(w: Writer, x: Value, y: Value) -> Value:
    return w.node("Min", x, y)


@converter(powers.Pow)
def power(w: Writer, x: Value, exponent: float) -> Value:
    return w.node("Pow", x, w.constant(exponent, x.dtype))


@converter(powers.Reciprocal)
def reciprocal(w: Writer, x: Value) -> Value:
    return w.node("Reciprocal", x)


@converter(piecewise.Where)
def where(w: Writer, condition: Any, x: Value, y: Value) -> Value:
    return w.node("Where", w.taken(condition), x, y, dtype=x.dtype)


@converter(Glu)
def glu(w: Writer, x: Value, axis: int) -> Value:
    value, gate = w.node("Split", x, axis=axis, outputs=2, num_outputs=2)
    return w.node("Mul", value, w.node("Sigmoid", gate))


@converter(Identity, Clone, Copy)
def same(w: Writer, x: Value, *_: Any) -> Value:
    return x


@converter(Replaced)
def replaced(w: Writer, old: Value, value: Value) -> Value:
    return value


@converter_of(cast)
def to(w: Writer, x: Value, dtype: Any) -> Value:
    return w.cast(x, w.results[0].dtype)


_OF_INTEGERS = {
    elementwise.Add: "Add",
    elementwise.Sub: "Sub",
    elementwise.Mul: "Mul",
    powers.PowTensors: "Pow",
    piecewise.Maximum: "Max",
    piecewise.Minimum: "Min",
    elementwise.Neg: "Neg",
    rounding.Abs: "Abs",
    rounding.Sign: "Sign",
    rounding.Remainder: "Mod",
    rounding.FloorDivide: "Div",
    rounding.TruncDivide: "Div",
}


def _all_integers(given: dict[str, Any]) -> bool:
    """Whether an operator computes with integers, which is no call of its Function."""
    operands = [given[name] for name in ("x", "y") if name in given]
    kinds = [each.array.dtype.kind if hasattr(each, "array") else np.asarray(each).dtype.kind for each in operands]
    return given["operator"] in _OF_INTEGERS and "f" not in kinds


@converter_of(binary, when=_all_integers)
def integers(w: Writer, operator: Any, name: str, x: Any, y: Any) -> Value:
    kind = w.results[0].dtype
    w.require(kind.kind in "iu", f"{name} of {kind}")
    operands = [w.cast(each, kind) if isinstance(each, Value) else w.constant(each, kind) for each in (x, y)]
    if operator is rounding.FloorDivide:  # what Mod leaves can be divided without a rest
        operands[0] = w.node("Sub", operands[0], w.node("Mod", *operands))
    return w.node(_OF_INTEGERS[operator], *operands)


@converter_of(unary_exact, when=_all_integers)
def integer(w: Writer, operator: Any, name: str, x: Value) -> Value:
    return w.node(_OF_INTEGERS[operator], x)
