"""How a matrix product is cut into tasks: integers only, made once per shape and read by compiled/matmul.py.

All steps are in elements. C is cut into tiles of rows and panels of columns; a task is a range of both in one matrix of
the batch. Large products take the inner dimension in blocks, so that a panel of B stays in the second-level cache, and
copy their tiles of A into the order in which the micro-kernel reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .microkernel import tile
from .plan import micro_kernels

SIZE, LANES, TILE_COLUMNS = 0, 1, 2
COLUMNS, DEPTH, BLOCK = 3, 4, 5
LEAST, EXTRA = 6, 7  # rows of a tile; how many tiles have one row more
A_ROW, A_DEPTH, B_DEPTH, B_PANEL, C_ROW = 8, 9, 10, 11, 12
PACKING, DENSE, PACKED_A = 13, 14, 15
MICRO = 16  # see ``micro_kernels``
TASKS = 24  # where the tasks begin: (offset in A, B, C, first and last tile, first and last panel) each
HEADER = 25

_BLOCK = 512  # of the inner dimension
_TASK_TILES = 10
_TASK_WORK = 1_000_000  # multiply-adds that are worth a task of their own
_MOST_TASKS = 16


@dataclass(frozen=True, slots=True)
class Product:
    """A plan of ``c = a @ b``."""

    words: np.ndarray
    tasks: int
    packed_a: int  # elements per thread


def plan_product(
    rows: int, columns: int, depth: int, a_steps: Sequence[int], b_steps: Sequence[int], b_packed: bool, dtype: str,
    batch: Sequence[tuple[int, int, int]],
) -> Product:  # fmt: skip
    """Plan for (rows, depth) @ (depth, columns); ``batch`` lists the offsets in A, B and C of each product."""
    shape = tile(dtype)
    width = shape.width(columns)
    panels = -(-columns // width)
    # rows far apart fall into the same lines of the first cache, and a strided A cannot be read by rows at all
    packing = a_steps[0] != 1 and (a_steps[1] != 1 or (panels >= 8 and rows >= 64 and depth >= 64))
    dense = packing or a_steps[1] != 1
    form = "dense" if dense else "rows"
    tiles, micros = micro_kernels(dtype, form, rows, shape, columns, not b_packed)
    block = min(depth, _BLOCK)
    wanted = max(1, min(_MOST_TASKS, rows * columns * depth * len(batch) // _TASK_WORK))
    tile_cuts = max(1, min(tiles, -(-wanted // len(batch)), max(1, tiles // _TASK_TILES)))
    # a task that packs its rows of A should use them for many panels
    panel_cuts = max(1, min(panels // 8 if packing else panels, -(-wanted // (len(batch) * tile_cuts))))
    tasks: list[int] = []
    most = 0
    for (a, b, c), t, p in product(batch, range(tile_cuts), range(panel_cuts)):
        first, last = t * tiles // tile_cuts, (t + 1) * tiles // tile_cuts
        most = max(most, last - first)
        tasks += [a, b, c, first, last, p * panels // panel_cuts, (p + 1) * panels // panel_cuts]
    packed_a = most * shape.rows * block if packing else 0
    b_panel = depth * width if b_packed else width
    b_depth = width if b_packed else b_steps[0]
    words = [4 if dtype == "f" else 8, shape.lanes, width, columns, depth, block, rows // tiles, rows % tiles]
    words += [*a_steps, b_depth, b_panel, columns, int(packing), int(dense), packed_a, *micros, HEADER]
    return Product(np.array(words + tasks, np.int64), len(batch) * tile_cuts * panel_cuts, packed_a)
