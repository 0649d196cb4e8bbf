"""What one task of a matrix product does. The plan that it reads is made in ../matmul.py."""

from __future__ import annotations

from numba.extending import register_jitable

from .. import matmul_plan as word
from ..microkernel import ROW_SLOTS
from ..simd import address, lanes, offset, transpose
from .convolution import tile_begin
from .microkernel import brgemm


@register_jitable
def _pack_rows(a, at, row_step, k_step, rows, depth, packed, to):  # type: ignore[no-untyped-def]
    """``packed[to + k*rows + i] = a[at + i*row_step + k*k_step]``: a tile of A as the dense micro-kernel reads it."""
    whole_k, whole_i = 0, 0
    if k_step == 1 and rows >= lanes(a):  # not more: rows of the tile lie side by side
        whole_k, whole_i = depth // lanes(a) * lanes(a), rows // lanes(a) * lanes(a)
        for k in range(0, whole_k, lanes(a)):
            for i in range(0, whole_i, lanes(a)):
                transpose(offset(a, at + i * row_step + k), row_step, offset(packed, to + k * rows + i), rows)
    for i in range(rows):
        begin = whole_k if i < whole_i else 0
        source = at + i * row_step
        for k in range(begin, depth):
            packed[to + k * rows + i] = a[source + k * k_step]


def multiply(
    task: int, worker: int, a: Array, b: Array, init: Array, c: Array, packed: Array, plan: Table, scratch: Table,
) -> None:  # fmt: skip
    """A range of tiles and panels of ``c = init + a @ b``, the inner dimension in blocks."""
    row = plan[word.TASKS] + 7 * task
    a_at, b_at, c_at = plan[row], plan[row + 1], plan[row + 2]
    tile_first, tile_last, panel_first, panel_last = plan[row + 3], plan[row + 4], plan[row + 5], plan[row + 6]
    size, lanes_, columns = plan[word.SIZE], plan[word.LANES], plan[word.TILE_COLUMNS]
    least, extra = plan[word.LEAST], plan[word.EXTRA]
    depth, block = plan[word.DEPTH], plan[word.BLOCK]
    row_step, k_step, ldb = plan[word.A_ROW], plan[word.A_DEPTH], plan[word.B_DEPTH]
    rows_of_c = worker * 2 * ROW_SLOTS
    table = rows_of_c + ROW_SLOTS
    packing = plan[word.PACKING]
    dense = plan[word.DENSE]
    store_a = worker * plan[word.PACKED_A]
    for k in range(0, depth, block):
        count = min(block, depth - k)
        if packing:
            to = store_a
            for tile in range(tile_first, tile_last):
                first, rows = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                _pack_rows(a, a_at + first * row_step + k * k_step, row_step, k_step, rows, count, packed, to)
                to += rows * count
        for panel in range(panel_first, panel_last):
            width = plan[word.COLUMNS] - panel * columns
            narrow = 0
            if width <= lanes_:
                narrow = 1
            tail = min(width - (1 - narrow) * lanes_, lanes_)
            micros = word.MICRO + narrow
            if tail < lanes_ and plan[micros + 4] != 0:
                micros += 4
            b_panel = address(b) + (b_at + panel * plan[word.B_PANEL] + k * ldb) * size
            to = store_a
            for tile in range(tile_first, tile_last):
                first, rows = tile_begin(tile, least, extra), least + (1 if tile < extra else 0)
                a_tile = a_at + first * row_step + k * k_step
                lda = k_step
                for i in range(rows):
                    scratch[rows_of_c + i] = address(c) + (c_at + (first + i) * plan[word.C_ROW]) * size
                if dense:
                    if packing:
                        scratch[table] = address(packed) + to * size
                        lda = rows
                        to += rows * count
                    else:
                        scratch[table] = address(a) + a_tile * size
                    scratch[table + 1] = 0
                else:
                    lda = 0
                    for i in range(rows):
                        scratch[table + i] = address(a) + (a_tile + i * row_step) * size
                brgemm(
                    plan[micros + (2 if tile < extra else 0)], address(offset(scratch, table)), 1, count, lda * size,
                    b_panel, 0, ldb * size, address(offset(scratch, rows_of_c)), panel * columns * size, tail,
                    address(init) + panel * columns * size, 0 if k == 0 else 1,
                )  # fmt: skip
