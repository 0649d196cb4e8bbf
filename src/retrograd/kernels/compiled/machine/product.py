"""A matrix product in tiles and panels, as plans describe it: which micro-kernel computes each tile.

The rows of the result are cut into tiles of at most as many rows as stay in registers, all of about the same height;
the columns into panels, of which the last one may be narrower. ``product_jit`` walks over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .microkernel import Tile, micro
from .record import record

TASK_WORK = 500_000  # multiply-adds that are worth a separate task, about 8 us
MOST_TASKS = 32
_HEIGHTS = 32  # more than the rows of any tile

PRODUCT = record(
    row=1,  # bytes of a row of a panel
    panels=1,
    lanes=1,
    tail=1,  # columns of the last vector of a panel, and of the last panel
    tiles=1,
    least=1,
    extra=1,  # the first ``extra`` tiles have ``least + 1`` rows, the others ``least``
    whole=_HEIGHTS,
    last=_HEIGHTS,  # micro-kernels by their rows: of a whole panel, and of the last one
)


def product(
    dtype: str,
    form: str,
    shape: Tile,
    heights: Iterable[int],
    masked: bool = False,
    cut: tuple[int, int, int] = (0, 0, 0),
    of: Callable[[str, str, int, int, bool], int] = micro,
) -> np.ndarray:
    """A product whose tiles may have these ``heights``; the kernel cuts its rows, unless ``cut`` is given.

    ``masked``: nothing past the end of the last panel is read. ``of`` gives the micro-kernels.
    """
    whole, last = [0] * _HEIGHTS, [0] * _HEIGHTS
    for rows in heights:
        last[rows] = of(dtype, form, rows, shape.last_vectors, masked and shape.tail != shape.lanes)
        if shape.panels > 1:
            whole[rows] = of(dtype, form, rows, shape.vectors, False)
    tiles, least, extra = cut
    return PRODUCT.pack(
        row=shape.width * (4 if dtype == "f" else 8),
        panels=shape.panels,
        lanes=shape.lanes,
        tail=shape.tail,
        tiles=tiles,
        least=least,
        extra=extra,
        whole=whole,
        last=last,
    )


def heights_of(rows: int, most: int) -> set[int]:
    """The heights of the tiles when ``rows`` are cut evenly into tiles of at most ``most``."""
    tiles = -(-rows // most)
    return {rows // tiles, -(-rows // tiles)} if rows else set()


def even_product(
    dtype: str,
    form: str,
    shape: Tile,
    rows: int,
    masked: bool = False,
    of: Callable[[str, str, int, int, bool], int] = micro,
) -> np.ndarray:
    """A product of ``rows`` rows, at least 1, cut into tiles of about the same height."""
    tiles = -(-rows // shape.rows)
    return product(dtype, form, shape, heights_of(rows, shape.rows), masked, (tiles, rows // tiles, rows % tiles), of)
