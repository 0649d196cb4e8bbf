"""Kernels that make two numbers of all along one axis of a dense array, seen as (outer, length, inner), in one pass
over memory: a second look at each piece finds it in the cache.

``moments``: the mean, and the sum of squares about it. ``logsumexp``: the maximum, and the sum of exp(x - maximum).
``sums``: of g, and of g * (x - mean). Pieces are put together by the caller: pieces (outer, parts, 2, inner).
A few terms are added as they are, and their sum in float64 to the others: where many terms are equal, as after a ReLU,
the roundings of a long sum are equal, too, and would add up.
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
    double,
    fma,
    full,
    full_like,
    lanes,
    largest,
    load,
    load_first,
    maximum,
    rounded,
    select,
    store,
    store_first,
    total,
)
from .math import exp_negative

Body = Callable[..., None]
fetch = ahead_by(0)
TOGETHER = 8  # terms that are added in a row before their sum joins the others in float64
ROWS_AHEAD = 8  # that are asked for while a row of two arrays is read: a page ahead is too near where rows are long


@helper
def finite(value: Any) -> Any:
    """``value``, and 0 where it is no number: what sums are taken about, so that they stay short."""
    return select(value - value == 0.0, value, 0.0)


@helper
def _plus(a: Any, b: Any) -> Any:
    return a + b


@helper
def _itself(x: Any) -> Any:
    return x


# What the two looks at a piece do. ``about``: its first number; ``term``: of a number in the first look; ``join``: of
# two terms, and, once they are ``wide``, of those of some numbers and all before, which begin with ``start``;
# ``gather``: the whole first look in a row; ``centre``: of what was joined from ``count`` numbers; ``collect``: a term
# of the second look, which are summed (in a row: their sum); ``first`` and ``second``: the results.


@helper
def _away(v: Any, about: Any) -> Any:
    return v - about


@helper
def _number(v: Any, about: Any) -> Any:
    return v


@helper
def _mean(s: Any, about: Any, count: Any) -> Any:
    return about + rounded(s / count, about)


@helper
def _top(top: Any, about: Any, count: Any) -> Any:
    return finite(top)


@helper
def _square(v: Any, centre: Any) -> Any:
    d = v - centre
    return d * d


@helper
def _exponential(v: Any, centre: Any) -> Any:
    return exp_negative(v - centre)


@helper
def _moments_first(joined: Any, centre: Any) -> Any:
    return centre


@helper
def _moments_second(joined: Any, s: Any) -> Any:
    return s


@helper
def _exponential_first(top: Any, centre: Any) -> Any:
    return select(top < float("inf"), top, 0.0)


@helper
def _exponential_second(top: Any, s: Any) -> Any:
    return select(top < float("inf"), s, top)  # infinity or NaN: the sum is, too


def summed(term: Callable[[Any, Any], Any], first_look: bool = False) -> Callable[..., Any]:
    """total(x, begin, end, about): the sum of term(v, about) over the numbers v of x between two places, a float64."""

    @helper
    def total_of(x: Array, begin: int, end: int, about: Any) -> float:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        zero = full(x, 0.0)
        added = double(zero)
        i = begin
        while i + four <= end:
            a, b, c, d = zero, zero, zero, zero
            stop = min(end - four, i + (TOGETHER - 1) * four)
            while i <= stop:
                if first_look:
                    for j in (i, i + one, i + two, i + three):
                        ahead(x, j)
                a, b = a + term(load(x, i), about), b + term(load(x, i + one), about)
                c, d = c + term(load(x, i + two), about), d + term(load(x, i + three), about)
                i += four
            added = added + double((a + b) + (c + d))
        while i < end:
            value = select(counting(x) < end - i, term(load_first(x, i, end - i), about), zero)
            added = added + double(value)
            i += one
        return total(added)

    return total_of


@helper
def _largest_of(x: Array, begin: int, end: int, about: Any) -> float:
    """The largest number of x between two places."""
    one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
    a = full(x, float("-inf"))
    b, c, d = a, a, a
    i = begin
    while i + four <= end:
        for j in (i, i + one, i + two, i + three):
            ahead(x, j)
        a, b = maximum(a, load(x, i)), maximum(b, load(x, i + one))
        c, d = maximum(c, load(x, i + two)), maximum(d, load(x, i + three))
        i += four
    while i < end:
        a = select(counting(x) < end - i, maximum(a, load_first(x, i, end - i)), a)
        i += one
    return 1.0 * largest(maximum(maximum(a, b), maximum(c, d)))


def _rows(wide: Any, gather: Any, centre: Any, collect: Any, first: Any, second: Any) -> Body:
    """Of pieces of CHUNK numbers of a row, the second number times ``factor``; ``pieces`` (rows, parts, 2)."""

    def body(
        task: int, worker: int, x: Array, pieces: Array, rows: int, length: int, parts: int, per_task: int,
        factor: float,
    ) -> None:  # fmt: skip
        for result in range(task * per_task, min(rows * parts, (task + 1) * per_task)):
            row = result // parts
            skipped = (result - row * parts) * CHUNK
            begin = row * length + skipped
            end = row * length + min(length, skipped + CHUNK)
            about = finite(full(x, x[begin]))
            gathered = full_like(wide(about), gather(x, begin, end, about))
            middle = centre(gathered, about, end - begin)
            everything = full(x, collect(x, begin, end, middle) * factor)
            store_first(pieces, 2 * result, first(gathered, middle), 1)
            store_first(pieces, 2 * result + 1, second(gathered, everything), 1)

    return body


def _columns(
    wide: Any, term: Any, join: Any, centre: Any, collect: Any, first: Any, second: Any, start: float
) -> Body:
    """Of ``width`` columns of some rows, ``piece`` of them; ``pieces`` (outer, parts, 2, inner). Else as ``_rows``."""

    def body(
        task: int, worker: int, x: Array, pieces: Array, length: int, inner: int, parts: int, piece: int, width: int,
        factor: float,
    ) -> None:  # fmt: skip
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        nothing, zero = full(x, start), full(x, 0.0)
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
            top_a = wide(nothing)
            top_b, top_c, top_d = top_a, top_a, top_a
            for i in range(begin + c, end, TOGETHER * inner):
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                v_a, v_b = term(load(x, i), about_a), term(load(x, i + one), about_b)
                v_c, v_d = term(load(x, i + two), about_c), term(load(x, i + three), about_d)
                for k in range(i + inner, min(end, i + TOGETHER * inner), inner):
                    for j in (k, k + one, k + two, k + three):
                        ahead(x, j)
                    v_a, v_b = join(v_a, term(load(x, k), about_a)), join(v_b, term(load(x, k + one), about_b))
                    v_c = join(v_c, term(load(x, k + two), about_c))
                    v_d = join(v_d, term(load(x, k + three), about_d))
                top_a, top_b = join(top_a, wide(v_a)), join(top_b, wide(v_b))
                top_c, top_d = join(top_c, wide(v_c)), join(top_d, wide(v_d))
            mean_a, mean_b = centre(top_a, about_a, count), centre(top_b, about_b, count)
            mean_c, mean_d = centre(top_c, about_c, count), centre(top_d, about_d, count)
            more_a = double(zero)
            more_b, more_c, more_d = more_a, more_a, more_a
            for i in range(begin + c, end, TOGETHER * inner):
                v_a, v_b = collect(load(x, i), mean_a), collect(load(x, i + one), mean_b)
                v_c, v_d = collect(load(x, i + two), mean_c), collect(load(x, i + three), mean_d)
                for k in range(i + inner, min(end, i + TOGETHER * inner), inner):
                    v_a, v_b = v_a + collect(load(x, k), mean_a), v_b + collect(load(x, k + one), mean_b)
                    v_c, v_d = v_c + collect(load(x, k + two), mean_c), v_d + collect(load(x, k + three), mean_d)
                more_a, more_b = more_a + double(v_a), more_b + double(v_b)
                more_c, more_d = more_c + double(v_c), more_d + double(v_d)
            store(pieces, target + c, first(top_a, mean_a))
            store(pieces, target + c + one, first(top_b, mean_b))
            store(pieces, target + c + two, first(top_c, mean_c))
            store(pieces, target + c + three, first(top_d, mean_d))
            store(pieces, target + inner + c, second(top_a, rounded(more_a * factor, x)))
            store(pieces, target + inner + c + one, second(top_b, rounded(more_b * factor, x)))
            store(pieces, target + inner + c + two, second(top_c, rounded(more_c * factor, x)))
            store(pieces, target + inner + c + three, second(top_d, rounded(more_d * factor, x)))
            c += four
        while c < last:
            n = min(one, last - c)
            about = finite(load_first(x, begin + c, n))
            top = wide(nothing)
            for i in range(begin + c, end, inner):
                top = join(top, wide(term(load_first(x, i, n), about)))
            mean = centre(top, about, count)
            more = double(zero)
            for i in range(begin + c, end, inner):
                more = more + double(collect(load_first(x, i, n), mean))
            store_first(pieces, target + c, first(top, mean), n)
            store_first(pieces, target + inner + c, second(top, rounded(more * factor, x)), n)
            c += one

    return body


sum_away, sum_squares = summed(_away, first_look=True), summed(_square)
_OF_MOMENTS, _OF_EXPONENTIAL = (_moments_first, _moments_second), (_exponential_first, _exponential_second)
_INFINITY = float("inf")
moments_rows = helper(_rows(double, sum_away, _mean, sum_squares, *_OF_MOMENTS))
moments_columns = helper(_columns(double, _away, _plus, _mean, _square, *_OF_MOMENTS, 0.0))
logsumexp_rows = _rows(_itself, _largest_of, _top, summed(_exponential), *_OF_EXPONENTIAL)
logsumexp_columns = _columns(_itself, _number, maximum, _top, _exponential, *_OF_EXPONENTIAL, -_INFINITY)


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
        added = double(zero)
        dot = added
        while i + two <= end:
            v_a, v_b, w_a, w_b = zero, zero, zero, zero
            stop = min(end - two, i + (TOGETHER - 1) * two)
            while i <= stop:
                for j in (i, i + one):
                    ahead(g, j)
                    ahead(x, j)
                value = load(g, i)
                v_a, w_a = v_a + value, fma(value, load(x, i) - center, w_a)
                value = load(g, i + one)
                v_b, w_b = v_b + value, fma(value, load(x, i + one) - center, w_b)
                i += two
            added, dot = added + double(v_a + v_b), dot + double(w_a + w_b)
        while i < end:
            n = end - i
            value = load_first(g, i, n)
            away = select(counting(x) < n, load_first(x, i, n) - center, 0.0)
            added, dot = added + double(value), dot + double(value * away)
            i += one
        pieces[2 * result] = total(added)
        pieces[2 * result + 1] = total(dot)


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
    nothing = full(x, 0.0)
    zero = double(nothing)
    distance = max(1024, ROWS_AHEAD * inner)
    c = (task - part * blocks) * width
    last = min(inner, c + width)
    while c + four <= last:
        mean_a, mean_b = load(mean, means + c), load(mean, means + c + one)
        mean_c, mean_d = load(mean, means + c + two), load(mean, means + c + three)
        sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
        dot_a, dot_b, dot_c, dot_d = zero, zero, zero, zero
        for i in range(begin + c, end, TOGETHER * inner):
            v_a, v_b, v_c, v_d = nothing, nothing, nothing, nothing
            w_a, w_b, w_c, w_d = nothing, nothing, nothing, nothing
            for k in range(i, min(end, i + TOGETHER * inner), inner):
                for j in (k, k + one, k + two, k + three):
                    fetch(g, j + distance)
                    fetch(x, j + distance)
                value = load(g, k)
                v_a, w_a = v_a + value, fma(value, load(x, k) - mean_a, w_a)
                value = load(g, k + one)
                v_b, w_b = v_b + value, fma(value, load(x, k + one) - mean_b, w_b)
                value = load(g, k + two)
                v_c, w_c = v_c + value, fma(value, load(x, k + two) - mean_c, w_c)
                value = load(g, k + three)
                v_d, w_d = v_d + value, fma(value, load(x, k + three) - mean_d, w_d)
            sum_a, dot_a = sum_a + double(v_a), dot_a + double(w_a)
            sum_b, dot_b = sum_b + double(v_b), dot_b + double(w_b)
            sum_c, dot_c = sum_c + double(v_c), dot_c + double(w_c)
            sum_d, dot_d = sum_d + double(v_d), dot_d + double(w_d)
        store(pieces, target + c, rounded(sum_a, x))
        store(pieces, target + c + one, rounded(sum_b, x))
        store(pieces, target + c + two, rounded(sum_c, x))
        store(pieces, target + c + three, rounded(sum_d, x))
        store(pieces, target + inner + c, rounded(dot_a, x))
        store(pieces, target + inner + c + one, rounded(dot_b, x))
        store(pieces, target + inner + c + two, rounded(dot_c, x))
        store(pieces, target + inner + c + three, rounded(dot_d, x))
        c += four
    while c < last:
        n = min(one, last - c)
        center = load_first(mean, means + c, n)
        added, dot = zero, zero
        for i in range(begin + c, end, inner):
            value = load_first(g, i, n)
            added, dot = added + double(value), dot + double(value * (load_first(x, i, n) - center))
        store_first(pieces, target + c, rounded(added, x), n)
        store_first(pieces, target + inner + c, rounded(dot, x), n)
        c += one
