"""Loop texts of element-wise kernels: one for each kind of operands, the function chosen when compiled.

A task is ``CHUNK`` neighbouring elements, or some rows of a broadcast result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, Truth
from ..simd import (
    ahead,
    full,
    lanes,
    load,
    load_first,
    load_first_mask,
    load_mask,
    select,
    store,
    store_first,
    store_first_mask,
    store_mask,
    until_aligned,
)

Body = Callable[..., None]


# Most of the texts below begin with a few elements: the registers behind them are stored at multiples of their size
# (NumPy's arrays are aligned to 16 bytes only), and end with what is left.


def one(function: Callable[[Any], Any]) -> Body:
    """y[i] = function(x[i]) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, n: int) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(y, i))
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        while i < last:
            while i < few:
                m = min(one, few - i)
                store_first(y, i, function(load_first(x, i, m)), m)
                i += m
            few = last
            # four registers at once: the CPU overlaps their long chains of operations
            while i + four <= last:
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                    ahead(y, j)
                a, b, c, d = load(x, i), load(x, i + one), load(x, i + two), load(x, i + three)
                store(y, i, function(a))
                store(y, i + one, function(b))
                store(y, i + two, function(c))
                store(y, i + three, function(d))
                i += four

    return body


def one_and_number(function: Callable[[Any, float], Any]) -> Body:
    """y[i] = function(x[i], number) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, n: int, number: float) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(y, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(y, i, function(load_first(x, i, m), number), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                store(y, i, function(load(x, i), number))
                i += lanes(x)

    return body


def two(function: Callable[[Any, Any], Any]) -> Body:
    """z[i] = function(x[i], y[i]) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, z: Array, n: int) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(z, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(z, i, function(load_first(x, i, m), load_first(y, i, m)), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                ahead(z, i)
                store(z, i, function(load(x, i), load(y, i)))
                i += lanes(x)

    return body


def two_broadcast(function: Callable[[Any, Any], Any]) -> Body:
    """z[o, m, i] = function(x[o, m, i], y[o, m, i]): z dense with n elements, x and y with any steps along o and m.

    The step of x and y along i is 0 or 1. The last row may be shorter than ``inner``.
    """

    def body(
        task: int, worker: int, x: Array, y: Array, z: Array, n: int, inner: int, middle: int, rows_per_task: int,
        x_outer: int, x_middle: int, x_inner: int, y_outer: int, y_middle: int, y_inner: int,
    ) -> None:  # fmt: skip
        row = task * rows_per_task
        last_row = min((n + inner - 1) // inner, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        while row < last_row:
            p = o * x_outer + m * x_middle
            q = o * y_outer + m * y_middle
            k = row * inner
            last = min(n, k + inner)
            a = full(x, x[p])
            b = full(x, y[q])
            few = until_aligned(z, k)
            if few > 0 and last - k > 4 * lanes(x):
                if x_inner == 1:
                    a = load_first(x, p, few)
                    p += few
                if y_inner == 1:
                    b = load_first(y, q, few)
                    q += few
                store_first(z, k, function(a, b), few)
                k += few
            while k + lanes(x) <= last:
                ahead(z, k)
                if x_inner == 1:
                    ahead(x, p)
                    a = load(x, p)
                    p += lanes(x)
                if y_inner == 1:
                    ahead(y, q)
                    b = load(y, q)
                    q += lanes(x)
                store(z, k, function(a, b))
                k += lanes(x)
            if k < last:
                if x_inner == 1:
                    a = load_first(x, p, last - k)
                if y_inner == 1:
                    b = load_first(y, q, last - k)
                store_first(z, k, function(a, b), last - k)
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    return body


def one_and_numbers(function: Callable[[Any, float, float, float], Any]) -> Body:
    """y[i] = function(x[i], p, q, r) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, n: int, p: float, q: float, r: float) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(y, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(y, i, function(load_first(x, i, m), p, q, r), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                store(y, i, function(load(x, i), p, q, r))
                i += lanes(x)

    return body


def two_and_numbers(function: Callable[[Any, Any, float, float, float], Any]) -> Body:
    """z[i] = function(x[i], y[i], p, q, r) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, z: Array, n: int, p: float, q: float, r: float) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(z, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(z, i, function(load_first(x, i, m), load_first(y, i, m), p, q, r), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                ahead(z, i)
                store(z, i, function(load(x, i), load(y, i), p, q, r))
                i += lanes(x)

    return body


def three_and_numbers(function: Callable[[Any, Any, Any, float, float, float], Any]) -> Body:
    """u[i] = function(x[i], y[i], z[i], p, q, r) over dense memory."""

    def body(
        task: int, worker: int, x: Array, y: Array, z: Array, u: Array, n: int, p: float, q: float, r: float
    ) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(u, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                a, b, c = load_first(x, i, m), load_first(y, i, m), load_first(z, i, m)
                store_first(u, i, function(a, b, c, p, q, r), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                ahead(z, i)
                ahead(u, i)
                store(u, i, function(load(x, i), load(y, i), load(z, i), p, q, r))
                i += lanes(x)

    return body


def three(function: Callable[[Any, Any, Any, float], Any]) -> Body:
    """u[i] = function(x[i], y[i], z[i], p) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, z: Array, u: Array, n: int, p: float) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(u, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(u, i, function(load_first(x, i, m), load_first(y, i, m), load_first(z, i, m), p), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                ahead(z, i)
                ahead(u, i)
                store(u, i, function(load(x, i), load(y, i), load(z, i), p))
                i += lanes(x)

    return body


def pair(first: Callable[[Any, Any, Any], Any], second: Callable[[Any, Any, Any], Any]) -> Body:
    """Both gradients of an operator of x and y: gx[i] = first(g[i], x[i], y[i]), gy[i] = second(g[i], x[i], y[i]).

    One that is not wanted is not written.
    """

    def body(
        task: int, worker: int, g: Array, x: Array, y: Array, gx: Array, gy: Array, n: int, want_x: int, want_y: int
    ) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = until_aligned(gx, i)
        while i < last:
            m = min(lanes(x), last - i)
            if few > 0:
                m = min(few, last - i)
                few = 0
            if m == lanes(x):
                ahead(g, i)
                ahead(x, i)
                ahead(y, i)
                if want_x:
                    ahead(gx, i)
                    store(gx, i, first(load(g, i), load(x, i), load(y, i)))
                if want_y:
                    ahead(gy, i)
                    store(gy, i, second(load(g, i), load(x, i), load(y, i)))
            else:
                a, b, c = load_first(g, i, m), load_first(x, i, m), load_first(y, i, m)
                if want_x:
                    store_first(gx, i, first(a, b, c), m)
                if want_y:
                    store_first(gy, i, second(a, b, c), m)
            i += m

    return body


def one_to_truth(function: Callable[[Any], Any]) -> Body:
    """y[i] = function(x[i]), true or false, over dense memory."""

    def body(task: int, worker: int, x: Array, y: Truth, n: int) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        while i + lanes(x) <= last:
            ahead(x, i)
            store_mask(y, i, function(load(x, i)))
            i += lanes(x)
        if i < last:
            store_first_mask(y, i, function(load_first(x, i, last - i)), last - i)

    return body


def two_to_truth(function: Callable[[Any, Any], Any]) -> Body:
    """As ``two_broadcast``, but z[o, m, i] is true or false."""

    def body(
        task: int, worker: int, x: Array, y: Array, z: Truth, n: int, inner: int, middle: int, rows_per_task: int,
        x_outer: int, x_middle: int, x_inner: int, y_outer: int, y_middle: int, y_inner: int,
    ) -> None:  # fmt: skip
        row = task * rows_per_task
        last_row = min((n + inner - 1) // inner, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        while row < last_row:
            p = o * x_outer + m * x_middle
            q = o * y_outer + m * y_middle
            k = row * inner
            last = min(n, k + inner)
            a = full(x, x[p])
            b = full(x, y[q])
            while k + lanes(x) <= last:
                if x_inner == 1:
                    ahead(x, p)
                    a = load(x, p)
                    p += lanes(x)
                if y_inner == 1:
                    ahead(y, q)
                    b = load(y, q)
                    q += lanes(x)
                store_mask(z, k, function(a, b))
                k += lanes(x)
            if k < last:
                if x_inner == 1:
                    a = load_first(x, p, last - k)
                if y_inner == 1:
                    b = load_first(y, q, last - k)
                store_first_mask(z, k, function(a, b), last - k)
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    return body


def choose(
    task: int, worker: int, condition: Truth, x: Array, y: Array, z: Array, n: int, x_step: int, y_step: int
) -> None:
    """z[i] = x[i x_step] where condition[i], y[i y_step] elsewhere; the steps are 0 or 1."""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    a, b = full(z, x[0]), full(z, y[0])
    few = until_aligned(z, i)
    while i < last:
        m = min(lanes(z), last - i)
        if few > 0:
            m = min(few, last - i)
            few = 0
        if m == lanes(z):
            ahead(z, i)
            if x_step == 1:
                ahead(x, i)
                a = load(x, i)
            if y_step == 1:
                ahead(y, i)
                b = load(y, i)
            store(z, i, select(load_mask(condition, i, a), a, b))
        else:
            if x_step == 1:
                a = load_first(x, i, m)
            if y_step == 1:
                b = load_first(y, i, m)
            store_first(z, i, select(load_first_mask(condition, i, a, m), a, b), m)
        i += m
