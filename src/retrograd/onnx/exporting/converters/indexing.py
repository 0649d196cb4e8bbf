"""Converters of indexing: slices, gather, scatter, sorting, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.argument_checks import copy_for_backward
from ....ops.index.embedding import embedding, embedding_bag, one_hot
from ....ops.index.gather import Gather, Scatter, gather, scatter, scatter_add, scatter_reduce
from ....ops.index.indexing import GetItem, PadSlice, Places, Put, getitem, in_range, setitem
from ....ops.index.pick import Pick, PickRows, PlaceRows
from ....ops.index.search import bucketize
from ....ops.index.selection import MaskedFill, index_add, index_copy, index_fill, index_select, take
from ....ops.index.sorting import argsort, sort, topk
from ....ops.shape.diagonal import Diagonal
from ....ops.sparse_products import Matrix, SparseProduct, SparseProducts
from ..tracing import Known
from ..writer import Value, Writer
from .registry import converter, converter_of

# ---- Slices, lookups and sorting ------------------------------------------------------------------------------------

END = 2**62  # greater than any extent


@converter(GetItem)
def basic(w: Writer, x: Value, index: tuple[Any, ...]) -> Value:
    """Write one Slice for all slices, then remove the axes of ints and insert those of None."""
    parts = parts_of(index, len(x.shape))
    axis = 0
    cuts: list[tuple[int, int, int, int]] = []
    gone: list[int] = []
    new: list[int] = []
    for place, part in enumerate(parts):
        if part is None:
            new.append(place - len(gone))
            continue
        if isinstance(part, slice):
            if part != slice(None):
                cuts.append((axis, *_limits(part)))
        else:
            number = int(part)
            cuts.append((axis, number, END if number == -1 else number + 1, 1))
            gone.append(axis)
        axis += 1
    y = x
    if cuts:
        axes, starts, ends, steps = zip(*cuts, strict=True)
        y = w.node("Slice", x, w.ints(starts), w.ints(ends), w.ints(axes), w.ints(steps))
    if gone:
        y = w.node("Squeeze", y, w.ints(gone))
    return w.node("Unsqueeze", y, w.ints(new)) if new else y


def parts_of(index: tuple[Any, ...], axes: int) -> list[Any]:
    """Expand a basic index to one slice for each axis that "..." represents or that the index omits."""
    if not any(part is Ellipsis for part in index):
        index = (*index, Ellipsis)
    rest = axes - sum(part is not None and part is not Ellipsis for part in index)
    parts: list[Any] = []
    for part in index:
        parts += [slice(None)] * rest if part is Ellipsis else [part]
    return parts


def _limits(part: slice) -> tuple[int, int, int]:
    step = 1 if part.step is None else int(part.step)
    start = (0 if step > 0 else -1) if part.start is None else int(part.start)
    end = (END if step > 0 else -END) if part.stop is None else int(part.stop)
    return start, end, step


def _by_tensor(given: dict[str, Any]) -> bool:
    """Return whether an index has a tensor that depends on an input."""
    index = given["index"]
    return any(isinstance(part, Known) for part in (index if isinstance(index, tuple) else (index,)))


@converter_of(getitem, when=_by_tensor)
def by_tensor(w: Writer, input: Value, index: Any) -> Value:
    parts = list(index if isinstance(index, tuple) else (index,))
    before = 0
    while parts[before] == slice(None) if isinstance(parts[before], slice) else False:
        before += 1
    after = parts[before + 1 :]
    whole = all(isinstance(part, slice) and part == slice(None) for part in after)
    w.require(
        whole and isinstance(parts[before], Value) and parts[before].dtype.kind in "iu",
        "an index of several tensors, or of a mask, that depend on the input",
    )
    return w.node("Gather", input, parts[before], axis=before)


@converter_of(index_select)
def select(w: Writer, input: Value, dim: int, index: Value) -> Value:
    return w.node("Gather", input, index, axis=int(dim))


@converter_of(embedding)
def lookup(
    w: Writer,
    input: Value,
    weight: Value,
    padding_idx: Any,
    max_norm: Any,
    norm_type: Any,
    scale_grad_by_freq: Any,
    sparse: Any,
) -> Value:
    w.require(max_norm is None, "an embedding with max_norm, which changes its weight")
    return w.node("Gather", weight, input)


@converter_of(embedding_bag, when=lambda given: isinstance(given["input"], Known))
def bags(
    w: Writer,
    input: Value,
    weight: Value,
    offsets: Any,
    max_norm: Any,
    norm_type: Any,
    scale_grad_by_freq: Any,
    mode: str,
    sparse: Any,
    per_sample_weights: Value | None,
    include_last_offset: Any,
    padding_idx: int | None,
) -> Value:
    w.require(
        offsets is None and max_norm is None and padding_idx is None,
        "an embedding_bag with offsets, max_norm or padding_idx",
    )
    rows = w.node("Gather", weight, input, dtype=weight.dtype)
    if per_sample_weights is not None:
        rows = w.node("Mul", rows, w.node("Unsqueeze", per_sample_weights, w.ints([-1])))
    return w.node({"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[mode], rows, w.ints([1]), keepdims=0)


@converter_of(copy_for_backward, in_range)
def indices(w: Writer, **given: Any) -> Value:
    """Keep indices unchanged: ONNX also allows negative ones."""
    return given["array"] if "array" in given else given["index"]


@converter_of(take)
def of_all(w: Writer, input: Value, index: Value) -> Value:
    return w.node("Gather", w.reshape(input, [-1]), index)


@converter_of(bucketize)
def buckets(w: Writer, input: Value, boundaries: Any, out_int32: bool, right: bool) -> Value:
    """Count the boundaries below each element, or, with right, those not above it."""
    w.require(not out_int32, "bucketize with out_int32")
    apart = w.node("Unsqueeze", input, w.ints([-1]))
    edges = w.cast(w.as_value(boundaries), input.dtype)
    below = w.node("LessOrEqual" if right else "Less", edges, apart, dtype=np.bool_)
    return w.node("ReduceSum", w.cast(below, np.int64), w.ints([-1]), keepdims=0)


@converter_of(one_hot)
def one_hot_rows(w: Writer, tensor: Value, num_classes: int) -> Value:
    w.require(num_classes > 0, "one_hot without num_classes")
    values = w.constant([0, 1], np.int64)
    return w.node("OneHot", tensor, w.constant(num_classes, np.int64), values, dtype=np.int64)


@converter_of(gather)
def along(w: Writer, input: Value, dim: int, index: Value, sparse_grad: Any) -> Value:
    return w.node("GatherElements", input, index, axis=int(dim))


@converter(Gather, Pick)
def elements(w: Writer, x: Value, indices: Any, axis: int) -> Value:
    return w.node("GatherElements", x, w.as_value(indices), axis=axis)


@converter(PickRows)
def rows(w: Writer, x: Value, indices: Any) -> Value:
    return w.node("Gather", x, w.as_value(indices), axis=0)


@converter(MaskedFill)
def masked_fill(w: Writer, x: Value, value: Value, mask: Any) -> Value:
    return w.node("Where", w.as_value(mask), value, x, dtype=x.dtype)


@converter(SparseProduct)
def sparse_product(w: Writer, x: Value, matrix: Matrix, axis: int) -> Value:
    """Write rows selected by a fixed index, or a product with a fixed matrix, as dense operators."""
    if matrix.starts is None and matrix.weights is None:
        return w.node("Gather", x, w.constant(matrix.indices), axis=axis)
    dense = np.zeros((matrix.rows, matrix.columns), x.dtype)
    starts, columns, weights = matrix.csr(dense)
    np.add.at(dense, (np.repeat(np.arange(matrix.rows), np.diff(starts)), columns), weights)
    order = [*range(axis), *range(axis + 1, len(x.shape)), axis]
    y = w.node("MatMul", w.node("Transpose", x, perm=order), w.constant(dense.T))
    return w.node("Transpose", y, perm=[order.index(place) for place in range(len(order))])


@converter(SparseProducts)
def sparse_products(w: Writer, x: Value, matrix: Matrix, next_matrix: Matrix, axis: int) -> Value:
    y = sparse_product(w, x, matrix, axis)
    return sparse_product(w, Value(y.name, x.dtype, x.array), next_matrix, axis + 1)


@converter_of(topk)
def largest(w: Writer, input: Value, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    return _top(w, input, k, dim, largest, sorted)


@converter_of(sort)
def in_order(w: Writer, input: Value, dim: int, descending: bool, stable: bool) -> Any:
    return _top(w, input, input.shape[dim], dim, descending, True)


@converter_of(argsort)
def order(w: Writer, input: Value, dim: int, descending: bool, stable: bool) -> Any:
    return _top(w, input, input.shape[dim], dim, descending, True)[1]


def _top(w: Writer, x: Value, k: int, dim: int, largest: bool, ordered: bool) -> tuple[Value, Value]:
    values, places = w.node(
        "TopK", x, w.ints([k]), axis=int(dim), largest=int(bool(largest)), sorted=int(bool(ordered)), outputs=2
    )
    return values, Value(places.name, np.dtype(np.int64))


# ---- Replacement and accumulation of elements, and diagonals --------------------------------------------------------

_REDUCTIONS = {None: None, "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


@converter(setitem)
def assigned(w: Writer, x: Value, v: Value, index: tuple[Any, ...]) -> Value:
    """Write x with v, which has the shape of x[index], at that index; the recorder uses this for changes of a view."""
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
    """Write x with v between low and high of each axis, by concatenating what is before, v, and what is after."""
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
    return w.node("ScatterElements", zeros, w.as_value(indices), g, axis=axis, reduction="add")


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
        w.require(not v.shape and not accumulate, "several values at the places of a mask (use where instead)")
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
    return w.node("ScatterND", empty, w.node("Unsqueeze", w.as_value(rows), w.ints([1])), x)


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
    """Write an operation on whole slices of x along dim."""
    w.require(x.shape, "slices of a number")
    axis = dim % len(x.shape)
    shape = [*x.shape]
    shape[axis] = int(np.prod(index.shape))
    line = w.reshape(index, [-1 if place == axis else 1 for place in range(len(shape))])
    wide = w.node("Expand", line, w.ints(shape))
    if not isinstance(source, Value) or not source.shape:
        source = w.node("Expand", w.cast(w.as_value(source), x.dtype), w.ints(shape))
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
