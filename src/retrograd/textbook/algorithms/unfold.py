"""im2col and col2im, and the units of work.

im2col copies what every output sees under every tap into the columns of a matrix; col2im adds the columns back to
where they came from. Column o of X = im2col(x) holds x[c, o*stride + r*dilation - lo] for every channel c and tap r,
zero where that is padding. im2col is linear and only copies, so its transpose, col2im, only adds:

    <im2col(x), D> = <x, col2im(D)>   for all x, D

A unit is a box of at most 256 neighbouring positions of one sample, cut from the sizes alone. Every product of
matrices is of one unit, because its bits depend on its shape and on how its rows lie in memory: a BLAS chooses its
loops by them. A product over 100 columns, or with a column of its own, differs in the last bit from the same columns
of a product over 600. A workspace limit decides how many units are unfolded at once and never what a unit is, and sums
over units go in the order of the units; so the bits do not depend on the limit.

Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing",
2006 (unfolding).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Window

UNIT = 256  # positions: products of this width are about as fast as wider ones

Index = tuple[Any, ...]


class Box(NamedTuple):
    """The positions start <= o < start + extents, on every axis; ``first`` is the number of the first of them."""

    start: tuple[int, ...]
    extents: tuple[int, ...]
    first: int

    @property
    def size(self) -> int:
        """Number of positions."""
        return prod(self.extents)

    @property
    def flat(self) -> slice:
        """Where they are once all axes are one."""
        return slice(self.first, self.first + self.size)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index of the box, one slice per axis."""
        return tuple(slice(start, start + length) for start, length in zip(self.start, self.extents, strict=True))


@lru_cache(maxsize=1024)
def boxes(extents: tuple[int, ...]) -> tuple[Box, ...]:
    """The units of an image, in row-major order: whole rows (or planes) as far as they fit, else pieces of a row."""
    axis = next(a for a in range(len(extents)) if prod(extents[a + 1 :]) <= UNIT)
    behind = extents[axis + 1 :]
    length = UNIT // prod(behind)
    found, at = [], 0
    for *lead, first in product(*map(range, extents[:axis]), range(0, extents[axis], length)):
        shape = (*(1,) * axis, min(length, extents[axis] - first), *behind)
        found.append(Box((*lead, first, *(0,) * len(behind)), shape, at))
        at += prod(shape)
    return tuple(found)


def largest(extents: tuple[int, ...]) -> Box:
    """The largest unit of an image: the first."""
    return boxes(extents)[0]


@lru_cache(maxsize=4096)
def reads(window: Window, box: Box) -> tuple[tuple[Index, Index] | None, ...]:
    """For every tap: which outputs of the box see the input there, and at which positions; None if all see padding."""
    found: list[tuple[Index, Index] | None] = []
    for taps in np.ndindex(window.kernel):
        outputs, inputs = [], []
        for axis, r in enumerate(taps):
            stride, lo = window.stride[axis], window.padding[axis][0]
            start, stop = box.start[axis], box.start[axis] + box.extents[axis]
            at = r * window.dilation[axis] - lo  # output o reads position o*stride + at
            start, first = max(start, -(at // stride)), start
            stop = min(stop, (window.input[axis] - 1 - at) // stride + 1)
            if start >= stop:
                break
            outputs.append(slice(start - first, stop - first))
            inputs.append(slice(start * stride + at, (stop - 1) * stride + at + 1, stride))
        else:
            found.append(((..., *outputs), (..., *inputs)))
            continue
        found.append(None)
    return tuple(found)


def gather(x: np.ndarray, pair: tuple[Index, Index] | None, seen: np.ndarray) -> None:
    """What the outputs of a box see at one tap: x (..., *I) -> seen (..., *box), zero in the padding."""
    if pair is None or seen[pair[0]].shape != seen.shape:
        seen[...] = 0
    if pair is not None:
        outputs, inputs = pair
        seen[outputs] = x[inputs]


def scatter(seen: np.ndarray, pair: tuple[Index, Index] | None, x: np.ndarray) -> None:
    """The transpose of gather: seen (..., *box) is added to x (..., *I) where it was read; what was padding is lost."""
    if pair is not None:
        outputs, inputs = pair
        x[inputs] += seen[outputs]


def im2col(x: np.ndarray, window: Window, box: Box, columns: np.ndarray) -> None:
    """x (N, Ci, *I) -> columns (N, Ci, R, *box): for every tap a copy of what the outputs of the box see."""
    for r, pair in enumerate(reads(window, box)):
        gather(x, pair, columns[:, :, r])


def col2im(columns: np.ndarray, window: Window, box: Box, x: np.ndarray) -> None:
    """The transpose of im2col: columns (N, Ci, R, *box) are added to x (N, Ci, *I), position by position."""
    for r, pair in enumerate(reads(window, box)):
        scatter(columns[:, :, r], pair, x)
