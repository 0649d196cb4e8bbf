# mypy: ignore-errors
"""Kernels that combine each number with all before it along one axis of a dense array, seen as (outer, length, inner).

The carry is in float64: each result is as accurate as its type allows, however long the axis. ``reverse``: from the
end. ``linear``: y[i] = x[i] + factor[i] * y[i - 1], used by the gradients of products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..machine.compiler import Array, helper
from ..machine.simd import (
    ONE,
    PART,
    WIDE,
    Access,
    double,
    first_lane,
    fma,
    full,
    full_like,
    lanes,
    last_lane,
    load_first,
    products_after,
    products_before,
    rounded,
    store_first,
    sums_after,
    sums_before,
)
from ..memory.axes_jit import columns_of
from .reduction_jit import add, mul

Body = Callable[..., None]


def _rows(combine: Callable[[Any, Any], Any], before: Any, after: Any, start: float) -> Body:
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


def _columns(combine: Callable[[Any, Any], Any], start: float) -> Body:
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


cumsum_rows, cumsum_columns = _rows(add, sums_before, sums_after, 0.0), _columns(add, 0.0)
cumprod_rows = _rows(mul, products_before, products_after, 1.0)
cumprod_columns = _columns(mul, 1.0)


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
