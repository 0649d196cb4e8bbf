# mypy: ignore-errors
"""Tasks of indexing, top-k, and sparse-dense products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .machine.compiler import Array, Table, helper
from .machine.simd import (
    ahead,
    any_lane,
    bits_of,
    buffer,
    exceeds,
    full,
    lanes,
    load,
    load_first,
    load_first_or,
    select,
    shift_right,
    store,
    store_first,
    total,
    until_aligned,
)
from .math.elementary_jit import integer

# ---- Kernels that move elements by index along one axis of arrays in C order, seen as (outer, length, inner) --------
# and find the indices of the k largest and of the k-th


Body = Callable[..., None]
_NAN = float("nan")


def pick(
    task: int,
    worker: int,
    x: Array,
    indices: Table,
    y: Array,
    outer: int,
    length: int,
    count: int,
    inner: int,
    per_task: int,
) -> None:
    """y[o, j, i] = x[o, indices[o, j, i], i]"""
    for o in range(task * per_task, min(outer, (task + 1) * per_task)):
        k = o * count * inner
        if inner == 1:
            for j in range(k, k + count):
                y[j] = x[o * length + indices[j]]
            continue
        for _ in range(count):
            for i in range(o * length * inner, o * length * inner + inner):
                y[k] = x[indices[k] * inner + i]
                k += 1


def place(
    task: int,
    worker: int,
    g: Array,
    indices: Table,
    y: Array,
    outer: int,
    length: int,
    count: int,
    inner: int,
    width: int,
    per_task: int,
) -> None:
    """y[o, indices[o, j, i], i] = g[o, j, i], and 0 elsewhere; a task is ``width`` columns of some o."""
    blocks = (inner + width - 1) // width
    part = task // blocks
    column = (task - part * blocks) * width
    last = min(inner, column + width)
    zero = full(y, 0.0)
    for o in range(part * per_task, min(outer, (part + 1) * per_task)):
        base = o * length * inner
        if count == length:  # every position is written
            pass
        elif last - column == inner:
            i = base
            end = base + length * inner
            while i + lanes(y) <= end:
                store(y, i, zero)
                i += lanes(y)
            while i < end:
                y[i] = 0.0
                i += 1
        else:
            for r in range(base, base + length * inner, inner):
                i = r + column
                while i + lanes(y) <= r + last:
                    store(y, i, zero)
                    i += lanes(y)
                while i < r + last:
                    y[i] = 0.0
                    i += 1
        if inner == 1:
            for j in range(o * count, (o + 1) * count):
                y[base + indices[j]] = g[j]
            continue
        for j in range(count):
            k = (o * count + j) * inner
            for i in range(column, last):
                y[base + indices[k + i] * inner + i] = g[k + i]


@helper
def _above(x: Any, y: Any) -> Any:
    return exceeds(x, y)


@helper
def _below(x: Any, y: Any) -> Any:
    return exceeds(y, x)  # NaN is last here


@helper
def _is_above(x: float, y: float) -> bool:
    return x > y or (x != x and y == y)


@helper
def _is_below(x: float, y: float) -> bool:
    return x < y or (x == x and y != y)


def _topk(beyond: Callable[[Any, Any], Any], is_beyond: Callable[[float, float], bool]) -> Body:
    """The first k of each row, in order. Most registers are skipped: no number precedes the k-th found so far."""

    def body(
        task: int, worker: int, x: Array, values: Array, indices: Table, rows: int, length: int, k: int, per_task: int
    ) -> None:
        for row in range(task * per_task, min(rows, (task + 1) * per_task)):
            begin = row * length
            first = row * k
            last = first + k - 1
            i = 0
            while i < length:
                if i >= k and i + lanes(x) <= length:
                    if not any_lane(beyond(load(x, begin + i), full(x, values[last]))):
                        i += lanes(x)
                        continue
                    stop = i + lanes(x)
                else:
                    stop = i + 1
                while i < stop:
                    value = x[begin + i]
                    place = last
                    if i < k:
                        place = first + i
                    if i < k or is_beyond(value, values[last]):
                        while place > first and is_beyond(value, values[place - 1]):
                            values[place] = values[place - 1]
                            indices[place] = indices[place - 1]
                            place -= 1
                        values[place] = value
                        indices[place] = i
                    i += 1

    return body


largest: Final = _topk(_above, _is_above)
smallest: Final = _topk(_below, _is_below)


_sign_bit = integer(31, 63)
_last = integer(2**31 - 1, 2**63 - 1)
_marks = buffer(16)  # lanes of a register, at most
_COUNTED = 1 << 20  # numbers that lanes count exactly


@helper
def _key(v: Any) -> Any:
    """Integers in the order of the numbers: -0 is 0, NaN is last."""
    bits = bits_of(v + 0.0)
    return select(v == v, bits ^ (shift_right(bits, _sign_bit(v)) & _last(v)), _last(v))


def kth(task: int, worker: int, x: Array, indices: Table, rows: int, length: int, k: int, per_task: int) -> None:
    """The index of the k-th smallest number of each row, counted from 0, ties in order.

    Its key is found by bisection, one bit per pass over the row.
    """
    marks, one, two = _marks(x), lanes(x), 2 * lanes(x)
    yes = full(x, 1.0)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        low, high, below = -_last(x) - 1, _last(x), 0  # below: how many keys are less than low
        while low < high:
            middle = (low & high) + ((low ^ high) >> 1)
            count = 0
            i = begin
            while i < end:
                last = min(end, i + _COUNTED)
                a = full(x, 0.0)
                b = a
                while i + two <= last:
                    a = a + select(_key(load(x, i)) <= middle, yes, 0.0)
                    b = b + select(_key(load(x, i + one)) <= middle, yes, 0.0)
                    i += two
                while i < last:
                    a = a + select(_key(load_first_or(x, i, last - i, _NAN)) <= middle, yes, 0.0)
                    i += one
                i = last
                count += int(total(a + b))
            if count > k:
                high = middle
            else:
                low, below = middle + 1, count
        place, left = begin, k - below  # of those with this key
        i = begin
        while left >= 0:
            same = _key(load_first_or(x, i, end - i, _NAN)) == low
            if any_lane(same):
                store(marks, 0, select(same, yes, 0.0))
                for j in range(min(one, end - i)):
                    if marks[j] > 0.0:
                        if left == 0:
                            place = i + j
                        left -= 1
            i += one
        indices[row] = place - begin


# ---- Lines of an array along an axis --------------------------------------------------------------------------------


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
    scratch: Array,
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
        _line(x, o * extent * width, weights, starts, indices, row - o * rows, scratch, between, width)
        for q in range(columns):
            if inner == 1:
                y[row * columns + q] = _number(scratch, between, next_weights, next_starts, next_indices, q)
            else:
                to = (row * columns + q) * inner
                _line(scratch, between, next_weights, next_starts, next_indices, q, y, to, inner)
