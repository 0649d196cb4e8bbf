# mypy: ignore-errors
"""Kernels of the margin losses. A task is some rows."""

from __future__ import annotations

from ..machine.compiler import Array, Table
from ..machine.simd import (
    both,
    counting,
    full,
    lanes,
    load,
    load_first,
    load_first_or,
    offset,
    select,
    store,
    store_first,
    total,
)

_NOTHING = float("-inf")


def multi_margin(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    loss: Array,
    rows: int,
    length: int,
    per_task: int,
    p: int,
    margin: float,
) -> None:
    """loss[n] = sum over c != label of max(0, margin - x[n, label] + x[n, c])^p / length"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        label = labels[row]
        base = full(x, margin - x[begin + label])
        s = full(x, 0.0)
        for i in range(0, length, lanes(x)):
            z = load_first_or(x, begin + i, length - i, _NOTHING) + base
            z = select(z < 0.0, 0.0, z)
            z = select(counting(x) == float(label - i), 0.0, z)
            s = s + (z * z if p == 2 else z)
        loss[row] = total(s) / length


def multi_margin_slopes(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    slopes: Array,
    rows: int,
    length: int,
    per_task: int,
    margin: float,
) -> None:
    """1 / length for each c != label that violates the margin, 0 for the others, minus the sum at the label."""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        label = labels[row]
        base = full(x, margin - x[begin + label])
        h = full(x, 1.0 / length)
        s = full(x, 0.0)
        for i in range(0, length, lanes(x)):
            z = load_first_or(x, begin + i, length - i, _NOTHING) + base
            y = select(z > 0.0, h, 0.0)
            y = select(counting(x) == float(label - i), 0.0, y)
            s = s + y
            store_first(slopes, begin + i, y, length - i)
        slopes[begin + label] = -total(s)


def multilabel_margin(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    loss: Array,
    scratch: Array,
    room: int,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """loss[n] = sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / length; -1 ends the targets"""
    others = offset(scratch, worker * room)  # 1 for others, 0 for targets
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        for i in range(0, length, lanes(x)):
            store(others, i, full(x, 1.0))
        count = 0
        while count < length and targets[begin + count] >= 0:
            others[targets[begin + count]] = 0.0
            count += 1
        s = full(x, 0.0)
        for k in range(count):
            base = full(x, 1.0 - x[begin + targets[begin + k]])
            i = 0
            while i + lanes(x) <= length:
                z = load(x, begin + i) + base
                s = s + select(both(load(others, i) == 1.0, z >= 0.0), z, select(z == z, 0.0, z))
                i += lanes(x)
            if i < length:
                z = load_first_or(x, begin + i, length - i, _NOTHING) + base
                s = s + select(both(load(others, i) == 1.0, z >= 0.0), z, select(z == z, 0.0, z))
        loss[row] = total(s) / length


def multilabel_margin_slopes(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    slopes: Array,
    scratch: Array,
    room: int,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """Each pair that violates the margin adds 1 / length to the other class and subtracts it from the target."""
    others = offset(scratch, worker * room)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        for i in range(0, length, lanes(x)):
            store(others, i, full(x, 1.0))
            store_first(slopes, begin + i, full(x, 0.0), length - i)
        count = 0
        while count < length and targets[begin + count] >= 0:
            others[targets[begin + count]] = 0.0
            count += 1
        h = full(x, 1.0 / length)
        for k in range(count):
            j = begin + targets[begin + k]
            base = full(x, 1.0 - x[j])
            s = full(x, 0.0)
            for i in range(0, length, lanes(x)):
                z = load_first_or(x, begin + i, length - i, _NOTHING) + base
                y = select(both(load(others, i) == 1.0, z > 0.0), h, 0.0)
                s = s + y
                store_first(slopes, begin + i, load_first(slopes, begin + i, length - i) + y, length - i)
            slopes[j] -= total(s)
