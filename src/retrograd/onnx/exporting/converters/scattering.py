"""Tensors with some of their elements replaced or added to, and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.index.assignment import setitem
from ....ops.index.gather import Scatter, scatter, scatter_add, scatter_reduce
from ....ops.index.indexing import PadSlice, Places, Put
from ....ops.index.packed_rows import PlaceRows
from ....ops.index.selection import index_add, index_copy, index_fill
from ....ops.shape.diagonal import Diagonal
from ..writer import Value, Writer
from .indexing import END, parts_of
from .registry import converter, converter_of

_REDUCTIONS = {None: None, "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


@converter(setitem)
def assigned(w: Writer, x: Value, v: Value, index: tuple[Any, ...]) -> Value:
    """x with v, of the shape of x[index], in that place: the recorder has such calls for changes of a view."""
    cuts, new, axis = [], [], 0
    for place, part in enumerate(parts_of(index, len(x.shape))):
        if part is None:
            new.append(place)
            continue
        extent = x.shape[axis]
        low, high, step = part.indices(extent) if isinstance(part, slice) else (part % extent, part % extent + 1, 1)
        w.require(step == 1, "a change in place of every other element")
        if isinstance(part, slice) and part != slice(None):
            cuts.append((axis, low, max(low, high)))
        elif not isinstance(part, slice):
            cuts.append((axis, low, high))
        axis += 1
    if new:
        v = w.node("Squeeze", v, w.ints(new))
    gone = [
        axis
        for axis, part in enumerate(p for p in parts_of(index, len(x.shape)) if p is not None)
        if not isinstance(part, slice)
    ]
    if gone:
        v = w.node("Unsqueeze", v, w.ints(gone))
    return _between(w, x, v, x.shape, cuts)


def _between(w: Writer, x: Value, v: Value, shape: tuple[int, ...], cuts: list[tuple[int, int, int]]) -> Value:
    """x with v between low and high of each axis: what is before, v, and what is after, axis by axis."""
    if not cuts:
        return v
    (axis, low, high), *rest = cuts
    inner = w.node("Slice", x, w.ints([low]), w.ints([high]), w.ints([axis])) if rest else x
    pieces = [_between(w, inner, v, shape, rest)]
    if low > 0:
        pieces.insert(0, w.node("Slice", x, w.ints([0]), w.ints([low]), w.ints([axis])))
    if high < shape[axis]:
        pieces.append(w.node("Slice", x, w.ints([high]), w.ints([END]), w.ints([axis])))
    return pieces[0] if len(pieces) == 1 else w.node("Concat", *pieces, axis=axis)


@converter(PadSlice)
def in_zeros(w: Writer, g: Value, shape: tuple[int, ...], index: tuple[Any, ...]) -> Value:
    zeros = w.node("Expand", w.constant(0, g.dtype), w.ints(shape))
    return assigned(w, Value(zeros.name, g.dtype, np.broadcast_to(g.dtype.type(0), shape)), g, index)


@converter(Scatter)
def scattered(w: Writer, g: Value, indices: Any, axis: int, shape: tuple[int, ...]) -> Value:
    zeros = w.node("Expand", w.constant(0, g.dtype), w.ints(shape))
    return w.node("ScatterElements", zeros, w.taken(indices), g, axis=axis, reduction="add")


@converter(Put)
def put(w: Writer, x: Value, v: Value, places: Any, accumulate: bool) -> Value:
    """places: a split index, or the index itself if it depends on an input."""
    if not isinstance(places, Places):
        parts = list(places) if isinstance(places, (tuple, list)) else [places]
        return _put_by_values(w, x, v, parts, accumulate)
    w.require(places.basic is None, "an index of arrays, ints and slices together")
    first = places.axes[0]
    w.require(places.axes == tuple(range(first, first + len(places.axes))), "an index of arrays with a slice between")
    order = [*places.axes, *(axis for axis in range(len(x.shape)) if axis not in places.axes)]
    picked = places.arrays[0].shape
    shape = (*x.shape[:first], *picked, *x.shape[first + len(places.axes) :])
    v = w.node("Expand", v, w.ints(shape))
    if first:
        x = Value(w.node("Transpose", x, perm=order).name, x.dtype, x.array)
        ahead = [*range(first, first + len(picked)), *range(first), *range(first + len(picked), len(shape))]
        v = w.node("Transpose", v, perm=ahead)
    reduction = "add" if accumulate else None
    y = w.node("ScatterND", x, w.constant(np.stack(places.arrays, -1)), v, reduction=reduction)
    return w.node("Transpose", y, perm=[order.index(axis) for axis in range(len(order))]) if first else y


def _put_by_values(w: Writer, x: Value, v: Value, parts: list[Any], accumulate: bool) -> Value:
    w.require(all(isinstance(part, Value) for part in parts), "an index of tensors together with ints and slices")
    if [part.dtype.kind for part in parts] == ["b"]:
        w.require(not v.shape and not accumulate, "several values at the places of a mask; with where they")
        (mask,) = parts
        rest = [*range(len(mask.shape), len(x.shape))]
        mask = w.node("Unsqueeze", mask, w.ints(rest)) if rest else mask
        return w.node("Where", mask, v, x, dtype=x.dtype)
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    w.require(all(part.dtype.kind in "iu" and part.shape == shape for part in parts), "an index of tensors and masks")
    places = [w.node("Unsqueeze", part, w.ints([-1])) for part in parts]
    v = w.node("Expand", v, w.ints((*shape, *x.shape[len(parts) :])))
    joined = places[0] if len(places) == 1 else w.node("Concat", *places, axis=-1)
    return w.node("ScatterND", x, joined, v, reduction="add" if accumulate else None)


@converter(PlaceRows)
def place_rows(w: Writer, x: Value, rows: Any, count: int, filling: float) -> Value:
    empty = w.node("Expand", w.constant(filling, x.dtype), w.ints((count, *x.shape[1:])))
    return w.node("ScatterND", empty, w.node("Unsqueeze", w.taken(rows), w.ints([1])), x)


def _scattered(w: Writer, x: Value, dim: int, index: Value, source: Any, reduction: str | None) -> Value:
    w.require(x.shape and index.shape, "scatter of a number")
    if not isinstance(source, Value):
        source = w.node("Expand", w.constant(source, x.dtype), w.ints(index.shape))
    elif source.shape != index.shape:
        axes = range(len(index.shape))
        source = w.node("Slice", source, w.ints([0 for _ in axes]), w.ints(index.shape), w.ints(axes))
    return w.node("ScatterElements", x, index, source, axis=int(dim), reduction=reduction)


@converter_of(scatter)
def scatter_elements(w: Writer, input: Value, dim: int, index: Value, src: Any, value: Any, reduce: Any) -> Value:
    return _scattered(w, input, dim, index, value if src is None else src, _REDUCTIONS[reduce])


@converter_of(scatter_add)
def add_elements(w: Writer, input: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(w, input, dim, index, src, "add")


@converter_of(scatter_reduce)
def reduce_elements(
    w: Writer, input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool
) -> Value:
    w.require(reduce in _REDUCTIONS and include_self, f"scatter_reduce with {reduce}, include_self={include_self}")
    return _scattered(w, input, dim, index, src, _REDUCTIONS[reduce])


def _slices(w: Writer, x: Value, dim: int, index: Value, source: Any, reduction: str | None) -> Value:
    """Whole slices of x along dim."""
    w.require(x.shape, "slices of a number")
    axis = dim % len(x.shape)
    shape = [*x.shape]
    shape[axis] = int(np.prod(index.shape))
    line = w.reshape(index, [-1 if place == axis else 1 for place in range(len(shape))])
    wide = w.node("Expand", line, w.ints(shape))
    if not isinstance(source, Value) or not source.shape:
        source = w.node("Expand", w.cast(w.taken(source), x.dtype), w.ints(shape))
    return w.node("ScatterElements", x, wide, source, axis=axis, reduction=reduction)


@converter_of(index_add)
def add_slices(w: Writer, input: Value, dim: int, index: Value, source: Value, alpha: float) -> Value:
    if alpha != 1:
        scaled = w.node("Mul", source, w.constant(alpha, source.dtype))
        source = Value(scaled.name, source.dtype, source.array)
    return _slices(w, input, dim, index, source, "add")


@converter_of(index_copy)
def copy_slices(w: Writer, input: Value, dim: int, index: Value, source: Value) -> Value:
    return _slices(w, input, dim, index, source, None)


@converter_of(index_fill)
def fill_slices(w: Writer, input: Value, dim: int, index: Value, value: Any) -> Value:
    return _slices(w, input, dim, index, value, None)


@converter(Diagonal)
def diagonal(w: Writer, x: Value, offset: int, a: int, b: int) -> Value:
    rest = [axis for axis in range(len(x.shape)) if axis not in (a, b)]
    rows, columns = x.shape[a], x.shape[b]
    first = max(0, -offset)
    places = np.arange(first, first + max(0, min(rows, columns - offset) - first))
    moved = w.node("Transpose", x, perm=[*rest, a, b])
    flat = w.reshape(moved, (*(x.shape[axis] for axis in rest), rows * columns))
    return w.node("Gather", flat, w.constant(places * (columns + 1) + offset), axis=len(rest))
