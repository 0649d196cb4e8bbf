"""Kernels of arrays with the numbers of a reduction beside them: what a reduction's gradient or a normalisation is.

x is dense and seen as (outer, middle, inner); a, b, c and d belong to some of these axes and have step 0 along others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler import Array, helper
from ..simd import ahead, both, either, fma, full, lanes, load, load_first, select, store, store_first, until_aligned
from .math import exp

Body = Callable[..., None]


def _one(function: Callable[[Any, Any, Any, Any], Any]) -> Body:
    """z = function(x, a, b, c); the last row may be shorter than ``inner``."""

    def body(
        task: int, worker: int, x: Array, a: Array, b: Array, c: Array, z: Array, n: int, inner: int, middle: int,
        rows_per_task: int, outer_step: int, middle_step: int, inner_step: int,
    ) -> None:  # fmt: skip
        row = task * rows_per_task
        last_row = min((n + inner - 1) // inner, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        while row < last_row:
            q = o * outer_step + m * middle_step
            k = row * inner
            last = min(n, k + inner)
            if inner_step == 1:
                while k + lanes(x) <= last:
                    ahead(x, k)
                    ahead(z, k)
                    store(z, k, function(load(x, k), load(a, q), load(b, q), load(c, q)))
                    k += lanes(x)
                    q += lanes(x)
                if k < last:
                    n_a, n_b, n_c = load_first(a, q, last - k), load_first(b, q, last - k), load_first(c, q, last - k)
                    store_first(z, k, function(load_first(x, k, last - k), n_a, n_b, n_c), last - k)
            else:
                all_a, all_b, all_c = full(x, a[q]), full(x, b[q]), full(x, c[q])
                while k + lanes(x) <= last:
                    ahead(x, k)
                    ahead(z, k)
                    store(z, k, function(load(x, k), all_a, all_b, all_c))
                    k += lanes(x)
                if k < last:
                    store_first(z, k, function(load_first(x, k, last - k), all_a, all_b, all_c), last - k)
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    return body


def spread(
    task: int, worker: int, a: Array, z: Array, n: int, inner: int, middle: int, rows_per_task: int, outer_step: int,
    middle_step: int, inner_step: int,
) -> None:  # fmt: skip
    """z = a; rows as in ``_one``"""
    row = task * rows_per_task
    last_row = min((n + inner - 1) // inner, row + rows_per_task)
    o = row // middle
    m = row - o * middle
    while row < last_row:
        q = o * outer_step + m * middle_step
        k = row * inner
        last = min(n, k + inner)
        value = full(z, a[q])
        few = min(last, k + until_aligned(z, k))  # a register in two cache lines takes longer to go
        while k < last:
            if k < few:
                if inner_step == 1:
                    value = load_first(a, q, few - k)
                store_first(z, k, value, few - k)
                q += few - k
                k = few
            while k + lanes(z) <= last:
                ahead(z, k)
                if inner_step == 1:
                    value = load(a, q)
                    q += lanes(z)
                store(z, k, value)
                k += lanes(z)
            few = last
        row += 1
        m += 1
        if m == middle:
            m = 0
            o += 1


@helper
def _normalise(x: Any, mean: Any, factor: Any, shift: Any) -> Any:
    return fma(x - mean, factor, shift)


@helper
def _ties(x: Any, y: Any, g: Any, unused: Any) -> Any:
    return select(either(x == y, both(x != x, y != y)), g, 0.0)


@helper
def _exponential(x: Any, y: Any, g: Any, unused: Any) -> Any:
    return g * exp(x - y)


@helper
def _signed(x: Any, g: Any, unused: Any, unused_too: Any) -> Any:
    return select(x > 0.0, g, select(x < 0.0, -g, x * g))  # the last is for 0 and NaN


normalise, ties = helper(_one(_normalise)), _one(_ties)
logsumexp_grad, signed = _one(_exponential), _one(_signed)


@helper
def normalise_grad(
    task: int, worker: int, g: Array, x: Array, a: Array, b: Array, c: Array, d: Array, z: Array, n: int, inner: int,
    middle: int, rows_per_task: int, outer_step: int, middle_step: int, inner_step: int,
) -> None:  # fmt: skip
    """z = g * b + (x - a) * c + d"""
    row = task * rows_per_task
    last_row = min((n + inner - 1) // inner, row + rows_per_task)
    o = row // middle
    m = row - o * middle
    while row < last_row:
        q = o * outer_step + m * middle_step
        k = row * inner
        last = min(n, k + inner)
        if inner_step == 1:
            while k + lanes(x) <= last:
                ahead(g, k)
                ahead(x, k)
                ahead(z, k)
                rest = fma(load(x, k) - load(a, q), load(c, q), load(d, q))
                store(z, k, fma(load(g, k), load(b, q), rest))
                k += lanes(x)
                q += lanes(x)
            if k < last:
                count = last - k
                away = load_first(x, k, count) - load_first(a, q, count)
                rest = fma(away, load_first(c, q, count), load_first(d, q, count))
                store_first(z, k, fma(load_first(g, k, count), load_first(b, q, count), rest), count)
        else:
            all_a, all_b, all_c, all_d = full(x, a[q]), full(x, b[q]), full(x, c[q]), full(x, d[q])
            while k + lanes(x) <= last:
                ahead(g, k)
                ahead(x, k)
                ahead(z, k)
                store(z, k, fma(load(g, k), all_b, fma(load(x, k) - all_a, all_c, all_d)))
                k += lanes(x)
            if k < last:
                rest = fma(load_first(x, k, last - k) - all_a, all_c, all_d)
                store_first(z, k, fma(load_first(g, k, last - k), all_b, rest), last - k)
        row += 1
        m += 1
        if m == middle:
            m = 0
            o += 1
