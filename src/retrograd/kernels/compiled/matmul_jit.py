# mypy: ignore-errors
"""Tasks of matrix products and pairwise row distances."""

from __future__ import annotations

from .machine.compiler import Array, Table
from .machine.microkernel import MOST_ROWS
from .machine.microkernel_jit import NO_FINISH, apply_formula, finish_of, multiply_panels, rows_of_tile
from .machine.simd import address, ahead, buffer, full, lanes, load, load_first, offset, store_first, total
from .matmul import MATMUL, PART
from .memory.packing_jit import pack_block

# ---- One task of a matrix product. Its plan is made in matmul.py -----------------------------------------------


_tables = buffer(2 * MOST_ROWS)  # the addresses of the rows of C, then of A


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
    residual: Array,
    bounds: Array,
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
    scratch, rows_of_c, table = _tables(plan), 0, MOST_ROWS
    table_at, rows_at = address(offset(scratch, table)), address(offset(scratch, rows_of_c))
    packed_at = worker * packed_words
    finish = finish_of(c, bounds, residual)
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
                        finish if k + some == depth else NO_FINISH,
                    )
                if k + some == depth:
                    first, _ = rows_of_tile(product, tile_first)
                    last, rows = rows_of_tile(product, tile_last - 1)
                    count = min(end * width, plan[MATMUL.columns]) - group * width
                    apply_formula(finish, c_at + first * c_row + group * c_panel, last + rows - first, c_row, count)


# ---- Kernels of rows against rows: products, squared distances, and combinations for their gradients ----------------


def products(
    task: int, worker: int, x: Array, y: Array, xy: Array, xx: Array, yy: Array, rows: int, length: int, per_task: int
) -> None:
    """xy[n] = x[n] . y[n], xx[n] = x[n] . x[n], yy[n] = y[n] . y[n]"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        end = (row + 1) * length
        a = full(x, 0.0)
        b, c = a, a
        for i in range(row * length, end, lanes(x)):
            ahead(x, i)
            ahead(y, i)
            v, w = load_first(x, i, end - i), load_first(y, i, end - i)
            a = a + v * w
            b = b + v * v
            c = c + w * w
        xy[row], xx[row], yy[row] = total(a), total(b), total(c)


def squares(
    task: int, worker: int, x: Array, y: Array, z: Array, rows: int, length: int, per_task: int, eps: float
) -> None:
    """z[n] = sum over c of (x[n, c] - y[n, c] + eps)^2"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, end = row * length, (row + 1) * length
        whole = end - lanes(x)
        s = full(x, 0.0)
        i = begin
        while i <= whole:
            ahead(x, i)
            ahead(y, i)
            v = (load(x, i) - load(y, i)) + eps
            s = s + v * v
            i += lanes(x)
        z[row] = total(s)
        while i < end:
            v = (x[i] - y[i]) + eps
            z[row] += v * v
            i += 1


def combined(
    task: int,
    worker: int,
    a: Array,
    x: Array,
    b: Array,
    y: Array,
    c: Array,
    z: Array,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """z[n] = a[n] x[n] + b[n] y[n] + c[n]"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        end = (row + 1) * length
        p, q, r = full(a, a[row]), full(a, b[row]), full(a, c[row])
        for i in range(row * length, end, lanes(a)):
            ahead(x, i)
            ahead(y, i)
            ahead(z, i)
            store_first(z, i, p * load_first(x, i, end - i) + q * load_first(y, i, end - i) + r, end - i)
