"""Reductions along axes: sums, extremes and norms. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import UnsupportedError
from ..node import Node, Value, array_of, floating, ints, scalar, value_of
from .registry import operator

Axes = tuple[int, ...]

_OF_FLOATS: dict[str, Callable[[Tensor, Axes], Tensor]] = {
    "ReduceL1": lambda x, axes: ops.sum(ops.abs(x), axes, keepdim=True),
    "ReduceL2": lambda x, axes: ops.sqrt(ops.sum(x * x, axes, keepdim=True)),
    "ReduceLogSum": lambda x, axes: ops.log(ops.sum(x, axes, keepdim=True)),
    "ReduceLogSumExp": lambda x, axes: ops.logsumexp(x, axes, keepdim=True),
    "ReduceMax": lambda x, axes: ops.amax(x, axes, keepdim=True),
    "ReduceMean": lambda x, axes: ops.mean(x, axes, keepdim=True),
    "ReduceMin": lambda x, axes: ops.amin(x, axes, keepdim=True),
    "ReduceProd": lambda x, axes: _product(x, axes),
    "ReduceSum": lambda x, axes: ops.sum(x, axes, keepdim=True),
    "ReduceSumSquare": lambda x, axes: ops.sum(x * x, axes, keepdim=True),
}
# without axes; the other reductions leave an entry unchanged
_ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "ReduceL1": ops.abs,
    "ReduceL2": ops.abs,
    "ReduceLogSum": ops.log,
    "ReduceSumSquare": ops.square,
}
_OF_WHOLE: dict[str, Callable[..., Any]] = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceL1": lambda x, axis, **kept: np.abs(x).sum(axis, **kept),
    "ReduceSumSquare": lambda x, axis, **kept: (x * x).sum(axis, **kept),
}


@operator(*_OF_FLOATS, constants=(1,))
def reduced(node: Node, x: Value, axes: Value = None) -> Value:
    """Reduce along ``axes``; without axes reduce all, unless ``noop_with_empty_axes`` is set."""
    array = array_of(x)
    chosen = node["axes"] if axes is None else ints(axes)
    if not chosen:
        # the elementwise part of the reduction, such as a square, is still applied
        chosen = [] if node["noop_with_empty_axes"] else list(range(array.ndim))
    along = tuple(axis % array.ndim for axis in chosen)
    shape = [extent for axis, extent in enumerate(array.shape) if axis not in along]
    if array.dtype.kind == "f":
        x = floating(x)
        if array.size == 0:
            y = _of_nothing(node.operator, array, along)
        elif along:
            y = _OF_FLOATS[node.operator](x, along)
        else:
            y = _ELEMENTWISE[node.operator](x) if node.operator in _ELEMENTWISE else x
        return y if node["keepdims"] else y.reshape(*shape)
    if node.operator not in _OF_WHOLE or array.dtype.kind not in "biu":
        raise UnsupportedError(f"{node.operator} of {array.dtype}")
    if array.size == 0 and array.dtype == bool and node.operator in ("ReduceMax", "ReduceMin"):
        found = (np.any if node.operator == "ReduceMax" else np.all)(array, axis=along, keepdims=bool(node["keepdims"]))
        return value_of(np.asarray(found))
    found = _OF_WHOLE[node.operator](array, axis=along, keepdims=bool(node["keepdims"]))
    return value_of(np.asarray(found, array.dtype))


def _of_nothing(name: str, x: np.ndarray, along: Axes) -> Tensor:
    """Reduce an empty array, by NumPy."""
    with np.errstate(all="ignore"):
        kept: dict[str, Any] = {"axis": along, "keepdims": True}
        found: Any = {
            "ReduceSum": lambda: np.sum(x, **kept),
            "ReduceProd": lambda: np.prod(x, **kept),
            "ReduceMean": lambda: np.mean(x, **kept),
            "ReduceL1": lambda: np.sum(np.abs(x), **kept),
            "ReduceL2": lambda: np.sqrt(np.sum(x * x, **kept)),
            "ReduceSumSquare": lambda: np.sum(x * x, **kept),
            "ReduceLogSum": lambda: np.log(np.sum(x, **kept)),
            "ReduceLogSumExp": lambda: np.log(np.sum(np.exp(x), **kept)),
            "ReduceMax": lambda: np.max(x, initial=-np.inf, **kept),
            "ReduceMin": lambda: np.min(x, initial=np.inf, **kept),
        }[name]()
    return wrap(np.asarray(found, x.dtype))


def _product(x: Tensor, axes: Axes) -> Tensor:
    for axis in axes:
        x = ops.prod(x, axis, keepdim=True)
    return x


@operator("ArgMax", "ArgMin")
def arg_extreme(node: Node, x: Value) -> Tensor:
    array, axis = array_of(x), node["axis"]
    if isinstance(x, Tensor) and array.dtype.char in "fd" and array.ndim and not node["select_last_index"]:
        extreme = ops.argmax if node.operator == "ArgMax" else ops.argmin
        return extreme(x, axis, bool(node["keepdims"]))
    find = np.argmax if node.operator == "ArgMax" else np.argmin
    last = node["select_last_index"]
    found = find(np.flip(array, axis) if last else array, axis)
    found = array.shape[axis] - 1 - found if last else found
    return wrap((np.expand_dims(found, axis) if node["keepdims"] else np.asarray(found)).astype(np.int64))


@operator("CumSum", constants=(1,))
def cumulative_sum(node: Node, x: Value, axis: Value) -> Value:
    return _cumulative(node, x, scalar(axis), ops.cumsum, np.cumsum, 0)


@operator("CumProd", constants=(1,))
def cumulative_product(node: Node, x: Value, axis: Value) -> Value:
    return _cumulative(node, x, scalar(axis), ops.cumprod, np.cumprod, 1)


def _cumulative(node: Node, x: Value, axis: int, ours: Any, numpys: Any, first: int) -> Value:
    array = array_of(x)
    if array.dtype.kind != "f":
        array = np.flip(array, axis) if node["reverse"] else array
        found = numpys(array, axis, dtype=array.dtype)
        if node["exclusive"]:
            found = np.insert(np.delete(found, -1, axis), 0, first, axis)
        return value_of(np.flip(found, axis) if node["reverse"] else found)
    x = floating(x)
    x = ops.flip(x, (axis,)) if node["reverse"] else x
    y = ours(x, axis)
    if node["exclusive"]:
        one = ops.narrow(x, axis, 0, 1)
        y = ops.cat([ops.full_like(one, first), ops.narrow(y, axis, 0, y.shape[axis] - 1)], axis)
    return ops.flip(y, (axis,)) if node["reverse"] else y
