"""The plan of an input gradient with few input channels: one array of int64, whose words are named here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from .microkernel import tile
from .plan import Axis, micro_kernels

SIZE, LANES, TILE_COLUMNS, DEPTH, CHANNELS = 0, 1, 2, 3, 4
COLUMNS = 5  # taps times input channels
LEAST, EXTRA, TILES = 6, 7, 8  # tiles of a line of g
PRODUCTS = 9  # elements of the products of a line
OUTPUT, KERNEL, INPUT, STRIDE, PADDING, DILATION = 10, 13, 16, 19, 22, 25
GRAD = 28  # strides of g in bytes: N, D, H, W
MICRO = 32  # see ``micro_kernels``


def fold_plan(axes: list[Axis], outputs: int, inputs: int, dtype: str, g: Sequence[int]) -> np.ndarray:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input."""
    shape, size = tile(dtype), 4 if dtype == "f" else 8
    columns, positions = prod(axis.kernel for axis in axes) * inputs, axes[2].output
    tiles, micros = micro_kernels(dtype, "rows", positions, shape, columns)
    words = [size, shape.lanes, shape.width(columns), outputs, inputs, columns]
    words += [positions // tiles, positions % tiles, tiles, positions * columns]
    for facts in zip(*((a.output, a.kernel, a.input, a.stride, a.low, a.dilation) for a in axes), strict=True):
        words += facts
    return np.array(words + [*g, *micros], np.int64)
