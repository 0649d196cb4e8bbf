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
    dense, packing, most, micro = plan[word.DENSE], plan[word.PACKING], plan[word.GROUP], word.MICRO - least
    # in bytes: from row to row, from k to k, from panel to panel
    a_row, a_k, c_row = plan[word.A_ROW] * size, plan[word.A_DEPTH] * size, plan[word.C_ROW] * size
    b_k, b_panel, c_panel = plan[word.B_DEPTH] * size, width * plan[word.B_COLUMN] * size, width * size
    lda, ldb, b_move = 0, b_k, b_panel
    if packing == 1:
        ldb, b_move = c_panel, block * c_panel
    rows_of_c = worker * 2 * MOST_ROWS
    table = rows_of_c + MOST_ROWS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    packed_at = worker * packed_words
    if dense:
        lda = a_k
        scratch[table + 1] = 0
    for part in range(task * plan[word.EACH], min(plan[word.COUNT], (task + 1) * plan[word.EACH])):
        row = plan[word.PARTS] + 7 * part
        a_at, b_at, c_at = address(a) + plan[row] * size, plan[row + 1], address(c) + plan[row + 2] * size
        tile_first, tile_last, panel_first, panel_last = plan[row + 3], plan[row + 4], plan[row + 5], plan[row + 6]
        for k in range(0, depth, block):
            some = min(block, depth - k)
            for group in range(panel_first, panel_last, most):
                behind = min(group + most, panel_last)
                b_group = address(b) + b_at * size + group * b_panel + k * b_k
                if packing == 1:
                    for panel in range(group, behind):
                        column = b_at + panel * width * plan[word.B_COLUMN]
                        pack_block(
                            b, column + k * plan[word.B_DEPTH], plan[word.B_DEPTH], plan[word.B_COLUMN], some,
                            min(width, plan[word.COLUMNS] - panel * width),
                            packed, packed_at + (panel - group) * block * width, width,
                        )  # fmt: skip
                    b_group = address(offset(packed, packed_at))
                for tile in range(tile_first, tile_last):
                    first, rows = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                    a_from, c_from = a_at + first * a_row + k * a_k, c_at + first * c_row
                    scratch[table] = a_from
                    for i in range(rows):
                        scratch[rows_of_c + i] = c_from
                        c_from += c_row
                    if not dense:
                        for i in range(1, rows):
                            a_from += a_row
                            scratch[table + i] = a_from
                    b_from = b_group
                    for panel in range(group, behind):
                        last = 1 if panel == panels - 1 else 0
                        brgemm(
                            plan[micro + 2 * last + rows], table_at, 1, some, lda, b_from, 0, ldb, rows_at,
                            panel * c_panel, plan[word.TAIL] if last == 1 else lanes(a),
                            address(init) + panel * c_panel, 0 if k == 0 else 1,
                        )  # fmt: skip
                        b_from += b_move
