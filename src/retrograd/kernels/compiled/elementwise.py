"""Kernels of element-wise functions: one loop text for each number of operands, the function chosen when compiled.

A task is ``CHUNK`` neighbouring elements, or some rows of a broadcast result.
"""

from __future__ import annotations

import math as scalar
from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import ahead, full, lanes, load, load_first, select, store, store_first, until_aligned
from ..simd import sqrt as square_root
from . import math

Body = Callable[..., None]


# The three texts below begin with a few elements: the registers behind them are stored at multiples of their size
# (NumPy's arrays are aligned to 16 bytes only), and end with what is left.


def _one(function: Callable[[Any], Any]) -> Body:
    """y[i] = function(x[i]) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, n: int) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(y, i))
        one, two, three, four = lanes(x), 2 * lanes(x), 3 * lanes(x), 4 * lanes(x)
        while i < last:
            while i < few:
                m = min(one, few - i)
                store_first(y, i, function(load_first(x, i, m)), m)
                i += m
            few = last
            # four registers at once: the CPU overlaps their long chains of operations
            while i + four <= last:
                for j in (i, i + one, i + two, i + three):
                    ahead(x, j)
                    ahead(y, j)
                a, b, c, d = load(x, i), load(x, i + one), load(x, i + two), load(x, i + three)
                store(y, i, function(a))
                store(y, i + one, function(b))
                store(y, i + two, function(c))
                store(y, i + three, function(d))
                i += four

    return body


def _one_and_number(function: Callable[[Any, float], Any]) -> Body:
    """y[i] = function(x[i], number) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, n: int, number: float) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(y, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(y, i, function(load_first(x, i, m), number), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                store(y, i, function(load(x, i), number))
                i += lanes(x)

    return body


def _two(function: Callable[[Any, Any], Any]) -> Body:
    """z[i] = function(x[i], y[i]) over dense memory."""

    def body(task: int, worker: int, x: Array, y: Array, z: Array, n: int) -> None:
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(z, i))
        while i < last:
            while i < few:
                m = min(lanes(x), few - i)
                store_first(z, i, function(load_first(x, i, m), load_first(y, i, m)), m)
                i += m
            few = last
            while i + lanes(x) <= last:
                ahead(x, i)
                ahead(y, i)
                ahead(z, i)
                store(z, i, function(load(x, i), load(y, i)))
                i += lanes(x)

    return body


def _two_broadcast(function: Callable[[Any, Any], Any]) -> Body:
    """z[o, m, i] = function(x[o, m, i], y[o, m, i]): z dense with n elements, x and y with any steps along o and m.

    The step of x and y along i is 0 or 1. The last row may be shorter than ``inner``.
    """

    def body(
        task: int, worker: int, x: Array, y: Array, z: Array, n: int, inner: int, middle: int, rows_per_task: int,
        x_outer: int, x_middle: int, x_inner: int, y_outer: int, y_middle: int, y_inner: int,
    ) -> None:  # fmt: skip
        row = task * rows_per_task
        last_row = min((n + inner - 1) // inner, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        while row < last_row:
            p = o * x_outer + m * x_middle
            q = o * y_outer + m * y_middle
            k = row * inner
            last = min(n, k + inner)
            a = full(x, x[p])
            b = full(x, y[q])
            while k + lanes(x) <= last:
                ahead(z, k)
                if x_inner == 1:
                    ahead(x, p)
                    a = load(x, p)
                    p += lanes(x)
                if y_inner == 1:
                    ahead(y, q)
                    b = load(y, q)
                    q += lanes(x)
                store(z, k, function(a, b))
                k += lanes(x)
            if k < last:
                if x_inner == 1:
                    a = load_first(x, p, last - k)
                if y_inner == 1:
                    b = load_first(y, q, last - k)
                store_first(z, k, function(a, b), last - k)
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    return body


@helper
def _add(x: Any, y: Any) -> Any:
    return x + y


@helper
def _sub(x: Any, y: Any) -> Any:
    return x - y


@helper
def _mul(x: Any, y: Any) -> Any:
    return x * y


@helper
def _div(x: Any, y: Any) -> Any:
    return x / y


@helper
def _relu(x: Any) -> Any:
    return select(x < 0.0, 0.0, x)  # NaN is not below 0 and stays


@helper
def _sqrt(x: Any) -> Any:
    return square_root(x)


@helper
def _relu_grad(g: Any, y: Any) -> Any:
    return select(y > 0.0, g, 0.0)


@helper
def _sigmoid_grad(g: Any, y: Any) -> Any:
    return g * y * (1.0 - y)


@helper
def _tanh_grad(g: Any, y: Any) -> Any:
    return g * (1.0 - y * y)


add, add_broadcast = _two(_add), _two_broadcast(_add)
sub, sub_broadcast = _two(_sub), _two_broadcast(_sub)
mul, mul_broadcast = _two(_mul), _two_broadcast(_mul)
div, div_broadcast = _two(_div), _two_broadcast(_div)
relu_grad, sigmoid_grad, tanh_grad = _two(_relu_grad), _two(_sigmoid_grad), _two(_tanh_grad)
scale = _one_and_number(_mul)
relu, sqrt = _one(_relu), _one(_sqrt)
exp, log, sigmoid, tanh = _one(math.exp), _one(math.log), _one(math.sigmoid), _one(math.tanh)


def power(task: int, worker: int, x: Array, y: Array, n: int, exponent: float) -> None:
    """y[i] = x[i] ** exponent, one by one, by the C library."""
    for i in range(task * CHUNK, min(n, (task + 1) * CHUNK)):
        y[i] = scalar.pow(x[i], exponent)
