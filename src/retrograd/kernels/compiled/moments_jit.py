# mypy: ignore-errors
"""Tasks of mean, variance, and log-sum-exp, and merging of pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .machine.compiler import Array, helper
from .machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    ahead,
    ahead_by,
    buffer,
    counting,
    double,
    folded,
    four_times,
    full,
    full_like,
    lanes,
    largest,
    load,
    load_double,
    load_first,
    load_first_or,
    load_wide,
    maximum,
    multiply_add,
    rounded,
    select,
    store,
    store_first,
    total,
    wide_ahead,
)
from .math.elementary_jit import exp, exp_negative, log
from .memory.layout import CHUNK
from .moments import MERGED
from .reduction_jit import add, columns_of, itself

# ---- Kernels that reduce one axis of a dense array, seen as (outer, length, inner), to two numbers ------------------
# In one pass over memory: the second pass over each piece finds it in the cache.
#
# ``moments``: the mean, and the sum of squares about it. ``logsumexp``: the maximum, and the sum of exp(x - maximum).
# ``sums``: of g, and of g * (x - mean). Pieces, (outer, parts, 2, inner), are merged below.
# A few terms are added directly, and their sum to the others in float64: where many terms are equal, as after a ReLU,
# the rounding errors of a long sum are equal, too, and would add up.


Body = Callable[..., None]
_ahead, _fetch = wide_ahead(ahead), ahead_by(0)
TOGETHER = 8  # terms added before their sum is added to the others in float64
ROWS_AHEAD = 2 * TOGETHER  # prefetched while a row is read: a page ahead is too close if rows are long
_INFINITY = float("inf")


@helper
def finite(value: Any) -> Any:
    """``value``, and 0 where it is infinite or NaN: the center of the sums."""
    return select(value - value == 0.0, value, 0.0)


# The two passes over a piece of a row. ``about``: its first number; ``gather``: the first pass, ``wide``: the type of
# its result; ``center``: from that and the ``count`` of numbers; ``collect``: the second pass; ``first`` and
# ``second``: the results.


@helper
def _away(v: Any, about: Any) -> Any:
    return v - about


@helper
def _mean(s: Any, about: Any, count: Any) -> Any:
    return about + rounded(s / count, about)


@helper
def _top(top: Any, about: Any, count: Any) -> Any:
    return finite(top)


@helper
def _square(v: Any, center: Any) -> Any:
    d = v - center
    return d * d


@helper
def _exponential(v: Any, center: Any) -> Any:
    return exp_negative(v - center)


@helper
def _moments_first(joined: Any, center: Any) -> Any:
    return center


@helper
def _moments_second(joined: Any, s: Any) -> Any:
    return s


@helper
def _exponential_first(top: Any, center: Any) -> Any:
    return select(top < _INFINITY, top, 0.0)


@helper
def _exponential_second(top: Any, s: Any) -> Any:
    return select(top < _INFINITY, s, top)  # inf or NaN: so is the sum


sum_of_four: Final = folded(add)
_largest_of_four: Final = folded(maximum)


def summed(term: Callable[[Any, Any], Any], first_look: bool = False) -> Callable[..., Any]:
    """total(x, begin, end, about): the sum of term(v, about) over the numbers v of x[begin:end], a float64."""

    @helper
    def total_of(x: Array, begin: int, end: int, about: Any) -> float:
        one, four = lanes(x), 4 * lanes(x)
        about_four = four_times(about)
        added = double(full_like(about, 0.0))
        i = begin
        while i + four <= end:
            few = full_like(about_four, 0.0)
            stop = min(end - four, i + (TOGETHER - 1) * four)
            while i <= stop:
                if first_look:
                    _ahead(x, i)
                few = few + term(load_wide(x, i), about_four)
                i += four
            added = added + double(sum_of_four(few))
        while i < end:
            added = added + double(select(counting(x) < end - i, term(load_first(x, i, end - i), about), 0.0))
            i += one
        return total(added)

    return total_of


@helper
def _largest_of(x: Array, begin: int, end: int, about: Any) -> float:
    """The largest number of x[begin:end]."""
    one, four = lanes(x), 4 * lanes(x)
    a = full_like(about, -_INFINITY)
    tops = four_times(a)
    i = begin
    while i + four <= end:
        _ahead(x, i)
        tops = maximum(tops, load_wide(x, i))
        i += four
    while i < end:
        a = maximum(a, load_first_or(x, i, end - i, -_INFINITY))
        i += one
    return 1.0 * largest(maximum(a, _largest_of_four(tops)))


def _rows(wide: Any, gather: Any, center: Any, collect: Any, first: Any, second: Any) -> Body:
    """Of pieces of CHUNK numbers of a row, the second number times ``factor``; ``pieces`` (rows, parts, 2)."""

    def body(
        task: int,
        worker: int,
        x: Array,
        pieces: Array,
        rows: int,
        length: int,
        parts: int,
        per_task: int,
        factor: float,
    ) -> None:
        for result in range(task * per_task, min(rows * parts, (task + 1) * per_task)):
            row = result // parts
            skipped = (result - row * parts) * CHUNK
            begin = row * length + skipped
            end = row * length + min(length, skipped + CHUNK)
            about = finite(full(x, x[begin]))
            gathered = full_like(wide(about), gather(x, begin, end, about))
            middle = center(gathered, about, end - begin)
            everything = full(x, collect(x, begin, end, middle) * factor)
            store_first(pieces, 2 * result, first(gathered, middle), 1)
            store_first(pieces, 2 * result + 1, second(gathered, everything), 1)

    return body


def _exponential_columns(access: Access) -> Callable[..., None]:
    load, store, near = access.load, access.store, access.ahead(ahead)

    @helper
    def columns(x: Array, begin: int, end: int, inner: int, n: int, pieces: Array, target: int) -> None:
        top = full_like(load(x, begin, n), -_INFINITY)
        for i in range(begin, end, inner):
            near(x, i)
            top = maximum(top, load(x, i, n))
        middle = finite(top)
        everything = double(full_like(top, 0.0))
        for i in range(begin, end, TOGETHER * inner):
            few = full_like(top, 0.0)
            for k in range(i, min(end, i + TOGETHER * inner), inner):
                few = few + _exponential(load(x, k, n), middle)
            everything = everything + double(few)
        store(pieces, target, _exponential_first(top, middle), n)
        store(pieces, target + inner, _exponential_second(top, rounded(everything, x)), n)

    return columns


_four_columns, _part_of_columns = _exponential_columns(WIDE), _exponential_columns(PART)


@helper
def _piece_of(task: int, length: int, inner: int, parts: int, piece: int, width: int) -> Any:
    """The first column and one past the last, the first element of a piece in its first column, its rows, and the place
    of its results."""
    part, c, last = columns_of(task, inner, width)
    o = part // parts
    row = (part - o * parts) * piece
    return c, last, (o * length + row) * inner, min(piece, length - row), part * 2 * inner


def logsumexp_columns(
    task: int,
    worker: int,
    x: Array,
    pieces: Array,
    length: int,
    inner: int,
    parts: int,
    piece: int,
    width: int,
    factor: float,
) -> None:
    """Of ``width`` columns of some rows, ``piece`` of them; ``pieces`` (outer, parts, 2, inner)."""
    c, last, begin, rows, target = _piece_of(task, length, inner, parts, piece, width)
    end = begin + rows * inner
    while c + 4 * lanes(x) <= last:
        _four_columns(x, begin + c, end, inner, 0, pieces, target + c)
        c += 4 * lanes(x)
    while c < last:
        _part_of_columns(x, begin + c, end, inner, last - c, pieces, target + c)
        c += lanes(x)


# ``moments`` and ``sums`` of columns read memory in its order: some rows at a time, of all columns of a block. The sums
# of each column are kept in float64, in the cache.
_ROWS = 2 * TOGETHER  # whose terms are added before their sum is; terms about their mean have few rounding errors
_BLOCK = 160  # columns, at most: sixteen rows of an array, and those that are prefetched, fit into level 1
_added, _squared, _centers = buffer(_BLOCK, in_double=True), buffer(_BLOCK, in_double=True), buffer(_BLOCK)


@helper
def _block(first: int, last: int) -> int:
    """The number of columns of a block, of nearly equal blocks."""
    blocks = (last - first + _BLOCK - 1) // _BLOCK
    return ((last - first + blocks - 1) // blocks + 15) // 16 * 16


def _moments_of(access: Access) -> Any:
    read, write = access.load, access.store

    @helper
    def add(x: Array, i: int, rows: int, inner: int, n: int, centers: Array, added: Any, squared: Any, at: int) -> None:
        """Add rows to the sum of d = x - center, and to that of d d.

        With d = m + r, the latter is the sum of r r, and m times (rows m + 2 sum of r), which is added in float64. So
        ``middle``, which is m + center, is near the mean of the rows, and need not be exact.
        """
        distance, step = max(2048, ROWS_AHEAD * inner), 2 * inner
        about, share, pairs = load(centers, at), 1.0 / rows, rows // 2
        middle = full_like(about, 0.0)
        others = middle
        for pair in range(pairs):
            k = i + pair * step
            _fetch(x, k + distance)
            _fetch(x, k + inner + distance)
            middle = multiply_add(read(x, k, n), share, middle)
            others = multiply_add(read(x, k + inner, n), share, others)
        if rows % 2:
            middle = multiply_add(read(x, i + pairs * step, n), share, middle)
        middle = finite(middle + others)
        rest = full_like(about, 0.0)
        squares, rest_of_others, squares_of_others = rest, rest, rest
        for pair in range(pairs):
            k = i + pair * step
            r, s = read(x, k, n) - middle, read(x, k + inner, n) - middle
            rest, squares = rest + r, multiply_add(r, r, squares)
            rest_of_others, squares_of_others = rest_of_others + s, multiply_add(s, s, squares_of_others)
        if rows % 2:
            r = read(x, i + pairs * step, n) - middle
            rest, squares = rest + r, multiply_add(r, r, squares)
        rest, squares = rest + rest_of_others, squares + squares_of_others
        m, more = double(middle) - double(about), double(rest)
        whole = m * rows
        store(added, at, load_double(added, at, m) + (whole + more))
        store(squared, at, load_double(squared, at, m) + (double(squares) + m * (whole + (more + more))))

    @helper
    def begin(
        x: Array, i: int, end: int, inner: int, n: int, centers: Array, added: Any, squared: Any, at: int
    ) -> None:
        """Begin the sums about the mean of these rows, which is close to that of all."""
        about = finite(read(x, i, n))
        few = full_like(about, 0.0)
        for k in range(i, end, inner):
            few = few + (read(x, k, n) - about)
        about = finite(about + few / ((end - i) // inner))
        store(centers, at, about)
        store(added, at, double(full_like(about, 0.0)))
        store(squared, at, double(full_like(about, 0.0)))

    @helper
    def end(
        pieces: Array,
        target: int,
        rows: int,
        inner: int,
        n: int,
        centers: Array,
        added: Any,
        squared: Any,
        at: int,
        factor: float,
    ) -> None:
        """Write the mean, and the sum of squares about it."""
        about = load(centers, at)
        s = load_double(added, at, about)
        mean = about + rounded(s / rows, about)
        away = double(mean) - double(about)
        squares = load_double(squared, at, about) - away * ((s + s) - away * rows)
        write(pieces, target, mean, n)
        write(pieces, target + inner, rounded(squares * factor, pieces), n)

    return begin, add, end


_begin, _add, _end = _moments_of(ONE)
_begin_part, _add_part, _end_part = _moments_of(PART)


@helper
def moments_columns(
    task: int,
    worker: int,
    x: Array,
    pieces: Array,
    length: int,
    inner: int,
    parts: int,
    piece: int,
    width: int,
    factor: float,
) -> None:
    """As ``logsumexp_columns``, of the mean and of the sum of squares about it, times ``factor``."""
    first, last, origin, rows, target = _piece_of(task, length, inner, parts, piece, width)
    added, squared, centers = _added(x), _squared(x), _centers(x)
    for column in range(first, last, _block(first, last)):
        count = min(_block(first, last), last - column)
        whole, start, to = count // lanes(x) * lanes(x), origin + column, target + column
        few = start + min(rows, TOGETHER) * inner
        for c in range(0, whole, lanes(x)):
            _begin(x, start + c, few + c, inner, 0, centers, added, squared, c)
        if whole < count:
            _begin_part(x, start + whole, few + whole, inner, count - whole, centers, added, squared, whole)
        for row in range(0, rows // _ROWS * _ROWS, _ROWS):
            i = start + row * inner
            for c in range(0, whole, lanes(x)):
                _add(x, i + c, _ROWS, inner, 0, centers, added, squared, c)
            if whole < count:
                _add_part(x, i + whole, _ROWS, inner, count - whole, centers, added, squared, whole)
        if rows % _ROWS:
            i = start + rows // _ROWS * _ROWS * inner
            for c in range(0, whole, lanes(x)):
                _add(x, i + c, rows % _ROWS, inner, 0, centers, added, squared, c)
            if whole < count:
                _add_part(x, i + whole, rows % _ROWS, inner, count - whole, centers, added, squared, whole)
        for c in range(0, whole, lanes(x)):
            _end(pieces, to + c, rows, inner, 0, centers, added, squared, c, factor)
        if whole < count:
            _end_part(pieces, to + whole, rows, inner, count - whole, centers, added, squared, whole, factor)


sum_away: Final = summed(_away, first_look=True)
sum_squares: Final = summed(_square)
_OF_MOMENTS, _OF_EXPONENTIAL = (_moments_first, _moments_second), (_exponential_first, _exponential_second)
moments_rows: Final = helper(_rows(double, sum_away, _mean, sum_squares, *_OF_MOMENTS))
logsumexp_rows: Final = _rows(itself, _largest_of, _top, summed(_exponential), *_OF_EXPONENTIAL)


@helper
def sums_rows(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    mean: Array,
    pieces: Array,
    rows: int,
    length: int,
    parts: int,
    per_task: int,
) -> None:
    """Of a piece of a row: the sum of g and the sum of g * (x - mean[row]).  pieces (rows, parts, 2)"""
    one, four = lanes(x), 4 * lanes(x)
    zero = full(x, 0.0)
    for result in range(task * per_task, min(rows * parts, (task + 1) * per_task)):
        row = result // parts
        skipped = (result - row * parts) * CHUNK
        i = row * length + skipped
        end = row * length + min(length, skipped + CHUNK)
        center = full(x, mean[row])
        added = double(zero)
        dot = added
        while i + four <= end:
            few, few_dots = four_times(zero), four_times(zero)
            stop = min(end - four, i + (TOGETHER - 1) * four)
            while i <= stop:
                _ahead(g, i)
                _ahead(x, i)
                value = load_wide(g, i)
                few, few_dots = few + value, few_dots + value * (load_wide(x, i) - four_times(center))
                i += four
            added, dot = added + double(sum_of_four(few)), dot + double(sum_of_four(few_dots))
        while i < end:
            n = end - i
            value = load_first(g, i, n)
            away = select(counting(x) < n, load_first(x, i, n) - center, 0.0)
            added, dot = added + double(value), dot + double(value * away)
            i += one
        pieces[2 * result] = total(added)
        pieces[2 * result + 1] = total(dot)


def sums_over_columns(passed: Callable[..., Any]) -> Callable[..., None]:
    """A task that sums passed(g, x, mean, factor, shift, low, high) in place of g, and that times (x - mean)."""

    def block(access: Access) -> Callable[..., None]:
        read, write, fetch = access.load, access.store, access.ahead(_fetch)

        @helper
        def add(
            g: Array,
            x: Array,
            mean: Array,
            factor: Array,
            shift: Array,
            at: int,
            i: int,
            end: int,
            inner: int,
            n: int,
            added: Any,
            dot: Any,
            c: int,
            low: float,
            high: float,
        ) -> None:
            distance = max(2048, ROWS_AHEAD * inner)
            center, by, more = read(mean, at, n), read(factor, at, n), read(shift, at, n)
            few = full_like(center, 0.0)
            few_dots = few
            for k in range(i, end, inner):
                fetch(g, k + distance)
                fetch(x, k + distance)
                v = read(x, k, n)
                value = passed(read(g, k, n), v, center, by, more, low, high)
                few, few_dots = few + value, multiply_add(value, v - center, few_dots)
            store(added, c, load_double(added, c, few) + double(few))
            store(dot, c, load_double(dot, c, few) + double(few_dots))

        @helper
        def end(pieces: Array, target: int, inner: int, n: int, added: Any, dot: Any, c: int) -> None:
            like = full(pieces, 0.0)
            write(pieces, target, rounded(load_double(added, c, like), pieces), n)
            write(pieces, target + inner, rounded(load_double(dot, c, like), pieces), n)

        return add, end

    add, end = block(ONE)
    add_part, end_part = block(PART)

    @helper
    def body(
        task: int,
        g: Array,
        x: Array,
        mean: Array,
        factor: Array,
        shift: Array,
        pieces: Array,
        length: int,
        inner: int,
        parts: int,
        piece: int,
        width: int,
        low: float,
        high: float,
    ) -> None:
        first, last, origin, rows, target = _piece_of(task, length, inner, parts, piece, width)
        centers = target // (2 * inner) // parts * inner
        added, dot, zero = _added(x), _squared(x), double(full(x, 0.0))
        for column in range(first, last, _block(first, last)):
            count = min(_block(first, last), last - column)
            whole, start, to, at = count // lanes(x) * lanes(x), origin + column, target + column, centers + column
            for c in range(0, count, lanes(x)):
                store(added, c, zero)
                store(dot, c, zero)
            for row in range(0, rows, TOGETHER):
                i, stop = start + row * inner, start + min(rows, row + TOGETHER) * inner
                for c in range(0, whole, lanes(x)):
                    add(g, x, mean, factor, shift, at + c, i + c, stop + c, inner, 0, added, dot, c, low, high)
                if whole < count:
                    n, c = count - whole, whole
                    add_part(g, x, mean, factor, shift, at + c, i + c, stop + c, inner, n, added, dot, c, low, high)
            for c in range(0, whole, lanes(x)):
                end(pieces, to + c, inner, 0, added, dot, c)
            if whole < count:
                end_part(pieces, to + whole, inner, count - whole, added, dot, whole)

    return body


@helper
def _whole(g: Any, x: Any, mean: Any, factor: Any, shift: Any, low: float, high: float) -> Any:
    return g


_sums_over_columns = sums_over_columns(_whole)


@helper
def sums_columns(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    mean: Array,
    pieces: Array,
    length: int,
    inner: int,
    parts: int,
    piece: int,
    width: int,
) -> None:
    """Of ``width`` columns of some rows: the sum of g and the sum of g * (x - mean[o, column]).

    pieces (outer, parts, 2, inner)
    """
    _sums_over_columns(task, g, x, mean, mean, mean, pieces, length, inner, parts, piece, width, 0.0, 0.0)


# ---- Merging pieces -------------------------------------------------------------------------------------------------
# A sum, a mean and the sum of squares about it, or two sums, from those of pieces.
#
# Each result has ``parts`` pieces in steps of p_step, ``repeats`` times in steps of repeat_step. ``count`` adjacent
# results are merged together; their first numbers start at ``at``, the second ones at ``at + second``.


@helper
def merge_moments(
    pieces: Array,
    at: int,
    count: int,
    second: int,
    length: int,
    parts: int,
    piece: int,
    p_step: int,
    repeats: int,
    repeat_step: int,
    factor: float,
) -> Any:
    """The mean, and in float64 the sum of squares about it times ``factor``, from those of pieces.

    A piece has ``piece`` of ``length`` numbers, the last part the remainder.

    Source: T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
    1979.
    """
    about = finite(load_first(pieces, at, count))
    added = double(full_like(about, 0.0))
    for p in range(parts):
        n = min(piece, length - p * piece)
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            added = added + double(load_first(pieces, i, count) - about) * n
    mean = rounded(double(about) + added / (length * repeats), pieces)
    squares = double(full_like(about, 0.0))
    for p in range(parts):
        n = min(piece, length - p * piece)
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            away = double(load_first(pieces, i, count) - mean)
            squares = squares + (away * away * (n * factor) + double(load_first(pieces, i + second, count)))
    return mean, squares


@helper
def merge_sums(
    pieces: Array, at: int, count: int, second: int, parts: int, p_step: int, repeats: int, repeat_step: int
) -> Any:
    """Both sums, in float64, from those of pieces."""
    added = double(full_like(load_first(pieces, at, count), 0.0))
    dot = added
    for p in range(parts):
        first = at + p * p_step
        for i in range(first, first + repeats * repeat_step, repeat_step):
            added = added + double(load_first(pieces, i, count))
            dot = dot + double(load_first(pieces, i + second, count))
    return added, dot


def merge_total(task: int, worker: int, pieces: Array, y: Array, rows: int, columns: int, factor: float) -> None:
    """y[c] = factor * sum over rows of pieces[r, c], in float64, in order"""
    for column in range(columns):
        added = 0.0
        for row in range(rows):
            added += pieces[row * columns + column]
        y[column] = added * factor


def merge(
    task: int,
    worker: int,
    pieces: Array,
    mean: Array,
    squares: Array,
    results: int,
    length: int,
    parts: int,
    piece: int,
    repeats: int,
    factor: float,
) -> None:
    """``merge_moments`` of MERGED results; pieces (repeats, parts, 2, results)"""
    last = min(results, (task + 1) * MERGED)
    for i in range(task * MERGED, last, lanes(pieces)):
        center, total_squares = merge_moments(
            pieces, i, last - i, results, length, parts, piece, 2 * results, repeats, 2 * parts * results, factor
        )
        store_first(mean, i, center, last - i)
        store_first(squares, i, rounded(total_squares, pieces), last - i)


def merge_logsumexp(task: int, worker: int, pieces: Array, y: Array, results: int, parts: int) -> None:
    """log(sum over parts of s exp(top)) of MERGED results; pieces (parts, 2, results): top and s of each"""
    last = min(results, (task + 1) * MERGED)
    for i in range(task * MERGED, last, lanes(pieces)):
        count = last - i
        top = load_first(pieces, i, count)
        for p in range(1, parts):
            top = maximum(top, load_first(pieces, i + 2 * p * results, count))
        about = finite(top)
        added = double(full_like(about, 0.0))
        for p in range(parts):
            at = i + 2 * p * results
            added = added + double(load_first(pieces, at + results, count) * exp(load_first(pieces, at, count) - about))
        store_first(y, i, log(rounded(added, pieces)) + about, count)
