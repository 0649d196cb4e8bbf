# mypy: ignore-errors
"""One task of the forward pass of a kernel of one tap. Its plan is made in rowwise.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel import PRODUCT
from ..machine.microkernel_jit import apply_formula, finish_of, multiply, rows_of_tile
from ..machine.simd import (
    address,
    lanes,
    load,
    load_first,
    offset,
    pointer_like,
    settle,
    store_first,
    stream,
    until_aligned,
)
from .rowwise import ALIGNED, ROWWISE, TABLE


@helper
def _stream(x, y, to, count):  # type: ignore[no-untyped-def]
    """``y[to + i] = x[i]``, past the caches but for the ends."""
    few, one = min(count, until_aligned(y, to)), lanes(y)
    if few > 0:
        store_first(y, to, load_first(x, 0, few), few)
    whole = few + (count - few) // one * one
    for i in range(few, whole, one):
        stream(y, to + i, load(x, i))
    if whole < count:
        store_first(y, to + whole, load_first(x, whole, count - whole), count - whole)


def conv(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    init: Array,
    y: Array,
    plan: Table,
    scratch: Table,
    buffers: Array,
    residual: Array,
    bounds: Array,
) -> None:
    """``y[p] = init + x[p] @ weights`` for a range of pieces of the pixels p."""
    tasks, pieces, depth, buffer = plan[ROWWISE.tasks], plan[ROWWISE.pieces], plan[ROWWISE.depth], plan[ROWWISE.buffer]
    product, finish = offset(plan, ROWWISE.product), finish_of(y, bounds, residual)
    row, table, size = product[PRODUCT.row], worker * TABLE, address(offset(y, 1)) - address(y)
    for piece in range(task * pieces // tasks, (task + 1) * pieces // tasks):
        tile_first = piece * plan[ROWWISE.piece]
        tile_last = min(tile_first + plan[ROWWISE.piece], product[PRODUCT.tiles])
        begin, _ = rows_of_tile(product, tile_first)
        last, rows = rows_of_tile(product, tile_last - 1)
        end, at = last + rows, address(y) + begin * plan[ROWWISE.target_step]
        to, after = at, finish
        if buffer > 0:  # as far from a cache line as in y
            to = address(offset(buffers, worker * buffer)) + at % (size * ALIGNED)
            after = finish[0], finish[1] + (at - to if finish[1] != 0 else 0), finish[2]
        for panel in range(product[PRODUCT.panels]):  # a panel of the weights stays in L1 for all tiles
            column = panel * row
            for tile in range(tile_first, tile_last):
                first, rows = rows_of_tile(product, tile)
                scratch[table] = address(x) + first * plan[ROWWISE.step]
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
                    to + (first - begin) * plan[ROWWISE.target_step] + column,
                    plan[ROWWISE.target_step],
                    address(init) + column,
                    0,
                    after,
                )
            count = min(row, product[PRODUCT.columns] * size - column) // size
            apply_formula(finish, to + column, end - begin, plan[ROWWISE.target_step], count)
        if buffer > 0:
            columns = product[PRODUCT.columns]
            _stream(pointer_like(y, to), y, begin * columns, (end - begin) * columns)
    if buffer > 0:
        settle()
