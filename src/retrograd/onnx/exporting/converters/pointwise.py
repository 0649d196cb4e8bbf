"""Converters of pointwise operators, comparisons and scaled signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....engine.gradients import Copy
from ....engine.inplace import Replaced
from ....engine.subgraph import Identity
from ....lowbit.quantization_functions import MeanScaledSign, SignAndMeanAbs
from ....ops.dtypes.dtype import cast
from ....ops.pointwise import activation, arithmetic, comparison, exponential, piecewise, rounding
from ....ops.pointwise.gating import Glu
from ....ops.pointwise.pointwise import binary, unary_exact
from ....ops.shape.shape import Clone
from ..formulas import write_pointwise
from ..writer import Value, Writer
from .reductions import reduced
from .registry import converter, converter_of

# ---- Comparisons, predicates and logic ------------------------------------------------------------------------------

_COMPARED = {"eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_CONNECTED = {
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "bitwise_and": "And",
    "bitwise_or": "Or",
    "bitwise_xor": "Xor",
}


def _truth(w: Writer, operator: str, *operands: Value) -> Value:
    result: Value = w.node(operator, *operands, dtype=np.bool_)
    return result


def _compare(w: Writer, name: str, x: Value, y: Any) -> Value:
    if not isinstance(y, Value):
        kind = np.result_type(x.dtype, np.float64 if x.dtype.kind != "f" and isinstance(y, float) else x.dtype)
        x, y = w.cast(x, kind), w.constant(y, kind)
    elif x.dtype != y.dtype:
        kind = np.result_type(x.dtype, y.dtype)
        x, y = w.cast(x, kind), w.cast(y, kind)
    found = _truth(w, _COMPARED[name], x, y)
    return _truth(w, "Not", found) if name == "ne" else found


def _connect(w: Writer, name: str, x: Any, y: Any) -> Value:
    kind = w.results[0].dtype
    if kind.kind != "b":
        operands = [w.cast(each, kind) if isinstance(each, Value) else w.constant(each, kind) for each in (x, y)]
        whole: Value = w.node(f"Bitwise{_CONNECTED[name]}", *operands)
        return whole
    return _truth(w, _CONNECTED[name], *(w.cast(w.as_value(each), np.bool_) for each in (x, y)))


def _register() -> None:
    for name in _COMPARED:

        def compare(w: Writer, input: Value, other: Any, name: str = name) -> Value:
            return _compare(w, name, input, other)

        converter_of(getattr(comparison, name))(compare)
    for name in _CONNECTED:

        def connect(w: Writer, input: Any, other: Any, name: str = name) -> Value:
            return _connect(w, name, input, other)

        converter_of(getattr(comparison, name))(connect)


_register()


@converter_of(comparison.logical_not, comparison.bitwise_not)
def negate(w: Writer, input: Value) -> Value:
    if w.results[0].dtype.kind != "b":
        whole: Value = w.node("BitwiseNot", input)
        return whole
    return _truth(w, "Not", w.cast(input, np.bool_))


@converter_of(comparison.isnan)
def isnan(w: Writer, input: Value) -> Value:
    return _truth(w, "IsNaN", _floating(w, input))


@converter_of(comparison.isinf)
def isinf(w: Writer, input: Value) -> Value:
    return _truth(w, "IsInf", _floating(w, input))


def _floating(w: Writer, x: Value) -> Value:
    """Return x, or integers and truth values as numbers, among which ONNX looks for NaN and infinity."""
    return x if x.dtype.kind == "f" else w.cast(x, np.float32)


@converter_of(comparison.isposinf)
def isposinf(w: Writer, input: Value) -> Value:
    x = _floating(w, input)
    return _truth(w, "Equal", x, w.constant(np.inf, x.dtype))


@converter_of(comparison.isneginf)
def isneginf(w: Writer, input: Value) -> Value:
    x = _floating(w, input)
    return _truth(w, "Equal", x, w.constant(-np.inf, x.dtype))


@converter_of(comparison.isfinite)
def isfinite(w: Writer, input: Value) -> Value:
    x = _floating(w, input)
    return _truth(w, "Not", _truth(w, "Or", _truth(w, "IsNaN", x), _truth(w, "IsInf", x)))


# ---- Signs scaled by the mean magnitude of their inputs -------------------------------------------------------------


def _sign(w: Writer, x: Value) -> Value:
    """Write the sign of x, which is 1 for 0."""
    up = w.node("GreaterOrEqual", x, w.constant(0, x.dtype), dtype=np.bool_)
    return w.node("Where", up, w.constant(1, x.dtype), w.constant(-1, x.dtype), dtype=x.dtype)


def _size(w: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    return reduced(w, "ReduceMean", w.node("Abs", x), axes, True)


@converter(MeanScaledSign)
def mean_scaled_sign(w: Writer, x: Value, axes: tuple[int, ...], is_exact: bool) -> Value:
    return w.node("Mul", _sign(w, x), _size(w, x, axes))


@converter(SignAndMeanAbs)
def sign_and_size(w: Writer, x: Value, axis: int) -> tuple[Value, Value]:
    return _sign(w, x), _size(w, x, (axis,))


# ---- Pointwise operators: one ONNX node where possible, otherwise the nodes of the formula --------------------------


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


@converter(activation.LeakyRelu)
def leaky_relu(w: Writer, x: Value, slope: float) -> Value:
    return w.node("LeakyRelu", x, alpha=slope)


@converter(activation.Prelu)
def prelu(w: Writer, x: Value, slope: Value) -> Value:
    return w.node("PRelu", x, slope)


@converter(activation.Hardsigmoid)
def hardsigmoid(w: Writer, x: Value) -> Value:
    return w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@converter(activation.Hardswish)
def hardswish(w: Writer, x: Value) -> Value:
    return w.node("HardSwish", x)


@converter(activation.Hardtanh, piecewise.Clamp)
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


@converter(exponential.Pow)
def power(w: Writer, x: Value, exponent: float) -> Value:
    return w.node("Pow", x, w.constant(exponent, x.dtype))


@converter(exponential.Reciprocal)
def reciprocal(w: Writer, x: Value) -> Value:
    return w.node("Reciprocal", x)


@converter(piecewise.Where)
def where(w: Writer, condition: Any, x: Value, y: Value) -> Value:
    return w.node("Where", w.as_value(condition), x, y, dtype=x.dtype)


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
    arithmetic.Add: "Add",
    arithmetic.Sub: "Sub",
    arithmetic.Mul: "Mul",
    exponential.PowTensors: "Pow",
    piecewise.Maximum: "Max",
    piecewise.Minimum: "Min",
    arithmetic.Neg: "Neg",
    rounding.Abs: "Abs",
    rounding.Sign: "Sign",
    rounding.Remainder: "Mod",
    rounding.FloorDivide: "Div",
    rounding.TruncDivide: "Div",
}


def _all_integers(given: dict[str, Any]) -> bool:
    """Return whether an operator computes with integers, which bypasses its Function."""
    operands = [given[name] for name in ("x", "y") if name in given]
    kinds = [each.array.dtype.kind if hasattr(each, "array") else np.asarray(each).dtype.kind for each in operands]
    return given["operator"] in _OF_INTEGERS and "f" not in kinds


@converter_of(binary, when=_all_integers)
def integers(w: Writer, operator: Any, name: str, x: Any, y: Any) -> Value:
    kind = w.results[0].dtype
    w.require(kind.kind in "iu", f"{name} of {kind}")
    operands = [w.cast(each, kind) if isinstance(each, Value) else w.constant(each, kind) for each in (x, y)]
    if operator is rounding.FloorDivide:  # without the remainder of Mod the division is exact
        operands[0] = w.node("Sub", operands[0], w.node("Mod", *operands))
    return w.node(_OF_INTEGERS[operator], *operands)


@converter_of(unary_exact, when=_all_integers)
def integer(w: Writer, operator: Any, name: str, x: Value) -> Value:
    return w.node(_OF_INTEGERS[operator], x)
