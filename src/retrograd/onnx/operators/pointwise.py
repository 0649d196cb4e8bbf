"""Pointwise operators. Source: ONNX Operators.html, sections of these names.

Floats are computed by our operators, so that they have gradients; other types, such as uint32, by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..errors import UnsupportedError
from ..node import Node, Value, array_of, floating, value_of
from .registry import operator

# name -> our operator, with one operand in float32 or float64
_OF_FLOATS: dict[str, Callable[[Tensor], Tensor]] = {
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "HardSwish": functional.hardswish,
    "Log": ops.log,
    "Mish": functional.mish,
    "Reciprocal": ops.reciprocal,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
}
# name -> our operator, and NumPy's for other types
_OF_ONE: dict[str, tuple[Any, Any]] = {
    "Abs": (ops.abs, np.abs),
    "Neg": (ops.neg, np.negative),
    "Sign": (ops.sign, np.sign),
    "Relu": (functional.relu, lambda x: np.maximum(x, x.dtype.type(0))),
}
_OF_TWO: dict[str, tuple[Any, Any]] = {
    "Add": (ops.add, np.add),
    "Sub": (ops.sub, np.subtract),
    "Mul": (ops.mul, np.multiply),
    "Div": (ops.div, lambda a, b: np.trunc(np.true_divide(a, b)).astype(a.dtype)),
    "Max": (ops.maximum, np.maximum),
    "Min": (ops.minimum, np.minimum),
    "Sum": (ops.add, np.add),
    "Mean": (ops.add, np.add),
}
_COMPARED: dict[str, tuple[Any, Any]] = {
    "Equal": (ops.eq, np.equal),
    "Greater": (ops.gt, np.greater),
    "GreaterOrEqual": (ops.ge, np.greater_equal),
    "Less": (ops.lt, np.less),
    "LessOrEqual": (ops.le, np.less_equal),
    "And": (ops.logical_and, np.logical_and),
    "Or": (ops.logical_or, np.logical_or),
    "Xor": (ops.logical_xor, np.logical_xor),
    "BitwiseAnd": (None, np.bitwise_and),
    "BitwiseOr": (None, np.bitwise_or),
    "BitwiseXor": (None, np.bitwise_xor),
}


def _is_float(value: Value) -> bool:
    return isinstance(value, Tensor) and value.array.dtype.kind == "f"


def _is_ours(value: Value) -> bool:
    """Whether our operators compute with values of this type."""
    return isinstance(value, Tensor) and value.array.dtype.char in "fdl?"


@operator(*_OF_FLOATS)
def of_floats(node: Node, x: Value) -> Tensor:
    return _OF_FLOATS[node.operator](floating(x))


@operator(*_OF_ONE)
def of_one(node: Node, x: Value) -> Value:
    ours, numpys = _OF_ONE[node.operator]
    if _is_float(x):
        return ours(x)
    return value_of(numpys(_whole(x)))


@operator(*_OF_TWO)
def of_two(node: Node, *values: Value) -> Value:
    """Compute Add and its variants; some accept any number of operands."""
    ours, numpys = _OF_TWO[node.operator]
    if all(map(_is_float, values)):
        total = reduce(ours, values)
        return total / len(values) if node.operator == "Mean" else total
    return value_of(reduce(numpys, [_whole(value) for value in values]))


@operator(*_COMPARED)
def compared(node: Node, a: Value, b: Value) -> Value:
    ours, numpys = _COMPARED[node.operator]
    if ours is not None and _is_ours(a) and _is_ours(b) and a.array.dtype == b.array.dtype:
        return ours(a, b)
    return value_of(numpys(array_of(a), array_of(b)))


@operator("Not", "BitwiseNot")
def inverted(node: Node, x: Value) -> Value:
    if node.operator == "Not" and _is_ours(x):
        return ops.logical_not(x)
    return value_of(np.invert(array_of(x)))


@operator("IsNaN")
def is_nan(node: Node, x: Value) -> Tensor:
    return wrap(np.isnan(_known(x)))


@operator("IsInf")
def is_inf(node: Node, x: Value) -> Tensor:
    array = _known(x)
    found = np.zeros(array.shape, bool)
    if node["detect_positive"]:
        found |= np.isposinf(array)
    if node["detect_negative"]:
        found |= np.isneginf(array)
    return wrap(found)


@operator("BitShift")
def bit_shift(node: Node, x: Value, count: Value) -> Value:
    a, b = array_of(x), array_of(count)
    bits = a.dtype.itemsize * 8
    # undefined in C: a shift by all bits leaves 0, or the sign for a right shift
    if node["direction"] == "LEFT":
        return value_of(np.where(b >= bits, a.dtype.type(0), np.left_shift(a, np.minimum(b, bits - 1))).astype(a.dtype))
    once = np.right_shift(a, np.minimum(b, bits - 1))
    return value_of(np.where(b >= bits, np.right_shift(once, 1), once).astype(a.dtype))


@operator("Pow", constants=(1,))
def power(node: Node, x: Value, exponent: Value) -> Value:
    """Compute a power, whose type is that of the base."""
    if _is_float(x):
        number = array_of(exponent)
        if _is_float(exponent) and exponent.dtype == x.dtype:
            return ops.pow(x, exponent)
        return ops.pow(x, number.item() if number.size == 1 else wrap(number.astype(x.array.dtype)))
    return value_of(np.power(_whole(x), array_of(exponent)).astype(array_of(x).dtype))


@operator("Mod", constants=(1,))
def modulo(node: Node, a: Value, b: Value) -> Value:
    """Compute the remainder, with the sign of the divisor for fmod=0 (Python), or of the dividend for fmod=1 (C)."""
    if _is_float(a) and _is_float(b):
        return ops.fmod(a, b) if node["fmod"] else ops.remainder(a, b)
    return value_of((np.fmod if node["fmod"] else np.mod)(_known(a), _known(b)))


@operator("Clip", constants=(1, 2))
def clip(node: Node, x: Value, low: Value = None, high: Value = None) -> Value:
    if _is_float(x):
        for limit, nearer in ((low, ops.maximum), (high, ops.minimum)):
            x = x if limit is None else nearer(x, limit)
        return x
    array = _whole(x)
    array = array if low is None else np.maximum(array, array_of(low))
    return value_of(array if high is None else np.minimum(array, array_of(high)))


@operator("Where", constants=(0,))
def where(node: Node, condition: Value, a: Value, b: Value) -> Value:
    if _is_float(a) and _is_float(b):
        return ops.where(condition, a, b)
    return value_of(np.where(array_of(condition), array_of(a), array_of(b)))


# ---- Activations with parameters ------------------------------------------------------------------------------------


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Value) -> Tensor:
    return functional.leaky_relu(floating(x), node["alpha"])


@operator("PRelu")
def prelu(node: Node, x: Value, slope: Value) -> Tensor:
    """Compute PReLU; a slope of one axis, as in opset 6, is per channel."""
    x = floating(x)
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return ops.where(x < 0, slope * x, x)


@operator("Elu")
def elu(node: Node, x: Value) -> Tensor:
    return functional.elu(floating(x), node["alpha"])


@operator("Celu")
def celu(node: Node, x: Value) -> Tensor:
    return functional.celu(floating(x), node["alpha"])


@operator("Selu")
def selu(node: Node, x: Value) -> Tensor:
    x = floating(x)
    return node["gamma"] * functional.elu(x, node["alpha"])


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Value) -> Tensor:
    return ops.clamp(floating(x) * node["alpha"] + node["beta"], 0, 1)


@operator("ThresholdedRelu")
def thresholded_relu(node: Node, x: Value) -> Tensor:
    return functional.threshold(floating(x), node["alpha"], 0.0)


@operator("Shrink")
def shrink(node: Node, x: Value) -> Value:
    """Return 0 between -lambd and lambd; other values move toward 0 by ``bias``."""
    limit, bias = node["lambd"], node["bias"]
    if not _is_float(x):
        raise UnsupportedError("Shrink of whole numbers")
    zeros = ops.zeros_like(x)
    return ops.where(wrap(x.array < -limit), x + bias, ops.where(wrap(x.array > limit), x - bias, zeros))


@operator("Gelu")
def gelu(node: Node, x: Value) -> Tensor:
    return functional.gelu(floating(x), approximate=node["approximate"] or "none")


@operator("Swish")
def swish(node: Node, x: Value) -> Tensor:
    x = floating(x)
    return x * ops.sigmoid(x * node["alpha"])


@operator("SwiGLU")
def swiglu(node: Node, gate: Value, x: Value) -> Tensor:
    return swish(node, gate) * floating(x)


def _known(value: Value) -> np.ndarray:
    """Return an array of a type that NumPy computes with.

    Raises:
        UnsupportedError: the type is a storage type.
    """
    array = array_of(value)
    if array.dtype.kind not in "biuf" or array.dtype == np.float16:
        raise UnsupportedError(f"operands of {array.dtype}")
    return array


def _whole(value: Value) -> np.ndarray:
    array = _known(value)
    if array.dtype.kind == "f":
        raise UnsupportedError("operands of different types")
    return array
