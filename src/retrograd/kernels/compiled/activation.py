"""Kernels of activations and of their gradients in terms of the input x, of relu in terms of its result."""

from __future__ import annotations

from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import absolute, ahead, full, lanes, load, load_first, select, store, store_first
from . import error_function, exponential, math
from .loops import one, one_and_numbers, two, two_and_numbers, two_broadcast


@helper
def _relu(x: Any) -> Any:
    return select(x < 0.0, 0.0, x)  # NaN is not below 0 and stays


@helper
def _relu_grad(g: Any, y: Any) -> Any:
    return select(y <= 0.0, 0.0, g)  # NaN passes the gradient on, as in PyTorch


@helper
def _leaky_relu(x: Any, p: float, q: float, r: float) -> Any:
    return select(x > 0.0, x, x * p)


@helper
def _leaky_relu_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return select(x > 0.0, g, g * p)


@helper
def _prelu(x: Any, weight: Any) -> Any:
    return select(x > 0.0, x, x * weight)


@helper
def _prelu_terms(g: Any, x: Any) -> Any:
    return select(x > 0.0, 0.0, g * x)


@helper
def _elu(x: Any, p: float, q: float, r: float) -> Any:
    return select(x > 0.0, x * q, exponential.expm1(select(x > 0.0, 0.0, x * r)) * p)


@helper
def _elu_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    return select(x <= 0.0, g * (p * r) * math.exp(select(x <= 0.0, x * r, 0.0)), g * q)


@helper
def _threshold(x: Any, p: float, q: float, r: float) -> Any:
    return select(x <= p, q, x)


@helper
def _hardshrink(x: Any, p: float, q: float, r: float) -> Any:
    return select(absolute(x) <= p, 0.0, x)


@helper
def _softshrink(x: Any, p: float, q: float, r: float) -> Any:
    return select(x > p, x - p, select(x < -p, x + p, select(x == x, 0.0, x)))


@helper
def _hardsigmoid(x: Any) -> Any:
    y = x + 3.0
    y = select(y < 0.0, 0.0, y)
    return select(y > 6.0, 6.0, y) / 6.0


@helper
def _hardswish(x: Any) -> Any:
    return x * _hardsigmoid(x)


@helper
def _hardswish_grad(g: Any, x: Any) -> Any:
    return select(x <= -3.0, 0.0, select(x < 3.0, g * (x / 3.0 + 0.5), g))


@helper
def _silu(x: Any) -> Any:
    return x * math.sigmoid(x)


@helper
def _silu_grad(g: Any, x: Any) -> Any:
    s = math.sigmoid(x)
    return g * s * (1.0 + x * (1.0 - s))


# tanh(softplus(x)) = w / (w + 2) with w = u^2 + 2 u and u = exp(x); beyond 20 it is 1


@helper
def _mish(x: Any) -> Any:
    u = math.exp(select(x > 20.0, 20.0, x))
    w = u * (u + 2.0)
    return x * (w / (w + 2.0))


@helper
def _mish_grad(g: Any, x: Any) -> Any:
    u = math.exp(select(x > 20.0, 20.0, x))
    w = u * (u + 2.0)
    d = 1.0 / (w + 2.0)
    return g * (w * d + select(x > 20.0, 0.0, x * 4.0 * (u * d) * ((u + 1.0) * d)))


@helper
def _gelu(x: Any) -> Any:
    return x * error_function.normal(x)


@helper
def _gelu_grad(g: Any, x: Any) -> Any:
    return g * (error_function.normal(x) + x * math.exp_negative(x * x * -0.5) * 0.3989422804014327)


# (1 + tanh(z)) / 2 = sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3)


@helper
def _gelu_tanh(x: Any) -> Any:
    return x * math.sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))


@helper
def _gelu_tanh_grad(g: Any, x: Any) -> Any:
    s = math.sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))
    return g * (s + x * s * (1.0 - s) * (x * x * 0.21406444881780073 + 1.5957691216057308))


@helper
def log1p_of_exp(x: Any) -> Any:
    """log(1 + exp(x))"""
    return select(x < 0.0, 0.0, x) + exponential.log1p(math.exp_negative(-absolute(x)))


@helper
def _softplus(x: Any, p: float, q: float, r: float) -> Any:
    z = x * p
    return select(z > q, x, log1p_of_exp(z) / p)


@helper
def _softplus_grad(g: Any, x: Any, p: float, q: float, r: float) -> Any:
    z = x * p
    return select(z > q, g, g * math.sigmoid(z))


@helper
def _log_sigmoid(x: Any) -> Any:
    return -log1p_of_exp(-x)


@helper
def _log_sigmoid_grad(g: Any, x: Any) -> Any:
    return g * math.sigmoid(-x)


@helper
def _softsign(x: Any) -> Any:
    return x / (absolute(x) + 1.0)


@helper
def _softsign_grad(g: Any, x: Any) -> Any:
    d = absolute(x) + 1.0
    return g / (d * d)


@helper
def _tanhshrink(x: Any) -> Any:
    return x - math.tanh(x)


@helper
def _tanhshrink_grad(g: Any, x: Any) -> Any:
    y = math.tanh(x)
    return g * (y * y)


relu, relu_grad = one(_relu), two(_relu_grad)
leaky_relu, leaky_relu_grad = one_and_numbers(_leaky_relu), two_and_numbers(_leaky_relu_grad)
prelu, prelu_terms = two_broadcast(_prelu), two(_prelu_terms)
elu, elu_grad = one_and_numbers(_elu), two_and_numbers(_elu_grad)
threshold = one_and_numbers(_threshold)
hardshrink, softshrink = one_and_numbers(_hardshrink), one_and_numbers(_softshrink)
hardsigmoid, hardswish, hardswish_grad = one(_hardsigmoid), one(_hardswish), two(_hardswish_grad)
silu, silu_grad = one(_silu), two(_silu_grad)
mish, mish_grad = one(_mish), two(_mish_grad)
gelu, gelu_grad = one(_gelu), two(_gelu_grad)
gelu_tanh, gelu_tanh_grad = one(_gelu_tanh), two(_gelu_tanh_grad)
softplus, softplus_grad = one_and_numbers(_softplus), two_and_numbers(_softplus_grad)
log_sigmoid, log_sigmoid_grad = one(_log_sigmoid), two(_log_sigmoid_grad)
softsign, softsign_grad = one(_softsign), two(_softsign_grad)
tanhshrink, tanhshrink_grad = one(_tanhshrink), two(_tanhshrink_grad)


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
