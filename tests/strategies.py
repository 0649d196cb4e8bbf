"""Hypothesis strategies of the kernel tests: geometries, shapes, memory layouts, and numbers from a seed.

Hypothesis draws the sizes and shrinks them when a test fails. The numbers come from a generator whose seed it draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from retrograd.specs.convolution_options import AUTO, Options
from retrograd.specs.geometry import Window, conv_window

# On both sides of every vector width and tile height.
CHANNELS = (1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 48, 70)
WIDE = (16, 17, 24, 31, 32, 33, 48, 64, 70)  # large enough for every fast algorithm
DTYPES = (np.float32, np.float64)


def examples(count: int) -> settings:
    """Settings of a normal run: the same ``count`` examples every time, on every machine."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def many_examples(count: int) -> settings:
    """Settings of the nightly run: new examples every time; a failure prints how to reproduce it."""
    return settings(examples(1), max_examples=count, derandomize=False, print_blob=True)


# ---------------------------------------------------------------- numbers


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
    """Return random numbers of magnitude 0.25 to 1: a dropped, doubled or swapped term exceeds rounding errors."""
    magnitude = rng.uniform(0.25, 1, shape)
    return np.asarray(np.where(rng.random(shape) < 0.5, -magnitude, magnitude), dtype)


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
dtypes = st.sampled_from(DTYPES)


# ---------------------------------------------------------------- layouts


def _contiguous(x: np.ndarray) -> np.ndarray:
    return x.copy()


def _channels_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1) if x.ndim > 2 else _fortran(x)


def _fortran(x: np.ndarray) -> np.ndarray:
    return x.T.copy().T


def _reversed(x: np.ndarray) -> np.ndarray:
    backwards = (..., *(slice(None, None, -1),) * x.ndim)
    return x[backwards].copy()[backwards]


def _inside(x: np.ndarray) -> np.ndarray:
    """Return a copy of x inside a larger array of NaN."""
    larger = np.full([extent + 2 for extent in x.shape], np.nan, x.dtype)
    view = larger[(..., *(slice(1, -1),) * x.ndim)]
    view[...] = x
    return view


def _every_other(x: np.ndarray) -> np.ndarray:
    """Return a copy of x in every second entry, along the last two axes, of an array of NaN."""
    if x.ndim == 0:
        return x.copy()
    doubled = [2 * extent + 1 for extent in x.shape[-2:]]
    larger = np.full((*x.shape[:-2], *doubled), np.nan, x.dtype)
    view = larger[(..., *(slice(1, None, 2),) * len(doubled))]
    view[...] = x
    return view


def _unaligned(x: np.ndarray) -> np.ndarray:
    """Return a contiguous copy of x that is not aligned to vectors, with NaN before and after it."""
    larger = np.full(x.size + 8, np.nan, x.dtype)
    view = larger[3 : 3 + x.size].reshape(x.shape)
    view[...] = x
    return view


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _expanded(x: np.ndarray) -> np.ndarray:
    """Return the last entry of the longest axis, repeated with stride 0, like the gradient of a sum.

    It is rounded to few digits: in a sum of products of two such arrays, equal terms have equal rounding errors, which
    would add up.
    """
    x = np.asarray(np.round(x * 64) / 64, x.dtype)
    if x.size == 0 or x.ndim == 0:
        return x
    axis = int(np.argmax(x.shape))
    return np.broadcast_to(x[(slice(None),) * axis + (slice(-1, None),)], x.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": _contiguous,
    "channels_last": _channels_last,
    "fortran": _fortran,
    "reversed": _reversed,
    "inside": _inside,
    "every_other": _every_other,
    "unaligned": _unaligned,
    "read_only": _read_only,
    "expanded": _expanded,
}

layouts = st.sampled_from(sorted(LAYOUTS))


@dataclass(frozen=True)
class Source:
    """Arrays for one example: all of one dtype, each in the next of the drawn memory layouts."""

    rng: np.random.Generator
    dtype: type
    turns: tuple[str, ...]

    def arrays(self, *shapes: tuple[int, ...]) -> list[np.ndarray]:
        return [
            LAYOUTS[self.turns[n % len(self.turns)]](numbers(self.rng, shape, self.dtype))
            for n, shape in enumerate(shapes)
        ]

    def __repr__(self) -> str:
        return f"Source({self.dtype.__name__}, {self.turns}, {self.rng.bit_generator.seed_seq.entropy})"  # type: ignore[attr-defined]


