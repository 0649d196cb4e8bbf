"""What one task of a matrix product does. The plan that it reads is made in ../matmul_plan.py."""

from __future__ import annotations

from .. import matmul_plan as word
from ..microkernel import MOST_ROWS
from ..simd import address, lanes, offset
from .convolution import tile_begin
from .microkernel import brgemm
from .packing import pack_block


def multiply(
    task: int, worker: int, a: Array, b: Array, init: Array, c: Array, packed: Array, packed_words: int, plan: Table,
    scratch: Table,
) -> None:  # fmt: skip
    """Ranges of tiles and panels of ``c = init + a @ b``, the inner dimension in blocks."""
    size, width, panels = plan[word.SIZE], plan[word.WIDTH], plan[word.PANELS]
    least, extra, depth, block = plan[word.LEAST], plan[word.EXTRA], plan[word.DEPTH], plan[word.BLOCK]
    row_step, k_step, dense = plan[word.A_ROW], plan[word.A_DEPTH], plan[word.DENSE]
    rows_of_c = worker * 2 * MOST_ROWS
    table = rows_of_c + MOST_ROWS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    packed_at = worker * packed_words
    step = block * width
    for part in range(task * plan[word.EACH], min(plan[word.COUNT], (task + 1) * plan[word.EACH])):
        row = plan[word.PARTS] + 7 * part
        a_at, b_at, c_at = plan[row], plan[row + 1], plan[row + 2]
        tile_first, tile_last, panel_first, panel_last = plan[row + 3], plan[row + 4], plan[row + 5], plan[row + 6]
        for k in range(0, depth, block):
            some = min(block, depth - k)
            for group in range(panel_first, panel_last, plan[word.GROUP]):
                behind = min(group + plan[word.GROUP], panel_last)
                if plan[word.PACKING] == 1:
                    for panel in range(group, behind):
                        column = b_at + panel * width * plan[word.B_COLUMN]
                        pack_block(
                            b, column + k * plan[word.B_DEPTH], plan[word.B_DEPTH], plan[word.B_COLUMN], some,
                            min(width, plan[word.COLUMNS] - panel * width),
                            packed, packed_at + (panel - group) * step, width,
                        )  # fmt: skip
                for tile in range(tile_first, tile_last):
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
                    for panel in range(group, behind):
                        last = 1 if panel == panels - 1 else 0
                        b_panel, ldb = (
                            address(b) + (b_at + panel * width + k * plan[word.B_DEPTH]) * size,
                            plan[word.B_DEPTH],
                        )
                        if plan[word.PACKING] == 1:
                            b_panel, ldb = address(offset(packed, packed_at + (panel - group) * step)), width
                        brgemm(
                            plan[word.MICRO + 2 * last + rows - least], table_at, 1, some, lda, b_panel, 0, ldb * size,
                            rows_at, panel * width * size, plan[word.TAIL] if last == 1 else lanes(a),
                            address(init) + panel * width * size, 0 if k == 0 else 1,
                        )  # fmt: skip
