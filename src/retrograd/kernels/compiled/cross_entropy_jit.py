# mypy: ignore-errors
"""Kernels of cross entropy and of the negative log-likelihood over one axis of a dense array: (outer, length, inner).

As in ``softmax_jit.py``: ``rows`` if the class axis is innermost, else ``columns``; ``few`` for innermost classes
that fit a register. Nothing of the size of x is written except the gradient: the maximum and the logarithm of the sum
are saved for each position. A position counts if its label is a class and not ``ignored``, with the weight of its class
if ``weighted`` is 1. With smoothing e, the target is 1 - e of the label plus e / length of every class. ``sums`` has
three numbers per task: the sums of the losses and of their weights, and the number of labels that are neither a class
nor ignored. All positions share one g if g_step is 0.
"""

from __future__ import annotations

import math as scalar

from .machine.compiler import Array, Table, helper
from .machine.simd import (
    MOST_INTERLEAVED,
    ahead,
    ahead_by,
    buffer,
    deinterleave_first,
    full,
    interleave_first,
    lanes,
    largest,
    load,
    load_first,
    load_first_or,
    offset,
    select,
    store,
    store_first,
    total,
    transpose_first,
    until_aligned,
)
from .math.elementary_jit import exp, exp_negative, log
from .math.exponential_jit import expm1
from .memory.layout import CHUNK

_INFINITY = float("inf")
_maxima, _sums, _shifts = buffer(CHUNK // 32), buffer(CHUNK // 32), buffer(CHUNK // 32)
_MOST_LANES = 16
_classes = buffer(_MOST_LANES * _MOST_LANES)  # registers of one class each
_scales, _picked = buffer(_MOST_LANES), buffer(_MOST_LANES)
_soon = ahead_by(0)
_SOON = 8  # positions of prefetch


def rows(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    weight: Array,
    loss: Array,
    tops: Array,
    logs: Array,
    sums: Array,
    ignored: int,
    weighted: int,
    rows: int,
    length: int,
    per_task: int,
    smoothing: float,
) -> None:
    """loss[n] = w[label] times (1 - e) (log s - (x[label] - top)) + e (log s - mean(x - top)), s = sum exp(x - top)"""
    sum_of_losses, sum_of_weights, wrong = 0.0, 0.0, 0.0
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
        if 0 <= label < length and label != ignored:
            y = logs[row] - (x[begin + label] - tops[row])
            if smoothing > 0.0:
                y = (1.0 - smoothing) * y + smoothing * (logs[row] - total(shift) / length)
            w = weight[label] if weighted == 1 else 1.0
            loss[row] = y * w
            sum_of_losses += loss[row]
            sum_of_weights += w
        elif label != ignored:
            wrong += 1.0
    sums[3 * task], sums[3 * task + 1], sums[3 * task + 2] = sum_of_losses, sum_of_weights, wrong


@helper
def _by_class(x, v, length, n):  # type: ignore[no-untyped-def]
    """Registers of one class each, of n positions with ``length`` classes."""
    one = lanes(x)
    if length <= min(one, MOST_INTERLEAVED):
        deinterleave_first(x, v, one, length, n)
    else:
        transpose_first(x, length, v, one, n, length)


def few(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    weight: Array,
    loss: Array,
    tops: Array,
    logs: Array,
    sums: Array,
    ignored: int,
    weighted: int,
    rows: int,
    length: int,
    per_task: int,
    smoothing: float,
) -> None:
    """As ``rows``, with a position in each lane."""
    sum_of_losses, sum_of_weights, wrong = 0.0, 0.0, 0.0
    v, one, last = _classes(x), lanes(x), min(rows, (task + 1) * per_task)
    for row in range(task * per_task, last, one):
        n = min(one, last - row)
        _by_class(offset(x, row * length), v, length, n)
        top, s = full(x, -_INFINITY), full(x, 0.0)
        for c in range(length):
            top = select(load(v, c * one) > top, load(v, c * one), top)
        shift = s
        for c in range(length):
            t = load(v, c * one) - top
            store(v, c * one, t)
            s = s + exp_negative(t)
            shift = shift + t
        store_first(tops, row, top, n)
        store_first(logs, row, log(s), n)
        shifts = _picked(x)
        store(shifts, 0, shift)
        for i in range(n):
            label = labels[row + i]
            loss[row + i] = 0.0
            if 0 <= label < length and label != ignored:
                y = logs[row + i] - v[label * one + i]
                if smoothing > 0.0:
                    y = (1.0 - smoothing) * y + smoothing * (logs[row + i] - shifts[i] / length)
                w = weight[label] if weighted == 1 else 1.0
                loss[row + i] = y * w
                sum_of_losses += loss[row + i]
                sum_of_weights += w
            elif label != ignored:
                wrong += 1.0
    sums[3 * task], sums[3 * task + 1], sums[3 * task + 2] = sum_of_losses, sum_of_weights, wrong


def columns(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    weight: Array,
    loss: Array,
    tops: Array,
    logs: Array,
    sums: Array,
    ignored: int,
    weighted: int,
    length: int,
    inner: int,
    width: int,
    block: int,
    smoothing: float,
) -> None:
    """As ``rows``; a task is ``width`` columns of one o, ``block`` of them at a time."""
    sum_of_losses, sum_of_weights, wrong = 0.0, 0.0, 0.0
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
            if 0 <= label < length and label != ignored:
                y = logs[place + i] - (x[begin + label * inner + i] - top[i])
                if smoothing > 0.0:
                    y = (1.0 - smoothing) * y + smoothing * (logs[place + i] - shift[i] / length)
                w = weight[label] if weighted == 1 else 1.0
                loss[place + i] = y * w
                sum_of_losses += loss[place + i]
                sum_of_weights += w
            elif label != ignored:
                wrong += 1.0
        column += n
    sums[3 * task], sums[3 * task + 1], sums[3 * task + 2] = sum_of_losses, sum_of_weights, wrong


def rows_grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    labels: Table,
    weight: Array,
    tops: Array,
    logs: Array,
    gx: Array,
    g_step: int,
    ignored: int,
    weighted: int,
    factor: float,
    rows: int,
    length: int,
    per_task: int,
    smoothing: float,
) -> None:
    """gx[n, c] = factor g[n] w[label] (probability - e / length - (1 - e if c is the label)), 0 if ignored"""
    share = smoothing / length
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        end = begin + length
        label = labels[row]
        i = begin
        if label < 0 or label >= length or label == ignored:
            while i < end:
                store_first(gx, i, full(g, 0.0), end - i)
                i += lanes(g)
        else:
            share_of_g = g[row * g_step] * factor * (weight[label] if weighted == 1 else 1.0)
            scale, top, logarithm = full(g, share_of_g), full(g, tops[row]), full(g, logs[row])
            while i + lanes(g) <= end:
                ahead(x, i)
                ahead(gx, i)
                store(gx, i, (exp((load(x, i) - top) - logarithm) - share) * scale)
                i += lanes(g)
            if i < end:
                y = (exp((load_first(x, i, end - i) - top) - logarithm) - share) * scale
                store_first(gx, i, y, end - i)
            y = scalar.expm1((x[begin + label] - tops[row]) - logs[row])
            gx[begin + label] = share_of_g * (y + (smoothing - share))