sources = st.builds(Source, seeds, dtypes, st.tuples(layouts, layouts, layouts))


# ---------------------------------------------------------------- shapes


@st.composite
def shapes(draw: st.DrawFn, ndim: tuple[int, int] = (0, 4), least: int = 0, limit: int = 600) -> tuple[int, ...]:
    """Draw a shape of at most ``limit`` elements, counting an empty axis as 1; extents are near the vector widths."""
    extents: list[int] = []
    for _ in range(draw(st.integers(*ndim))):
        room = limit // math.prod(max(1, extent) for extent in extents)
        few = st.integers(least, max(least, min(7, room)))
        extents.append(draw(few | st.integers(least, max(least, room))))
    return tuple(draw(st.permutations(extents)))


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw two shapes that broadcast: with missing leading axes, extents of 1 on either side, or zero extents."""
    shape = draw(shapes())

    def operand(keep: bool) -> tuple[int, ...]:
        missing = 0 if keep else draw(st.integers(0, len(shape)))
        return tuple(1 if not keep and draw(st.booleans()) else extent for extent in shape[missing:])

    first = operand(draw(st.booleans()))
    pair = first, operand(True)
    return pair if draw(st.booleans()) else pair[::-1]


# ---------------------------------------------------------------- windows


@dataclass(frozen=True)
class Case:
    """One convolution: x (batch, inputs, ...), w (outputs, inputs/groups, ...)."""

    window: Window
    batch: int
    inputs: int
    outputs: int
    bias: bool
    options: Options = AUTO

    @property
    def x(self) -> tuple[int, ...]:
        return self.batch, self.inputs, *self.window.input

    @property
    def w(self) -> tuple[int, ...]:
        return self.outputs, self.inputs // self.window.groups, *self.window.kernel

    @property
    def y(self) -> tuple[int, ...]:
        return self.batch, self.outputs, *self.window.output


@dataclass(frozen=True)
class _Axis:
    input: int
    kernel: int
    stride: int
    padding: tuple[int, int]
    dilation: int


Pick = Callable[[int, int], int]  # a number from low to high, drawn by Hypothesis or by a generator


def _one_of(pick: Pick, choices: Sequence[Any]) -> Any:
    return choices[pick(0, len(choices) - 1)]


def _axis(pick: Pick, longest: int) -> _Axis:
    """Draw one axis with at least one output; stride and padding may exceed the kernel, the input may be 1."""
    axis = _Axis(1, pick(1, 5), pick(1, 5), (pick(0, 4), pick(0, 4)), pick(1, 3))
    if _least(axis) > longest:
        axis = replace(axis, kernel=1)
    return replace(axis, input=pick(_least(axis), longest))


def _least(axis: _Axis) -> int:
    """Return the smallest input extent that gives an output."""
    return max(1, axis.dilation * (axis.kernel - 1) + 1 - sum(axis.padding))


def _axes(pick: Pick) -> list[_Axis]:
    ndim = _one_of(pick, (1, 2, 2, 3))
    return [_axis(pick, {1: 34, 2: 10, 3: 5}[ndim]) for _ in range(ndim)]


def conv_case(pick: Pick, positions: int = 100) -> Case:
    """Draw a convolution in 1, 2 or 3 dimensions with at most about ``positions`` outputs, to limit the oracle's time.

    Out of ten, six are arbitrary, down to the smallest input that has an output; three are typical of networks (see
    ``_neighbors``); one has a kernel of up to 11 taps, or 4 taps and a stride of 2, as in the transposed convolutions
    of decoders.
    """
    kind = pick(0, 9)
    if kind < 6:
        axes, channels, batch = _axes(pick), _channels(pick), _one_of(pick, (0, 1, 1, 2, 3))
        if pick(0, 9) == 0:
            axes = [replace(axis, input=_least(axis)) for axis in axes]
    elif kind < 9:
        axes, channels, batch = _neighbors(pick), (1, _one_of(pick, WIDE), _one_of(pick, WIDE)), pick(1, 2)
        positions *= 2
    else:
        ndim, long = _one_of(pick, (1, 2)), pick(0, 1)
        r, s = (pick(6, 11), 1) if long else (4, 2)
        axes = [_Axis(pick(r, r + 6), r, s, (r // 2, (r - 1) // 2) if long else (1, 1), 1) for _ in range(ndim)]
        channels, batch = _channels(pick), 1
    axes = _shortened(axes, positions)
    groups, C, K = channels
    return Case(_window(axes, groups), batch, groups * C, groups * K, pick(0, 1) == 1)


def _neighbors(pick: Pick) -> list[_Axis]:
    """Draw axes of 4 to 20 positions with three adjacent taps and any padding: the case of the fast algorithms."""
    ndim = _one_of(pick, (1, 2, 2, 2, 2, 2, 3))
    paddings = ((1, 1), (1, 1), (1, 1), (0, 0), (0, 1), (2, 0), (2, 2))
    return [_Axis(pick(4, 6 if ndim == 3 else 20), 3, 1, _one_of(pick, paddings), 1) for _ in range(ndim)]


def _channels(pick: Pick) -> tuple[int, int, int]:
    """Draw the number of groups, and the input and output channels of each."""
    kind = _one_of(pick, ("dense", "dense", "grouped", "depthwise"))
    if kind == "dense":
        return 1, _one_of(pick, CHANNELS), _one_of(pick, CHANNELS)
    if kind == "grouped":
        return pick(2, 4), _one_of(pick, CHANNELS[:9]), _one_of(pick, CHANNELS[:9])
    return _one_of(pick, CHANNELS), 1, _one_of(pick, (1, 1, 2, 3))


def _shortened(axes: list[_Axis], positions: int) -> list[_Axis]:
    """Halve the axis with the most outputs until there are few enough outputs."""
    while math.prod(_window(axes).output) > positions:
        outputs = _window(axes).output
        at = outputs.index(max(outputs))
        axis = axes[at]
        shorter = max(_least(axis), axis.input // 2)
        axes[at] = replace(axis, input=shorter) if shorter < axis.input else replace(axis, padding=(0, 0))
        if axes[at] == axis:
            break
    return axes


@st.composite
def conv_cases(draw: st.DrawFn, positions: int = 100) -> Case:
    return conv_case(lambda low, high: draw(st.integers(low, high)), positions)


def evenly(number: int) -> tuple[Pick, Source]:
    """Return an independent draw for each seed. (Hypothesis mutates earlier examples, so many of its are similar.)"""
    rng = np.random.default_rng(number)
    turns = tuple(map(str, rng.choice(sorted(LAYOUTS), 3)))
    return lambda low, high: int(rng.integers(low, high, endpoint=True)), Source(rng, DTYPES[number % 2], turns)


def _window(axes: list[_Axis], groups: int = 1) -> Window:
    return conv_window(
        tuple(axis.input for axis in axes),
        tuple(axis.kernel for axis in axes),
        tuple(axis.stride for axis in axes),
        tuple(axis.padding for axis in axes),
        tuple(axis.dilation for axis in axes),
        groups,
    )


def pool_case(pick: Pick, work: int = 1500) -> tuple[Window, tuple[int, int]]:
    """Draw a pooling window whose outputs all cover part of the input, and (N, C)."""
    window = _window([_seeing(axis) for axis in _axes(pick)])
    N, C = _one_of(pick, (0, 1, 1, 2, 3)), _one_of(pick, CHANNELS)
    while N * C * window.taps * math.prod(window.output) > work and N * C > 1:
        N, C = min(N, 1), C // 2
    return window, (N, C)


@st.composite
def pool_cases(draw: st.DrawFn, work: int = 1500) -> tuple[Window, tuple[int, int]]:
    return pool_case(lambda low, high: draw(st.integers(low, high)), work)


def _seeing(axis: _Axis) -> _Axis:
    """Reduce the padding or dilation of an axis until no window covers padding only."""
    while True:
        window = _window([axis])
        at = [o * axis.stride - axis.padding[0] for o in range(window.output[0])]
        taps = range(0, axis.dilation * axis.kernel, axis.dilation)
        if all(any(0 <= start + tap < axis.input for tap in taps) for start in at):
            return axis
        low, high = axis.padding
        if axis.dilation > 1:
            axis = replace(axis, dilation=1)
        elif max(low, high) > 0:
            axis = replace(axis, padding=(max(0, low - 1), max(0, high - 1)))
            if axis.kernel > axis.input + sum(axis.padding):
                axis = replace(axis, kernel=axis.input + sum(axis.padding))
