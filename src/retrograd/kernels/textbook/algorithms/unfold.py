"""im2col and col2im, and the units of work.

Column o of X = im2col(x) holds x[c, o*stride + r*dilation - lo] for every channel c and tap r, zero in the padding.
im2col is linear and only copies, so its transpose, col2im, only adds:

    <im2col(x), D> = <x, col2im(D)>   for all x, D

A unit is a box of at most 256 adjacent positions of one sample, which depends on the sizes only. Every matrix
product is of one unit: a BLAS chooses its loops by shape and memory layout, so the same columns can differ in the last
bit between a product of 100 columns and one of 600. A workspace limit decides how many units are unfolded together, not
what a unit is, and units are summed in order; so the bits do not depend on the limit.

Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing",
2006 (unfolding).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....specs.geometry import Window

UNIT = 256  # positions: matrix products of this width are about as fast as wider ones

Index = tuple[Any, ...]


class Box(NamedTuple):
    """The positions start <= o < start + extents on every axis; ``first`` is the flat index of the first."""

    start: tuple[int, ...]
    extents: tuple[int, ...]
    first: int

    @property
    def size(self) -> int:
        """Number of positions."""
        return prod(self.extents)

    @property
    def flat(self) -> slice:
        """The index of the box in flattened axes."""
        return slice(self.first, self.first + self.size)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index of the box, one slice per axis."""
        return tuple(slice(start, start + length) for start, length in zip(self.start, self.extents, strict=True))


@lru_cache(maxsize=1024)
def boxes(extents: tuple[int, ...]) -> tuple[Box, ...]:
    """The units of an image, in row-major order: as many whole rows (or planes) as fit, else pieces of a row."""
    axis = next(a for a in range(len(extents)) if prod(extents[a + 1 :]) <= UNIT)
    inner = extents[axis + 1 :]
    length = UNIT // prod(inner)
    found, at = [], 0
    for *lead, first in product(*map(range, extents[:axis]), range(0, extents[axis], length)):
        shape = (*(1,) * axis, min(length, extents[axis] - first), *inner)
        found.append(Box((*lead, first, *(0,) * len(inner)), shape, at))
        at += prod(shape)
    return tuple(found)


def largest(extents: tuple[int, ...]) -> Box:
    """The largest unit of an image: the first."""
    return boxes(extents)[0]


@lru_cache(maxsize=4096)
def reads(window: Window, box: Box) -> tuple[tuple[Index, Index] | None, ...]:
    """For every tap: the outputs of the box that read input there, and the positions read; None if all read padding."""
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


def gather(x: np.ndarray, pair: tuple[Index, Index] | None, x_r: np.ndarray) -> None:
    """Copy the inputs that the outputs of a box read at one tap: x (..., *I) -> x_r (..., *box), 0 in the padding."""
    if pair is None or x_r[pair[0]].shape != x_r.shape:
        x_r[...] = 0
    if pair is not None:
        outputs, inputs = pair
        x_r[outputs] = x[inputs]


def scatter(x_r: np.ndarray, pair: tuple[Index, Index] | None, x: np.ndarray) -> None:
    """The transpose of gather: x_r (..., *box) is added to x (..., *I) where it was read, except in the padding."""
    if pair is not None:
        outputs, inputs = pair
        x[inputs] += x_r[outputs]


def im2col(x: np.ndarray, window: Window, box: Box, columns: np.ndarray) -> None:
    """x (N, Ci, *I) -> columns (N, Ci, R, *box): for every tap what the outputs of the box read."""
    for r, pair in enumerate(reads(window, box)):
        gather(x, pair, columns[:, :, r])


def col2im(columns: np.ndarray, window: Window, box: Box, x: np.ndarray) -> None:
    """The transpose of im2col: columns (N, Ci, R, *box) are added to x (N, Ci, *I) where they were read."""
    for r, pair in enumerate(reads(window, box)):
        scatter(columns[:, :, r], pair, x)