def few_grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    labels: Table,
    weight: Array,
    tops: Array,
    logs: Array,
    gx: Array,
    g_step: int,
    ignored: int,
    weighted: int,
    factor: float,
    rows: int,
    length: int,
    per_task: int,
    smoothing: float,
) -> None:
    """As ``rows_grad``, with a position in each lane."""
    share, v, scales, chosen = smoothing / length, _classes(x), _scales(x), _picked(x)
    one, last = lanes(x), min(rows, (task + 1) * per_task)
    for row in range(task * per_task, last, one):
        n = min(one, last - row)
        _by_class(offset(x, row * length), v, length, n)
        for i in range(n):
            label = labels[row + i]
            scales[i], chosen[i] = 0.0, 0.0
            if 0 <= label < length and label != ignored:
                scales[i] = g[(row + i) * g_step] * factor * (weight[label] if weighted == 1 else 1.0)
                chosen[i] = v[label * one + i]
        scale, top, logarithm = load(scales, 0), load_first(tops, row, n), load_first(logs, row, n)
        for c in range(length):
            store(v, c * one, (exp((load(v, c * one) - top) - logarithm) - share) * scale)
        store(chosen, 0, (expm1((load(chosen, 0) - top) - logarithm) + (smoothing - share)) * scale)
        for i in range(n):
            label = labels[row + i]
            if 0 <= label < length and label != ignored:
                v[label * one + i] = chosen[i]
            else:
                for c in range(length):
                    v[c * one + i] = 0.0
        if length <= min(one, MOST_INTERLEAVED):
            interleave_first(v, one, offset(gx, row * length), length, n)
        else:
            transpose_first(v, one, offset(gx, row * length), length, length, n)


