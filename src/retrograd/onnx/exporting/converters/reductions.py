"""Reductions and scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.normalization.group_norm import Unit
from ....ops.reduce.extremes import Amax, ExtremeAlong, argmax, argmin
from ....ops.reduce.norms import Norm1, Norm2
from ....ops.reduce.reduction import Mean, Prod
from ....ops.reduce.scan import CumSum
from ....ops.reduce.statistics import LogSumExp, VarMean
from ....ops.shape.broadcasting import Sum
from ..writer import Value, Writer
from .registry import converter, converter_of

_REDUCED = {Sum: "ReduceSum", Prod: "ReduceProd", Norm1: "ReduceL1", Norm2: "ReduceL2",
            LogSumExp: "ReduceLogSumExp"}  # fmt: skip


def reduced(w: Writer, operator: str, x: Value, axes: Any, keepdims: Any) -> Value:
    """A node that reduces the axes; none leave x as it is."""
    axes = list(axes)
    return w.node(operator, x, w.ints(axes), keepdims=int(keepdims), noop_with_empty_axes=None if axes else 1)


def _register() -> None:
    for function, operator in _REDUCED.items():

        def convert(w: Writer, x: Value, axes: Any, keepdims: Any, operator: str = operator) -> Value:
            return reduced(w, operator, x, axes, keepdims)

        converter(function)(convert)


_register()


@converter(Mean)
def mean(w: Writer, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    if keepdims and axes and axes == tuple(range(2, len(x.shape))):
        return w.node("GlobalAveragePool", x)
    return reduced(w, "ReduceMean", x, axes, keepdims)


@converter(Amax)
def amax(w: Writer, x: Value, axes: Any, keepdims: bool, smallest: bool) -> Value:
    return reduced(w, "ReduceMin" if smallest else "ReduceMax", x, axes, keepdims)


@converter(ExtremeAlong)
def extreme(w: Writer, x: Value, axis: int, smallest: bool) -> tuple[Value, Value]:
    values = reduced(w, "ReduceMin" if smallest else "ReduceMax", x, [axis], False)
    return values, w.node("ArgMin" if smallest else "ArgMax", x, dtype=np.int64, axis=axis, keepdims=0)


@converter_of(argmax)
def argument_of_largest(w: Writer, input: Value, dim: int | None, keepdim: bool) -> Value:
    return _place(w, "ArgMax", input, dim, keepdim)


@converter_of(argmin)
def argument_of_smallest(w: Writer, input: Value, dim: int | None, keepdim: bool) -> Value:
    return _place(w, "ArgMin", input, dim, keepdim)


def _place(w: Writer, operator: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    if dim is None:
        place = w.node(operator, w.reshape(x, [-1]), dtype=np.int64, axis=0, keepdims=0)
        return w.reshape(place, (1,) * len(x.shape)) if keepdim else place
    return w.node(operator, x, dtype=np.int64, axis=int(dim), keepdims=int(bool(keepdim)))


@converter(VarMean)
def var_mean(
    w: Writer, x: Value, axes: tuple[int, ...], keepdims: bool, correction: float, root: bool
) -> tuple[Value, Value]:
    mean = reduced(w, "ReduceMean", x, axes, True)
    away = w.node("Sub", x, mean)
    squares = reduced(w, "ReduceSumSquare", away, axes, keepdims)
    count = math.prod(x.shape[axis] for axis in axes)
    rest = w.cast(w.ints([max(count - int(correction), 0)]), x.dtype)
    found = w.node("Div", squares, w.node("Squeeze", rest, w.ints([0])))
    if root:
        found = w.node("Sqrt", found)
    return found, mean if keepdims else w.node("Squeeze", mean, w.ints(axes))


@converter(Unit)
def unit(w: Writer, x: Value, axes: tuple[int, ...], eps: float) -> tuple[Value, Value]:
    size = w.node("Max", reduced(w, "ReduceL2", x, axes, True), w.constant(eps, x.dtype))
    return w.node("Div", x, size), size


@converter(CumSum)
def cumsum(w: Writer, x: Value, axis: int, reverse: bool) -> Value:
    return w.node("CumSum", x, w.constant(axis, np.int64), reverse=int(reverse))
