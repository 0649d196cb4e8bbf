"""The plan of an input gradient with few input channels: one array of int64, whose words are named here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from .microkernel import tile
from .plan import Axis, micro_kernels

SIZE, WIDTH, PANELS, TAIL, DEPTH, CHANNELS = 0, 1, 2, 3, 4, 5
COLUMNS = 6  # taps times input channels
LEAST, EXTRA, TILES = 7, 8, 9  # tiles of a line of g
PRODUCTS = 10  # elements of the products of a line
OUTPUT, KERNEL, INPUT, STRIDE, PADDING, DILATION = 11, 14, 17, 20, 23, 26
GRAD = 29  # strides of g in bytes: N, D, H, W
MICRO = 33  # see ``micro_kernels``


def fold_plan(axes: list[Axis], outputs: int, inputs: int, dtype: str, g: Sequence[int]) -> np.ndarray:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input."""
    columns, positions = prod(axis.kernel for axis in axes) * inputs, axes[2].output
    shape = tile(dtype, "rows", columns)
    tiles, micros = micro_kernels(dtype, "rows", positions, shape)
    words = [4 if dtype == "f" else 8, shape.width, shape.panels, shape.tail, outputs, inputs, columns]
    words += [positions // tiles, positions % tiles, tiles, positions * columns]
    for facts in zip(*((a.output, a.kernel, a.input, a.stride, a.low, a.dilation) for a in axes), strict=True):
        words += facts
    return np.array(words + [*g, *micros], np.int64)
