"""Kernels of sums and maxima over one axis of a dense array, seen as (outer, length, inner)."""

from __future__ import annotations

from ..arrays import CHUNK
from ..compiler import Array, Table
from ..simd import (
    ahead,
    any_lane,
    bits_of,
    both,
    either,
    full,
    lanes,
    largest,
    load,
    load_first,
    load_first_or,
    maximum,
    select,
    store,
    store_first,
    store_integers,
    total,
)

_BLOCK = 32  # numbers that are added in a row before their sum moves to a sum of sums


def sum_rows(task: int, worker: int, x: Array, y: Array, rows: int, length: int, pieces: int, per_task: int) -> None:
    """y[r, p] = sum of x[r, p * CHUNK : (p + 1) * CHUNK]: a long row has several pieces."""
    row = task * per_task // pieces
    piece = task * per_task - row * pieces
    step, one, two, three = 4 * lanes(x), lanes(x), 2 * lanes(x), 3 * lanes(x)
    for result in range(task * per_task, min(rows * pieces, (task + 1) * per_task)):
        i = row * length + piece * CHUNK
        end = row * length + min(length, (piece + 1) * CHUNK)
        # four registers add up a block, whose sum joins the sum of blocks; the lanes come last
        blocks = full(x, 0.0)
        while i + step <= end:
            last = min(end, i + _BLOCK * step)
            a, b, c, d = load(x, i), load(x, i + one), load(x, i + two), load(x, i + three)
            i += step
            while i + step <= last:
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                a = a + load(x, i)
                b = b + load(x, i + one)
                c = c + load(x, i + two)
                d = d + load(x, i + three)
                i += step
            blocks = blocks + ((a + b) + (c + d))
        while i + one <= end:
            blocks = blocks + load(x, i)
            i += one
        if i < end:
            blocks = blocks + load_first(x, i, end - i)
        y[result] = total(blocks)
        piece += 1
        if piece == pieces:
            piece = 0
            row += 1


def sum_columns(
    task: int, worker: int, x: Array, y: Array, length: int, inner: int, pieces: int, piece: int, width: int
) -> None:
    """y[o, p, i] = sum over r in [p * piece, (p + 1) * piece) of x[o, r, i]

    A task is ``width`` columns of one (o, p).
    """
    blocks = (inner + width - 1) // width
    part = task // blocks  # o * pieces + p
    o = part // pieces
    column = (task - part * blocks) * width
    r = (part - o * pieces) * piece
    last = min(length, r + piece)
    p = (o * length + r) * inner + column
    q = part * inner + column
    # whole registers: row by row as they lie in memory, eight of them before their sum joins that in y
    tail = q + min(width, inner - column)
    whole = tail - lanes(x)
    begin = p
    rest = last - r
    i = q
    while i <= whole:
        store(y, i, full(y, 0.0))
        i += lanes(x)
    while rest >= 8:
        i, k = q, p
        while i <= whole:
            for j in range(k, k + 8 * inner, inner):
                ahead(x, j)
            a = load(x, k) + load(x, k + inner)
            b = load(x, k + 2 * inner) + load(x, k + 3 * inner)
            c = load(x, k + 4 * inner) + load(x, k + 5 * inner)
            d = load(x, k + 6 * inner) + load(x, k + 7 * inner)
            store(y, i, load(y, i) + ((a + b) + (c + d)))
            i += lanes(x)
            k += lanes(x)
        p += 8 * inner
        rest -= 8
    while rest > 0:
        i, k = q, p
        while i <= whole:
            store(y, i, load(y, i) + load(x, k))
            i += lanes(x)
            k += lanes(x)
        p += inner
        rest -= 1
    # the columns behind them: down the rows in registers
    if i < tail:
        n = tail - i
        p = begin + (i - q)
        rest = last - r
        a = full(x, 0.0)
        b, c, d = a, a, a
        while rest >= 4:
            a = a + load_first(x, p, n)
            b = b + load_first(x, p + inner, n)
            c = c + load_first(x, p + 2 * inner, n)
            d = d + load_first(x, p + 3 * inner, n)
            p += 4 * inner
            rest -= 4
        while rest > 0:
            a = a + load_first(x, p, n)
            p += inner
            rest -= 1
        store_first(y, i, (a + b) + (c + d), n)


def max_rows(
    task: int, worker: int, x: Array, values: Array, indices: Table, rows: int, length: int, per_task: int
) -> None:
    """Maximum of every row and the place of the first one; the first NaN, if there is one."""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        best = full(x, float("-inf"))
        i = begin
        while i < end:
            best = maximum(best, load_first_or(x, i, end - i, float("-inf")))
            i += lanes(x)
        value = largest(best)
        best = full(x, value)
        i = begin
        while i + lanes(x) <= end:
            v = load(x, i)
            if any_lane(either(v == best, v != v)):  # a NaN is in the row only if the maximum is one
                break
            i += lanes(x)
        while not (x[i] == value or x[i] != x[i]):
            i += 1
        values[row] = value
        indices[row] = i - begin


def max_columns(
    task: int, worker: int, x: Array, values: Array, indices: Table, length: int, inner: int, width: int
) -> None:
    """As ``max_rows`` for x[o, :, i]; a task is ``width`` columns of one o."""
    blocks = (inner + width - 1) // width
    o = task // blocks
    i = (task - o * blocks) * width
    end = min(inner, i + width)
    while i < end:
        n = end - i
        best = load_first(x, o * length * inner + i, n)
        zero = bits_of(full(x, 0.0))
        place = zero
        for r in range(1, length):
            v = load_first(x, (o * length + r) * inner + i, n)
            above = either(v > best, both(v != v, best == best))
            best = select(above, v, best)
            place = select(above, zero + r, place)
        store_first(values, o * inner + i, best, n)
        store_integers(indices, o * inner + i, place, n)
        i += lanes(x)
