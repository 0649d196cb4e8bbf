"""The positions that the taps of a window read: for convolution and pooling.

Tap r of output o reads input position i = o*stride + r*dilation - lo. In the padded input, with P = lo + I + hi
positions, that is o*stride + r*dilation. For one tap and all outputs it is a strided slice, so every kernel of a window
is a loop over its taps with whole-array statements inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...specs.geometry import Window


def taps(window: Window) -> Iterator[tuple[Any, ...]]:
    """For every tap of the kernel, in row-major order: the index ``at`` of the positions that the outputs read.

    padded (..., *P)  ->  padded[at] (..., *O), a view whose element o is read by output o at this tap
    """
    for r in np.ndindex(window.kernel):
        yield (..., *map(_reads, r, window.dilation, window.stride, window.output))


def _reads(r: int, dilation: int, stride: int, output: int) -> slice:
    """The positions o*stride + r*dilation for o = 0, ..., O - 1 on one axis."""
    first, last = r * dilation, r * dilation + (output - 1) * stride
    return slice(first, last + 1, stride)


def pad(x: np.ndarray, window: Window, value: float = 0) -> np.ndarray:
    """x (N, C, *I) -> (N, C, *P), with ``value`` in the padding."""
    return np.pad(x, [(0, 0), (0, 0), *window.padding], constant_values=value)


def crop(padded: np.ndarray, window: Window) -> np.ndarray:
    """The transpose of pad: padded (N, C, *P) -> (N, C, *I), without the padding."""
    inside = (slice(lo, lo + i) for (lo, _), i in zip(window.padding, window.input, strict=True))
    return padded[:, :, *inside]


def padded_extents(window: Window) -> tuple[int, ...]:
    """P = lo + I + hi on every axis."""
    return tuple(lo + i + hi for i, (lo, hi) in zip(window.input, window.padding, strict=True))
