# mypy: ignore-errors
"""Tasks of matrix products and pairwise row distances."""

from __future__ import annotations

from .machine.compiler import Array, Table, helper
from .machine.microkernel import MOST_ROWS
from .machine.microkernel_jit import NO_FINISH, apply_formula, finish_of, multiply_panels, rows_of_tile
from .machine.simd import (
    address,
    ahead,
    ahead_by,
    any_lane,
    bits_of_mask,
    buffer,
    fma,
    full,
    lanes,
    load,
    load_first,
    offset,
    pointer_like,
    select,
    store,
    store_first,
    total,
    transpose_padded,
    write_places,
)
from .matmul import MATMUL, PART, SPARSE_BLOCK, SPARSE_FEW, SPARSE_RUN, SPARSE_RUNS, SPARSE_SHORT, SPARSE_VECTORS
from .memory.packing_jit import pack_block

# ---- Products whose A is mostly zeros: the rows of B times the other elements ----------------------------------------

_soon = ahead_by(0)
_places = buffer(SPARSE_BLOCK + 8)  # eight are written at a time
_MOST_LANES = 16
_lines = buffer(SPARSE_BLOCK * _MOST_LANES)  # rows of A whose columns are contiguous, turned
_sums = buffer(SPARSE_VECTORS * _MOST_LANES)
_TERMS = 128  # that are added in registers, so that errors do not grow with the number of terms


@helper
def sample_of(a, row_step, k_step, rows, depth, most):  # type: ignore[no-untyped-def]
    """How many elements of a sample are not 0; -1 if more than ``most``. Every task finds the same."""
    found, zero = 0, full(a, 0.0)
    for run in range(SPARSE_RUNS):
        place = (run * 13 + 5) % SPARSE_RUNS  # in both directions, all over the matrix
        if k_step == 1:
            at = (rows - 1) * run // (SPARSE_RUNS - 1) * row_step + (depth - SPARSE_RUN) * place // (SPARSE_RUNS - 1)
        else:
            at = (depth - 1) * run // (SPARSE_RUNS - 1) * k_step + (rows - SPARSE_RUN) * place // (SPARSE_RUNS - 1)
        for i in range(0, SPARSE_RUN, lanes(a)):
            bits = bits_of_mask(load(a, at + i) != zero)
            for lane in range(lanes(a)):
                found += (bits >> lane) & 1
        if found > most:
            return -1
    return found


@helper
def places_of(a, count, every, places, further):  # type: ignore[no-untyped-def]
    """Write where elements of a row are not 0, or of ``every`` one, and return how many there are.

    further: how many elements after this one the next row begins, which is prefetched.
    """
    found, L, zero = 0, lanes(a), full(a, 0.0)
    whole = count - count % L
    for k in range(0, whole, L):
        _soon(a, k + further)
        bits = (bits_of_mask(load(a, k) != zero) | every) & ((1 << L) - 1)
        for lane in range(0, L, 8):
            found += write_places(places, found, (bits >> lane) & 255, k + lane)
    for k in range(whole, count):
        if a[k] != 0.0 or every != 0:
            places[found] = k
            found += 1
    return found


@helper
def are_finite(b, step, rows, columns):  # type: ignore[no-untyped-def]
    """Whether no element of B is infinite or NaN, which a factor of 0 does not make 0."""
    L, s, t = lanes(b), full(b, 0.0), full(b, 0.0)
    for row in range(rows):
        at, last = row * step, row * step + columns - L
        while at + L <= last:
            s, t = fma(load(b, at), 0.0, s), fma(load(b, at + L), 0.0, t)
            at += 2 * L
        s, t = fma(load(b, min(at, last)), 0.0, s), fma(load(b, last), 0.0, t)
    s = s + t
    return not any_lane(s != s)


