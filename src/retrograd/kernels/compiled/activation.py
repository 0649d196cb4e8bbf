"""Kernels of activations with weights, or of pairs of elements, and of their gradients."""

from __future__ import annotations

from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import ahead, full, lanes, load, load_first, select, store, store_first
from . import math
from .loops import two, two_broadcast


@helper
def _prelu(x: Any, weight: Any) -> Any:
    return select(x > 0.0, x, x * weight)


@helper
def _prelu_terms(g: Any, x: Any) -> Any:
    return select(x > 0.0, 0.0, g * x)


prelu, prelu_terms = two_broadcast(_prelu), two(_prelu_terms)


def prelu_grad(
    task: int, worker: int, g: Array, x: Array, w: Array, y: Array, n: int, inner: int, channels: int
) -> None:
    """y[o, c, i] = g[o, c, i] where x[o, c, i] > 0, times w[c] elsewhere.

    A row has one weight, or (inner = 1) one for each of its elements.
    """
    length = inner if inner > 1 else channels
    i = task * CHUNK
    last = min(n, i + CHUNK)
    while i < last:
        row = i // length
        start = row * length
        weight = full(x, w[row % channels])
        stop = min(last, start + length)
        while i < stop:
            m = min(lanes(x), stop - i)
            if m == lanes(x):
                ahead(g, i)
                ahead(x, i)
                ahead(y, i)
                if inner == 1:
                    weight = load(w, i - start)
                a = load(g, i)
                store(y, i, select(load(x, i) > 0.0, a, a * weight))
            else:
                if inner == 1:
                    weight = load_first(w, i - start, m)
                a = load_first(g, i, m)
                store_first(y, i, select(load_first(x, i, m) > 0.0, a, a * weight), m)
            i += m


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
                store(y, i, load(x, p) * math.sigmoid(load(x, p + half)))
            else:
                store_first(y, i, load_first(x, p, m) * math.sigmoid(load_first(x, p + half, m)), m)
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
                s = math.sigmoid(load(x, p + half))
                a = load(g, i) * s
                store(y, p, a)
                store(y, p + half, a * load(x, p) * (1.0 - s))
            else:
                s = math.sigmoid(load_first(x, p + half, m))
                a = load_first(g, i, m) * s
                store_first(y, p, a, m)
                store_first(y, p + half, a * load_first(x, p, m) * (1.0 - s), m)
            i += m
