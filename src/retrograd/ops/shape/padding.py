"""Padding and cropping of axes at both ends, with a constant or with slices of the array itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import index as exact_int
from typing import Any

from ...arrays import empty_like, from_host
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import TOO_LONG, as_count, as_element, is_number, require_tensor
from ..index.indexing import GetItem
from .shape import copy_if_shared

__all__ = ["pad"]

MODES = ("constant", "reflect", "replicate", "circular")
Pairs = tuple[tuple[int, int], ...]  # (before, after) for each axis


class Pad(Function):
    """An array of ``shape`` filled with ``value``, and x at ``index``."""

    moves = True

    @staticmethod
    def forward(x: Tensor, shape: tuple[int, ...], index: tuple[slice, ...], value: Any) -> Tensor:
        y = empty_like(x.array, shape=shape)  # in x's memory order
        number = from_host(value, y.dtype)
        for margin in _margins(shape, tuple([(place.start, place.stop) for place in index])):
            kernels.copy(y[margin], number)
        middle: Any = (*index, ...)
        kernels.copy(y[middle], x.array)
        return wrap(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.index = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return GetItem.apply(g, ctx.index), None, None, None


@lru_cache(maxsize=4096)
def _margins(shape: tuple[int, ...], middle: Pairs) -> tuple[tuple[slice, ...], ...]:
    """Return the parts of an array outside its middle: both sides of each axis, in the middle of the previous axes."""
    index = tuple([slice(*ends) for ends in middle])
    sides = [(axis, (slice(0, start), slice(stop, None))) for axis, (start, stop) in enumerate(middle)]
    return tuple(
        [(*index[:axis], side) for axis, both in sides for side in both if len(range(*side.indices(shape[axis])))]
    )


class Extend(Function):
    """x extended by (before, after) slices of itself along each axis, see ``_pieces``."""

    piecewise_linear = True

    moves = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, pairs: Pairs, mode: str) -> Tensor:
        ctx.geometry = x.array.shape, pairs, mode
        y = empty_like(x.array, shape=[n + b + a for n, (b, a) in zip(x.array.shape, pairs, strict=True)])
        pieces = _pieces(*ctx.geometry)
        middles = [places[0][0] for places in pieces]
        kernels.copy(y[tuple(middles)], x.array)
        for axis, (_, *ends) in enumerate(pieces):  # all of the previous axes, the middle of the later ones
            before, after = (slice(None),) * axis, middles[axis + 1 :]
            filled = y[(*before, *middles[axis:])]
            for place, source in ends:
                kernels.copy(y[(*before, place, *after)], filled[(*before, source)])
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return AddEnds.apply(g, *ctx.geometry), None, None


class AddEnds(Function):
    """The transpose of ``Extend``: the middle of g, plus each outer slice at the position that it was copied from."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, shape: tuple[int, ...], pairs: Pairs, mode: str) -> Tensor:
        ctx.pairs, ctx.mode = pairs, mode
        y = empty_like(g.array, shape=shape)
        middle, *ends = product(*_pieces(shape, pairs, mode))
        kernels.copy(y, g.array[tuple(place for place, _ in middle)])
        for combination in ends:
            place, source = zip(*combination, strict=True)
            part, target = g.array[place], y[source]
            repeated = tuple(a for a, (m, n) in enumerate(zip(part.shape, target.shape, strict=True)) if m != n)
            kernels.accumulate(target, kernels.sum(part, repeated, True) if repeated else part)
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return Extend.apply(v, ctx.pairs, ctx.mode), None, None, None


def _pieces(shape: tuple[int, ...], pairs: Pairs, mode: str) -> list[list[tuple[slice, slice]]]:
    """Return, for each axis, pairs (slice of the result, slice of x): the middle, before it, after it."""
    pieces = []
    for n, (before, after) in zip(shape, pairs, strict=True):
        pieces.append([(slice(before, before + n), slice(None))])
        low, high = {
            "reflect": (slice(before, 0, -1), slice(n - 2, n - 2 - after if n - 2 - after >= 0 else None, -1)),
            "replicate": (slice(0, 1), slice(n - 1, n)),
            "circular": (slice(n - before, n), slice(0, after)),
        }[mode]
        if before:
            pieces[-1].append((slice(0, before), low))
        if after:
            pieces[-1].append((slice(before + n, None), high))
    return pieces


