"""Elements by index: slices, lookups, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.index.embedding import embedding, embedding_bag, one_hot
from ....ops.index.gather import Gather, gather
from ....ops.index.indexing import GetItem, getitem, in_range
from ....ops.index.order import argsort, sort, topk
from ....ops.index.packed_rows import PickRows
from ....ops.index.pick import Pick
from ....ops.index.search import bucketize
from ....ops.index.selection import MaskedFill, index_select, take
from ....ops.index.sparse import Matrix, SparseProduct, SparseProducts
from ....ops.memory.private import private
from ..origins import Known
from ..writer import Value, Writer
from .registry import converter, converter_of

END = 2**62  # beyond every extent


@converter(GetItem)
def basic(w: Writer, x: Value, index: tuple[Any, ...]) -> Value:
    """One Slice for all slices; then the axes of ints go, and those of None come."""
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
    """A basic index with a slice for each axis that "..." stands for, or that it leaves out."""
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
    """Whether an index holds a tensor that depends on an input."""
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


@converter_of(private, in_range)
def indices(w: Writer, **given: Any) -> Value:
    """Indices as they are: those of ONNX may be negative, too."""
    return given["array"] if "array" in given else given["index"]


@converter_of(take)
def of_all(w: Writer, input: Value, index: Value) -> Value:
    return w.node("Gather", w.reshape(input, [-1]), index)


@converter_of(bucketize)
def buckets(w: Writer, input: Value, boundaries: Any, out_int32: bool, right: bool) -> Value:
    """The number of boundaries below each element, or, with right, not above it."""
    w.require(not out_int32, "bucketize with out_int32")
    apart = w.node("Unsqueeze", input, w.ints([-1]))
    edges = w.cast(w.taken(boundaries), input.dtype)
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
    return w.node("GatherElements", x, w.taken(indices), axis=axis)


@converter(PickRows)
def rows(w: Writer, x: Value, indices: Any) -> Value:
    return w.node("Gather", x, w.taken(indices), axis=0)


@converter(MaskedFill)
def masked_fill(w: Writer, x: Value, value: Value, mask: Any) -> Value:
    return w.node("Where", w.taken(mask), value, x, dtype=x.dtype)


@converter(SparseProduct)
def sparse_product(w: Writer, x: Value, matrix: Matrix, axis: int) -> Value:
    """Rows by a fixed index, or a product with a fixed matrix, written in full."""
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
