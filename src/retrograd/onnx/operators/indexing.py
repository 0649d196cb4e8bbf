"""Operators that read, write or select elements by index. Source: ONNX Operators.html."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...arrays import within
from ...engine.tensor import Tensor, wrap
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, dtype_of, elements_of, extents, floating, ints, scalar, value_of
from .registry import operator

# ---- Operators that read at indices. Source: ONNX Operators.html, sections of these names ---------------------------


def inside(indices: Value, extent: int) -> np.ndarray:
    """Return indices as nonnegative ones.

    Raises:
        OnnxError: an index is out of range.
    """
    places = array_of(indices).astype(np.int64, copy=False)
    if within(places, 0, extent - 1, "whether indices are in range"):
        return places
    if places.size and not (-extent <= places.min() and places.max() < extent):
        raise OnnxError(f"indices from {places.min()} to {places.max()} are outside an axis of {extent} entries")
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
    """Gather at positions along several axes after the ``batch_dims`` first, given by the last axis of indices."""
    array, places, batch = array_of(x), elements_of(indices).astype(np.int64), node["batch_dims"]
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
    first, last, step = (elements_of(each) for each in (start, limit, delta))
    if first.dtype.kind not in "iuf" or first.dtype == np.float16:
        raise UnsupportedError(f"a range of {first.dtype}")
    if not step.astype(np.float64).all():
        raise OnnxError("a range with steps of 0")
    count = np.ceil((last.astype(np.float64) - first.astype(np.float64)) / step.astype(np.float64)).item()
    (count,) = extents([max(0, count)])
    return value_of((first + np.arange(count) * step).astype(first.dtype).reshape(count))


@operator("TopK", constants=(1,))
def top_k(node: Node, x: Value, k: Value) -> Any:
    """Return the k largest or smallest along an axis, sorted; among equal ones the first."""
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
    """Write the on value at the indices; values: off and on. Indices out of range are off everywhere."""
    places, count = elements_of(indices).astype(np.int64), int(scalar(depth))
    off, on = elements_of(values)
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


# ---- Operators that write at indices or select by them. Source: ONNX Operators.html, sections of these names --------

_NUMPYS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_OURS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter", constants=(1,))
def scatter_elements(node: Node, x: Value, indices: Value, updates: Value) -> Value:
    axis, how = node["axis"], node["reduction"] or "none"
    places = inside(indices, array_of(x).shape[axis])
    if isinstance(x, Tensor) and x.array.dtype.kind == "f":
        if how == "none":
            return ops.scatter(x, axis, wrap(places), updates)
        return ops.scatter_reduce(x, axis, wrap(places), updates, _OURS[how])
    y = array_of(x).copy()
    at: list[Any] = [*np.indices(places.shape)]
    at[axis] = places
    return value_of(_written(y, tuple(at), array_of(updates), how))


@operator("ScatterND", constants=(1,))
def scatter_nd(node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """Scatter at positions along several axes of x, given by the last axis of indices."""
    array, how = array_of(x), node["reduction"] or "none"
    depth = array_of(indices).shape[-1]
    at = tuple(inside(array_of(indices)[..., k], array.shape[k]) for k in range(depth))
    if isinstance(x, Tensor) and array.dtype.kind == "f":
        if how in ("none", "add"):
            return ops.index_put(x, tuple(wrap(each) for each in at), updates, accumulate=how == "add")
        if x._requires_grad or updates._requires_grad:
            raise UnsupportedError(f"the gradient of reduction={how!r}")
    return value_of(_written(array.copy(), at, array_of(updates), how))


def _written(y: np.ndarray, at: tuple[np.ndarray, ...], updates: np.ndarray, how: str) -> np.ndarray:
    if how == "none":
        y[at] = updates
    else:
        shape = np.broadcast_shapes(*[each.shape for each in at]) + y.shape[len(at) :]
        _NUMPYS[how].at(y, at, np.broadcast_to(updates, shape))  # by itself, NumPy 2.4 may read beyond their end
    return y


@operator("TensorScatter", constants=(2,))
def tensor_scatter(node: Node, past: Value, update: Value, starts: Value = None) -> Value:
    """Write each sample's update into its past from a position on; "circular" wraps to the beginning."""
    old, new = array_of(past), array_of(update)
    axis = node["axis"] % old.ndim
    first = np.zeros(old.shape[0], np.int64) if starts is None else array_of(starts)
    shape = tuple(-1 if k == axis else 1 for k in range(new.ndim))
    places = first.reshape(-1, *(1,) * (new.ndim - 1)) + np.arange(new.shape[axis]).reshape(shape)
    if node["mode"] == "circular":
        places = places % old.shape[axis]
    places = np.broadcast_to(places, new.shape).astype(np.int64)
    if isinstance(past, Tensor):
        return ops.scatter(past, axis, wrap(places.copy()), update)
    result = old.copy()
    np.put_along_axis(result, places, new, axis)
    return value_of(result)


