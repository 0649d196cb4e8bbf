# mypy: ignore-errors
"""Strided copies: see moves.py for the kinds of inner loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..machine.compiler import Array, Table, helper
from ..machine.simd import (
    ahead,
    buffer,
    deinterleave_first,
    full,
    interleave_first,
    lanes,
    load,
    load_first,
    load_wide,
    offset,
    store,
    store_first,
    transpose,
    transpose_first,
    until_aligned,
    wide_ahead,
)
from .moves import FILL, MOVE, RUN

Body = Callable[..., None]
_ahead = wide_ahead(ahead)


@helper
def new(old: Any, value: Any) -> Any:
    """The result of a copy; the old value is not read."""
    return value


@helper
def plus(old: Any, value: Any) -> Any:
    """The result of an accumulation."""
    return old + value


# The inner loops below handle elements ``first`` to ``last`` of a row that begins at x[at] and y[to].


def _neighbors(function: Callable[[Any, Any], Any]) -> Body:
    """y = function(y, x) for RUN, FILL and STEPS"""

    @helper
    def inner(x: Any, at: int, y: Any, to: int, plan: Any, first: int, last: int) -> None:
        one, four = lanes(x), 4 * lanes(x)
        kind = plan[MOVE.kind]
        if kind == RUN:
            j, i, end = to + first, at + first, to + last
            few = until_aligned(y, j)
            if few > 0 and end - j > four:
                store_first(y, j, function(load_first(y, j, few), load_first(x, i, few)), few)
                j += few
                i += few
            while j + four <= end:
                _ahead(x, i)
                _ahead(y, j)
                store(y, j, function(load_wide(y, j), load_wide(x, i)))
                j += four
                i += four
            while j + one <= end:  # short rows
                ahead(x, i)
                ahead(y, j)
                store(y, j, function(load(y, j), load(x, i)))
                j += one
                i += one
            if j < end:
                store_first(y, j, function(load_first(y, j, end - j), load_first(x, i, end - j)), end - j)
        elif kind == FILL:
            j, end, value = to + first, to + last, full(x, x[at])
            while j + one <= end:
                ahead(y, j)
                store(y, j, function(load(y, j), value))
                j += one
            if j < end:
                store_first(y, j, function(load_first(y, j, end - j), value), end - j)
        else:
            y_step, x_step = plan[MOVE.y_inner], plan[MOVE.x_inner]
            j, i, left = to + first * y_step, at + first * x_step, last - first
            while left >= 4:  # loads first: the compiler cannot know that x and y do not overlap
                p, q, r, s = x[i], x[i + x_step], x[i + 2 * x_step], x[i + 3 * x_step]
                y[j] = function(y[j], p)
                y[j + y_step] = function(y[j + y_step], q)
                y[j + 2 * y_step] = function(y[j + 2 * y_step], r)
                y[j + 3 * y_step] = function(y[j + 3 * y_step], s)
                j += 4 * y_step
                i += 4 * x_step
                left -= 4
            while left > 0:
                y[j] = function(y[j], x[i])
                j += y_step
                i += x_step
                left -= 1

    return inner


@helper
def _tiles(x: Any, at: int, y: Any, to: int, plan: Any, first: int, last: int) -> None:
    """y[a + b*y_step] = x[a*x_step + b]; the row is the longer of the axes a and b, with all of the other."""
    along_y = plan[MOVE.y_inner] == 1  # the row is a
    x_step = plan[MOVE.x_inner] if along_y else plan[MOVE.x_cross]
    y_step = plan[MOVE.y_cross] if along_y else plan[MOVE.y_inner]
    for u in range(0, plan[MOVE.cross], lanes(x)):  # the shorter axis outside: few memory streams at a time
        for v in range(first, last, lanes(x)):
            a, b = (v, u) if along_y else (u, v)
            rest_v, rest_u = last - v, plan[MOVE.cross] - u
            rows, columns = (rest_v, rest_u) if along_y else (rest_u, rest_v)
            source, target = offset(x, at + a * x_step + b), offset(y, to + b * y_step + a)
            if min(rows, columns) >= lanes(x):
                transpose(source, x_step, target, y_step)
            else:
                transpose_first(source, x_step, target, y_step, rows, columns)


_registers = buffer(128)  # a register for each of the most interleaved elements


@helper
def _deinterleave(x: Any, at: int, y: Any, to: int, plan: Any, first: int, last: int) -> None:
    """Deinterleave: CROSS elements of x for each index, to as many rows of y."""
    side, one, registers = plan[MOVE.cross], lanes(x), _registers(x)
    for i in range(first, last, one):
        count = min(one, last - i)
        deinterleave_first(offset(x, at + i * side), registers, one, side, count)
        for k in range(side):
            store_first(y, to + plan[MOVE.places + k] + i, load(registers, k * one), count)


@helper
def _interleave(x: Any, at: int, y: Any, to: int, plan: Any, first: int, last: int) -> None:
    """The inverse of ``_deinterleave``."""
    side, one, registers = plan[MOVE.cross], lanes(x), _registers(x)
    for i in range(first, last, one):
        count = min(one, last - i)
        for k in range(side):
            store(registers, k * one, load_first(x, at + plan[MOVE.places + k] + i, count))
        interleave_first(registers, one, offset(y, to + i * side), side, count)


def _rows(inner: Body) -> Body:
    """The inner loop for some rows, or for a piece of one."""

    def body(task: int, worker: int, x: Array, y: Array, plan: Table) -> None:
        pieces = plan[MOVE.pieces]
        row = task // pieces * plan[MOVE.per_task]
        last_row = min(plan[MOVE.rows], row + plan[MOVE.per_task])
        first = (task - task // pieces * pieces) * plan[MOVE.piece]
        last = min(plan[MOVE.inner], first + plan[MOVE.piece])
        e_extent, d_extent = plan[MOVE.extent + 4], plan[MOVE.extent + 3]
        rest = row // e_extent
        e = row - rest * e_extent
        d = rest % d_extent
        rest = rest // d_extent
        while row < last_row:  # one plane of the last two outer axes at a time
            to, at, left = plan[MOVE.y_start], plan[MOVE.x_start], rest
            for axis in range(2, -1, -1):
                above = left // plan[MOVE.extent + axis]
                place = left - above * plan[MOVE.extent + axis]
                to += place * plan[MOVE.y_step + axis]
                at += place * plan[MOVE.x_step + axis]
                left = above
            while d < d_extent and row < last_row:
                j = to + d * plan[MOVE.y_step + 3] + e * plan[MOVE.y_step + 4]
                i = at + d * plan[MOVE.x_step + 3] + e * plan[MOVE.x_step + 4]
                count = min(e_extent - e, last_row - row)
                for _ in range(count):
                    inner(x, i, y, j, plan, first, last)
                    j += plan[MOVE.y_step + 4]
                    i += plan[MOVE.x_step + 4]
                row += count
                e = 0
                d += 1
            d = 0
            rest += 1

    return body


copy: Final = _rows(_neighbors(new))
accumulate: Final = _rows(_neighbors(plus))
tiles: Final = _rows(_tiles)
apart: Final = _rows(_deinterleave)
together: Final = _rows(_interleave)


def count(task: int, worker: int, y: Table, x: Table) -> None:
    """Add one integer to another."""
    y[0] += x[0]
