"""Kernels of cross entropy and of the negative log-likelihood over one axis of a dense array: (outer, length, inner).

As in ``softmax.py``: ``rows`` where the axis of classes is innermost, ``columns`` where it is not. Nothing of the size
of x is written but the gradient: of each place, the maximum and the logarithm of the sum are kept. A label below 0
counts nowhere. With smoothing e, the target is 1 - e of the label and e / length of every class.
"""

from __future__ import annotations

import math as scalar

from ..arrays import CHUNK
from ..compiler import Array, Table
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

_INFINITY = float("inf")
_maxima, _sums, _shifts = buffer(CHUNK // 32), buffer(CHUNK // 32), buffer(CHUNK // 32)


def rows(
    task: int, worker: int, x: Array, labels: Table, loss: Array, tops: Array, logs: Array,
    rows: int, length: int, per_task: int, smoothing: float,
) -> None:  # fmt: skip
    """loss[n] = (1 - e) (log s - (x[label] - top)) + e (log s - mean(x - top)), s = sum exp(x - top)"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        one, two = lanes(x), 2 * lanes(x)
        a = full(x, -_INFINITY)
        b = a
        i = begin
        while i + two <= end:
            ahead(x, i)
            ahead(x, i + one)
            v, w = load(x, i), load(x, i + one)
            a = select(v > a, v, a)
            b = select(w > b, w, b)
            i += two
        while i < end:
            v = load_first_or(x, i, end - i, -_INFINITY)
            a = select(v > a, v, a)
            i += one
        top = full(x, largest(select(b > a, b, a)))
        a = full(x, 0.0)
        b, shift = a, a
        i = begin
        while i + two <= end:
            v, w = load(x, i) - top, load(x, i + one) - top
            a = a + exp_negative(v)
            b = b + exp_negative(w)
            if smoothing > 0.0:
                shift = shift + (v + w)
            i += two
        while i < end:
            v = load_first_or(x, i, end - i, -_INFINITY) - top
            a = a + exp_negative(v)
            if smoothing > 0.0:
                shift = shift + select(load_first_or(x, i, end - i, _INFINITY) == _INFINITY, 0.0, v)
            i += one
        store_first(tops, row, top, 1)
        store_first(logs, row, log(full(x, total(a + b))), 1)
        label = labels[row]
        loss[row] = 0.0
        if label >= 0:
            y = logs[row] - (x[begin + label] - tops[row])
            if smoothing > 0.0:
                y = (1.0 - smoothing) * y + smoothing * (logs[row] - total(shift) / length)
            loss[row] = y


def columns(
    task: int, worker: int, x: Array, labels: Table, loss: Array, tops: Array, logs: Array,
    length: int, inner: int, width: int, block: int, smoothing: float,
) -> None:  # fmt: skip
    """As ``rows``; a task is ``width`` columns of one o, ``block`` of them at a time."""
    top, s, shift = _maxima(x), _sums(x), _shifts(x)
    parts = (inner + width - 1) // width
    o = task // parts
    column = (task - o * parts) * width
    last = min(inner, column + width)
    while column < last:
        n = min(block, last - column)
        begin = o * length * inner + column
        for i in range(0, n, lanes(x)):
            store(top, i, full(x, -_INFINITY))
            store(s, i, full(x, 0.0))
            store(shift, i, full(x, 0.0))
        p = begin
        for _ in range(length):
            for i in range(0, n, lanes(x)):
                v, t = load_first(x, p + i, n - i), load(top, i)
                store(top, i, select(v > t, v, t))
            p += inner
        p = begin
        for _ in range(length):
            for i in range(0, n, lanes(x)):
                v = load_first(x, p + i, n - i) - load(top, i)
                store(s, i, load(s, i) + exp_negative(v))
                if smoothing > 0.0:
                    store(shift, i, load(shift, i) + v)
            p += inner
        place = o * inner + column
        for i in range(0, n, lanes(x)):
            store_first(tops, place + i, load(top, i), n - i)
            store_first(logs, place + i, log(load(s, i)), n - i)
        for i in range(n):
            label = labels[place + i]
            loss[place + i] = 0.0
            if label >= 0:
                y = logs[place + i] - (x[begin + label * inner + i] - top[i])
                if smoothing > 0.0:
                    y = (1.0 - smoothing) * y + smoothing * (logs[place + i] - shift[i] / length)
                loss[place + i] = y
        column += n


def rows_grad(
    task: int, worker: int, g: Array, x: Array, labels: Table, tops: Array, logs: Array, gx: Array,
    rows: int, length: int, per_task: int, smoothing: float,
) -> None:  # fmt: skip
    """gx[n, c] = g[n] (probability - e / length - (1 - e if c is the label)), and 0 for a label below 0"""
    share = smoothing / length
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        label = labels[row]
        i = begin
        if label < 0:
            while i < end:
                store_first(gx, i, full(g, 0.0), end - i)
                i += lanes(g)
        else:
            factor, top, logarithm = full(g, g[row]), full(g, tops[row]), full(g, logs[row])
            while i + lanes(g) <= end:
                ahead(x, i)
                ahead(gx, i)
                store(gx, i, (exp((load(x, i) - top) - logarithm) - share) * factor)
                i += lanes(g)
            if i < end:
                y = (exp((load_first(x, i, end - i) - top) - logarithm) - share) * factor
                store_first(gx, i, y, end - i)
            y = scalar.expm1((x[begin + label] - tops[row]) - logs[row])
            gx[begin + label] = g[row] * (y + (smoothing - share))


def columns_grad(
    task: int, worker: int, g: Array, x: Array, labels: Table, tops: Array, logs: Array, gx: Array,
    length: int, inner: int, width: int, smoothing: float,
) -> None:  # fmt: skip
    """As ``rows_grad``; a task is ``width`` columns of one o. What is not counted is cleared at the end."""
    share = smoothing / length
    parts = (inner + width - 1) // width
    o = task // parts
    column = (task - o * parts) * width
    last = min(inner, column + width)
    for c in range(length):
        row = (o * length + c) * inner
        for i in range(column, last, lanes(g)):
            n, place = last - i, o * inner + i
            ahead(x, row + i)
            ahead(gx, row + i)
            v = (load_first(x, row + i, n) - load_first(tops, place, n)) - load_first(logs, place, n)
            store_first(gx, row + i, (exp(v) - share) * load_first(g, place, n), n)
    for i in range(column, last):
        place = o * inner + i
        label = labels[place]
        if label >= 0:
            p = (o * length + label) * inner + i
            gx[p] = g[place] * (scalar.expm1((x[p] - tops[place]) - logs[place]) + (smoothing - share))
        else:
            for c in range(length):
                gx[(o * length + c) * inner + i] = 0.0


def picked(
    task: int, worker: int, x: Array, labels: Table, loss: Array, places: int, length: int, inner: int, per_task: int
) -> None:
    """loss[o, i] = -x[o, labels[o, i], i]"""
    first = task * per_task
    o = first // inner
    i = first - o * inner
    for place in range(first, min(places, first + per_task)):
        label = labels[place]
        loss[place] = 0.0
        if label >= 0:
            loss[place] = -x[(o * length + label) * inner + i]
        i += 1
        if i == inner:
            i = 0
            o += 1


def put(
    task: int, worker: int, g: Array, labels: Table, gx: Array, places: int, length: int, inner: int, per_task: int
) -> None:
    """gx[o, labels[o, i], i] = -g[o, i]; where the classes are innermost, the others become 0 here"""
    first = task * per_task
    o = first // inner
    i = first - o * inner
    for place in range(first, min(places, first + per_task)):
        if inner == 1:
            for c in range(0, length, lanes(gx)):
                store_first(gx, place * length + c, full(gx, 0.0), length - c)
        label = labels[place]
        if label >= 0:
            gx[(o * length + label) * inner + i] = -g[place]
        i += 1
        if i == inner:
            i = 0
            o += 1
