"""Weights in the order that the micro-kernel reads, and small arrays that the kernels share."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..machine.launch import kernel
from ..machine.microkernel import Tile, tile
from ..machine.scratch import aligned

_pack = kernel("memory.packing.pack")


@lru_cache(maxsize=64)
def zeros_of(count: int, dtype: str) -> np.ndarray:
    """A shared row of zeros, read-only."""
    return np.zeros(count, dtype)


NO_TAPS = np.zeros(1, np.int64)  # a matrix is a kernel with one tap


def packed_elements(taps: int, depth: int, columns: int, groups: int, dtype: str, shape: Tile | None = None) -> int:
    """Elements of the array that ``pack_weights`` makes."""
    shape = shape or tile(dtype, "rows", columns)
    return max(1, groups * shape.panels * taps * depth * shape.width)


def pack_weights(
    w: np.ndarray,
    taps: np.ndarray,
    depth: int,
    columns: int,
    depth_step: int,
    column_step: int,
    groups: int,
    group_step: int,
    *,
    shape: Tile | None = None,
    looked: bool = False,
) -> np.ndarray:
    """``w`` as the micro-kernel reads it: [group][panel][tap][depth][columns of a panel]; steps in elements.

    ``shape``: of the panels; by default that of the rows form, whose panels are as wide as those of the line form.
    In a paired panel, each number of an even row is beside that of the next row. ``looked``: after all of them follows
    a number for each panel, NaN if one of its weights is not finite, else 0.
    """
    dtype = w.dtype.char
    shape = shape or tile(dtype, "rows", columns)
    wide, panels = shape.width, shape.panels
    elements = packed_elements(len(taps), depth, columns, groups, dtype, shape)
    packed = aligned(elements + groups * panels * looked, dtype)
    if packed.size > 1:
        _pack[dtype](
            groups * panels,
            w,
            packed,
            taps,
            len(taps),
            depth,
            columns,
            wide,
            depth_step,
            column_step,
            group_step,
            panels,
            int(shape.paired),
            elements * looked,
        )
    return packed


@lru_cache(maxsize=4096)
def whole_steps(strides: tuple[int, ...], size: int) -> bool:
    """Whether all strides are whole elements (those of a field of packed records are not)."""
    for stride in strides:  # noqa: SIM110  every call of a convolution asks, and all() takes three times as long
        if stride % size:
            return False
    return True
