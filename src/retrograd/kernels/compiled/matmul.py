"""What one task of a matrix product does. The plan that it reads is made in ../matmul_plan.py."""

from __future__ import annotations

from .. import matmul_plan as word
from ..microkernel import MOST_ROWS
from ..simd import address, lanes, offset
from .convolution import tile_begin
from .microkernel import brgemm


def multiply(
    task: int, worker: int, a: Array, b: Array, init: Array, c: Array, plan: Table, scratch: Table,
) -> None:  # fmt: skip
    """A range of tiles and panels of ``c = init + a @ b``, the inner dimension and the tiles in blocks."""
    row = plan[word.TASKS] + 7 * task
    a_at, b_at, c_at = plan[row], plan[row + 1], plan[row + 2]
    tile_first, tile_last, panel_first, panel_last = plan[row + 3], plan[row + 4], plan[row + 5], plan[row + 6]
    size, width, panels = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS]
    least, extra, depth = plan[word.LEAST], plan[word.EXTRA], plan[word.DEPTH]
    row_step, k_step, ldb, dense = plan[word.A_ROW], plan[word.A_DEPTH], plan[word.B_DEPTH], plan[word.DENSE]
    rows_of_c = worker * 2 * MOST_ROWS
    table = rows_of_c + MOST_ROWS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    for k in range(0, depth, plan[word.DEPTH_BLOCK]):
        count = min(plan[word.DEPTH_BLOCK], depth - k)
        for block in range(tile_first, tile_last, plan[word.TILE_BLOCK]):
            for panel in range(panel_first, panel_last):
                last = 1 if panel == panels - 1 else 0
                b_panel = address(b) + (b_at + panel * plan[word.B_PANEL] + k * ldb) * size
                for tile in range(block, min(block + plan[word.TILE_BLOCK], tile_last)):
                    first, rows = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                    a_tile = address(a) + (a_at + first * row_step + k * k_step) * size
                    for i in range(rows):
                        scratch[rows_of_c + i] = address(c) + (c_at + (first + i) * plan[word.C_ROW]) * size
                    lda = 0
                    if dense:
                        lda = k_step * size
                        scratch[table] = a_tile
                        scratch[table + 1] = 0
                    else:
                        for i in range(rows):
                            scratch[table + i] = a_tile + i * row_step * size
                    brgemm(
                        plan[word.MICRO + 2 * last + rows - least], table_at, 1, count, lda, b_panel, 0, ldb * size,
                        rows_at, panel * width * size, plan[word.TAIL] if last == 1 else lanes(a),
                        address(init) + panel * width * size, 0 if k == 0 else 1,
                    )  # fmt: skip
