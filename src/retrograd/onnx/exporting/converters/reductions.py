"""Converters of reductions, scans, normalization and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.normalization.batch_norm import BatchNorm, ChannelAffine, FixedScale
from ....ops.normalization.layer_norm import GroupNorm, LayerNorm, Unit
from ....ops.normalization.softmax import LogSoftmax, Softmax
from ....ops.product.distance import EuclideanDistance, RowNorm, RowProducts
from ....ops.reduce import reduction
from ....ops.reduce.norms import Norm1, Norm2
from ....ops.reduce.reduction import Amax, ExtremeAlong, Mean, NanToZero, Prod, argmax, argmin
from ....ops.reduce.scan import CumSum, cumsum
from ....ops.reduce.statistics import LogSumExp, VarMean
from ....ops.shape.broadcasting import Sum
from ..writer import Value, Writer
from .registry import converter, converter_of

# ---- Reductions and scans -------------------------------------------------------------------------------------------

_REDUCED = {Sum: "ReduceSum", Prod: "ReduceProd", Norm1: "ReduceL1", Norm2: "ReduceL2", LogSumExp: "ReduceLogSumExp"}


def reduced(w: Writer, operator: str, x: Value, axes: Any, keepdims: Any) -> Value:
    """Write a node that reduces the axes; without axes x is unchanged."""
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
    rest = w.node("Squeeze", w.cast(w.ints([count]), x.dtype), w.ints([0]))
    if correction:
        rest = w.node("Max", w.node("Sub", rest, w.constant(correction, x.dtype)), w.constant(0, x.dtype))
    found = w.node("Div", squares, rest)
    if root:
        found = w.node("Sqrt", found)
    return found, mean if keepdims else w.node("Squeeze", mean, w.ints(axes))


@converter(Unit)
def unit(w: Writer, x: Value, axes: tuple[int, ...], eps: float) -> tuple[Value, Value]:
    size = w.node("Max", reduced(w, "ReduceL2", x, axes, True), w.constant(eps, x.dtype))
    return w.node("Div", x, size), size


@converter(CumSum)
def sums_so_far(w: Writer, x: Value, axis: int, reverse: bool) -> Value:
    return w.node("CumSum", x, w.constant(axis, np.int64), reverse=int(reverse))


def _whole(given: dict[str, Any]) -> bool:
    """Return whether a reduction is over integers or booleans, which bypasses its Function."""
    return hasattr(given["input"], "array") and given["input"].array.dtype.kind in "iub" and not given.get("dtype")


def _axes(dim: Any, count: int) -> list[int]:
    """Return the axes that an argument ``dim`` names; all for None or ()."""
    named = list(dim) if isinstance(dim, (tuple, list)) else [] if dim is None else [dim]
    return [int(axis) for axis in named] or list(range(count))


def _register_whole() -> None:
    function: Any
    for function, operator in ((reduction.sum, "ReduceSum"), (reduction.prod, "ReduceProd")):

        def total(w: Writer, input: Value, dim: Any, keepdim: bool, dtype: Any, operator: str = operator) -> Value:
            return reduced(w, operator, w.cast(input, np.int64), _axes(dim, len(input.shape)), keepdim)

        converter_of(function, when=_whole)(total)
    for function, operator in ((reduction.amax, "ReduceMax"), (reduction.amin, "ReduceMin")):

        def extreme(w: Writer, input: Value, dim: Any, keepdim: bool, operator: str = operator) -> Value:
            return _extreme_of_whole(w, operator, input, dim, keepdim)

        converter_of(function, when=_whole)(extreme)
    for function, kind in ((reduction.max, "Max"), (reduction.min, "Min")):

        def along(w: Writer, input: Value, dim: Any, keepdim: bool, other: Any, kind: str = kind) -> Any:
            values = _extreme_of_whole(w, f"Reduce{kind}", input, dim, keepdim)
            return values if dim is None else (values, _place(w, f"Arg{kind}", _counted(w, input), dim, keepdim))

        converter_of(function, when=lambda given: _whole(given) and not _is_of_two(given))(along)
    for function, operator in ((reduction.any, "ReduceMax"), (reduction.all, "ReduceMin")):

        def truth(w: Writer, input: Value, dim: Any, keepdim: bool, operator: str = operator) -> Value:
            truth = Value(w.cast(input, np.bool_).name, np.dtype(np.bool_), input.array)
            return _extreme_of_whole(w, operator, truth, dim, keepdim)

        converter_of(function)(truth)


def _is_of_two(given: dict[str, Any]) -> bool:
    return given["other"] is not None or not (given["dim"] is None or isinstance(given["dim"], int))


def _counted(w: Writer, x: Value) -> Value:
    """Convert booleans to numbers."""
    return w.cast(x, np.int32) if x.dtype.kind == "b" else x


def _extreme_of_whole(w: Writer, operator: str, x: Value, dim: Any, keepdim: bool) -> Value:
    return w.cast(reduced(w, operator, _counted(w, x), _axes(dim, len(x.shape)), keepdim), x.dtype)


_register_whole()


@converter_of(cumsum, when=_whole)
def whole_sums_so_far(w: Writer, input: Value, dim: int, dtype: Any) -> Value:
    return w.node("CumSum", w.cast(input, np.int64), w.constant(dim, np.int64))


@converter_of(reduction.count_nonzero)
def count_nonzero(w: Writer, input: Value, dim: Any) -> Value:
    return reduced(w, "ReduceSum", w.cast(w.cast(input, np.bool_), np.int64), _axes(dim, len(input.shape)), False)


@converter(NanToZero)
def nan_to_zero(w: Writer, x: Value) -> Value:
    return w.node("Where", w.node("IsNaN", x, dtype=np.bool_), w.constant(0, x.dtype), x, dtype=x.dtype)


@converter(RowNorm)
def row_norm(w: Writer, x: Value, p: float) -> Value:
    if p in (1, 2):
        return reduced(w, f"ReduceL{int(p)}", x, [-1], False)
    size = w.node("Abs", x)
    if math.isinf(p):
        return reduced(w, "ReduceMax", size, [-1], False)
    total = reduced(w, "ReduceSum", w.node("Pow", size, w.constant(p, x.dtype)), [-1], False)
    return w.node("Pow", total, w.constant(1 / p, x.dtype))


@converter(EuclideanDistance)
def distance(w: Writer, x: Value, y: Value, eps: float) -> Value:
    return reduced(w, "ReduceL2", w.node("Add", w.node("Sub", x, y), w.constant(eps, x.dtype)), [-1], False)


@converter(RowProducts)
def row_products(w: Writer, x: Value, y: Value) -> tuple[Value, ...]:
    return tuple(reduced(w, "ReduceSum", w.node("Mul", a, b), [-1], False) for a, b in ((x, y), (x, x), (y, y)))


# ---- Normalization and softmax --------------------------------------------------------------------------------------


@converter(FixedScale)
def fixed_scale(w: Writer, mean: Value, variance: Value, weight: Value, bias: Value, eps: float) -> tuple[Value, Value]:
    """Write nothing yet: ``ChannelAffine`` combines these five into a BatchNormalization."""
    promise = w.promise((mean, variance, weight, bias, eps))
    return promise, promise


@converter(ChannelAffine)
def channel_affine(w: Writer, x: Value, scale: Value, shift: Value) -> Value:
    promised = w.promised(scale)
    if promised is not None:
        mean, variance, weight, bias, eps = promised
        return w.node("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps)
    return _scaled(w, x, scale, shift, len(x.shape))


def _scaled(w: Writer, x: Value, scale: Value, shift: Value, axes: int) -> Value:
    """Write x * scale + shift per channel, for x with this number of axes."""
    sides = (1, -1, *(1,) * (axes - 2))
    return w.node("Add", w.node("Mul", x, w.reshape(scale, sides)), w.reshape(shift, sides))


@converter(BatchNorm)
def batch_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, statistics: Any) -> Value:
    """Write a batch norm with the statistics of the batch itself, used when there are no running statistics."""
    axes = [0, *range(2, len(x.shape))]
    away = w.node("Sub", x, reduced(w, "ReduceMean", x, axes, True))
    variance = reduced(w, "ReduceMean", w.node("Mul", away, away), axes, True)
    deviation = w.node("Sqrt", w.node("Add", variance, w.constant(eps, x.dtype)))
    return _scaled(w, w.node("Div", away, deviation), weight, bias, len(x.shape))


@converter(GroupNorm)
def group_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, groups: int, statistics: Any) -> Value:
    if groups == x.shape[1]:
        return w.node("InstanceNormalization", x, weight, bias, epsilon=eps)
    # treats each group as one channel
    batch, _, *space = x.shape
    apart = w.reshape(x, (batch, groups, x.shape[1] // groups * math.prod(space)))
    ones, zeros = (w.constant(np.full(groups, number, x.dtype)) for number in (1, 0))
    normal = w.node("InstanceNormalization", apart, ones, zeros, epsilon=eps)
    return _scaled(w, w.reshape(normal, x.shape), weight, bias, len(x.shape))


@converter(LayerNorm)
def layer_norm(w: Writer, x: Value, weight: Value, bias: Value, eps: float, centered: bool, affine: bool) -> Value:
    axis = -len(weight.shape)
    if centered:
        return w.node("LayerNormalization", x, weight, bias, axis=axis, epsilon=eps)
    mean = reduced(w, "ReduceMean", w.node("Mul", x, x), range(axis, 0), True)
    y = w.node("Div", x, w.node("Sqrt", w.node("Add", mean, w.constant(eps, x.dtype))))
    return w.node("Add", w.node("Mul", y, weight), bias) if affine else y


@converter(Softmax)
def softmax(w: Writer, x: Value, axis: int) -> Value:
    return w.node("Softmax", x, axis=axis)


@converter(LogSoftmax)
def log_softmax(w: Writer, x: Value, axis: int) -> Value:
    return w.node("LogSoftmax", x, axis=axis)
