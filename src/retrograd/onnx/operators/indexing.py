"""Operators that read or write at indices. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import OnnxError, UnsupportedError
from ..node import Node
from ..values import Value, array_of, dtype_of, extents, scalar, value_of
from .registry import operator


def inside(indices: Value, extent: int) -> np.ndarray:
    """Indices from 0 on.

    Raises:
        OnnxError: one is outside.
    """
    places = array_of(indices).astype(np.int64)
    if places.size and not (-extent <= places.min() and places.max() < extent):
        raise OnnxError(f"indices from {places.min()} to {places.max()} of {extent} entries")
    return np.where(places < 0, places + extent, places)


@operator("GatherElements", constants=(1,))
def gather_elements(node: Node, x: Value, indices: Value) -> Value:
    axis = node["axis"]
    places = inside(indices, array_of(x).shape[axis])
    if isinstance(x, Tensor):
        return ops.gather(x, axis, wrap(places))
    return np.take_along_axis(x, places, axis)


@operator("GatherND", constants=(1,))
def gather_nd(node: Node, x: Value, indices: Value) -> Value:
    """The last axis of the indices has positions along as many axes, behind the ``batch_dims`` first ones."""
    array, places, batch = array_of(x), array_of(indices).astype(np.int64), node["batch_dims"]
    depth = places.shape[-1]
    grid = np.indices(places.shape[:-1])[:batch]
    at = [*grid, *(inside(places[..., k], array.shape[batch + k]) for k in range(depth))]
    flat = np.ravel_multi_index(at, array.shape[: batch + depth]).reshape(-1)
    rest = array.shape[batch + depth :]
    shape = (*places.shape[:-1], *rest)
    if isinstance(x, Tensor):
        rows = x.reshape(int(np.prod(array.shape[: batch + depth])), *rest)
        return ops.index_select(rows, 0, wrap(flat)).reshape(*shape)
    return array.reshape(-1, *rest)[flat].reshape(shape)


@operator("Range", constants=(0, 1, 2))
def range_(node: Node, start: Value, limit: Value, delta: Value) -> Value:
    first, last, step = (array_of(each) for each in (start, limit, delta))
    if first.dtype.kind not in "iuf" or first.dtype == np.float16:
        raise UnsupportedError(f"a range of {first.dtype}")
    if not step.astype(np.float64).all():
        raise OnnxError("a range of steps of 0")
    count = np.ceil((last.astype(np.float64) - first.astype(np.float64)) / step.astype(np.float64)).item()
    (count,) = extents([max(0, count)])
    return value_of((first + np.arange(count) * step).astype(first.dtype).reshape(count))


@operator("TopK", constants=(1,))
def top_k(node: Node, x: Value, k: Value) -> Any:
    """The k largest or smallest along an axis, in order; of equal ones the first."""
    array, axis, count = array_of(x), node["axis"], scalar(k)
    if array.dtype.kind not in "iuf" or array.dtype == np.float16:
        raise UnsupportedError(f"the largest of {array.dtype}")
    keys = array.astype(np.float64) if array.dtype.kind == "f" else array.astype(object)
    order = np.argsort(-keys if node["largest"] else keys, axis, kind="stable")
    places = np.take(order, np.arange(count), axis).astype(np.int64)
    values = ops.gather(x, axis, wrap(places)) if isinstance(x, Tensor) else np.take_along_axis(array, places, axis)
    return values, wrap(places)


@operator("Trilu", constants=(1,))
def trilu(node: Node, x: Value, k: Value = None) -> Value:
    offset = 0 if k is None else scalar(k)
    array = array_of(x)
    kept = (np.triu if node["upper"] else np.tril)(np.ones(array.shape[-2:], bool), offset)
    if isinstance(x, Tensor) and array.dtype.kind == "f":
        return ops.where(wrap(np.broadcast_to(kept, array.shape).copy()), x, ops.zeros_like(x))
    return value_of(np.where(kept, array, array.dtype.type(0)))


@operator("OneHot", constants=(0, 1, 2))
def one_hot(node: Node, indices: Value, depth: Value, values: Value) -> Value:
    """values: off and on; indices outside are off everywhere."""
    places, count = array_of(indices).astype(np.int64), int(scalar(depth))
    off, on = array_of(values)
    extents([*places.shape, count])
    axis = node["axis"] % (places.ndim + 1)
    places = np.expand_dims(np.where(places < 0, places + count, places), axis)
    grid = np.arange(count).reshape(-1, *(1,) * (places.ndim - 1 - axis))
    return value_of(np.where(places == grid, on, off))


@operator("EyeLike", constants=(0,))
def eye_like(node: Node, x: Value) -> Value:
    array = array_of(x)
    dtype = array.dtype if node["dtype"] is None else dtype_of(node["dtype"])
    rows, columns = array.shape
    return value_of(np.eye(rows, columns, node["k"], dtype))


@operator("NonZero")
def non_zero(node: Node, x: Value) -> Tensor:
    return wrap(np.array(np.nonzero(array_of(x)), np.int64))
