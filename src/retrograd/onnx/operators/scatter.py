"""Operators that write at indices, or choose by them. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import UnsupportedError
from ..node import Node
from ..values import Value, array_of, dtype_of, extents, floating, ints, scalar, value_of
from .indexing import inside
from .registry import operator

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
    """The last axis of the indices has positions along as many axes of x."""
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
        _NUMPYS[how].at(y, at, updates)
    return y


@operator("TensorScatter", constants=(2,))
def tensor_scatter(node: Node, past: Value, update: Value, starts: Value = None) -> Value:
    """Each sample's update, written into its past from a position on; "circular" goes on at the beginning."""
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
    chosen = np.nonzero(array_of(condition))[0]
    if node["axis"] is None:
        return ops.index_select(x.reshape(-1), 0, wrap(chosen))
    return ops.index_select(x, node["axis"], wrap(chosen))


@operator("ReverseSequence", constants=(1,))
def reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    """The first entries of each sample, as many as its length, in reverse order."""
    array, time, batch = array_of(x), node["time_axis"], node["batch_axis"]
    steps, counts = np.arange(array.shape[time])[:, None], array_of(lengths)[None, :]
    places = np.where(steps < counts, counts - 1 - steps, steps)  # (T, N)
    places = places if time < batch else places.T
    places = places.reshape(*places.shape, *(1,) * (array.ndim - 2))
    return ops.gather(x, time, wrap(np.broadcast_to(places, array.shape).astype(np.int64)))


@operator("Unique")
def unique(node: Node, x: Value) -> tuple[Value, ...]:
    """Distinct entries or slices, sorted or as they come, with first places, the way back, and counts."""
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
    """Cut or extended by zeros on both sides of an axis, more at its end."""
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
    """Random numbers from 0 to 1: with a seed always the same."""
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
