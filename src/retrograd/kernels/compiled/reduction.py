"""Reductions along axes, arg extremes, and scans.

A dense array is seen as groups of adjacent axes, in memory order, that are reduced or kept. The innermost reduced group
goes first: over rows if it is the innermost of all, else over columns. Rows and columns are cut into pieces by shape,
so that neither bits nor accuracy depend on threads: errors grow as in a tree of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from math import prod as product
from typing import Any, NamedTuple

import numpy as np
from numpy import empty, ndarray

from .machine.launch import Kernel, kernel
from .machine.plan_tracing import call, is_planned
from .machine.prepared import prepared
from .memory.layout import (
    CHUNK,
    FEW,
    Groups,
    Shape,
    append,
    around,
    column_numbers,
    dense,
    like,
    row_numbers,
    rows_and_columns,
    view,
)

__all__ = ["amax", "amin", "cumprod", "cumsum", "linear_scan", "max", "mean", "min", "norm", "prod", "sum"]


# ---- Sums, products, maxima and minima along axes, whatever the memory order of the array ---------------------------

Pair = tuple[Kernel, Kernel]  # over rows, and over columns
_SUM, _PROD, _AMAX, _AMIN, _ABSOLUTE, _SQUARE = (
    rows_and_columns(f"reduction.{name}") for name in ("sum", "prod", "amax", "amin", "absolute", "square")
)


_SQRT = kernel("pointwise.sqrt")


class _Pass(NamedTuple):
    """One launch: its kernel, tasks, the elements of its result and its numbers."""

    rows: bool
    tasks: int
    results: int
    numbers: tuple[float, ...]


class _Plan(NamedTuple):
    shape: Shape  # of the result in memory
    back: Shape  # its transposition to the result
    passes: tuple[_Pass, ...]


@prepared
def sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return _reduce(_SUM, _SUM, 0.0, x, axes, keepdims)


@prepared
def mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return _reduce(_SUM, _SUM, np.nan, x, axes, keepdims, mean=True)


@prepared
def prod(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return _reduce(_PROD, _PROD, 1.0, x, axes, keepdims)


@prepared
def amax(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    _nonempty("amax", x, axes)
    return _reduce(_AMAX, _AMAX, -np.inf, x, axes, keepdims)


@prepared
def amin(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    _nonempty("amin", x, axes)
    return _reduce(_AMIN, _AMIN, np.inf, x, axes, keepdims)


@prepared
def norm(x: np.ndarray, order: int, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    if order == 1:
        return _reduce(_ABSOLUTE, _SUM, 0.0, x, axes, keepdims)
    y = _reduce(_SQUARE, _SUM, 0.0, x, axes, keepdims)
    root: np.ndarray = _SQRT[y.dtype.char](y)
    return root


def unless_finite(x: np.ndarray, function: Callable[..., None], *arguments: Any) -> None:
    """Call a function if an element of x is infinite or NaN; or if the sum of finite ones overflows."""
    total = sum(x, tuple(range(x.ndim)), False)
    if is_planned(x):
        call(function, *arguments, unless_finite=total)
    elif not isfinite(total.item()):
        function(*arguments)


def _nonempty(name: str, x: np.ndarray, axes: tuple[int, ...]) -> None:
    if 0 in x.shape and 0 in [x.shape[axis] for axis in axes]:
        raise ValueError(f"{name}: x.shape={x.shape} has no elements over axes={axes}; choose other axes")


def _reduce(
    first: Pair, rest: Pair, start: float, x: np.ndarray, axes: tuple[int, ...], keepdims: bool, mean: bool = False
) -> np.ndarray:
    """``first`` over the innermost group and ``rest`` over the others; ``start`` for no elements.

    mean: divide by the number of elements.
    """
    plan = _plan(x.shape, x.strides, x.itemsize, axes, keepdims, mean)
    if plan is None:
        x = x.copy(order="K")
        plan = _plan(x.shape, x.strides, x.itemsize, axes, keepdims, mean)
        assert plan is not None  # a copy is dense
    shape, back, passes = plan
    dtype = x.dtype
    y = empty(shape, dtype) if type(x) is ndarray else empty(shape, dtype, like=x)
    if len(passes) == 1:
        rows, tasks, _, numbers = passes[0]
        first[0 if rows else 1][dtype.char](tasks, x, y, *numbers)
    elif passes:
        pair = first
        for rows, tasks, results, numbers in passes:
            target = y if results < 0 else np.empty(results, dtype, like=x)
            pair[0 if rows else 1][dtype.char](tasks, x, target, *numbers)
            x, pair = target, rest
    else:
        y.fill(start)  # no elements
    return y.transpose(back) if back else y


@lru_cache(maxsize=4096)
def _plan(shape: Shape, strides: Shape, size: int, axes: tuple[int, ...], keepdims: bool, mean: bool) -> _Plan | None:
    """Plan the reduction of a dense array; None if it is not dense."""
    seen = view(shape, strides, size, axes, keepdims)
    if seen is None:
        return None
    groups: Groups = list(seen.groups)
    passes: list[_Pass] = []
    if 0 not in shape and not any(reduced for reduced, _ in groups):  # one number in each result
        tasks, _, numbers = row_numbers(product(shape), 1)
        passes.append(_Pass(True, tasks, product(shape), numbers))
    while 0 not in shape and any(reduced for reduced, _ in groups):
        if groups[-1][0]:
            length = groups.pop()[1]
            rows = product(extent for _, extent in groups)
            tasks, pieces, row = row_numbers(rows, length)
            passes.append(_Pass(True, tasks, rows * pieces, row))
            append(groups, True, pieces)
        else:
            inner, length = groups.pop()[1], groups.pop()[1]
            outer = product(extent for _, extent in groups)
            tasks, pieces, column = column_numbers(outer, length, inner)
            passes.append(_Pass(False, tasks, outer * pieces * inner, column))
            append(groups, True, pieces)
            append(groups, False, inner)
    passes = [one._replace(numbers=(*one.numbers, 1.0)) for one in passes]  # the factor
    if passes:
        factor = 1.0 / product(shape[axis] for axis in axes) if mean else 1.0
        passes[-1] = passes[-1]._replace(results=-1, numbers=(*passes[-1].numbers[:-1], factor))  # the final result
    return _Plan(seen.memory, seen.back, tuple(passes))


# ---- Cumulative sums and products along an axis ---------------------------------------------------------------------

_CUMSUM, _CUMPROD = rows_and_columns("reduction.cumsum"), rows_and_columns("reduction.cumprod")
_LINEAR = rows_and_columns("reduction.linear")


@prepared
def cumsum(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return _scan(_CUMSUM, x, axis, reverse)


@prepared
def cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    return _scan(_CUMPROD, x, axis, False)


def linear_scan(x: np.ndarray, factor: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return _scan(_LINEAR, x, axis, reverse, factor)


def _scan(kernels: tuple[Kernel, Kernel], x: np.ndarray, axis: int, reverse: bool, *others: np.ndarray) -> np.ndarray:
    x = dense(x)
    y = np.empty_like(x)
    if x.size:
        rows, tasks, numbers = scan_plan(x.shape, x.strides, axis)
        arrays = (like(other, x) for other in others)
        kernels[0 if rows else 1][x.dtype.char](tasks, x, *arrays, y, *numbers, int(reverse))
    return y


@lru_cache(maxsize=4096)
def scan_plan(shape: Shape, strides: Shape, axis: int) -> tuple[bool, int, tuple[int, int, int]]:
    """Whether the axis of a dense array is innermost, the tasks and the numbers of the kernel."""
    outer, length, inner = around(shape, strides, axis)
    if inner == 1:
        per_task = CHUNK // length or 1
        return True, -(-outer // per_task), (outer, length, per_task)
    width = -(-CHUNK // length // FEW) * FEW
    return False, outer * -(-inner // width), (length, inner, width)


# ---- The largest or smallest number along an axis and its index -----------------------------------------------------

_PLACE = rows_and_columns("reduction.place_in")


@prepared
def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return _extreme("max", amax, x, axis)


@prepared
def min(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return _extreme("min", amin, x, axis)


def _extreme(name: str, of: Callable[..., np.ndarray], x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    if not x.shape[axis]:
        raise ValueError(f"{name}: x.shape={x.shape} has no elements along axis={axis}; choose another axis")
    x = dense(x)
    values = of(x, (axis,), False)
    indices = np.empty_like(values, np.int64)
    if values.size:
        rows, tasks, numbers = scan_plan(x.shape, x.strides, axis)
        _PLACE[0 if rows else 1][x.dtype.char](tasks, x, values, indices, *numbers)
    return values, indices
