"""Converters of shape operators: views, joining, splitting, padding, rearranging."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.shape.broadcasting import Expand
from ....ops.shape.diagonal import Triangle
from ....ops.shape.join import Cat, Split, Stack, Unbind
from ....ops.shape.padding import Extend, Pad
from ....ops.shape.rearrange import Flip, Rearrange, Roll
from ....ops.shape.shape import Permute, Reshape
from ....ops.shape.sliding_windows import Windows, fold
from ..writer import Value, Writer
from .registry import converter, converter_of


@converter(Reshape)
def reshape(w: Writer, x: Value, shape: tuple[int, ...]) -> Value:
    return w.reshape(x, w.results[0].shape)


@converter(Permute)
def permute(w: Writer, x: Value, dims: tuple[int, ...]) -> Value:
    return w.node("Transpose", x, perm=[dim % len(x.shape) for dim in dims])


@converter(Expand)
def expand(w: Writer, x: Value, shape: tuple[int, ...]) -> Value:
    return w.node("Expand", x, w.ints(w.results[0].shape))


@converter(Cat)
def cat(w: Writer, axis: int, *tensors: Value) -> Value:
    return w.node("Concat", *tensors, axis=axis)


@converter(Stack)
def stack(w: Writer, axis: int, *tensors: Value) -> Value:
    return w.node("Concat", *(w.node("Unsqueeze", each, w.ints([axis])) for each in tensors), axis=axis)


@converter(Split)
def split(w: Writer, x: Value, extents: Any, axis: int) -> Any:
    if len(w.results) == 1:
        return x
    return w.node("Split", x, w.ints(extents), axis=axis, outputs=len(w.results))


@converter(Unbind)
def unbind(w: Writer, x: Value, axis: int) -> Any:
    return tuple(w.node("Gather", x, w.constant(place, np.int64), axis=axis) for place in range(len(w.results)))


@converter(Pad)
def pad(w: Writer, x: Value, shape: tuple[int, ...], index: tuple[slice, ...], value: Any) -> Value:
    ends = [place.indices(extent)[:2] for place, extent in zip(index, shape, strict=False)]
    ends += [(0, extent) for extent in shape[len(ends) :]]
    sides = [low for low, _ in ends] + [extent - high for (_, high), extent in zip(ends, shape, strict=True)]
    return w.node("Pad", x, w.ints(sides), w.constant(value, x.dtype))


_EXTENDED = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@converter(Extend)
def extend(w: Writer, x: Value, pairs: Any, mode: str) -> Value:
    sides = w.ints([low for low, _ in pairs] + [high for _, high in pairs])
    if mode != "circular":
        return w.node("Pad", x, sides, mode=_EXTENDED[mode])
    return w.node("Pad", x, sides, mode="wrap", opset=19)


@converter(Flip)
def flip(w: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    last = [-(2**63) + 1] * len(axes)
    return w.node("Slice", x, w.ints([-1] * len(axes)), w.ints(last), w.ints(axes), w.ints([-1] * len(axes)))


@converter(Roll)
def roll(w: Writer, x: Value, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    for shift, axis in zip(shifts, axes, strict=True):
        cut, end = w.ints([-shift]), w.ints([2**62])
        w.require(-x.shape[axis] <= -shift < x.shape[axis], "roll by more than the extent")
        back = w.node("Slice", x, cut, end, w.ints([axis]))
        front = w.node("Slice", x, w.ints([0]), cut, w.ints([axis]))
        if shift:
            x = Value(w.node("Concat", back, front, axis=axis).name, x.dtype, x.array)
    return x


@converter(Rearrange)
def rearrange(w: Writer, x: Value, parts: Any, dims: Any, shape: Any) -> Value:
    moved = w.node("Transpose", w.reshape(x, parts), perm=list(dims))
    return w.reshape(moved, shape)


@converter(Triangle)
def triangle(w: Writer, x: Value, diagonal: int, lower: bool) -> Value:
    return w.node("Trilu", x, w.constant(diagonal, np.int64), upper=int(not lower))


@converter(Windows)
def windows(w: Writer, x: Value, axes: Any, sizes: Any, steps: Any, dilations: Any) -> Value:
    """Gather all windows along each axis: Gather makes (..., O, R, ...)."""
    count, order = len(x.shape), list(range(len(x.shape)))
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        outputs = (x.shape[axis] - dilation * (size - 1) - 1) // step + 1
        places = np.add.outer(np.arange(outputs) * step, np.arange(size) * dilation)
        at = order.index(axis)
        x = Value(w.node("Gather", x, w.constant(places), axis=at).name, x.dtype, x.array)
        order.insert(at + 1, count)  # the axis within the window
        count += 1
    return w.node("Transpose", x, perm=[order.index(axis) for axis in range(count)])


def _pair(value: Any) -> list[int]:
    return [int(each) for each in value] if isinstance(value, (tuple, list)) else [int(value)] * 2


@converter_of(fold)
def folded(
    w: Writer, input: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    w.require(len(input.shape) == 3, "fold without a batch")
    return w.node(
        "Col2Im",
        input,
        w.ints(_pair(output_size)),
        w.ints(_pair(kernel_size)),
        dilations=_pair(dilation),
        pads=_pair(padding) * 2,
        strides=_pair(stride),
    )
