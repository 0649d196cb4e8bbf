"""Kernels that combine the numbers along one axis of a dense array, seen as (outer, length, inner), to one number.

One text for rows (the axis is innermost) and one for columns; what is done with each number (``take``) and how two are
combined is chosen when compiled. (``take`` may give float64: the result is rounded at the end.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import (
    absolute,
    ahead_by,
    buffer,
    double,
    full,
    lanes,
    largest_of_each,
    load,
    load_first_or,
    maximum,
    minimum,
    products,
    rounded,
    smallest_of_each,
    store,
    store_first,
    totals,
)

Body = Callable[..., None]
near = ahead_by(1024)
_kept = buffer(16 * 16)  # as many registers as one has lanes, at most
_BLOCK = 32  # numbers that are combined in a row before their result moves to a result of results
_EIGHTS = 16  # as many down columns: of results of eight rows


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


def _rows(take: Callable[[Any], Any], combine: Callable[[Any, Any], Any], start: float, of_each: Any) -> Body:
    """y[r, p] = factor * all of x[r, p * CHUNK : (p + 1) * CHUNK]: a long row has several pieces.

    ``start`` changes nothing when it is combined; ``of_each`` combines the
    lanes of each of as many registers as one has lanes.
    """

    def body(
        task: int, worker: int, x: Array, y: Array, rows: int, length: int, pieces: int, per_task: int, factor: float
    ) -> None:
        row = task * per_task // pieces
        piece = task * per_task - row * pieces
        step, one, two, three = 4 * lanes(x), lanes(x), 2 * lanes(x), 3 * lanes(x)
        kept, waiting = _kept(x), 0
        for result in range(task * per_task, min(rows * pieces, (task + 1) * per_task)):
            i = row * length + piece * CHUNK
            end = row * length + min(length, (piece + 1) * CHUNK)
            # four registers combine a block, whose result joins that of blocks; the lanes come last
            blocks = take(full(x, start))
            while i + step <= end:
                last = min(end, i + _BLOCK * step)
                for j in (i, i + one, i + two, i + three):
                    near(x, j)
                a, b = take(load(x, i)), take(load(x, i + one))
                c, d = take(load(x, i + two)), take(load(x, i + three))
                i += step
                while i + step <= last:
                    for j in (i, i + one, i + two, i + three):
                        near(x, j)
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
            store(kept, waiting * one, rounded(blocks, x))
            waiting += 1
            if waiting == one:
                store(y, result + 1 - one, of_each(kept) * factor)
                waiting = 0
            piece += 1
            if piece == pieces:
                piece = 0
                row += 1
        if waiting > 0:
            store_first(y, min(rows * pieces, (task + 1) * per_task) - waiting, of_each(kept) * factor, waiting)

    return body


def _columns(take: Callable[[Any], Any], combine: Callable[[Any, Any], Any], start: float) -> Body:
    """y[o, p, i] = factor * all of x[o, r, i] for r in [p * piece, (p + 1) * piece)

    A task is ``width`` columns of one (o, p).
    """

    @helper
    def eight(x: Array, k: int, step: int) -> Any:
        a = combine(take(load(x, k)), take(load(x, k + step)))
        b = combine(take(load(x, k + 2 * step)), take(load(x, k + 3 * step)))
        c = combine(take(load(x, k + 4 * step)), take(load(x, k + 5 * step)))
        d = combine(take(load(x, k + 6 * step)), take(load(x, k + 7 * step)))
        return combine(combine(a, b), combine(c, d))

    @helper
    def eight_first(x: Array, k: int, step: int, n: int) -> Any:
        if n == lanes(x):
            return eight(x, k, step)
        a = combine(take(load_first_or(x, k, n, start)), take(load_first_or(x, k + step, n, start)))
        k += 2 * step
        b = combine(take(load_first_or(x, k, n, start)), take(load_first_or(x, k + step, n, start)))
        k += 2 * step
        c = combine(take(load_first_or(x, k, n, start)), take(load_first_or(x, k + step, n, start)))
        k += 2 * step
        d = combine(take(load_first_or(x, k, n, start)), take(load_first_or(x, k + step, n, start)))
        return combine(combine(a, b), combine(c, d))

    def body(
        task: int, worker: int, x: Array, y: Array, length: int, inner: int, pieces: int, piece: int, width: int,
        factor: float,
    ) -> None:  # fmt: skip
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        blocks = (inner + width - 1) // width
        part = task // blocks  # o * pieces + p
        o = part // pieces
        column = (task - part * blocks) * width
        r = (part - o * pieces) * piece
        last = min(length, r + piece)
        p = (o * length + r) * inner + column
        q = part * inner + column
        # four registers side by side, down the rows: eight rows are combined, then some of these, then their results
        tail = q + min(width, inner - column)
        i = q
        while i + four <= tail:
            all_a = take(full(x, start))
            all_b, all_c, all_d = all_a, all_a, all_a
            k, rest = p, last - r
            while rest >= 8:
                a, b = eight(x, k, inner), eight(x, k + one, inner)
                c, d = eight(x, k + two, inner), eight(x, k + three, inner)
                k += 8 * inner
                more = min(rest // 8, _EIGHTS)
                for _ in range(more - 1):
                    a = combine(a, eight(x, k, inner))
                    b = combine(b, eight(x, k + one, inner))
                    c = combine(c, eight(x, k + two, inner))
                    d = combine(d, eight(x, k + three, inner))
                    k += 8 * inner
                all_a, all_b = combine(all_a, a), combine(all_b, b)
                all_c, all_d = combine(all_c, c), combine(all_d, d)
                rest -= 8 * more
            a = take(full(x, start))
            b, c, d = a, a, a
            while rest > 0:
                a = combine(a, take(load(x, k)))
                b = combine(b, take(load(x, k + one)))
                c = combine(c, take(load(x, k + two)))
                d = combine(d, take(load(x, k + three)))
                k += inner
                rest -= 1
            store(y, i, rounded(combine(all_a, a) * factor, x))
            store(y, i + one, rounded(combine(all_b, b) * factor, x))
            store(y, i + two, rounded(combine(all_c, c) * factor, x))
            store(y, i + three, rounded(combine(all_d, d) * factor, x))
            i += four
            p += four
        while i < tail:  # the columns behind them
            n = min(one, tail - i)
            everything = take(full(x, start))
            k, rest = p, last - r
            while rest >= 8:
                a = eight_first(x, k, inner, n)
                k += 8 * inner
                more = min(rest // 8, _EIGHTS)
                for _ in range(more - 1):
                    a = combine(a, eight_first(x, k, inner, n))
                    k += 8 * inner
                everything = combine(everything, a)
                rest -= 8 * more
            a = take(full(x, start))
            while rest > 0:
                a = combine(a, take(load_first_or(x, k, n, start)))
                k += inner
                rest -= 1
            store_first(y, i, rounded(combine(everything, a) * factor, x), n)
            i += one
            p += one

    return body


_INFINITY = float("inf")
sum_rows, sum_columns = _rows(_itself, _add, 0.0, totals), _columns(_itself, _add, 0.0)
square_rows, square_columns = _rows(_square, _add, 0.0, totals), _columns(_square, _add, 0.0)
absolute_rows, absolute_columns = _rows(absolute, _add, 0.0, totals), _columns(absolute, _add, 0.0)
# (in float64: the roundings of products of two factors near 1 lie to one side)
prod_rows, prod_columns = _rows(double, _mul, 1.0, products), _columns(double, _mul, 1.0)
amax_rows, amax_columns = _rows(_itself, maximum, -_INFINITY, largest_of_each), _columns(_itself, maximum, -_INFINITY)
amin_rows, amin_columns = _rows(_itself, minimum, _INFINITY, smallest_of_each), _columns(_itself, minimum, _INFINITY)