@operator(dtypes="bihf")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """input with its last axes padded; negative numbers crop.

    pad: (before, after) for the last axis, then for the one before it, and so on.

    mode: "constant" fills with ``value`` (0 by default), for any axes. "reflect" mirrors at the first and the last
        element, "replicate" repeats them, "circular" wraps around. These three pad the last 1, 2 or 3 axes of an input
        with 1 or 2 further ones.

    Raises:
        TypeError: input is not a Tensor, or ``pad`` does not consist of ints.
        ValueError: ``pad`` has an odd length or too many entries, the mode is unknown or does not fit the axes,
            ``value`` is given for another mode, or an axis is too short.
    """
    if interpreters and (seen := interpreted(_pad, locals())) is not None:
        return seen
    require_tensor("pad", input)
    pairs = _pairs("pad", input.array.shape, pad)
    if mode not in MODES:
        raise ValueError(f"pad: mode={mode!r} must be one of {', '.join(MODES)}")
    if mode == "constant":
        return _filled("pad", input, pairs, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: value={value} is for mode='constant', the mode is {mode!r}")
    count, axes = len(pad) // 2, len(pairs)
    if not 1 <= count <= 3 or axes not in (count + 1, count + 2):
        raise ValueError(
            f"pad: mode={mode!r} pads the last 1, 2 or 3 axes of an input with 1 or 2 further ones; pad={tuple(pad)} "
            f"is for {count}, input.shape={input.array.shape}"
        )
    return _extended(input, pairs, mode)


@operator(dtypes="bihf")
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """``nn.functional.pad`` in "constant" mode.

    Raises: as ``nn.functional.pad``.
    """
    if interpreters and (seen := interpreted(constant_pad_nd, locals())) is not None:
        return seen
    require_tensor("constant_pad_nd", input)
    return _filled("constant_pad_nd", input, _pairs("constant_pad_nd", input.array.shape, pad), value)


def constant_pad(x: Tensor, pairs: Pairs, value: Any) -> Tensor:
    """Pad x with ``value``; negative numbers crop."""
    shape, cut, place = _padded(x.array.shape, pairs)
    if cut is not None:
        x = GetItem.apply(x, tuple([slice(*ends) for ends in cut]))
    return Pad.apply(x, shape, tuple([slice(*ends) for ends in place]), value)


@lru_cache(maxsize=4096)
def _padded(shape: tuple[int, ...], pairs: Pairs) -> tuple[tuple[int, ...], Pairs | None, Pairs]:
    """Return the shape of a padded tensor, the part of the input in it (None: all of it), and the place of this part.

    Raises:
        ValueError: more is cropped than there is.
    """
    both = [*zip(shape, pairs, strict=True)]
    padded = tuple([n + before + after for n, (before, after) in both])
    if min([n + min(before, 0) + min(after, 0) for n, (before, after) in both], default=0) < 0:
        raise ValueError(f"pad: pad cuts off more than input.shape={shape} has; the result would be {padded}")
    cut = tuple([(max(0, -before), n - max(0, -after)) for n, (before, after) in both])
    place = tuple(
        [(max(0, before), max(0, before) + end - begin) for (before, _), (begin, end) in zip(pairs, cut, strict=True)]
    )
    return padded, cut if min(map(min, pairs), default=0) < 0 else None, place


def _filled(name: str, x: Tensor, pairs: Pairs, value: Any) -> Tensor:
    if not is_number(value):
        raise TypeError(f"{name}: value is {kind_name(value)}, needs a number")
    return constant_pad(x, pairs, as_element(name, "value", value, x.array.dtype))


def _pairs(name: str, shape: tuple[int, ...], pad: Any) -> Pairs:
    try:
        numbers = tuple(map(exact_int, pad))
    except TypeError:
        raise TypeError(f"{name}: pad={pad!r} must be a sequence of ints") from None
    if numbers and (min(numbers) < -TOO_LONG or max(numbers) >= TOO_LONG):
        for number in numbers:
            as_count(name, "pad", number, -TOO_LONG)
    if len(numbers) % 2 or len(numbers) > 2 * len(shape):
        raise ValueError(
            f"{name}: pad={numbers} must have two numbers for each of the last axes, at most {2 * len(shape)} for "
            f"input.shape={shape}"
        )
    last = tuple(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    return ((0, 0),) * (len(shape) - len(last)) + last


def _extended(x: Tensor, pairs: Pairs, mode: str) -> Tensor:
    given, shape = x, x.array.shape
    if min(map(min, pairs)) < 0:
        cut = tuple((min(before, 0), min(after, 0)) for before, after in pairs)
        pairs = tuple((max(before, 0), max(after, 0)) for before, after in pairs)
        if mode != "circular":  # reflections include elements that the crop removes
            return constant_pad(_extended(x, pairs, mode), cut, 0)
        x = constant_pad(x, cut, 0)
    for axis, (extent, (before, after)) in enumerate(zip(x.array.shape, pairs, strict=True)):
        most = {"reflect": extent - 1, "replicate": max(before, after) if extent else 0, "circular": extent}[mode]
        if max(before, after) > max(most, 0):
            raise ValueError(
                f"pad: ({before}, {after}) does not fit axis {axis} of input.shape={shape}: mode={mode!r} adds at most "
                f"{most} on each side"
            )
    if mode == "circular" and not any(map(any, pairs)):
        return copy_if_shared(x, given)
    return Extend.apply(x, pairs, mode)  # also for an empty x, whose second derivative is 0


_pad = pad  # the parameter hides its name in the function
