"""Kernels that make two numbers of all along one axis of a dense array, seen as (outer, length, inner), in one pass
over memory: a second look at each piece finds it in the cache.

``moments``: the mean, and the sum of squares about it. ``logsumexp``: the maximum, and the sum of exp(x - maximum).
``sums``: of g, and of g * (x - mean). Pieces are put together by the caller: pieces (outer, parts, 2, inner).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import (
    ahead,
    ahead_by,
    counting,
    fma,
    full,
    full_like,
    lanes,
    largest,
    load,
    load_first,
    maximum,
    select,
    store,
    store_first,
    total,
)
from .math import exp_negative

Body = Callable[..., None]
fetch = ahead_by(0)
ROWS_AHEAD = 8  # that are asked for while a row of two arrays is read: a page ahead is too near where rows are long


@helper
def finite(value: Any) -> Any:
    """``value``, and 0 where it is no number: what sums are taken about, so that they stay short."""
    return select(value - value == 0.0, value, 0.0)


# What the two looks at a piece do. ``about``: of its first number; ``gather``: in the first look; ``centre``: of what
# was gathered from ``count`` numbers; ``collect``: in the second look; ``first`` and ``second``: the results.


@helper
def _moments_gather(s: Any, v: Any, about: Any) -> Any:
    return s + (v - about)


@helper
def _moments_centre(s: Any, about: Any, count: Any) -> Any:
    return about + s / count


@helper
def _moments_collect(s: Any, v: Any, centre: Any) -> Any:
    d = v - centre
    return fma(d, d, s)


@helper
def _moments_first(gathered: Any, centre: Any) -> Any:
    return centre


@helper
def _moments_second(gathered: Any, s: Any) -> Any:
    return s


@helper
def _exponential_gather(top: Any, v: Any, about: Any) -> Any:
    return maximum(top, v)


@helper
def _exponential_centre(top: Any, about: Any, count: Any) -> Any:
    return finite(top)


@helper
def _exponential_collect(s: Any, v: Any, centre: Any) -> Any:
    return s + exp_negative(v - centre)


@helper
def _exponential_first(top: Any, centre: Any) -> Any:
    return select(top < float("inf"), top, 0.0)


@helper
def _exponential_second(top: Any, s: Any) -> Any:
    return select(top < float("inf"), s, top)  # infinity or NaN: the sum is, too


def _rows(gather: Any, centre: Any, collect: Any, first: Any, second: Any, start: float, across: Any) -> Body:
    """Of pieces of CHUNK numbers of a row; ``pieces`` (rows, parts, 2)."""

    def body(
        task: int, worker: int, x: Array, pieces: Array, rows: int, length: int, parts: int, per_task: int
    ) -> None:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        for result in range(task * per_task, min(rows * parts, (task + 1) * per_task)):
            row = result // parts
            skipped = (result - row * parts) * CHUNK
            begin = row * length + skipped
            end = row * length + min(length, skipped + CHUNK)
            about = finite(full(x, x[begin]))
            a = full(x, start)
            b, c, d = a, a, a
            i = begin
            while i + four <= end:
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                a = gather(a, load(x, i), about)
                b = gather(b, load(x, i + one), about)
                c = gather(c, load(x, i + two), about)
                d = gather(d, load(x, i + three), about)
                i += four
            while i < end:
                a = select(counting(x) < end - i, gather(a, load_first(x, i, end - i), about), a)
                i += one
            gathered = full(x, across(a, b, c, d))
            middle = centre(gathered, about, end - begin)
            a = full(x, 0.0)
            b, c, d = a, a, a
            i = begin
            while i + four <= end:
                a = collect(a, load(x, i), middle)
                b = collect(b, load(x, i + one), middle)
                c = collect(c, load(x, i + two), middle)
                d = collect(d, load(x, i + three), middle)
                i += four
            while i < end:
                a = select(counting(x) < end - i, collect(a, load_first(x, i, end - i), middle), a)
                i += one
            store_first(pieces, 2 * result, first(gathered, middle), 1)
            store_first(pieces, 2 * result + 1, second(gathered, full(x, total((a + b) + (c + d)))), 1)

    return body


def _columns(gather: Any, centre: Any, collect: Any, first: Any, second: Any, start: float) -> Body:
    """Of ``width`` columns of some rows, ``piece`` of them; ``pieces`` (outer, parts, 2, inner)."""

    def body(
        task: int, worker: int, x: Array, pieces: Array, length: int, inner: int, parts: int, piece: int, width: int
    ) -> None:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        blocks = (inner + width - 1) // width
        part = task // blocks
        o = part // parts
        row = (part - o * parts) * piece
        count = min(length, row + piece) - row
        begin = (o * length + row) * inner
        end = begin + count * inner
        target = part * 2 * inner
        c = (task - part * blocks) * width
        last = min(inner, c + width)
        while c + four <= last:
            about_a, about_b = finite(load(x, begin + c)), finite(load(x, begin + c + one))
            about_c, about_d = finite(load(x, begin + c + two)), finite(load(x, begin + c + three))
            sum_a = full(x, start)
            sum_b, sum_c, sum_d = sum_a, sum_a, sum_a
            for i in range(begin + c, end, inner):
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                sum_a = gather(sum_a, load(x, i), about_a)
                sum_b = gather(sum_b, load(x, i + one), about_b)
                sum_c = gather(sum_c, load(x, i + two), about_c)
                sum_d = gather(sum_d, load(x, i + three), about_d)
            mean_a, mean_b = centre(sum_a, about_a, count), centre(sum_b, about_b, count)
            mean_c, mean_d = centre(sum_c, about_c, count), centre(sum_d, about_d, count)
            store(pieces, target + c, first(sum_a, mean_a))
            store(pieces, target + c + one, first(sum_b, mean_b))
            store(pieces, target + c + two, first(sum_c, mean_c))
            store(pieces, target + c + three, first(sum_d, mean_d))
            zero = full(x, 0.0)
            more_a, more_b, more_c, more_d = zero, zero, zero, zero
            for i in range(begin + c, end, inner):
                more_a = collect(more_a, load(x, i), mean_a)
                more_b = collect(more_b, load(x, i + one), mean_b)
                more_c = collect(more_c, load(x, i + two), mean_c)
                more_d = collect(more_d, load(x, i + three), mean_d)
            store(pieces, target + inner + c, second(sum_a, more_a))
            store(pieces, target + inner + c + one, second(sum_b, more_b))
            store(pieces, target + inner + c + two, second(sum_c, more_c))
            store(pieces, target + inner + c + three, second(sum_d, more_d))
            c += four
        while c < last:
            n = min(one, last - c)
            about = finite(load_first(x, begin + c, n))
            gathered = full(x, start)
            for i in range(begin + c, end, inner):
                gathered = gather(gathered, load_first(x, i, n), about)
            mean = centre(gathered, about, count)
            more = full_like(mean, 0.0)
            for i in range(begin + c, end, inner):
                more = collect(more, load_first(x, i, n), mean)
            store_first(pieces, target + c, first(gathered, mean), n)
            store_first(pieces, target + inner + c, second(gathered, more), n)
            c += one

    return body


@helper
def _added(a: Any, b: Any, c: Any, d: Any) -> Any:
    return total((a + b) + (c + d))


@helper
def _largest(a: Any, b: Any, c: Any, d: Any) -> Any:
    return largest(maximum(maximum(a, b), maximum(c, d)))


_MOMENTS = _moments_gather, _moments_centre, _moments_collect, _moments_first, _moments_second, 0.0
_EXPONENTIAL = (
    _exponential_gather, _exponential_centre, _exponential_collect, _exponential_first, _exponential_second,
    float("-inf"),
)  # fmt: skip
moments_rows, moments_columns = helper(_rows(*_MOMENTS, _added)), helper(_columns(*_MOMENTS))
logsumexp_rows, logsumexp_columns = _rows(*_EXPONENTIAL, _largest), _columns(*_EXPONENTIAL)


@helper
def sums_rows(
    task: int, worker: int, g: Array, x: Array, mean: Array, pieces: Array, rows: int, length: int, parts: int,
    per_task: int,
) -> None:  # fmt: skip
    """Of a piece of a row: the sum of g and the sum of g * (x - mean[row]).  pieces (rows, parts, 2)"""
    one, two = lanes(x), 2 * lanes(x)
    zero = full(x, 0.0)
    for result in range(task * per_task, min(rows * parts, (task + 1) * per_task)):
        row = result // parts
        skipped = (result - row * parts) * CHUNK
        i = row * length + skipped
        end = row * length + min(length, skipped + CHUNK)
        center = full(x, mean[row])
        sum_a, sum_b, dot_a, dot_b = zero, zero, zero, zero
        while i + two <= end:
            for j in (i, i + one):
                ahead(g, j)
                ahead(x, j)
            value = load(g, i)
            sum_a, dot_a = sum_a + value, fma(value, load(x, i) - center, dot_a)
            value = load(g, i + one)
            sum_b, dot_b = sum_b + value, fma(value, load(x, i + one) - center, dot_b)
            i += two
        while i < end:
            n = end - i
            value = load_first(g, i, n)
            away = select(counting(x) < n, load_first(x, i, n) - center, 0.0)
            sum_a, dot_a = sum_a + value, fma(value, away, dot_a)
            i += one
        pieces[2 * result] = total(sum_a + sum_b)
        pieces[2 * result + 1] = total(dot_a + dot_b)


@helper
def sums_columns(
    task: int, worker: int, g: Array, x: Array, mean: Array, pieces: Array, length: int, inner: int, parts: int,
    piece: int, width: int,
) -> None:  # fmt: skip
    """Of ``width`` columns of some rows: the sum of g and the sum of g * (x - mean[o, column]).

    pieces (outer, parts, 2, inner)
    """
    one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
    blocks = (inner + width - 1) // width
    part = task // blocks
    o = part // parts
    row = (part - o * parts) * piece
    begin = (o * length + row) * inner
    end = (o * length + min(length, row + piece)) * inner
    target, means = part * 2 * inner, o * inner
    zero = full(x, 0.0)
    distance = max(1024, ROWS_AHEAD * inner)
    c = (task - part * blocks) * width
    last = min(inner, c + width)
    while c + four <= last:
        mean_a, mean_b, mean_c, mean_d = (
            load(mean, means + c),
            load(mean, means + c + one),
            load(mean, means + c + two),
            load(mean, means + c + three),
        )
        sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
        dot_a, dot_b, dot_c, dot_d = zero, zero, zero, zero
        for i in range(begin + c, end, inner):
            for j in (i, i + one, i + two, i + three):
                fetch(g, j + distance)
                fetch(x, j + distance)
            value = load(g, i)
            sum_a, dot_a = sum_a + value, fma(value, load(x, i) - mean_a, dot_a)
            value = load(g, i + one)
            sum_b, dot_b = sum_b + value, fma(value, load(x, i + one) - mean_b, dot_b)
            value = load(g, i + two)
            sum_c, dot_c = sum_c + value, fma(value, load(x, i + two) - mean_c, dot_c)
            value = load(g, i + three)
            sum_d, dot_d = sum_d + value, fma(value, load(x, i + three) - mean_d, dot_d)
        store(pieces, target + c, sum_a)
        store(pieces, target + c + one, sum_b)
        store(pieces, target + c + two, sum_c)
        store(pieces, target + c + three, sum_d)
        store(pieces, target + inner + c, dot_a)
        store(pieces, target + inner + c + one, dot_b)
        store(pieces, target + inner + c + two, dot_c)
        store(pieces, target + inner + c + three, dot_d)
        c += four
    while c < last:
        n = min(one, last - c)
        center = load_first(mean, means + c, n)
        added, dot = zero, zero
        for i in range(begin + c, end, inner):
            value = load_first(g, i, n)
            added, dot = added + value, fma(value, load_first(x, i, n) - center, dot)
        store_first(pieces, target + c, added, n)
        store_first(pieces, target + inner + c, dot, n)
        c += one
