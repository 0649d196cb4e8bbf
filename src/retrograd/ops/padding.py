"""Padding: axes made longer, or shorter, at both ends. All modes but a constant are slices of x joined with x."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import expand
from .dtype import is_number, require_tensor
from .indexing import GetItem
from .join import Cat
from .rearrange import Flip

__all__ = ["pad"]

MODES = ("constant", "reflect", "replicate", "circular")
Pairs = tuple[tuple[int, int], ...]  # (before, after) for each axis


class Pad(Function):
    """x within an array of ``shape`` filled with ``value``; ``index`` is where."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...], index: tuple[slice, ...], value: Any) -> Tensor:
        ctx.index = index
        y = np.full_like(x.data, value, shape=shape)  # in x's order of axes in memory
        y[index] = x.data
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return GetItem.apply(g, ctx.index), None, None, None


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """input with its last axes made longer: ``pad`` has the numbers before and after for the last axis, then for the
    one before it, and so on. Negative numbers cut off.

    mode: "constant" fills with ``value`` (0 by default), for any axes; "reflect" mirrors at the first and the last
    element, "replicate" repeats them, "circular" goes on at the other end. These three pad the last 1, 2 or 3 axes of
    an input that has 1 or 2 further ones.

    Raises:
        TypeError: input is no Tensor, or ``pad`` does not consist of ints.
        ValueError: ``pad`` has an odd length or too many entries, the mode is none of these or does not fit the axes,
            ``value`` is given for another mode, or an axis is too short.
    """
    require_tensor("pad", input)
    pairs = _pairs(input.data.shape, pad)
    if mode not in MODES:
        raise ValueError(f"pad: mode={mode!r} must be one of {', '.join(MODES)}")
    if mode == "constant":
        if value is not None and not is_number(value):
            raise TypeError(f"pad: value is {type(value).__name__}, needs a number")
        return constant_pad(input, pairs, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: value={value} is for mode='constant', the mode is {mode!r}")
    count, axes = len(pad) // 2, len(pairs)
    if not 1 <= count <= 3 or axes not in (count + 1, count + 2):
        raise ValueError(
            f"pad: mode={mode!r} pads the last 1, 2 or 3 axes of an input with 1 or 2 further ones; pad={tuple(pad)} "
            f"is "
            f"for {count}, input.shape={input.data.shape}"
        )
    y = input
    for axis in range(axes - count, axes):
        y = _extended(y, axis, *pairs[axis], mode, input.data.shape)
    return y


def constant_pad(x: Tensor, pairs: Pairs, value: Any) -> Tensor:
    """x with ``value`` around it; negative numbers cut off."""
    shape = tuple(n + before + after for n, (before, after) in zip(x.data.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise ValueError(f"pad: pad cuts off more than input.shape={x.data.shape} has; the result would be {shape}")
    cut = tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.data.shape, pairs, strict=True))
    if any(b < 0 or a < 0 for b, a in pairs):
        x = GetItem.apply(x, cut)
    place = tuple(slice(max(0, b), max(0, b) + n) for n, (b, _) in zip(x.data.shape, pairs, strict=True))
    return Pad.apply(x, shape, place, value)


def _pairs(shape: tuple[int, ...], pad: Any) -> Pairs:
    try:
        numbers = tuple(map(operator.index, pad))
    except TypeError:
        raise TypeError(f"pad: pad={pad!r} must be a sequence of ints") from None
    if len(numbers) % 2 or len(numbers) > 2 * len(shape):
        raise ValueError(
            f"pad: pad={numbers} must have two numbers for each of the last axes, at most {2 * len(shape)} for "
            f"input.shape={shape}"
        )
    last = tuple(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    return ((0, 0),) * (len(shape) - len(last)) + last


def _extended(x: Tensor, axis: int, before: int, after: int, mode: str, shape: tuple[int, ...]) -> Tensor:
    if min(before, after) < 0:  # what is cut off is not there to be mirrored
        x = constant_pad(
            x, tuple((min(before, 0), min(after, 0)) if a == axis else (0, 0) for a in range(x.data.ndim)), 0
        )
        before, after = max(before, 0), max(after, 0)
    extent, lead = x.data.shape[axis], (slice(None),) * axis
    most = {"reflect": extent - 1, "replicate": max(before, after) if extent else 0, "circular": extent}[mode]
    if max(before, after) > most:
        raise ValueError(
            f"pad: ({before}, {after}) does not fit axis {axis} of input.shape={shape}: mode={mode!r} adds at most "
            f"{most} on each side"
        )

    def part(start: int, stop: int) -> Tensor:
        return GetItem.apply(x, (*lead, slice(start, stop)))

    def edge(low: bool, count: int) -> Tensor:
        if mode == "circular":
            return part(extent - count, extent) if low else part(0, count)
        if mode == "reflect":
            return Flip.apply(part(1, count + 1) if low else part(extent - 1 - count, extent - 1), (axis,))
        last = part(0, 1) if low else part(extent - 1, extent)
        return expand(last, x.data.shape[:axis] + (count,) + x.data.shape[axis + 1 :])

    pieces = [x]
    if before:
        pieces.insert(0, edge(True, before))
    if after:
        pieces.append(edge(False, after))
    return Cat.apply(axis, *pieces) if len(pieces) > 1 else x
