"""Kernels that combine the numbers along one axis of a dense array, seen as (outer, length, inner), to one number.

One text for rows (the axis is innermost) and one for columns; what is done with each number (``take``) and how two are
combined is chosen when compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import (
    absolute,
    ahead,
    full,
    lanes,
    largest,
    load,
    load_first_or,
    maximum,
    minimum,
    product,
    smallest,
    store,
    store_first,
    total,
)

Body = Callable[..., None]
_BLOCK = 32  # numbers that are combined in a row before their result moves to a result of results


@helper
def _add(x: Any, y: Any) -> Any:
    return x + y


@helper
def _mul(x: Any, y: Any) -> Any:
    return x * y


@helper
def _itself(x: Any) -> Any:
    return x


@helper
def _square(x: Any) -> Any:
    return x * x


def _rows(take: Callable[[Any], Any], combine: Callable[[Any, Any], Any], start: float, across: Any) -> Body:
    """y[r, p] = all of x[r, p * CHUNK : (p + 1) * CHUNK]: a long row has several pieces.

    ``start`` changes nothing when it is combined; ``across`` combines the lanes of a register.
    """

    def body(task: int, worker: int, x: Array, y: Array, rows: int, length: int, pieces: int, per_task: int) -> None:
        row = task * per_task // pieces
        piece = task * per_task - row * pieces
        step, one, two, three = 4 * lanes(x), lanes(x), 2 * lanes(x), 3 * lanes(x)
        for result in range(task * per_task, min(rows * pieces, (task + 1) * per_task)):
            i = row * length + piece * CHUNK
            end = row * length + min(length, (piece + 1) * CHUNK)
            # four registers combine a block, whose result joins that of blocks; the lanes come last
            blocks = full(x, start)
            while i + step <= end:
                last = min(end, i + _BLOCK * step)
                a, b = take(load(x, i)), take(load(x, i + one))
                c, d = take(load(x, i + two)), take(load(x, i + three))
                i += step
                while i + step <= last:
                    for j in (i, i + one, i + two, i + three):
                        ahead(x, j)
                    a = combine(a, take(load(x, i)))
                    b = combine(b, take(load(x, i + one)))
                    c = combine(c, take(load(x, i + two)))
                    d = combine(d, take(load(x, i + three)))
                    i += step
                blocks = combine(blocks, combine(combine(a, b), combine(c, d)))
            while i + one <= end:
                blocks = combine(blocks, take(load(x, i)))
                i += one
            if i < end:
                blocks = combine(blocks, take(load_first_or(x, i, end - i, start)))
            y[result] = across(blocks)
            piece += 1
            if piece == pieces:
                piece = 0
                row += 1

    return body


def _columns(take: Callable[[Any], Any], combine: Callable[[Any, Any], Any], start: float) -> Body:
    """y[o, p, i] = all of x[o, r, i] for r in [p * piece, (p + 1) * piece)

    A task is ``width`` columns of one (o, p).
    """

    def body(
        task: int, worker: int, x: Array, y: Array, length: int, inner: int, pieces: int, piece: int, width: int
    ) -> None:
        blocks = (inner + width - 1) // width
        part = task // blocks  # o * pieces + p
        o = part // pieces
        column = (task - part * blocks) * width
        r = (part - o * pieces) * piece
        last = min(length, r + piece)
        p = (o * length + r) * inner + column
        q = part * inner + column
        # whole registers: row by row as they lie in memory, eight of them before their result joins that in y
        tail = q + min(width, inner - column)
        whole = tail - lanes(x)
        begin = p
        rest = last - r
        i = q
        while i <= whole:
            store(y, i, full(y, start))
            i += lanes(x)
        while rest >= 8:
            i, k = q, p
            while i <= whole:
                for j in range(k, k + 8 * inner, inner):
                    ahead(x, j)
                a = combine(take(load(x, k)), take(load(x, k + inner)))
                b = combine(take(load(x, k + 2 * inner)), take(load(x, k + 3 * inner)))
                c = combine(take(load(x, k + 4 * inner)), take(load(x, k + 5 * inner)))
                d = combine(take(load(x, k + 6 * inner)), take(load(x, k + 7 * inner)))
                store(y, i, combine(load(y, i), combine(combine(a, b), combine(c, d))))
                i += lanes(x)
                k += lanes(x)
            p += 8 * inner
            rest -= 8
        while rest > 0:
            i, k = q, p
            while i <= whole:
                store(y, i, combine(load(y, i), take(load(x, k))))
                i += lanes(x)
                k += lanes(x)
            p += inner
            rest -= 1
        # the columns behind them: down the rows in registers
        if i < tail:
            n = tail - i
            p = begin + (i - q)
            rest = last - r
            a = full(x, start)
            b, c, d = a, a, a
            while rest >= 4:
                a = combine(a, take(load_first_or(x, p, n, start)))
                b = combine(b, take(load_first_or(x, p + inner, n, start)))
                c = combine(c, take(load_first_or(x, p + 2 * inner, n, start)))
                d = combine(d, take(load_first_or(x, p + 3 * inner, n, start)))
                p += 4 * inner
                rest -= 4
            while rest > 0:
                a = combine(a, take(load_first_or(x, p, n, start)))
                p += inner
                rest -= 1
            store_first(y, i, combine(combine(a, b), combine(c, d)), n)

    return body


_INFINITY = float("inf")
sum_rows, sum_columns = _rows(_itself, _add, 0.0, total), _columns(_itself, _add, 0.0)
square_rows, square_columns = _rows(_square, _add, 0.0, total), _columns(_square, _add, 0.0)
absolute_rows, absolute_columns = _rows(absolute, _add, 0.0, total), _columns(absolute, _add, 0.0)
prod_rows, prod_columns = _rows(_itself, _mul, 1.0, product), _columns(_itself, _mul, 1.0)
amax_rows, amax_columns = _rows(_itself, maximum, -_INFINITY, largest), _columns(_itself, maximum, -_INFINITY)
amin_rows, amin_columns = _rows(_itself, minimum, _INFINITY, smallest), _columns(_itself, minimum, _INFINITY)