@operator("Compress", constants=(1,))
def compress(node: Node, x: Value, condition: Value) -> Value:
    chosen = np.nonzero(elements_of(condition))[0]
    if node["axis"] is None:
        return ops.index_select(x.reshape(-1), 0, wrap(chosen))
    return ops.index_select(x, node["axis"], wrap(chosen))


@operator("ReverseSequence", constants=(1,))
def reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    """Reverse the first entries of each sample, as many as its length."""
    array, time, batch = array_of(x), node["time_axis"], node["batch_axis"]
    steps, counts = np.arange(array.shape[time])[:, None], elements_of(lengths)[None, :]
    places = np.where(steps < counts, counts - 1 - steps, steps)  # (T, N)
    places = places if time < batch else places.T
    places = places.reshape(*places.shape, *(1,) * (array.ndim - 2))
    return ops.gather(x, time, wrap(np.broadcast_to(places, array.shape).astype(np.int64)))


@operator("Unique")
def unique(node: Node, x: Value) -> tuple[Value, ...]:
    """Return distinct entries or slices, sorted or in order of appearance, with first positions, inverse and counts."""
    array, axis = array_of(x), node["axis"]
    found, first, back, counts = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    back = back.reshape(-1)
    if not node["sorted"]:
        order = np.argsort(first, kind="stable")
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        back = rank[back]
    return value_of(found), *(wrap(each.astype(np.int64)) for each in (first, back, counts))


@operator("CenterCropPad", constants=(1,))
def center_crop_pad(node: Node, x: Value, sizes: Value) -> Value:
    """Crop or zero-pad an axis on both sides, more at its end."""
    array = array_of(x)
    axes = node["axes"] or range(array.ndim)
    for axis, size in zip(axes, extents(ints(sizes)), strict=True):
        axis %= array.ndim
        extent = array_of(x).shape[axis]
        if size <= extent:
            x = ops.narrow(x, axis, (extent - size) // 2, size)
        else:
            before = (size - extent) // 2
            shape = list(array_of(x).shape)
            parts = []
            for length in (before, size - extent - before):
                shape[axis] = length
                parts.append(ops.zeros(*shape, dtype=x.dtype))
            x = ops.cat([parts[0], x, parts[1]], axis)
    return x


@operator("Det")
def determinant(node: Node, x: Value) -> Tensor:
    return ops.det(x)


def _uniform(node: Node, shape: tuple[int, ...]) -> np.ndarray:
    """Return random numbers from 0 to 1, always the same for a given seed."""
    if node["seed"] is None:
        return ops.rand(*shape).array
    return np.random.default_rng(int(np.float32(node["seed"]).view(np.uint32))).random(shape)


@operator("Bernoulli")
def bernoulli(node: Node, x: Value) -> Value:
    chances = floating(x).array
    drawn = (_uniform(node, chances.shape) < chances).astype(chances.dtype)
    dtype = drawn.dtype if node["dtype"] is None else dtype_of(node["dtype"])
    return value_of(drawn.astype(dtype))


@operator("RandomUniformLike")
def random_uniform_like(node: Node, x: Value) -> Value:
    dtype = array_of(x).dtype if node["dtype"] is None else dtype_of(node["dtype"])
    drawn = _uniform(node, array_of(x).shape)
    return value_of((node["low"] + drawn * (node["high"] - node["low"])).astype(dtype))


@operator("HannWindow", "HammingWindow", "BlackmanWindow", constants=(0,))
def window(node: Node, size: Value) -> Value:
    (count,) = extents([scalar(size)])
    angle = 2 * np.pi * np.arange(count) / (count if node["periodic"] else max(1, count - 1))
    terms = {"Hann": (0.5, 0.5, 0.0), "Hamming": (25 / 46, 21 / 46, 0.0), "Blackman": (0.42, 0.5, 0.08)}
    a, b, c = terms[node.operator.removesuffix("Window")]
    dtype = np.dtype(np.float32) if node["output_datatype"] is None else dtype_of(node["output_datatype"])
    return value_of((a - b * np.cos(angle) + c * np.cos(2 * angle)).astype(dtype))
