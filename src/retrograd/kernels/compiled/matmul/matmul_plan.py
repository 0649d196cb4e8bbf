"""Plans that divide a matrix product into tasks: integers only, made once per shape and read by matmul_jit.py.

All steps are in elements. C is cut into tiles of rows and panels of columns; a part is a range of both in one matrix of
the batch, and a task one part, or several of small matrices. A task packs a block of some panels of B, which stays in
L2 while the rows of A stream by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..machine.microkernel import tile
from ..machine.product import PRODUCT, even_product
from ..machine.record import record

MATMUL = record(
    size=1,  # bytes of an element
    width=1,  # columns of a panel
    depth=1,
    block=1,  # the inner dimension, and its blocks
    a_row=1,
    a_depth=1,
    b_depth=1,
    b_column=1,
    c_row=1,
    dense=1,  # the columns of A are contiguous, not its rows
    packing=1,  # a task packs B
    columns=1,
    group=1,  # panels packed at a time
    product=PRODUCT.words,
    each=1,
    count=1,  # parts of a task, and of all tasks
    parts=0,
)
PART = record(a=1, b=1, c=1, tile_first=1, tile_last=1, panel_first=1, panel_last=1)  # the first three are offsets

_BLOCK = 768
_GROUP = 2  # panels
_NEAR = 1 << 15  # bytes of B that stay in L1
_TASK_ROWS = 256  # rows that pay for packing B a second time
_TASK_TILES = 10
_TASK_WORK = 1_000_000  # multiply-adds that are worth a separate task
_MOST_TASKS = 16
_PART_WORK = 131_072  # multiply-adds: smaller parts share a task
_LEAST_TASKS = 8  # ... as long as there are at least this many tasks


@dataclass(frozen=True, slots=True)
class Product:
    """A plan of ``c = a @ b``."""

    words: np.ndarray
    tasks: int
    packed: int  # elements per thread of B that a task packs


def plan_product(
    rows: int,
    columns: int,
    depth: int,
    form: str,
    a_steps: Sequence[int],
    b_steps: Sequence[int],
    packing: bool,
    dtype: str,
    batch: Sequence[tuple[int, int, int]],
) -> Product:
    """Plan for (rows, depth) @ (depth, columns); ``batch`` lists the offsets in A, B and C of each product.

    ``form`` of the micro-kernel: "rows" if the rows of A are contiguous, "dense" if its columns are. Without
    ``packing`` the rows of B must be contiguous.
    """
    shape, size = tile(dtype, form, columns), 4 if dtype == "f" else 8
    block = -(-depth // -(-depth // _BLOCK))
    dense = int(form == "dense")
    if block * min(columns, _GROUP * shape.width) * size <= _NEAR:
        form = "near" if dense else "near_rows"
    wanted = max(1, min(_MOST_TASKS, rows * columns * depth * len(batch) // _TASK_WORK))
    if packing and shape.panels == len(batch) == 1 < wanted and rows < 2 * _TASK_ROWS:  # as a narrow weight's gradient
        shape = tile(dtype, form, columns, max(1, shape.vectors // wanted))
    product_words = even_product(dtype, form, shape, rows, not packing)
    tiles = int(product_words[PRODUCT.tiles])
    each = -(-wanted // len(batch))
    panel_cuts = min(shape.panels, each)
    tile_cuts = max(1, min(rows // _TASK_ROWS if packing else tiles // _TASK_TILES, -(-each // panel_cuts)))
    parts = [
        PART.pack(
            a=a,
            b=b,
            c=c,
            tile_first=t * tiles // tile_cuts,
            tile_last=(t + 1) * tiles // tile_cuts,
            panel_first=p * shape.panels // panel_cuts,
            panel_last=(p + 1) * shape.panels // panel_cuts,
        )
        for (a, b, c), t, p in product(batch, range(tile_cuts), range(panel_cuts))
    ]
    count = len(parts)
    together = max(1, min(_PART_WORK * count // (rows * columns * depth * len(batch)), -(-count // _LEAST_TASKS)))
    words = MATMUL.pack(
        size=size,
        width=shape.width,
        depth=depth,
        block=block,
        a_row=a_steps[0],
        a_depth=a_steps[1],
        b_depth=b_steps[0],
        b_column=b_steps[1],
        c_row=columns,
        dense=dense,
        packing=packing,
        columns=columns,
        group=_GROUP,
        product=product_words,
        each=together,
        count=count,
        parts=np.concatenate(parts),
    )
    return Product(words, -(-count // together), _GROUP * block * shape.width if packing else 0)