def columns_grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    labels: Table,
    weight: Array,
    tops: Array,
    logs: Array,
    gx: Array,
    g_step: int,
    ignored: int,
    weighted: int,
    factor: float,
    length: int,
    inner: int,
    width: int,
    block: int,
    smoothing: float,
) -> None:
    """As ``rows_grad``; a task is ``width`` columns of one o. Ignored positions are cleared at the end."""
    share, scales = smoothing / length, _sums(x)
    parts = (inner + width - 1) // width
    o = task // parts
    column = (task - o * parts) * width
    last = min(inner, column + width)
    while column < last:
        n, places = min(block, last - column), o * inner + column
        for i in range(n):
            label = labels[places + i]
            scales[i] = 0.0
            if 0 <= label < length and label != ignored:
                scales[i] = g[(places + i) * g_step] * factor * (weight[label] if weighted == 1 else 1.0)
        for c in range(length):
            row = (o * length + c) * inner + column
            for i in range(0, n, lanes(g)):
                m = n - i
                ahead(x, row + i)
                ahead(gx, row + i)
                v = (load_first(x, row + i, m) - load_first(tops, places + i, m)) - load_first(logs, places + i, m)
                store_first(gx, row + i, (exp(v) - share) * load(scales, i), m)
        for i in range(n):
            place, label = places + i, labels[places + i]
            if 0 <= label < length and label != ignored:
                p = (o * length + label) * inner + column + i
                gx[p] = scales[i] * (scalar.expm1((x[p] - tops[place]) - logs[place]) + (smoothing - share))
            else:
                for c in range(length):
                    gx[(o * length + c) * inner + column + i] = 0.0
        column += n


def picked(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    weight: Array,
    loss: Array,
    sums: Array,
    ignored: int,
    weighted: int,
    places: int,
    length: int,
    inner: int,
    per_task: int,
) -> None:
    """loss[o, i] = -w[label] x[o, label, i], label = labels[o, i]"""
    sum_of_losses, sum_of_weights, wrong = 0.0, 0.0, 0.0
    first = task * per_task
    last = min(places, first + per_task)
    o = first // inner
    i = first - o * inner
    for place in range(first, last):
        if inner == 1:  # each in a separate cache line
            upcoming = min(last - 1, place + _SOON)
            _soon(x, upcoming * length + labels[upcoming])
        label = labels[place]
        loss[place] = 0.0
        if 0 <= label < length and label != ignored:
            w = weight[label] if weighted == 1 else 1.0
            loss[place] = -x[(o * length + label) * inner + i] * w
            sum_of_losses += loss[place]
            sum_of_weights += w
        elif label != ignored:
            wrong += 1.0
        i += 1
        if i == inner:
            i = 0
            o += 1
    sums[3 * task], sums[3 * task + 1], sums[3 * task + 2] = sum_of_losses, sum_of_weights, wrong


def put(
    task: int,
    worker: int,
    g: Array,
    labels: Table,
    weight: Array,
    gx: Array,
    g_step: int,
    ignored: int,
    weighted: int,
    factor: float,
    places: int,
    length: int,
    inner: int,
    per_task: int,
) -> None:
    """gx[o, label, i] = -factor g[o, i] w[label], label = labels[o, i]; where the classes are innermost, the others
    become 0 here
    """
    first = task * per_task
    last = min(places, first + per_task)
    if inner == 1:
        p, end, zero = first * length, last * length, full(gx, 0.0)
        few = min(end - p, until_aligned(gx, p))
        store_first(gx, p, zero, few)
        p += few
        while p + lanes(gx) <= end:
            store(gx, p, zero)
            p += lanes(gx)
        store_first(gx, p, zero, end - p)
    o = first // inner
    i = first - o * inner
    for place in range(first, last):
        label = labels[place]
        if 0 <= label < length and label != ignored:
            gx[(o * length + label) * inner + i] = (
                -g[place * g_step] * factor * (weight[label] if weighted == 1 else 1.0)
            )
        i += 1
        if i == inner:
            i = 0
            o += 1
