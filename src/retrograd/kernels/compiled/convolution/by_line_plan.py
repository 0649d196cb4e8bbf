"""The plan of a forward pass whose taps all lie in other lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..machine.microkernel import tile
from ..machine.product import MOST_TASKS, PRODUCT, TASK_WORK, even_product
from ..machine.record import record
from .plan import Axis

BY_LINE = record(
    size=1,  # bytes of an element
    x=4,
    extent=2,  # strides N, D, H, W of x in bytes; its extents D, H
    y=4,
    output=2,  # strides N, D, H, W of y in bytes; its extents D, H
    stride=2,
    padding=2,
    dilation=2,
    taps=2,  # along D, H
    step=1,  # bytes of x from one position of y to the next
    depth=1,  # channels of x
    product=PRODUCT.words,  # of a line of y
    pieces=1,
    piece=1,  # of a line; tiles in one
    units=1,
    tasks=1,  # the pieces of all lines; the tasks that share them
    low=1,
    line=1,  # elements before a line of x that its first position reads, and of the line
    segment=1,  # elements that a tile reads of a line, if one reads past the ends of a line, else 0
)

_PIECE = 16 << 10  # bytes of x that are read again for every panel of the weights


def by_line_plan(
    axes: list[Axis],
    batch: int,
    depth: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    y: Sequence[int],
    low: int,
    line: int,
) -> np.ndarray:
    """The plan for a kernel that has one tap along the last axis; the padding there is in ``low``."""
    positions = axes[2].output
    shape = tile(dtype, "line", columns)
    product = even_product(dtype, "line", shape, positions)
    tiles = int(product[PRODUCT.tiles])
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel
    wanted = max(1, min(MOST_TASKS, lines * positions * taps * depth * columns // TASK_WORK))
    piece = -(-tiles // max(1, min(tiles, wanted // lines)))
    if shape.panels > 1:
        piece = min(piece, max(1, _PIECE // (shape.rows * axes[2].stride * x[3])))
    pieces = -(-tiles // piece)
    size = 4 if dtype == "f" else 8
    step = axes[2].stride * x[3] // size
    beyond = low > 0 or (positions - 1) * step - low + depth > line
    plane = axes[:2]
    return BY_LINE.pack(
        size=size,
        x=x,
        extent=[a.input for a in plane],
        y=y,
        output=[a.output for a in plane],
        stride=[a.stride for a in plane],
        padding=[a.low for a in plane],
        dilation=[a.dilation for a in plane],
        taps=[a.kernel for a in plane],
        step=axes[2].stride * x[3],
        depth=depth,
        product=product,
        pieces=pieces,
        piece=piece,
        units=lines * pieces,
        tasks=min(wanted, lines * pieces),
        low=low,
        line=line,
        segment=((positions - 1) // tiles * step + depth) if beyond else 0,
    )
