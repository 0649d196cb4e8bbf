# mypy: ignore-errors
"""Lines of an array along an axis: selected, or a sparse matrix times them; and two along adjacent axes."""

from __future__ import annotations

from typing import Any

from ..machine.compiler import Array, Table, helper
from ..machine.simd import ahead, full, lanes, load, load_first, store, store_first, until_aligned


@helper
def _number(x: Any, source: int, weights: Any, starts: Any, indices: Any, row: int) -> Any:
    """The sum of weights[k] x[source + indices[k]] over the entries k of a row, in this order."""
    first, last = starts[row], starts[row + 1]
    if first == last:
        return weights[0] * 0
    total = x[source + indices[first]] * weights[first]
    for k in range(first + 1, last):
        total += x[source + indices[k]] * weights[k]
    return total


@helper
def _line(
    x: Any, source: int, weights: Any, starts: Any, indices: Any, row: int, y: Any, target: int, inner: int
) -> None:
    """As ``_number`` for lines of ``inner`` contiguous elements, into y."""
    one, four = lanes(x), 4 * lanes(x)
    first, last = starts[row], starts[row + 1]
    i = 0
    while i + four <= inner:
        for j in (i, i + one, i + 2 * one, i + 3 * one):
            ahead(y, target + j)
        a, b, c, d = full(x, 0.0), full(x, 0.0), full(x, 0.0), full(x, 0.0)
        if first < last:
            # the first product is not added to 0: a weight of 1 must give the bits of x, also of -0
            at, w = source + indices[first] * inner + i, full(x, weights[first])
            a, b = load(x, at) * w, load(x, at + one) * w
            c, d = load(x, at + 2 * one) * w, load(x, at + 3 * one) * w
        for k in range(first + 1, last):
            at, w = source + indices[k] * inner + i, full(x, weights[k])
            a, b = a + load(x, at) * w, b + load(x, at + one) * w
            c, d = c + load(x, at + 2 * one) * w, d + load(x, at + 3 * one) * w
        store(y, target + i, a)
        store(y, target + i + one, b)
        store(y, target + i + 2 * one, c)
        store(y, target + i + 3 * one, d)
        i += four
    while i < inner:
        m = min(one, inner - i)
        a = full(x, 0.0)
        if first < last:
            a = load_first(x, source + indices[first] * inner + i, m) * weights[first]
        for k in range(first + 1, last):
            a = a + load_first(x, source + indices[k] * inner + i, m) * weights[k]
        store_first(y, target + i, a, m)
        i += m


def lines(
    task: int,
    worker: int,
    x: Array,
    indices: Table,
    y: Array,
    rows: int,
    extent: int,
    inner: int,
    total_rows: int,
    per_task: int,
    filling: float,
) -> None:
    """y[o, r, i] = x[o, indices[r], i], and ``filling`` where the index is -1"""
    nothing = full(y, filling)
    for row in range(task * per_task, min(total_rows, (task + 1) * per_task)):
        o = row // rows
        k = row * inner
        index = indices[row - o * rows]
        last, source = k + inner, (o * extent + index) * inner - k
        if index < 0:
            while k + lanes(y) <= last:
                ahead(y, k)
                store(y, k, nothing)
                k += lanes(y)
            store_first(y, k, nothing, last - k)
            continue
        if inner == 1:
            y[k] = x[source + k]
            continue
        few = min(inner, until_aligned(y, k))
        store_first(y, k, load_first(x, source + k, few), few)
        k += few
        while k + lanes(x) <= last:
            ahead(y, k)
            store(y, k, load(x, source + k))
            k += lanes(x)
        store_first(y, k, load_first(x, source + k, last - k), last - k)


def csr_product(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    starts: Table,
    indices: Table,
    y: Array,
    rows: int,
    extent: int,
    inner: int,
    total_rows: int,
    per_task: int,
) -> None:
    """y[o, r, i] = sum over k in [starts[r], starts[r + 1]) of weights[k] x[o, indices[k], i], in this order."""
    for row in range(task * per_task, min(total_rows, (task + 1) * per_task)):
        o = row // rows
        if inner == 1:
            y[row] = _number(x, o * extent, weights, starts, indices, row - o * rows)
        else:
            _line(x, o * extent * inner, weights, starts, indices, row - o * rows, y, row * inner, inner)


def csr_product_pair(
    task: int,
    worker: int,
    x: Array,
    weights: Array,
    starts: Table,
    indices: Table,
    next_weights: Array,
    next_starts: Table,
    next_indices: Table,
    y: Array,
    room: Array,
    rows: int,
    extent: int,
    columns: int,
    across: int,
    inner: int,
    total_rows: int,
    per_task: int,
) -> None:
    """``csr_product`` along an axis, then along the next one: each row (across, inner) stays in the cache between."""
    between = worker * across * inner
    for row in range(task * per_task, min(total_rows, (task + 1) * per_task)):
        o = row // rows
        width = across * inner
        _line(x, o * extent * width, weights, starts, indices, row - o * rows, room, between, width)
        for q in range(columns):
            if inner == 1:
                y[row * columns + q] = _number(room, between, next_weights, next_starts, next_indices, q)
            else:
                to = (row * columns + q) * inner
                _line(room, between, next_weights, next_starts, next_indices, q, y, to, inner)
