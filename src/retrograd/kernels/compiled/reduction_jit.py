# mypy: ignore-errors
"""Tasks of reductions, scans, and arg extremes along one axis of a dense array, seen as (outer, length, inner)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .machine.compiler import Array, Table, helper
from .machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    absolute,
    ahead_by,
    any_lane,
    bits_of,
    buffer,
    double,
    either,
    first_lane,
    fma,
    folded,
    four_times,
    full,
    full_like,
    lanes,
    largest_of_each,
    last_lane,
    load,
    load_first,
    load_first_or,
    load_wide,
    maximum,
    minimum,
    products,
    products_after,
    products_before,
    rounded,
    select,
    smallest_of_each,
    store,
    store_first,
    sums_after,
    sums_before,
    totals,
    wide_ahead,
)
from .memory.layout import CHUNK

# ---- The range of a task of a kernel over columns -------------------------------------------------------------------


@helper
def columns_of(task: int, inner: int, width: int) -> Any:
    """The block of rows, the first of ``width`` columns, and one past the last."""
    blocks = (inner + width - 1) // width
    part = task // blocks
    column = (task - part * blocks) * width
    return part, column, min(inner, column + width)


# ---- Kernels that combine the numbers along the axis to one number --------------------------------------------------
# One loop for rows (the axis is innermost) and one for columns; the function of each number (``take``) and of two
# results (``combine``) is chosen at compile time. (``take`` may give float64: the result is rounded at the end.)


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
sum_rows: Final = _rows(itself, add, 0.0, totals)
sum_columns: Final = _columns(itself, add, 0.0)
square_rows: Final = _rows(_square, add, 0.0, totals)
square_columns: Final = _columns(_square, add, 0.0)
absolute_rows: Final = _rows(absolute, add, 0.0, totals)
absolute_columns: Final = _columns(absolute, add, 0.0)
# (in float64: the rounding errors of products of factors near 1 are biased)
prod_rows: Final = _rows(double, mul, 1.0, products)
prod_columns: Final = _columns(double, mul, 1.0)
amax_rows: Final = _rows(itself, maximum, -_INFINITY, largest_of_each)
amax_columns: Final = _columns(itself, maximum, -_INFINITY)
amin_rows: Final = _rows(itself, minimum, _INFINITY, smallest_of_each)
amin_columns: Final = _columns(itself, minimum, _INFINITY)


# ---- Kernels that combine each number with all before it along the axis ---------------------------------------------
# The carry is in float64: each result is as accurate as its type allows, however long the axis. ``reverse``: from the
# end. ``linear``: y[i] = x[i] + factor[i] * y[i - 1], used by the gradients of products.


def _scan_rows(combine: Callable[[Any, Any], Any], before: Any, after: Any, start: float) -> Body:
    """A register at a time: a scan of its lanes, then the carry is combined."""

    def block(access: Access) -> Callable[..., Any]:
        load_or, store = access.load_or, access.store

        @helper
        def step(x: Array, y: Array, i: int, n: int, so_far: Any, reverse: int) -> Any:
            v = double(load_or(x, i, n, start))
            v = combine(after(v) if reverse else before(v), so_far)
            store(y, i, rounded(v, x), n)
            return first_lane(v) if reverse else last_lane(v)

        return step

    whole, part = block(ONE), block(PART)

    def body(task: int, worker: int, x: Array, y: Array, rows: int, length: int, per_task: int, reverse: int) -> None:
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            so_far = double(full(x, start))
            for done in range(0, length, lanes(x)):
                n = min(lanes(x), length - done)
                i = row * length + (length - done - n if reverse else done)
                so_far = whole(x, y, i, n, so_far, reverse) if n == lanes(x) else part(x, y, i, n, so_far, reverse)

    return body


@helper
def _start(o: int, length: int, inner: int, reverse: int) -> Any:
    """The start of the axis, and its step."""
    if reverse:
        return (o * length + length - 1) * inner, -inner
    return o * length * inner, inner


def _scan_columns(combine: Callable[[Any, Any], Any], start: float) -> Body:
    """A task is ``width`` columns of one o, four registers of them at a time."""

    def block(access: Access) -> Callable[..., None]:
        load, store = access.load, access.store

        @helper
        def columns(x: Array, y: Array, k: int, step: int, length: int, n: int) -> None:
            so_far = double(full_like(load(x, k, n), start))
            for _ in range(length):
                so_far = combine(so_far, double(load(x, k, n)))
                store(y, k, rounded(so_far, x), n)
                k += step

        return columns

    four, part = block(WIDE), block(PART)

    def body(task: int, worker: int, x: Array, y: Array, length: int, inner: int, width: int, reverse: int) -> None:
        o, c, end = columns_of(task, inner, width)
        first, step = _start(o, length, inner, reverse)
        while c + 4 * lanes(x) <= end:
            four(x, y, first + c, step, length, 0)
            c += 4 * lanes(x)
        while c < end:
            part(x, y, first + c, step, length, end - c)
            c += lanes(x)

    return body


cumsum_rows: Final = _scan_rows(add, sums_before, sums_after, 0.0)
cumsum_columns: Final = _scan_columns(add, 0.0)
cumprod_rows: Final = _scan_rows(mul, products_before, products_after, 1.0)
cumprod_columns: Final = _scan_columns(mul, 1.0)


def linear_rows(
    task: int, worker: int, x: Array, factor: Array, y: Array, rows: int, length: int, per_task: int, reverse: int
) -> None:
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        k, step = _start(row, length, 1, reverse)
        a = 1.0 * x[k]
        y[k] = a
        for _ in range(length - 1):
            k += step
            a = x[k] + factor[k] * a
            y[k] = a


def linear_columns(
    task: int, worker: int, x: Array, factor: Array, y: Array, length: int, inner: int, width: int, reverse: int
) -> None:
    o, c, end = columns_of(task, inner, width)
    first, step = _start(o, length, inner, reverse)
    while c < end:
        k, n = first + c, end - c
        a = load_first(x, k, n)
        store_first(y, k, a, n)
        for _ in range(length - 1):
            k += step
            a = fma(load_first(factor, k, n), a, load_first(x, k, n))
            store_first(y, k, a, n)
        c += lanes(x)


# ---- Kernels that find the index of the largest or smallest number along the axis, given that number ----------------


# A NaN is among the numbers only if the extreme is one.


def place_in_rows(
    task: int, worker: int, x: Array, values: Array, indices: Table, rows: int, length: int, per_task: int
) -> None:
    """The first index of values[row] in each row."""
    four = 4 * lanes(x)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, value = row * length, values[row]
        end, target = begin + length, four_times(full(x, value))
        i = begin
        while i + four <= end:
            v = load_wide(x, i)
            if any_lane(either(v == target, v != v)):
                break
            i += four
        while not (x[i] == value or x[i] != x[i]):
            i += 1
        indices[row] = i - begin


def _block(access: Access) -> Callable[..., None]:
    load, store_integers = access.load, access.store_integers

    @helper
    def columns(x: Array, p: int, length: int, inner: int, n: int, values: Array, indices: Table, q: int) -> None:
        value = load(values, q, n)
        place = bits_of(full_like(value, 0.0))
        zero = place
        for r in range(length - 1, -1, -1):
            v = load(x, p + r * inner, n)
            place = select(either(v == value, v != v), zero + r, place)
        store_integers(indices, q, place, n)

    return columns


_four, _part = _block(WIDE), _block(PART)


def place_in_columns(
    task: int, worker: int, x: Array, values: Array, indices: Table, length: int, inner: int, width: int
) -> None:
    """The first index of values[o, i] in x[o, :, i]; a task is ``width`` columns of one o."""
    o, i, end = columns_of(task, inner, width)
    first, result = o * length * inner, o * inner
    while i + 4 * lanes(x) <= end:
        _four(x, first + i, length, inner, 0, values, indices, result + i)
        i += 4 * lanes(x)
    while i < end:
        _part(x, first + i, length, inner, end - i, values, indices, result + i)
        i += lanes(x)
