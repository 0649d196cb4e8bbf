# mypy: ignore-errors
"""Kernels that combine the numbers along one axis of a dense array, seen as (outer, length, inner), to one number.

One loop for rows (the axis is innermost) and one for columns; the function of each number (``take``) and of two results
(``combine``) is chosen at compile time. (``take`` may give float64: the result is rounded at the end.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..machine.compiler import Array, helper
from ..machine.simd import (
    PART,
    WIDE,
    Access,
    absolute,
    ahead_by,
    buffer,
    double,
    folded,
    full,
    full_like,
    lanes,
    largest_of_each,
    load,
    load_first_or,
    load_wide,
    maximum,
    minimum,
    products,
    rounded,
    smallest_of_each,
    store,
    store_first,
    totals,
    wide_ahead,
)
from ..memory.arrays import CHUNK
from ..memory.axes_jit import columns_of

Body = Callable[..., None]
_near = wide_ahead(ahead_by(1024))
_kept = buffer(16 * 16)  # at most as many registers as one has lanes
_BLOCK = 32  # numbers combined before their result is combined with those of other blocks
_EIGHTS = 16  # the same for columns, in results of eight rows


@helper
def add(x: Any, y: Any) -> Any:
    return x + y


@helper
def mul(x: Any, y: Any) -> Any:
    return x * y


@helper
def itself(x: Any) -> Any:
    return x


@helper
def _square(x: Any) -> Any:
    return x * x


def _rows(take: Callable[[Any], Any], combine: Callable[[Any, Any], Any], start: float, of_each: Any) -> Body:
    """y[r, p] = factor * all of x[r, p * CHUNK : (p + 1) * CHUNK]: a long row has several pieces.

    ``start`` is the neutral element; ``of_each`` combines the lanes of each of as many registers as one has lanes.
    """
    fold = folded(combine)

    def body(
        task: int, worker: int, x: Array, y: Array, rows: int, length: int, pieces: int, per_task: int, factor: float
    ) -> None:
        row = task * per_task // pieces
        piece = task * per_task - row * pieces
        one, four = lanes(x), 4 * lanes(x)
        kept, waiting = _kept(x), 0
        for result in range(task * per_task, min(rows * pieces, (task + 1) * per_task)):
            i = row * length + piece * CHUNK
            end = row * length + min(length, (piece + 1) * CHUNK)
            # four registers combine a block, whose result joins the earlier blocks; the lanes are combined last
            blocks = take(full(x, start))
            while i + four <= end:
                last = min(end, i + _BLOCK * four)
                _near(x, i)
                some = take(load_wide(x, i))
                i += four
                while i + four <= last:
                    _near(x, i)
                    some = combine(some, take(load_wide(x, i)))
                    i += four
                blocks = combine(blocks, fold(some))
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

    def block(access: Access) -> Callable[..., None]:
        load_or, store = access.load_or, access.store

        @helper
        def two(x: Array, k: int, step: int, n: int) -> Any:
            return combine(take(load_or(x, k, n, start)), take(load_or(x, k + step, n, start)))

        @helper
        def eight(x: Array, k: int, step: int, n: int) -> Any:
            first = combine(two(x, k, step, n), two(x, k + 2 * step, step, n))
            k += 4 * step
            return combine(first, combine(two(x, k, step, n), two(x, k + 2 * step, step, n)))

        @helper
        def columns(x: Array, k: int, rest: int, inner: int, n: int, y: Array, i: int, factor: float) -> None:
            # eight rows are combined, then some of these results, then the results of those
            nothing = take(full_like(load_or(x, k, n, start), start))
            everything, few = nothing, nothing
            while rest >= 8:
                some = eight(x, k, inner, n)
                k += 8 * inner
                more = min(rest // 8, _EIGHTS)
                for _ in range(more - 1):
                    some = combine(some, eight(x, k, inner, n))
                    k += 8 * inner
                everything = combine(everything, some)
                rest -= 8 * more
            while rest > 0:
                few = combine(few, take(load_or(x, k, n, start)))
                k += inner
                rest -= 1
            store(y, i, rounded(combine(everything, few) * factor, x), n)

        return columns

    four, part_of_one = block(WIDE), block(PART)

    def body(
        task: int,
        worker: int,
        x: Array,
        y: Array,
        length: int,
        inner: int,
        pieces: int,
        piece: int,
        width: int,
        factor: float,
    ) -> None:
        part, column, end = columns_of(task, inner, width)  # part: o * pieces + p
        o = part // pieces
        r = (part - o * pieces) * piece
        rest = min(length, r + piece) - r
        p = (o * length + r) * inner + column
        i, end = part * inner + column, part * inner + end
        while i + 4 * lanes(x) <= end:
            four(x, p, rest, inner, 0, y, i, factor)
            i += 4 * lanes(x)
            p += 4 * lanes(x)
        while i < end:
            part_of_one(x, p, rest, inner, end - i, y, i, factor)
            i += lanes(x)
            p += lanes(x)

    return body


_INFINITY = float("inf")
sum_rows, sum_columns = _rows(itself, add, 0.0, totals), _columns(itself, add, 0.0)
square_rows, square_columns = _rows(_square, add, 0.0, totals), _columns(_square, add, 0.0)
absolute_rows, absolute_columns = _rows(absolute, add, 0.0, totals), _columns(absolute, add, 0.0)
# (in float64: the rounding errors of products of factors near 1 are biased)
prod_rows, prod_columns = _rows(double, mul, 1.0, products), _columns(double, mul, 1.0)
amax_rows, amax_columns = _rows(itself, maximum, -_INFINITY, largest_of_each), _columns(itself, maximum, -_INFINITY)
amin_rows, amin_columns = _rows(itself, minimum, _INFINITY, smallest_of_each), _columns(itself, minimum, _INFINITY)
