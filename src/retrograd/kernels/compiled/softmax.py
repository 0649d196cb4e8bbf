"""Kernels of softmax and its logarithm over one axis of a dense array, seen as (outer, length, inner).

``rows``: the axis is innermost. ``columns``: neighbouring columns side by side, row after row of a block of them; what
belongs to a column (maximum, sum) waits in a small buffer. A block is narrow enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import (
    ahead,
    buffer,
    full,
    lanes,
    largest,
    load,
    load_first,
    load_first_or,
    select,
    store,
    store_first,
    total,
)
from .math import exp, exp_negative, log

Body = Callable[..., None]
_INFINITY = float("inf")
_maxima, _sums = buffer(CHUNK // 32), buffer(CHUNK // 32)


@helper
def _above(x: Any, y: Any) -> Any:
    return select(x > y, x, y)


def _rows(logarithm: bool) -> Body:
    """y = exp(x - max) / sum, or x - max - log(sum)."""

    def body(task: int, worker: int, x: Array, y: Array, rows: int, length: int, per_task: int) -> None:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            begin = row * length
            end = begin + length
            whole = end - lanes(x)
            a = full(x, -_INFINITY)
            b, c, d = a, a, a
            i = begin
            while i + four <= end:
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                    ahead(y, j)
                a, b = _above(load(x, i), a), _above(load(x, i + one), b)
                c, d = _above(load(x, i + two), c), _above(load(x, i + three), d)
                i += four
            while i < end:
                a = _above(load_first_or(x, i, end - i, -_INFINITY), a)
                i += one
            top = full(x, largest(_above(_above(a, b), _above(c, d))))
            s = full(x, 0.0)
            i = begin
            while i <= whole:
                e = exp_negative(load(x, i) - top)
                s = s + e
                if not logarithm:
                    store(y, i, e)
                i += lanes(x)
            e = full(x, 0.0)
            if i < end:
                e = exp_negative(load_first_or(x, i, end - i, -_INFINITY) - top)
                s = s + e
            s = full(x, total(s))
            i = begin
            if logarithm:
                s = log(s)
                while i <= whole:
                    store(y, i, (load(x, i) - top) - s)
                    i += lanes(x)
                if i < end:
                    store_first(y, i, (load_first(x, i, end - i) - top) - s, end - i)
            else:
                s = 1.0 / s
                while i <= whole:
                    store(y, i, load(y, i) * s)
                    i += lanes(x)
                if i < end:
                    store_first(y, i, e * s, end - i)

    return body


def _columns(logarithm: bool) -> Body:
    """As ``_rows``; a task is ``width`` columns of one o, ``block`` of them at a time."""

    def body(task: int, worker: int, x: Array, y: Array, length: int, inner: int, width: int, block: int) -> None:
        top, s = _maxima(x), _sums(x)
        parts = (inner + width - 1) // width
        o = task // parts
        column = (task - o * parts) * width
        last = min(inner, column + width)
        while column < last:
            n = min(block, last - column)
            whole = n - lanes(x)
            begin = o * length * inner + column
            i = 0
            while i < n:
                store(top, i, full(x, -_INFINITY))
                store(s, i, full(x, 0.0))
                i += lanes(x)
            p = begin
            for _ in range(length):
                i = 0
                while i <= whole:
                    v, t = load(x, p + i), load(top, i)
                    store(top, i, select(v > t, v, t))
                    i += lanes(x)
                if i < n:
                    v, t = load_first(x, p + i, n - i), load(top, i)
                    store(top, i, select(v > t, v, t))
                p += inner
            p = begin
            for _ in range(length):
                i = 0
                while i <= whole:
                    e = exp_negative(load(x, p + i) - load(top, i))
                    store(s, i, load(s, i) + e)
                    if not logarithm:
                        store(y, p + i, e)
                    i += lanes(x)
                if i < n:
                    e = exp_negative(load_first(x, p + i, n - i) - load(top, i))
                    store(s, i, load(s, i) + e)
                    if not logarithm:
                        store_first(y, p + i, e, n - i)
                p += inner
            i = 0
            while i < n:
                store(s, i, log(load(s, i)) if logarithm else 1.0 / load(s, i))
                i += lanes(x)
            p = begin
            for _ in range(length):
                i = 0
                while i <= whole:
                    if logarithm:
                        store(y, p + i, (load(x, p + i) - load(top, i)) - load(s, i))
                    else:
                        store(y, p + i, load(y, p + i) * load(s, i))
                    i += lanes(x)
                if i < n:
                    if logarithm:
                        store_first(y, p + i, (load_first(x, p + i, n - i) - load(top, i)) - load(s, i), n - i)
                    else:
                        store_first(y, p + i, load_first(y, p + i, n - i) * load(s, i), n - i)
                p += inner
            column += n

    return body


def _rows_grad(logarithm: bool) -> Body:
    """gx = y (g - sum g y), or g - exp(y) sum g."""

    def body(task: int, worker: int, g: Array, y: Array, gx: Array, rows: int, length: int, per_task: int) -> None:
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            begin = row * length
            end = begin + length
            whole = end - lanes(g)
            s = full(g, 0.0)
            i = begin
            while i <= whole:
                ahead(g, i)
                ahead(y, i)
                ahead(gx, i)
                s = s + load(g, i) if logarithm else s + load(g, i) * load(y, i)
                i += lanes(g)
            if i < end:
                n = end - i
                s = s + load_first(g, i, n) if logarithm else s + load_first(g, i, n) * load_first(y, i, n)
            s = full(g, total(s))
            i = begin
            while i <= whole:
                if logarithm:
                    store(gx, i, load(g, i) - exp(load(y, i)) * s)
                else:
                    store(gx, i, load(y, i) * (load(g, i) - s))
                i += lanes(g)
            if i < end:
                n = end - i
                if logarithm:
                    store_first(gx, i, load_first(g, i, n) - exp(load_first(y, i, n)) * s, n)
                else:
                    store_first(gx, i, load_first(y, i, n) * (load_first(g, i, n) - s), n)

    return body


def _columns_grad(logarithm: bool) -> Body:
    """As ``_rows_grad``; tasks and blocks as in ``_columns``."""

    def body(
        task: int, worker: int, g: Array, y: Array, gx: Array, length: int, inner: int, width: int, block: int
    ) -> None:
        s = _sums(g)
        parts = (inner + width - 1) // width
        o = task // parts
        column = (task - o * parts) * width
        last = min(inner, column + width)
        while column < last:
            n = min(block, last - column)
            whole = n - lanes(g)
            begin = o * length * inner + column
            i = 0
            while i < n:
                store(s, i, full(g, 0.0))
                i += lanes(g)
            p = begin
            for _ in range(length):
                i = 0
                while i <= whole:
                    v = load(g, p + i)
                    store(s, i, load(s, i) + (v if logarithm else v * load(y, p + i)))
                    i += lanes(g)
                if i < n:
                    v = load_first(g, p + i, n - i)
                    store(s, i, load(s, i) + (v if logarithm else v * load_first(y, p + i, n - i)))
                p += inner
            p = begin
            for _ in range(length):
                i = 0
                while i <= whole:
                    if logarithm:
                        store(gx, p + i, load(g, p + i) - exp(load(y, p + i)) * load(s, i))
                    else:
                        store(gx, p + i, load(y, p + i) * (load(g, p + i) - load(s, i)))
                    i += lanes(g)
                if i < n:
                    v, w = load_first(g, p + i, n - i), load_first(y, p + i, n - i)
                    store_first(gx, p + i, v - exp(w) * load(s, i) if logarithm else w * (v - load(s, i)), n - i)
                p += inner
            column += n

    return body


softmax_rows, log_softmax_rows = _rows(False), _rows(True)
softmax_columns, log_softmax_columns = _columns(False), _columns(True)
softmax_grad_rows, log_softmax_grad_rows = _rows_grad(False), _rows_grad(True)
softmax_grad_columns, log_softmax_grad_columns = _columns_grad(False), _columns_grad(True)
