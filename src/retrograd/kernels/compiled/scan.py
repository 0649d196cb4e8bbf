"""Kernels that combine each number with all before it along one axis of a dense array, seen as (outer, length, inner).

What is carried along is in float64: each result is as exact as its type can be, however long the axis is.
``reverse``: with all behind it instead. ``linear``: y[i] = x[i] + factor[i] * y[i - 1], which the gradients of products
are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler import Array, helper
from ..simd import (
    double,
    first_lane,
    fma,
    full,
    lanes,
    last_lane,
    load,
    load_first,
    load_first_or,
    products_before,
    products_behind,
    rounded,
    store,
    store_first,
    sums_before,
    sums_behind,
)

Body = Callable[..., None]


@helper
def _add(x: Any, y: Any) -> Any:
    return x + y


@helper
def _mul(x: Any, y: Any) -> Any:
    return x * y


def _rows(combine: Callable[[Any, Any], Any], before: Any, behind: Any, start: float) -> Body:
    """A register at a time: its lanes among themselves, then with what came before the register."""

    def body(task: int, worker: int, x: Array, y: Array, rows: int, length: int, per_task: int, reverse: int) -> None:
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            begin = row * length
            end = begin + length
            so_far = double(full(x, start))
            if reverse:
                while end - lanes(x) >= begin:
                    end -= lanes(x)
                    v = combine(behind(double(load(x, end))), so_far)
                    store(y, end, rounded(v, x))
                    so_far = first_lane(v)
                if begin < end:
                    v = behind(double(load_first_or(x, begin, end - begin, start)))
                    store_first(y, begin, rounded(combine(v, so_far), x), end - begin)
            else:
                while begin + lanes(x) <= end:
                    v = combine(before(double(load(x, begin))), so_far)
                    store(y, begin, rounded(v, x))
                    so_far = last_lane(v)
                    begin += lanes(x)
                if begin < end:
                    v = before(double(load_first_or(x, begin, end - begin, start)))
                    store_first(y, begin, rounded(combine(v, so_far), x), end - begin)

    return body


def _columns(combine: Callable[[Any, Any], Any], start: float) -> Body:
    """A task is ``width`` columns of one o, four registers of them at a time."""

    def body(task: int, worker: int, x: Array, y: Array, length: int, inner: int, width: int, reverse: int) -> None:
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        blocks = (inner + width - 1) // width
        o = task // blocks
        c = (task - o * blocks) * width
        end = min(inner, c + width)
        step, first = inner, o * length * inner
        if reverse:
            step, first = -inner, (o * length + length - 1) * inner
        while c + four <= end:
            sum_a = double(full(x, start))
            sum_b, sum_c, sum_d = sum_a, sum_a, sum_a
            k = first + c
            for _ in range(length):
                sum_a = combine(sum_a, double(load(x, k)))
                sum_b = combine(sum_b, double(load(x, k + one)))
                sum_c = combine(sum_c, double(load(x, k + two)))
                sum_d = combine(sum_d, double(load(x, k + three)))
                store(y, k, rounded(sum_a, x))
                store(y, k + one, rounded(sum_b, x))
                store(y, k + two, rounded(sum_c, x))
                store(y, k + three, rounded(sum_d, x))
                k += step
            c += four
        while c < end:
            n = min(one, end - c)
            sum_a = double(full(x, start))
            k = first + c
            for _ in range(length):
                sum_a = combine(sum_a, double(load_first(x, k, n)))
                store_first(y, k, rounded(sum_a, x), n)
                k += step
            c += one

    return body


cumsum_rows, cumsum_columns = _rows(_add, sums_before, sums_behind, 0.0), _columns(_add, 0.0)
cumprod_rows = _rows(_mul, products_before, products_behind, 1.0)
cumprod_columns = _columns(_mul, 1.0)


def linear_rows(
    task: int, worker: int, x: Array, factor: Array, y: Array, rows: int, length: int, per_task: int, reverse: int
) -> None:
    step, first = 1, 0
    if reverse:
        step, first = -1, length - 1
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        k = row * length + first
        a = 1.0 * x[k]
        y[k] = a
        for _ in range(length - 1):
            k += step
            a = x[k] + factor[k] * a
            y[k] = a


def linear_columns(
    task: int, worker: int, x: Array, factor: Array, y: Array, length: int, inner: int, width: int, reverse: int
) -> None:
    one = lanes(x)
    blocks = (inner + width - 1) // width
    o = task // blocks
    c = (task - o * blocks) * width
    end = min(inner, c + width)
    step, first = inner, o * length * inner
    if reverse:
        step, first = -inner, (o * length + length - 1) * inner
    while c < end:
        n = min(one, end - c)
        k = first + c
        a = load_first(x, k, n)
        store_first(y, k, a, n)
        for _ in range(length - 1):
            k += step
            a = fma(load_first(factor, k, n), a, load_first(x, k, n))
            store_first(y, k, a, n)
        c += one