@helper
def add_some(a, b, step, places, first, last, before, target):  # type: ignore[no-untyped-def]
    """Write some vectors: ``before`` plus the sum of a[k] * b[k] for the places ``first`` to before ``last``."""
    L, zero = lanes(b), full(b, 0.0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(first, last):
        k = places[i]
        x, row = a[k], offset(b, k * step)
        s0, s1, s2 = fma(load(row, 0), x, s0), fma(load(row, L), x, s1), fma(load(row, 2 * L), x, s2)
        s3, s4, s5 = fma(load(row, 3 * L), x, s3), fma(load(row, 4 * L), x, s4), fma(load(row, 5 * L), x, s5)
        s6, s7 = fma(load(row, 6 * L), x, s6), fma(load(row, 7 * L), x, s7)
    store(target, 0, load(before, 0) + s0)
    store(target, L, load(before, L) + s1)
    store(target, 2 * L, load(before, 2 * L) + s2)
    store(target, 3 * L, load(before, 3 * L) + s3)
    store(target, 4 * L, load(before, 4 * L) + s4)
    store(target, 5 * L, load(before, 5 * L) + s5)
    store(target, 6 * L, load(before, 6 * L) + s6)
    store(target, 7 * L, load(before, 7 * L) + s7)


@helper
def add_all(a, b, step, places, count, before, target):  # type: ignore[no-untyped-def]
    """As ``add_some`` for all places."""
    add_some(a, b, step, places, 0, min(count, _TERMS), before, target)
    for term in range(_TERMS, count, _TERMS):
        add_some(a, b, step, places, term, min(count, term + _TERMS), target, target)


@helper
def finish_part(c, residual, finish, first, last, left, right, columns, size):  # type: ignore[no-untyped-def]
    """Add the residual to a part of C, clamp it and apply the formula."""
    L, bounds = lanes(c), pointer_like(c, finish[0])
    for row in range(first, last):
        for j in range(left, right, L):
            at, count = row * columns + j, min(L, right - j)
            x = load(c, at) if count == L else load_first(c, at, count)
            if finish[1] != 0:
                x = x + (load(residual, at) if count == L else load_first(residual, at, count))
            x = select(x < bounds[0], bounds[0], x)
            x = select(x > bounds[1], bounds[1], x)
            if count == L:
                store(c, at, x)
            else:
                store_first(c, at, x, count)
    place = address(c) + (first * columns + left) * size
    apply_formula(finish, place, last - first, columns * size, right - left)


@helper
def multiply_sparse(a, b, init, c, copy, plan, residual, finish, first, last, block):  # type: ignore[no-untyped-def]
    """The rows ``first`` to before ``last`` of ``c = init + a @ b``, ``block`` terms at a time, for an A that is mostly
    zeros."""
    L, depth, columns = lanes(c), plan[MATMUL.depth], plan[MATMUL.columns]
    a_row, a_k, b_k, b_column = plan[MATMUL.a_row], plan[MATMUL.a_depth], plan[MATMUL.b_depth], plan[MATMUL.b_column]
    wide = SPARSE_VECTORS * L
    places, lines, sums = _places(plan), _lines(c), _sums(c)
    left = 0
    while left < columns:
        right = left + 2 * wide  # a part of B that stays in L2
        if columns - right < wide:
            right = columns
        for k in range(0, depth, block):
            some = min(block, depth - k)
            y, step = offset(b, k * b_k + left * b_column), b_k
            if b_column != 1:
                step = (right - left + L - 1) // L * L
                pack_block(b, k * b_k + left * b_column, b_k, b_column, some, right - left, copy, 0, step)
                y = copy
            every = 0 if are_finite(y, step, some, right - left) else -1
            for row in range(first, last):
                x = offset(a, row * a_row + k * a_k)
                if a_k != 1:
                    line = (row - first) % L
                    if line == 0:
                        turned = min(L, last - row)
                        for i in range(0, some, L):
                            transpose_padded(
                                offset(x, i * a_k), a_k, offset(lines, i), SPARSE_BLOCK, min(L, some - i), turned
                            )
                    x = offset(lines, line * SPARSE_BLOCK)
                count = places_of(x, some, every, places, a_row if a_k == 1 else SPARSE_BLOCK)
                for begin in range(left, right - wide + 1, wide):
                    target = offset(c, row * columns + begin)
                    before = offset(init, begin) if k == 0 else target
                    add_all(x, offset(y, begin - left), step, places, count, before, target)
                rest = (right - left) % wide
                if rest > 0:  # vectors that end with the row, of which some columns have been written
                    for j in range(0, wide, L):
                        store(sums, j, full(c, 0.0))
                    add_all(x, offset(y, right - wide - left), step, places, count, sums, sums)
                    for j in range(right - rest, right, L):
                        target, count_of = offset(c, row * columns + j), min(L, right - j)
                        before = offset(init, j) if k == 0 else target
                        new = load_first(before, 0, count_of) + load_first(sums, j - right + wide, count_of)
                        store_first(target, 0, new, count_of)
        if finish[0] != 0:
            finish_part(c, residual, finish, first, last, left, right, columns, plan[MATMUL.size])
        left = right


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
    sharing = plan[MATMUL.sparse_tasks]
    if sharing > 0:
        rows = plan[MATMUL.rows]
        found = sample_of(a, plan[MATMUL.a_row], plan[MATMUL.a_depth], rows, depth, plan[MATMUL.nonzero])
        if found >= 0:
            some = SPARSE_BLOCK if found < SPARSE_FEW else SPARSE_SHORT
            if task < sharing:
                copy = offset(packed, packed_at)
                first, last = rows * task // sharing, rows * (task + 1) // sharing
                multiply_sparse(a, b, init, c, copy, plan, residual, finish, first, last, some)
            return
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
