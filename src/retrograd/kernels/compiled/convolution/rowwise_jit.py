# mypy: ignore-errors
"""One task of the forward pass of a kernel of one tap. Its plan is made in rowwise.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table
from ..machine.microkernel import PRODUCT
from ..machine.microkernel_jit import apply_formula, finish_of, multiply, rows_of_tile
from ..machine.simd import address, offset
from .rowwise import ROWWISE


def conv(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    init: Array,
    y: Array,
    plan: Table,
    scratch: Table,
    residual: Array,
    bounds: Array,
) -> None:
    """``y[p] = init + x[p] @ weights`` for a range of pieces of the pixels p."""
    tasks, pieces, depth = plan[ROWWISE.tasks], plan[ROWWISE.pieces], plan[ROWWISE.depth]
    product, finish = offset(plan, ROWWISE.product), finish_of(y, bounds, residual)
    row, table, size = product[PRODUCT.row], worker * 8, address(offset(y, 1)) - address(y)
    for piece in range(task * pieces // tasks, (task + 1) * pieces // tasks):
        tile_first = piece * plan[ROWWISE.piece]
        tile_last = min(tile_first + plan[ROWWISE.piece], product[PRODUCT.tiles])
        for panel in range(product[PRODUCT.panels]):  # a panel of the weights stays in L1 for all tiles
            column = panel * row
            for tile in range(tile_first, tile_last):
                first, rows = rows_of_tile(product, tile)
                scratch[table] = address(x) + first * plan[ROWWISE.step]
                target = address(y) + first * plan[ROWWISE.target_step] + column
                multiply(
                    product,
                    rows,
                    panel,
                    address(offset(scratch, table)),
                    1,
                    depth,
                    plan[ROWWISE.step],
                    address(weights) + panel * depth * row,
                    depth * row,
                    row,
                    target,
                    plan[ROWWISE.target_step],
                    address(init) + column,
                    0,
                    finish,
                )
            first, _ = rows_of_tile(product, tile_first)
            target = address(y) + first * plan[ROWWISE.target_step] + column
            last, rows = rows_of_tile(product, tile_last - 1)
            count = min(row, product[PRODUCT.columns] * size - column) // size
            apply_formula(finish, target, last + rows - first, plan[ROWWISE.target_step], count)
