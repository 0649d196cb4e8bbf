"""Comparisons, tests and logic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.pointwise import comparison
from ..writer import Value, Writer
from .registry import converter_of

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
    return _truth(w, _CONNECTED[name], *(w.cast(w.taken(each), np.bool_) for each in (x, y)))


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
    return _truth(w, "IsNaN", input)


@converter_of(comparison.isinf)
def isinf(w: Writer, input: Value) -> Value:
    return _truth(w, "IsInf", input)


@converter_of(comparison.isposinf)
def isposinf(w: Writer, input: Value) -> Value:
    return _truth(w, "Equal", input, w.constant(np.inf, input.dtype))


@converter_of(comparison.isneginf)
def isneginf(w: Writer, input: Value) -> Value:
    return _truth(w, "Equal", input, w.constant(-np.inf, input.dtype))


@converter_of(comparison.isfinite)
def isfinite(w: Writer, input: Value) -> Value:
    return _truth(w, "Not", _truth(w, "Or", _truth(w, "IsNaN", input), _truth(w, "IsInf", input)))
