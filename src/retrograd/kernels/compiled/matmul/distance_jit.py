# mypy: ignore-errors
"""Kernels of rows against rows: products, squared distances, and combinations for their gradients."""

from __future__ import annotations

from ..machine.compiler import Array
from ..machine.simd import ahead, full, lanes, load, load_first, store_first, total


def products(
    task: int, worker: int, x: Array, y: Array, xy: Array, xx: Array, yy: Array, rows: int, length: int, per_task: int
) -> None:
    """xy[n] = x[n] . y[n], xx[n] = x[n] . x[n], yy[n] = y[n] . y[n]"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        end = (row + 1) * length
        a = full(x, 0.0)
        b, c = a, a
        for i in range(row * length, end, lanes(x)):
            ahead(x, i)
            ahead(y, i)
            v, w = load_first(x, i, end - i), load_first(y, i, end - i)
            a = a + v * w
            b = b + v * v
            c = c + w * w
        xy[row], xx[row], yy[row] = total(a), total(b), total(c)


def squares(
    task: int, worker: int, x: Array, y: Array, z: Array, rows: int, length: int, per_task: int, eps: float
) -> None:
    """z[n] = sum over c of (x[n, c] - y[n, c] + eps)^2"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin, end = row * length, (row + 1) * length
        whole = end - lanes(x)
        s = full(x, 0.0)
        i = begin
        while i <= whole:
            ahead(x, i)
            ahead(y, i)
            v = (load(x, i) - load(y, i)) + eps
            s = s + v * v
            i += lanes(x)
        z[row] = total(s)
        while i < end:
            v = (x[i] - y[i]) + eps
            z[row] += v * v
            i += 1


def combined(
    task: int,
    worker: int,
    a: Array,
    x: Array,
    b: Array,
    y: Array,
    c: Array,
    z: Array,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """z[n] = a[n] x[n] + b[n] y[n] + c[n]"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        end = (row + 1) * length
        p, q, r = full(a, a[row]), full(a, b[row]), full(a, c[row])
        for i in range(row * length, end, lanes(a)):
            ahead(x, i)
            ahead(y, i)
            ahead(z, i)
            store_first(z, i, p * load_first(x, i, end - i) + q * load_first(y, i, end - i) + r, end - i)
