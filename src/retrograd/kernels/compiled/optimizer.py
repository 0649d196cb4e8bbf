"""Optimiser steps over all tensors of a group at once: one launch, whatever the number of tensors.

The elements of all tensors are counted through, and a task is ``per_task`` of them. Each tensor has a row in a table,
of ``COLUMNS`` integers: the objects of its arrays (parameter, gradient, three buffers), where its elements begin in the
count, and how many they are. Its arrays have one memory order, which is why that order does not matter. A rule that
has fewer buffers finds the parameter in their place and does not look.

What differs between optimisers is a *rule*: it reads the elements i to i + n of the arrays, n being at most a register,
and writes them. ``_step`` walks the tensors with it. The numbers of a step are the same for all elements and come
ready from the wrapper (kernels/optimizer.py), whose docstrings say what a rule computes:

    sign     -1 to maximise, else 1            rate     what the update is multiplied by
    decay    weight decay added to g           scale    what the root of the second average is multiplied by
    shrink   what p is multiplied by           eps
    keep_m, add_m, keep_v, add_v               extra    belongs to one rule
    of the running averages
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import DATA_OFFSET, Array, Table, helper
from ..simd import (
    absolute,
    ahead_by,
    full,
    lanes,
    largest,
    load_first,
    maximum,
    pointer_like,
    select,
    sqrt,
    store_first,
    total,
    until_aligned,
)

COLUMNS, FIRST, COUNT = 7, 5, 6  # of the table; the places of its last two
_ahead = ahead_by(1024)  # several streams at once: nearer than for one (3 to 5 % of a step)


@helper
def _elements(model: Any, table: Any, slot: int) -> Any:
    """The elements of the array whose object is in ``table[slot]``."""
    return pointer_like(model, pointer_like(table, table[slot] + DATA_OFFSET)[0])


@helper
def _row_of(table: Any, tensors: int, element: int) -> int:
    """The tensor that holds ``element`` of the count: the last one that begins there or before."""
    low, high = 0, tensors
    while high - low > 1:
        middle = (low + high) // 2
        if table[COLUMNS * middle + FIRST] <= element:
            low = middle
        else:
            high = middle
    return low


def _step(rule: Callable[..., None]) -> Callable[..., None]:
    def body(
        task: int, worker: int, model: Array, table: Table, tensors: int, per_task: int, sign: float, decay: float,
        shrink: float, keep_m: float, add_m: float, keep_v: float, add_v: float, rate: float, scale: float,
        eps: float, extra: float,
    ) -> None:  # fmt: skip
        numbers = (sign, decay, shrink, keep_m, add_m, keep_v, add_v, rate, scale, eps, extra)
        start, end = task * per_task, (task + 1) * per_task
        tensor = _row_of(table, tensors, start)
        while tensor < tensors and table[COLUMNS * tensor + FIRST] < end:
            row = COLUMNS * tensor
            first = table[row + FIRST]
            i = max(0, start - first)
            last = min(table[row + COUNT], end - first)
            p, g = _elements(model, table, row), _elements(model, table, row + 1)
            m, v = _elements(model, table, row + 2), _elements(model, table, row + 3)
            arrays = (p, g, m, v, _elements(model, table, row + 4))
            few = min(last, i + until_aligned(p, i))
            while i < last:
                while i < few:
                    n = min(lanes(p), few - i)
                    rule(arrays, i, n, numbers)
                    i += n
                few = last
                while i + lanes(p) <= last:  # with all lanes, "first" is a plain load or store
                    rule(arrays, i, lanes(p), numbers)
                    i += lanes(p)
            tensor += 1

    return body


@helper
def _load(pointer: Any, i: int, n: int) -> Any:
    _ahead(pointer, i)
    return load_first(pointer, i, n)


@helper
def _gradient(pointer: Any, x: Any, i: int, n: int, sign: float, decay: float) -> Any:
    g = _load(pointer, i, n) * sign
    if decay != 0.0:  # 0 times infinity would be NaN
        g = g + x * decay
    return g


@helper
def _sgd(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, _, _, _ = arrays
    sign, decay, _, _, _, _, _, rate, _, _, _ = numbers
    x = _load(p, i, n)
    store_first(p, i, x - _gradient(g, x, i, n, sign, decay) * rate, n)


@helper
def _sgd_momentum(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, m, _, _ = arrays
    sign, decay, _, keep_m, add_m, _, _, rate, _, _, nesterov = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    b = _load(m, i, n) * keep_m + d * add_m
    store_first(m, i, b, n)
    if nesterov != 0.0:
        b = b * keep_m + d
    store_first(p, i, x - b * rate, n)


@helper
def _adam(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, m, v, w = arrays
    sign, decay, shrink, keep_m, add_m, keep_v, add_v, rate, scale, eps, amsgrad = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    b = _load(m, i, n) * keep_m + d * add_m
    c = _load(v, i, n) * keep_v + d * d * add_v
    store_first(m, i, b, n)
    store_first(v, i, c, n)
    if amsgrad != 0.0:
        c = maximum(_load(w, i, n), c)
        store_first(w, i, c, n)
    store_first(p, i, x * shrink - b * rate / (sqrt(c) * scale + eps), n)


@helper
def _adamax(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, m, u, _ = arrays
    sign, decay, _, keep_m, add_m, keep_u, _, rate, _, eps, _ = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    b = _load(m, i, n) * keep_m + d * add_m
    c = maximum(_load(u, i, n) * keep_u, absolute(d) + eps)
    store_first(m, i, b, n)
    store_first(u, i, c, n)
    store_first(p, i, x - b * rate / c, n)


@helper
def _nadam(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, m, v, _ = arrays
    sign, decay, shrink, keep_m, add_m, keep_v, add_v, rate, scale, eps, rate_g = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    b = _load(m, i, n) * keep_m + d * add_m
    c = _load(v, i, n) * keep_v + d * d * add_v
    store_first(m, i, b, n)
    store_first(v, i, c, n)
    store_first(p, i, x * shrink - (b * rate + d * rate_g) / (sqrt(c) * scale + eps), n)


@helper
def _radam(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, m, v, _ = arrays
    sign, decay, shrink, keep_m, add_m, keep_v, add_v, rate, _, eps, rectified = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    b = _load(m, i, n) * keep_m + d * add_m
    c = _load(v, i, n) * keep_v + d * d * add_v
    store_first(m, i, b, n)
    store_first(v, i, c, n)
    b = b * rate
    if rectified != 0.0:
        b = b / (sqrt(c) + eps)
    store_first(p, i, x * shrink - b, n)


@helper
def _rmsprop(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, v, mean, m = arrays
    sign, decay, _, keep_m, _, keep_v, add_v, rate, centered, eps, momentum = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    c = _load(v, i, n) * keep_v + d * d * add_v
    store_first(v, i, c, n)
    if centered != 0.0:
        a = _load(mean, i, n) * keep_v + d * add_v
        store_first(mean, i, a, n)
        c = c - a * a
        c = select(c < 0.0, 0.0, c)  # rounding
    u = d / (sqrt(c) + eps)
    if momentum != 0.0:
        u = _load(m, i, n) * keep_m + u
        store_first(m, i, u, n)
    store_first(p, i, x - u * rate, n)


@helper
def _adagrad(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, s, _, _ = arrays
    sign, decay, _, _, _, _, _, rate, _, eps, _ = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    c = _load(s, i, n) + d * d
    store_first(s, i, c, n)
    store_first(p, i, x - d * rate / (sqrt(c) + eps), n)


@helper
def _adadelta(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, v, a, _ = arrays
    sign, decay, _, _, _, keep_v, add_v, rate, _, eps, _ = numbers
    x = _load(p, i, n)
    d = _gradient(g, x, i, n, sign, decay)
    c = _load(v, i, n) * keep_v + d * d * add_v
    store_first(v, i, c, n)
    b = _load(a, i, n)
    d = sqrt(b + eps) / sqrt(c + eps) * d
    store_first(a, i, b * keep_v + d * d * add_v, n)
    store_first(p, i, x - d * rate, n)


@helper
def _average(arrays: Any, i: int, n: int, numbers: Any) -> None:
    p, g, _, _, _ = arrays
    _, _, _, _, _, _, _, rate, _, _, _ = numbers
    x = _load(p, i, n)
    store_first(p, i, x + (_load(g, i, n) - x) * rate, n)


@helper
def _limit(arrays: Any, i: int, n: int, numbers: Any) -> None:
    """p = p scale, cut to -extra ... extra; NaN stays"""
    p, _, _, _, _ = arrays
    _, _, _, _, _, _, _, _, scale, _, most = numbers
    x = _load(p, i, n) * scale
    x = select(x > most, most, x)
    store_first(p, i, select(x < -most, -most, x), n)


sgd, sgd_momentum, adam, adamax = _step(_sgd), _step(_sgd_momentum), _step(_adam), _step(_adamax)
nadam, radam, rmsprop = _step(_nadam), _step(_radam), _step(_rmsprop)
adagrad, adadelta = _step(_adagrad), _step(_adadelta)
average, limit = _step(_average), _step(_limit)


def norm(task: int, worker: int, model: Array, table: Table, tensors: int, partials: Array, maxima: int) -> None:
    """partials[task] = the sum of the squares of CHUNK elements; with ``maxima``, the largest absolute value"""
    start, end = task * CHUNK, (task + 1) * CHUNK
    tensor = _row_of(table, tensors, start)
    a = full(model, 0.0)
    b, c, d = a, a, a
    one = lanes(model)
    while tensor < tensors and table[COLUMNS * tensor + FIRST] < end:
        first = table[COLUMNS * tensor + FIRST]
        i = max(0, start - first)
        last = min(table[COLUMNS * tensor + COUNT], end - first)
        p = _elements(model, table, COLUMNS * tensor)
        while i < last:
            s, t = _load(p, i, last - i), _load(p, i + one, last - i - one)
            u, v = _load(p, i + 2 * one, last - i - 2 * one), _load(p, i + 3 * one, last - i - 3 * one)
            if maxima:
                a, b = maximum(a, absolute(s)), maximum(b, absolute(t))
                c, d = maximum(c, absolute(u)), maximum(d, absolute(v))
            else:
                a, b, c, d = a + s * s, b + t * t, c + u * u, d + v * v
            i += 4 * one
        tensor += 1
    if maxima:
        partials[task] = largest(maximum(maximum(a, b), maximum(c, d)))
    else:
        partials[task] = total((a + b) + (c + d))
