"""Plans that divide the weight gradient into tasks: integers only, made once per shape.

All strides are in bytes; a convolution in one or two dimensions is one in three with extents of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..machine.microkernel import MOST_ROWS, tile
from ..machine.product import PRODUCT, TASK_WORK, even_product
from ..machine.record import record
from .plan import LARGE_WEIGHTS, Axis

WINDOW = record(
    x=4,
    extent=3,  # strides N, D, H, W of x, and its extents D, H, W
    g=4,
    output=3,  # the same of g
    stride=3,
    padding=3,
    dilation=3,
    kernel=3,
)
REDUCE = record(
    window=WINDOW.words,
    x_group=1,
    g_group=1,  # from one group to the next
    size=1,
    width=1,  # bytes of an element; columns of a panel
    rows=1,
    columns=1,  # input and output channels per group
    row_step=1,  # of the target, from one input channel to the next
    partial=1,  # from one partial result to the next
    chunk=1,  # rows of the output summed before the next tile
    product=PRODUCT.words,
    others=PRODUCT.words,  # for a task's first tile, for the others
    copy=1,
    low=1,
    line=1,  # elements of a line of x with its padding, where lines are copied; zeros in front; of x
    tasks=1,  # where the tasks begin
    list=0,  # the tasks
)
TASK = record(
    part=1,
    group_first=1,
    group_last=1,
    panel_first=1,
    panel_last=1,
    tap_first=1,
    tap_last=1,
    tile_first=1,
    tile_last=1,
    row_first=1,
    row_last=1,
)

MOST_PARTS = 8
_PARTIALS = 448 << 10  # bytes of partial sums besides two
_WORK_OF_BYTE, _ANY = 24, 1 << 62  # multiply-adds that pay for reading a byte of x or g; no bound
_NEAR = 16 << 10  # bytes of a panel of g that stay in L1 while all tiles read them
_SHORT = 16  # lines of fewer positions do not fill the pipeline of a wide tile


@dataclass(frozen=True, slots=True)
class Reduce:
    """A plan of the weight gradient."""

    words: np.ndarray
    tasks: int
    scratch: int
    parts: int
    zeros: int
    copies: int  # elements per thread


def window_words(axes: list[Axis], x: Sequence[int], g: Sequence[int]) -> np.ndarray:
    """The words of ``WINDOW``; x and g are strides."""
    return WINDOW.pack(
        x=x,
        extent=[a.input for a in axes],
        g=g,
        output=[a.output for a in axes],
        stride=[a.stride for a in axes],
        padding=[a.low for a in axes],
        dilation=[a.dilation for a in axes],
        kernel=[a.kernel for a in axes],
    )


def _cuts(
    wanted: int, groups: int, panels: int, taps: int, tiles: int, x_bytes: int, g_bytes: int, most: int
) -> tuple[int, int, int, int]:
    """The numbers of ranges of groups, panels, taps and tiles of the gradient, ``wanted`` pieces altogether.

    Every range of panels reads all of x, every range of tiles all of g: fewer pieces where that is ``most`` bytes.
    """
    of_groups = min(groups, wanted)
    found = of_groups, 1, 1, 1
    for pieces in range(2, -(-wanted // of_groups) + 1):
        ways = []
        for of_panels in range(1, min(panels, pieces) + 1):
            of_tiles = min(tiles, -(-pieces // of_panels))
            of_taps = min(taps, -(-pieces // (of_panels * of_tiles)))
            missing = max(0, pieces - of_panels * of_tiles * of_taps)
            ways.append((missing, x_bytes * of_panels + g_bytes * of_tiles, (of_groups, of_panels, of_taps, of_tiles)))
        _, read, cuts = min(ways)
        if read < most:
            found = cuts
    return found


def reduce_plan(
    axes: list[Axis],
    batch: int,
    groups: int,
    rows: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    g: Sequence[int],
    low: int = 0,
    line: int | None = None,
) -> Reduce:
    """Plan of the weight gradient for ``rows`` input and ``columns`` output channels per group.

    ``low``, ``line``: the rows are elements of a line of x, whose length is ``line``; see narrow.py.
    """
    size, width = 4 if dtype == "f" else 8, axes[2].output
    shape = tile(dtype, "dense", columns, 2 if width < _SHORT else 4)
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel * axes[2].kernel
    elements = taps * rows * columns * groups
    work = lines * width * elements
    wanted = max(1, min(MOST_PARTS, work // TASK_WORK))
    panel_line = shape.width * size * width
    chunk = max(1, min(lines, _NEAR // panel_line))
    near = shape.panels > 1 and chunk * panel_line <= 2 * _NEAR
    # a task's first tile reads its part of g first; with one panel, every tile reads x first
    words = even_product(dtype, "dense", shape, rows, True)
    tiles = int(words[PRODUCT.tiles])
    parts, most = 1, min(wanted, -(-lines // chunk), 2 + _PARTIALS // (elements * size))
    while elements * size <= LARGE_WEIGHTS and 2 * parts <= most:
        parts *= 2
    # the rows of adjacent positions overlap in memory if the taps of a kernel row are rows, see narrow.py
    x_bytes = lines * width * min(rows * groups * size, x[3]) * axes[2].stride
    g_bytes = lines * width * columns * groups * size
    extents = groups, shape.panels, taps, tiles
    cuts = _cuts(-(-wanted // parts), *extents, x_bytes, g_bytes, work // _WORK_OF_BYTE if parts > 1 else _ANY)
    names = "group", "panel", "tap", "tile", "row"
    tasks = [
        TASK.pack(part=part, **_ranges(names, (*piece, part), (*extents, lines), (*cuts, parts)))
        for part, *piece in product(range(parts), *map(range, cuts))
    ]
    copy = 0
    if line is not None:
        reach = (width - 1) * axes[2].stride * x[3] // size + rows
        copy = reach if low != 0 or reach > line else 0
    plan = REDUCE.pack(
        window=window_words(axes, x, g),
        x_group=rows * size,
        g_group=columns * size,
        size=size,
        width=shape.width,
        rows=rows,
        columns=columns,
        row_step=columns * groups * size,
        partial=elements * size,
        chunk=chunk,
        product=words,
        others=even_product(dtype, "near", shape, rows, True) if near else words,
        copy=copy,
        low=low,
        line=line or 0,
        tasks=REDUCE.words,
        list=np.concatenate(tasks),
    )
    zeros = max(shape.rows, shape.panels * shape.width)
    return Reduce(plan, len(tasks), MOST_ROWS + 2 * chunk, parts, zeros, chunk * copy)


def _ranges(names: Sequence[str], pieces: Sequence[int], extents: Sequence[int], cuts: Sequence[int]) -> dict[str, int]:
    """For each name, the begin and end of its piece, when its extent is cut into ``cuts`` pieces."""
    found = {}
    for name, piece, extent, count in zip(names, pieces, extents, cuts, strict=True):
        found[f"{name}_first"], found[f"{name}_last"] = piece * extent // count, (piece + 1) * extent // count
    return found
