"""Kernels that find the largest or smallest number along one axis of a dense array, and where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, Table, helper
from ..simd import (
    any_lane,
    bits_of,
    either,
    exceeds,
    full,
    lanes,
    largest,
    load,
    load_first,
    load_first_or,
    maximum,
    minimum,
    select,
    smallest,
    store_first,
    store_integers,
)

Body = Callable[..., None]
_INFINITY = float("inf")


@helper
def _above(x: Any, y: Any) -> Any:
    return exceeds(x, y)


@helper
def _below(x: Any, y: Any) -> Any:
    return exceeds(-x, -y)


def _rows(combine: Callable[[Any, Any], Any], start: float, across: Any) -> Body:
    """The extreme of each piece of CHUNK numbers of a row, and its place in the row; the first NaN, if there is one."""

    def body(
        task: int, worker: int, x: Array, values: Array, indices: Table, rows: int, length: int, pieces: int,
        per_task: int,
    ) -> None:  # fmt: skip
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        for result in range(task * per_task, min(rows * pieces, (task + 1) * per_task)):
            row = result // pieces
            first = (result - row * pieces) * CHUNK
            begin = row * length + first
            end = row * length + min(length, first + CHUNK)
            a = full(x, start)
            b, c, d = a, a, a
            i = begin
            while i + four <= end:
                a = combine(a, load(x, i))
                b = combine(b, load(x, i + one))
                c = combine(c, load(x, i + two))
                d = combine(d, load(x, i + three))
                i += four
            while i < end:
                a = combine(a, load_first_or(x, i, end - i, start))
                i += one
            value = across(combine(combine(a, b), combine(c, d)))
            best = full(x, value)
            i = begin
            while i + one <= end:
                v = load(x, i)
                if any_lane(either(v == best, v != v)):  # a NaN is in the row only if the extreme is one
                    break
                i += one
            while not (x[i] == value or x[i] != x[i]):
                i += 1
            values[result] = value
            indices[result] = i - row * length

    return body


def _columns(beyond: Callable[[Any, Any], Any]) -> Body:
    """As ``_rows`` for x[o, :, i]; a task is ``width`` columns of one o, four registers of them at a time."""

    def body(
        task: int, worker: int, x: Array, values: Array, indices: Table, length: int, inner: int, width: int
    ) -> None:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        blocks = (inner + width - 1) // width
        o = task // blocks
        i = (task - o * blocks) * width
        end = min(inner, i + width)
        zero = bits_of(full(x, 0.0))
        while i + four <= end:
            p = o * length * inner + i
            a, b, c, d = load(x, p), load(x, p + one), load(x, p + two), load(x, p + three)
            at_a, at_b, at_c, at_d = zero, zero, zero, zero
            for r in range(1, length):
                p += inner
                here = zero + r
                v = load(x, p)
                more = beyond(v, a)
                a, at_a = select(more, v, a), select(more, here, at_a)
                v = load(x, p + one)
                more = beyond(v, b)
                b, at_b = select(more, v, b), select(more, here, at_b)
                v = load(x, p + two)
                more = beyond(v, c)
                c, at_c = select(more, v, c), select(more, here, at_c)
                v = load(x, p + three)
                more = beyond(v, d)
                d, at_d = select(more, v, d), select(more, here, at_d)
            q = o * inner + i
            store_first(values, q, a, one)
            store_first(values, q + one, b, one)
            store_first(values, q + two, c, one)
            store_first(values, q + three, d, one)
            store_integers(indices, q, at_a, one)
            store_integers(indices, q + one, at_b, one)
            store_integers(indices, q + two, at_c, one)
            store_integers(indices, q + three, at_d, one)
            i += four
        while i < end:
            n = end - i
            best = load_first(x, o * length * inner + i, n)
            place = zero
            for r in range(1, length):
                v = load_first(x, (o * length + r) * inner + i, n)
                more = beyond(v, best)
                best = select(more, v, best)
                place = select(more, zero + r, place)
            store_first(values, o * inner + i, best, n)
            store_integers(indices, o * inner + i, place, n)
            i += one

    return body


max_rows, max_columns = _rows(maximum, -_INFINITY, largest), _columns(_above)
min_rows, min_columns = _rows(minimum, _INFINITY, smallest), _columns(_below)
