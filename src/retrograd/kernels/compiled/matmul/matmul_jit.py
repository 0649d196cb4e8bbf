# mypy: ignore-errors
"""One task of a matrix product. Its plan is made in matmul_plan.py."""

from __future__ import annotations

from ..machine.microkernel import MOST_ROWS
from ..machine.product_jit import multiply_panels, rows_of_tile
from ..machine.simd import address, offset
from ..memory.packing_jit import pack_block
from .matmul_plan import MATMUL, PART


def multiply(
    task: int,
    worker: int,
    a: Array,
    b: Array,
    init: Array,
    c: Array,
    packed: Array,
    packed_words: int,
    plan: Table,
    scratch: Table,
) -> None:
    """Ranges of tiles and panels of ``c = init + a @ b``, the inner dimension in blocks."""
    product, size, width = offset(plan, MATMUL.product), plan[MATMUL.size], plan[MATMUL.width]
    depth, block, most = plan[MATMUL.depth], plan[MATMUL.block], plan[MATMUL.group]
    dense, packing = plan[MATMUL.dense], plan[MATMUL.packing]
    # in bytes: from row to row, from k to k, from panel to panel
    a_row, a_k, c_row = plan[MATMUL.a_row] * size, plan[MATMUL.a_depth] * size, plan[MATMUL.c_row] * size
    b_k, b_panel, c_panel = plan[MATMUL.b_depth] * size, width * plan[MATMUL.b_column] * size, width * size
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
    for part in range(task * plan[MATMUL.each], min(plan[MATMUL.count], (task + 1) * plan[MATMUL.each])):
        row = MATMUL.parts + PART.words * part
        a_at, b_at = address(a) + plan[row + PART.a] * size, plan[row + PART.b]
        c_at = address(c) + plan[row + PART.c] * size
        tile_first, tile_last = plan[row + PART.tile_first], plan[row + PART.tile_last]
        panel_first, panel_last = plan[row + PART.panel_first], plan[row + PART.panel_last]
        for k in range(0, depth, block):
            some = min(block, depth - k)
            for group in range(panel_first, panel_last, most):
                end = min(group + most, panel_last)
                b_group = address(b) + b_at * size + group * b_panel + k * b_k
                if packing == 1:
                    for panel in range(group, end):
                        column = b_at + panel * width * plan[MATMUL.b_column]
                        pack_block(
                            b,
                            column + k * plan[MATMUL.b_depth],
                            plan[MATMUL.b_depth],
                            plan[MATMUL.b_column],
                            some,
                            min(width, plan[MATMUL.columns] - panel * width),
                            packed,
                            packed_at + (panel - group) * block * width,
                            width,
                        )
                    b_group = address(offset(packed, packed_at))
                for tile in range(tile_first, tile_last):
                    first, rows = rows_of_tile(product, tile)
                    a_from, c_from = a_at + first * a_row + k * a_k, c_at + first * c_row
                    scratch[table] = a_from
                    for i in range(rows):
                        scratch[rows_of_c + i] = c_from
                        c_from += c_row
                    if not dense:
                        for i in range(1, rows):
                            a_from += a_row
                            scratch[table + i] = a_from
                    multiply_panels(
                        product,
                        rows,
                        group,
                        end,
                        table_at,
                        1,
                        some,
                        lda,
                        b_group - group * b_move,
                        b_move,
                        0,
                        ldb,
                        rows_at,
                        address(init),
                        0 if k == 0 else 1,
                    )
