"""Optimiser steps over all tensors of a group at once: one launch, whatever the number of tensors.

The elements of all tensors are counted through, and a task is ``CHUNK`` of them. Each tensor has a row in a table: the
objects of its arrays and the number of its elements. Its arrays have one memory order, which is why it does not matter.
"""

from __future__ import annotations

from typing import Any

from ..arrays import CHUNK
from ..compiler import DATA_OFFSET, Array, Table, helper
from ..simd import full, lanes, load, load_first, pointer_like, sqrt, store, store_first


@helper
def _elements(model: Any, table: Any, slot: int) -> Any:
    """The elements of the array whose object is in ``table[slot]``."""
    return pointer_like(model, pointer_like(table, table[slot] + DATA_OFFSET)[0])


def sgd(
    task: int, worker: int, model: Array, table: Table, tensors: int, lr: float, momentum: float, weight_decay: float
) -> None:
    """A row of the table: parameter, gradient, count. d = g + weight_decay p;  p = p - lr d"""
    decay, rate = full(model, weight_decay), full(model, -lr)
    first = 0
    for tensor in range(tensors):
        count = table[3 * tensor + 2]
        i = max(0, task * CHUNK - first)
        last = min(count, (task + 1) * CHUNK - first)
        first += count
        if i < last:
            p, g = _elements(model, table, 3 * tensor), _elements(model, table, 3 * tensor + 1)
            while i + lanes(model) <= last:
                a = load(p, i)
                store(p, i, (a * decay + load(g, i)) * rate + a)
                i += lanes(model)
            if i < last:
                a = load_first(p, i, last - i)
                store_first(p, i, (a * decay + load_first(g, i, last - i)) * rate + a, last - i)


def sgd_momentum(
    task: int, worker: int, model: Array, table: Table, tensors: int, lr: float, momentum: float, weight_decay: float
) -> None:
    """A row of the table: parameter, gradient, m, count. m = momentum m + g + weight_decay p;  p = p - lr m"""
    decay, rate, keep = full(model, weight_decay), full(model, -lr), full(model, momentum)
    first = 0
    for tensor in range(tensors):
        row = 4 * tensor
        count = table[row + 3]
        i = max(0, task * CHUNK - first)
        last = min(count, (task + 1) * CHUNK - first)
        first += count
        if i < last:
            p, g = _elements(model, table, row), _elements(model, table, row + 1)
            m = _elements(model, table, row + 2)
            while i + lanes(model) <= last:
                a = load(p, i)
                b = load(m, i) * keep + (a * decay + load(g, i))
                store(m, i, b)
                store(p, i, b * rate + a)
                i += lanes(model)
            if i < last:
                n = last - i
                a = load_first(p, i, n)
                b = load_first(m, i, n) * keep + (a * decay + load_first(g, i, n))
                store_first(m, i, b, n)
                store_first(p, i, b * rate + a, n)


def adam(
    task: int, worker: int, model: Array, table: Table, tensors: int,
    rate: float, beta1: float, beta2: float, root: float, eps: float, weight_decay: float,
) -> None:  # fmt: skip
    """A row of the table: parameter, gradient, m, v, count.

    d = g + weight_decay p;  m = beta1 m + (1 - beta1) d;  v = beta2 v + (1 - beta2) d^2;
    p = p - rate m / (sqrt(v) / root + eps)
    """
    decay, scale, least = full(model, weight_decay), full(model, 1.0 / root), full(model, eps)
    keep_m, add_m = full(model, beta1), full(model, 1.0 - beta1)
    keep_v, add_v = full(model, beta2), full(model, 1.0 - beta2)
    first = 0
    for tensor in range(tensors):
        row = 5 * tensor
        count = table[row + 4]
        i = max(0, task * CHUNK - first)
        last = min(count, (task + 1) * CHUNK - first)
        first += count
        if i < last:
            p, g = _elements(model, table, row), _elements(model, table, row + 1)
            m, v = _elements(model, table, row + 2), _elements(model, table, row + 3)
            while i < last:
                n = last - i
                a = load_first(p, i, n)
                d = a * decay + load_first(g, i, n)
                b = load_first(m, i, n) * keep_m + d * add_m
                c = load_first(v, i, n) * keep_v + d * d * add_v
                store_first(m, i, b, n)
                store_first(v, i, c, n)
                store_first(p, i, a - b * rate / (sqrt(c) * scale + least), n)
                i += lanes(model)
