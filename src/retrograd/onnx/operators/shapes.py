"""Operators that move entries or make constants. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, extents, ints, scalar, value_of
from .indexing import inside
from .registry import operator


def _each(value: Value, ours: Any) -> Value:
    """Return ours(value) for a Tensor; arrays of other types are indexed by the moved positions of a Tensor."""
    if isinstance(value, Tensor):
        return ours(value)
    places = ours(wrap(np.arange(value.size).reshape(value.shape)))
    return value.reshape(-1)[places.array]


@operator("Identity")
def identity(node: Node, x: Value) -> Value:
    return x


@operator("Constant")
def constant(node: Node) -> Value:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if node[name] is not None:
            dtype = None if name == "value" else np.float32 if "float" in name else np.int64
            return value_of(np.array(node[name], dtype))
    raise UnsupportedError("a constant of text, or a sparse one")


@operator("ConstantOfShape", constants=(0,))
def constant_of_shape(node: Node, shape: Value) -> Value:
    value = np.zeros(1, np.float32) if node["value"] is None else node["value"]
    return value_of(np.full(extents(ints(shape)), value.reshape(-1)[0], value.dtype))


@operator("Shape")
def shape(node: Node, x: Value) -> Tensor:
    return wrap(np.array(array_of(x).shape[slice(node["start"] or 0, node["end"])], np.int64))


@operator("Size")
def size(node: Node, x: Value) -> Tensor:
    return wrap(np.array(array_of(x).size, np.int64))


@operator("Reshape", constants=(1,))
def reshape(node: Node, x: Value, sizes: Value) -> Value:
    """Reshape; 0 keeps an extent, unless ``allowzero`` is set, and -1 is inferred."""
    old, target = array_of(x).shape, ints(sizes)
    if not node["allowzero"]:
        if any(size == 0 and axis >= len(old) for axis, size in enumerate(target)):
            raise OnnxError(f"shape={target} keeps an extent that the input, of shape {old}, does not have")
        target = [old[axis] if size == 0 else size for axis, size in enumerate(target)]
    return _each(x, lambda t: t.reshape(*target))


@operator("Flatten")
def flatten(node: Node, x: Value) -> Value:
    old = array_of(x).shape
    axis = node["axis"] if node["axis"] >= 0 else node["axis"] + len(old)
    return _each(x, lambda t: t.reshape(prod(old[:axis]), prod(old[axis:])))


@operator("Transpose")
def transpose(node: Node, x: Value) -> Value:
    axes = node["perm"] or list(range(array_of(x).ndim))[::-1]
    return _each(x, lambda t: ops.permute(t, tuple(axes)))


@operator("Squeeze", constants=(1,))
def squeeze(node: Node, x: Value, axes: Value = None) -> Value:
    old = array_of(x).shape
    chosen = node["axes"] if axes is None else ints(axes)
    if chosen is None:
        chosen = [axis for axis, extent in enumerate(old) if extent == 1]
    chosen = {axis % len(old) for axis in chosen}
    if any(old[axis] != 1 for axis in chosen):
        raise OnnxError(f"axes={sorted(chosen)} of the shape {old} are not all of extent 1")
    return _each(x, lambda t: t.reshape(*(extent for axis, extent in enumerate(old) if axis not in chosen)))


@operator("Unsqueeze", constants=(1,))
def unsqueeze(node: Node, x: Value, axes: Value = None) -> Value:
    chosen = node["axes"] if axes is None else ints(axes)
    shape = np.expand_dims(array_of(x), tuple(chosen)).shape
    return _each(x, lambda t: t.reshape(*shape))


@operator("Concat")
def concat(node: Node, *values: Value) -> Value:
    if all(isinstance(value, Tensor) for value in values):
        return ops.cat(values, node["axis"])
    return np.concatenate([array_of(value) for value in values], node["axis"])


@operator("Split", constants=(1,))
def split(node: Node, x: Value, sizes: Value = None) -> tuple[Value, ...]:
    axis, extent = node["axis"], array_of(x).shape[node["axis"]]
    parts = node["split"] if sizes is None else ints(sizes)
    if parts is None:
        count = node["num_outputs"] or len(node.outputs)
        if count != len(node.outputs):
            raise OnnxError(f"num_outputs={count}, but the node has {len(node.outputs)} outputs")
        part = -(-extent // count)
        parts = [min(part, extent - k * part) for k in range(count)]
    if not isinstance(x, Tensor):
        return tuple(np.split(x, np.cumsum(parts)[:-1], axis))
    return tuple(ops.split(x, list(parts), axis))


@operator("Expand", constants=(1,))
def expand(node: Node, x: Value, sizes: Value) -> Value:
    target = np.broadcast_shapes(array_of(x).shape, tuple(extents(ints(sizes))))
    return _each(x, lambda t: ops.broadcast_to(t, target))


@operator("Tile", constants=(1,))
def tile(node: Node, x: Value, repeats: Value) -> Value:
    counts = extents(ints(repeats))
    extents(count * extent for count, extent in zip(counts, array_of(x).shape, strict=True))
    return _each(x, lambda t: ops.tile(t, tuple(counts)))


@operator("Slice", constants=(1, 2, 3, 4))
def slice_(node: Node, x: Value, starts: Value, ends: Value, axes: Value = None, steps: Value = None) -> Value:
    first, last = ints(starts), ints(ends)
    chosen = list(range(len(first))) if axes is None else ints(axes)
    every = [1] * len(first) if steps is None else ints(steps)
    shape = array_of(x).shape
    for axis, low, high, step in zip([axis % len(shape) for axis in chosen], first, last, every, strict=True):
        # Python's rule for both signs of the step, but -1 as an end is the last entry, not "before the first"
        span = range(*slice(low, high, step).indices(shape[axis]))
        places = wrap(np.array(span, np.int64))
        x = _each(x, lambda t, axis=axis, places=places: ops.index_select(t, axis, places))
    return x


@operator("Gather", constants=(1,))
def gather(node: Node, x: Value, indices: Value) -> Value:
    shape = array_of(x).shape
    axis = node["axis"] % len(shape)
    places = inside(indices, shape[axis])
    flat = wrap(places.reshape(-1))
    sizes = (*shape[:axis], *places.shape, *shape[axis + 1 :])
    return _each(x, lambda t: ops.index_select(t, axis, flat).reshape(*sizes))


@operator("Pad", constants=(1, 2, 3))
def pad(node: Node, x: Value, pads: Value, value: Value = None, axes: Value = None) -> Value:
    """Pad; negative paddings crop."""
    shape = array_of(x).shape
    numbers = ints(pads)
    chosen = list(range(len(shape))) if axes is None else [axis % len(shape) for axis in ints(axes)]
    sides = [(0, 0)] * len(shape)
    for place, axis in enumerate(chosen):
        sides[axis] = (numbers[place], numbers[place + len(chosen)])
    extents(max(0, extent + low + high) for extent, (low, high) in zip(shape, sides, strict=True))
    mode: Any = node["mode"]
    if mode == "constant" and isinstance(x, Tensor) and x.array.dtype.kind == "f":
        fill = 0.0 if value is None else scalar(value)
        return functional.pad(x, [side for pair in reversed(sides) for side in pair], "constant", fill)
    kept = tuple(slice(max(0, -low), extent - max(0, -high)) for (low, high), extent in zip(sides, shape, strict=True))
    wider = [(max(0, low), max(0, high)) for low, high in sides]
    if mode == "constant":
        fill = 0 if value is None else scalar(value)
        return value_of(np.pad(array_of(x)[kept], wider, constant_values=fill))
    # apply NumPy to the positions to find the source of each entry
    places = np.pad(np.arange(int(np.prod(shape))).reshape(shape)[kept], wider, mode)
    flat = wrap(places.reshape(-1))
    return _each(x, lambda t: ops.index_select(t.reshape(-1), 0, flat).reshape(*places.shape))
