# mypy: ignore-errors
"""Kernels of softmax and its logarithm over one axis of a dense array, seen as (outer, length, inner).

``rows``: the axis is innermost. ``columns``: a block of adjacent columns, row by row; the maximum and sum of each
column are in a small buffer. A block is narrow enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .machine.compiler import Array, helper
from .machine.simd import (
    ahead,
    buffer,
    folded,
    four_times,
    full,
    lanes,
    largest,
    load,
    load_first,
    load_first_or,
    load_wide,
    select,
    store,
    store_first,
    total,
    wide_ahead,
)
from .math.elementary_jit import exp, exp_negative, log
from .memory.layout import CHUNK
from .reduction_jit import columns_of

Body = Callable[..., None]
_INFINITY = float("inf")
_maxima, _sums = buffer(CHUNK // 32), buffer(CHUNK // 32)
_ahead = wide_ahead(ahead)


@helper
def _above(x: Any, y: Any) -> Any:
    return select(x > y, x, y)


_largest_of_four = folded(_above)


def _rows(logarithm: bool) -> Body:
    """y = exp(x - max) / sum, or x - max - log(sum)."""

    def body(task: int, worker: int, x: Array, y: Array, rows: int, length: int, per_task: int) -> None:
        one, four = lanes(x), 4 * lanes(x)
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            begin = row * length
            end = begin + length
            whole = end - one
            tops = four_times(full(x, -_INFINITY))
            i = begin
            while i + four <= end:
                _ahead(x, i)
                _ahead(y, i)
                tops = _above(load_wide(x, i), tops)
                i += four
            top = _largest_of_four(tops)
            while i < end:
                top = _above(load_first_or(x, i, end - i, -_INFINITY), top)
                i += one
            top = full(x, largest(top))
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
            s = log(s) if logarithm else 1.0 / s
            i = begin
            while i <= whole:
                store(y, i, (load(x, i) - top) - s if logarithm else load(y, i) * s)
                i += one
            if i < end:
                store_first(y, i, (load_first(x, i, end - i) - top) - s if logarithm else e * s, end - i)

    return body


def _columns(logarithm: bool) -> Body:
    """As ``_rows``; a task is ``width`` columns of one o, ``block`` of them at a time."""

    def body(task: int, worker: int, x: Array, y: Array, length: int, inner: int, width: int, block: int) -> None:
        top, s = _maxima(x), _sums(x)
        o, column, last = columns_of(task, inner, width)
        while column < last:
            n = min(block, last - column)
            whole = n - lanes(x)
            begin = o * length * inner + column
            for i in range(0, n, lanes(x)):
                store(top, i, full(x, -_INFINITY))
                store(s, i, full(x, 0.0))
            for p in range(begin, begin + length * inner, inner):
                i = 0
                while i <= whole:
                    store(top, i, _above(load(x, p + i), load(top, i)))
                    i += lanes(x)
                if i < n:
                    store(top, i, _above(load_first(x, p + i, n - i), load(top, i)))
            for p in range(begin, begin + length * inner, inner):
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
            for i in range(0, n, lanes(x)):
                store(s, i, log(load(s, i)) if logarithm else 1.0 / load(s, i))
            for p in range(begin, begin + length * inner, inner):
                i = 0
                while i <= whole:
                    v = (load(x, p + i) - load(top, i)) - load(s, i) if logarithm else load(y, p + i) * load(s, i)
                    store(y, p + i, v)
                    i += lanes(x)
                if i < n:
                    v = load_first(x if logarithm else y, p + i, n - i)
                    store_first(y, p + i, (v - load(top, i)) - load(s, i) if logarithm else v * load(s, i), n - i)
            column += n

    return body


@helper
def _product(g: Any, y: Any) -> Any:
    return g * y


@helper
def _itself(g: Any, y: Any) -> Any:
    return g


@helper
def _softmax_grad(g: Any, y: Any, s: Any) -> Any:
    return y * (g - s)


@helper
def _log_softmax_grad(g: Any, y: Any, s: Any) -> Any:
    return g - exp(y) * s


def _rows_grad(term: Callable[[Any, Any], Any], gradient: Callable[[Any, Any, Any], Any]) -> Body:
    """gx = gradient(g, y, s) with s the sum of term(g, y)."""

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
                s = s + term(load(g, i), load(y, i))
                i += lanes(g)
            v, w = load_first(g, i, end - i), load_first(y, i, end - i)
            s = full(g, total(s + term(v, w)))
            store_first(gx, i, gradient(v, w, s), end - i)
            i = begin
            while i <= whole:
                store(gx, i, gradient(load(g, i), load(y, i), s))
                i += lanes(g)

    return body


def _columns_grad(term: Callable[[Any, Any], Any], gradient: Callable[[Any, Any, Any], Any]) -> Body:
    """As ``_rows_grad``; tasks and blocks as in ``_columns``."""

    def body(
        task: int, worker: int, g: Array, y: Array, gx: Array, length: int, inner: int, width: int, block: int
    ) -> None:
        s = _sums(g)
        o, column, last = columns_of(task, inner, width)
        while column < last:
            n = min(block, last - column)
            whole = n - lanes(g)
            begin = o * length * inner + column
            for i in range(0, n, lanes(g)):
                store(s, i, full(g, 0.0))
            for p in range(begin, begin + length * inner, inner):
                i = 0
                while i <= whole:
                    store(s, i, load(s, i) + term(load(g, p + i), load(y, p + i)))
                    i += lanes(g)
                if i < n:
                    store(s, i, load(s, i) + term(load_first(g, p + i, n - i), load_first(y, p + i, n - i)))
            for p in range(begin, begin + length * inner, inner):
                i = 0
                while i <= whole:
                    store(gx, p + i, gradient(load(g, p + i), load(y, p + i), load(s, i)))
                    i += lanes(g)
                if i < n:
                    v = gradient(load_first(g, p + i, n - i), load_first(y, p + i, n - i), load(s, i))
                    store_first(gx, p + i, v, n - i)
            column += n

    return body


softmax_rows: Final = _rows(False)
log_softmax_rows: Final = _rows(True)
softmax_columns: Final = _columns(False)
log_softmax_columns: Final = _columns(True)
softmax_grad_rows: Final = _rows_grad(_product, _softmax_grad)
log_softmax_grad_rows: Final = _rows_grad(_itself, _log_softmax_grad)
softmax_grad_columns: Final = _columns_grad(_product, _softmax_grad)
log_softmax_grad_columns: Final = _columns_grad(_itself, _log_softmax_grad)
