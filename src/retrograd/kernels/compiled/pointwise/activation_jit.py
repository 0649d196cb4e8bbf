# mypy: ignore-errors
"""Kernels of the gated linear unit and of its gradient."""

from __future__ import annotations

from ....formulas.activation import gated, gated_grad_x, gated_grad_y
from ..machine.compiler import Array
from ..machine.simd import ahead, lanes, load, load_first, store, store_first
from ..memory.arrays import CHUNK
from .pointwise_jit import register

for _formula in (gated, gated_grad_x, gated_grad_y):
    register(_formula)


# x[o, 2, i] holds a = x[o, 0, i] and b = x[o, 1, i], i below ``half``


def glu(task: int, worker: int, x: Array, y: Array, n: int, half: int) -> None:
    """y[o, i] = a sigmoid(b)"""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    while i < last:
        row = i // half
        stop = min(last, (row + 1) * half)
        while i < stop:
            m = min(lanes(x), stop - i)
            p = i + row * half
            if m == lanes(x):
                ahead(x, p)
                ahead(x, p + half)
                ahead(y, i)
                store(y, i, gated(load(x, p), load(x, p + half)))
            else:
                store_first(y, i, gated(load_first(x, p, m), load_first(x, p + half, m)), m)
            i += m


def glu_grad(task: int, worker: int, g: Array, x: Array, y: Array, n: int, half: int) -> None:
    """y[o, 0, i] = g sigmoid(b), y[o, 1, i] = g a sigmoid(b) (1 - sigmoid(b))"""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    while i < last:
        row = i // half
        stop = min(last, (row + 1) * half)
        while i < stop:
            m = min(lanes(x), stop - i)
            p = i + row * half
            if m == lanes(x):
                ahead(x, p)
                ahead(x, p + half)
                ahead(y, p)
                ahead(y, p + half)
                u, a, b = load(g, i), load(x, p), load(x, p + half)
                store(y, p, gated_grad_x(u, a, b))
                store(y, p + half, gated_grad_y(u, a, b))
            else:
                u, a, b = load_first(g, i, m), load_first(x, p, m), load_first(x, p + half, m)
                store_first(y, p, gated_grad_x(u, a, b), m)
                store_first(y, p + half, gated_grad_y(u, a, b), m)
            i += m
