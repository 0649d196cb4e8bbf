"""How a matrix product is cut into tasks: integers only, made once per shape and read by compiled/matmul.py.

All steps are in elements. C is cut into tiles of rows and panels of columns; a part is a range of both in one matrix of
the batch, and a task one part, or several of small matrices. A task packs a block of some panels of B, which then
stays in the second-level cache while the rows of A
stream by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .microkernel import tile
from .plan import micro_kernels

SIZE, WIDTH, PANELS, TAIL = 0, 1, 2, 3  # bytes of an element; columns of a panel, panels, columns of the last vector
DEPTH, BLOCK = 4, 5  # the inner dimension is taken in blocks
LEAST, EXTRA = 6, 7  # rows of a tile; how many tiles have one row more
A_ROW, A_DEPTH, B_DEPTH, B_COLUMN, C_ROW = 8, 9, 10, 11, 12
DENSE = 13  # the columns of A have neighbouring elements, not its rows
PACKING = 14  # a task packs B
COLUMNS, GROUP = 15, 16  # panels that are packed at one time
MICRO = 17  # see ``micro_kernels``
PARTS = 21  # where the parts begin: (offset in A, B, C, first and last tile, first and last panel) each
EACH, COUNT = 22, 23  # parts of a task, and of all tasks
HEADER = 24

_BLOCK = 768
_GROUP = 2  # panels
_NEAR = 1 << 15  # bytes of B that stay in the first cache
_TASK_ROWS = 256  # so many make up for packing B a second time
_TASK_TILES = 10
_TASK_WORK = 1_000_000  # multiply-adds that are worth a task of their own
_MOST_TASKS = 16
_PART_WORK = 131_072  # multiply-adds: parts that are smaller share a task
_LEAST_TASKS = 8  # ... as long as there are so many


@dataclass(frozen=True, slots=True)
class Product:
    """A plan of ``c = a @ b``."""

    words: np.ndarray
    tasks: int
    packed: int  # elements per thread of B that a task packs


def plan_product(
    rows: int, columns: int, depth: int, form: str, a_steps: Sequence[int], b_steps: Sequence[int], packing: bool,
    dtype: str, batch: Sequence[tuple[int, int, int]],
) -> Product:  # fmt: skip
    """Plan for (rows, depth) @ (depth, columns); ``batch`` lists the offsets in A, B and C of each product.

    ``form`` of the micro-kernel: "rows" where the rows of A have neighbouring elements, "dense" where its columns have.
    Without ``packing`` the rows of B must have neighbouring elements.
    """
    shape, size = tile(dtype, form, columns), 4 if dtype == "f" else 8
    block = -(-depth // -(-depth // _BLOCK))
    dense = int(form == "dense")
    if block * min(columns, _GROUP * shape.width) * size <= _NEAR:
        form = "near" if dense else "near_rows"
    tiles, micros = micro_kernels(dtype, form, rows, shape, not packing)
    wanted = max(1, min(_MOST_TASKS, rows * columns * depth * len(batch) // _TASK_WORK))
    each = -(-wanted // len(batch))
    panel_cuts = min(shape.panels, each)
    tile_cuts = max(1, min(rows // _TASK_ROWS if packing else tiles // _TASK_TILES, -(-each // panel_cuts)))
    parts: list[int] = []
    for (a, b, c), t, p in product(batch, range(tile_cuts), range(panel_cuts)):
        parts += [a, b, c, t * tiles // tile_cuts, (t + 1) * tiles // tile_cuts]
        parts += [p * shape.panels // panel_cuts, (p + 1) * shape.panels // panel_cuts]
    count = len(batch) * tile_cuts * panel_cuts
    together = max(1, min(_PART_WORK * count // (rows * columns * depth * len(batch)), -(-count // _LEAST_TASKS)))
    words = [size, shape.width, shape.panels, shape.tail, depth, block, rows // tiles, rows % tiles]
    words += [*a_steps, *b_steps, columns, dense, int(packing), columns, _GROUP, *micros, HEADER]
    words += [together, count]
    return Product(
        np.array(words + parts, np.int64),
        -(-count // together),
        _GROUP * block * shape.width if packing else 0,
    )
