"""How a matrix product is cut into tasks: integers only, made once per shape and read by compiled/matmul.py.

All steps are in elements. C is cut into tiles of rows and panels of columns; a task is a range of both in one matrix of
the batch. Large products take the inner dimension and the tiles in blocks, so that a panel of B and a block of A stay in
the second-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .microkernel import tile
from .plan import micro_kernels

SIZE, WIDTH, PANELS, TAIL = 0, 1, 2, 3  # bytes of an element; columns of a panel, panels, columns of the last vector
DEPTH, DEPTH_BLOCK, TILE_BLOCK = 4, 5, 6
LEAST, EXTRA = 7, 8  # rows of a tile; how many tiles have one row more
A_ROW, A_DEPTH, B_DEPTH, B_PANEL, C_ROW = 9, 10, 11, 12, 13
DENSE = 14  # the columns of A have neighbouring elements, not its rows
MICRO = 15  # see ``micro_kernels``
TASKS = 19  # where the tasks begin: (offset in A, B, C, first and last tile, first and last panel) each
HEADER = 20

_DEPTH_BLOCK = 512
_TILE_BLOCK = 32
_TASK_TILES = 10
_TASK_WORK = 1_000_000  # multiply-adds that are worth a task of their own
_MOST_TASKS = 16


@dataclass(frozen=True, slots=True)
class Product:
    """A plan of ``c = a @ b``."""

    words: np.ndarray
    tasks: int


def plan_product(
    rows: int, columns: int, depth: int, form: str, a_steps: Sequence[int], b_steps: Sequence[int], b_packed: bool, dtype: str,
    batch: Sequence[tuple[int, int, int]],
) -> Product:  # fmt: skip
    """Plan for (rows, depth) @ (depth, columns); ``batch`` lists the offsets in A, B and C of each product.

    ``form`` of the micro-kernel: "rows" where the rows of A have neighbouring elements, "dense" where its columns have.
    """
    shape = tile(dtype, form, columns)
    tiles, micros = micro_kernels(dtype, form, rows, shape, not b_packed)
    wanted = max(1, min(_MOST_TASKS, rows * columns * depth * len(batch) // _TASK_WORK))
    tile_cuts = max(1, min(tiles, -(-wanted // len(batch)), max(1, tiles // _TASK_TILES)))
    panel_cuts = max(1, min(shape.panels, -(-wanted // (len(batch) * tile_cuts))))
    tasks: list[int] = []
    for (a, b, c), t, p in product(batch, range(tile_cuts), range(panel_cuts)):
        tasks += [a, b, c, t * tiles // tile_cuts, (t + 1) * tiles // tile_cuts]
        tasks += [p * shape.panels // panel_cuts, (p + 1) * shape.panels // panel_cuts]
    b_panel = depth * shape.width if b_packed else shape.width
    b_depth = shape.width if b_packed else b_steps[0]
    words = [4 if dtype == "f" else 8, shape.width, shape.panels, shape.tail, depth, min(depth, _DEPTH_BLOCK), _TILE_BLOCK]
    words += [rows // tiles, rows % tiles, *a_steps, b_depth, b_panel, columns, int(form == "dense"), *micros, HEADER]
    return Product(np.array(words + tasks, np.int64), len(batch) * tile_cuts * panel_cuts)
