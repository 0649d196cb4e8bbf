"""What holds of the two sets as wholes: the same names and signatures, the same bits every time, on all threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import retrograd.kernels
import retrograd.textbook
from comparison import bits
from retrograd.geometry import conv_window, pool_window
from retrograd.kernels.launch import get_num_threads, set_num_threads
from strategies import DTYPES, LAYOUTS, numbers

NAMES = sorted(retrograd.textbook.__all__)


def test_same_names() -> None:
    only_compiled = {"get_num_threads", "set_num_threads", "warmup"}
    assert set(retrograd.kernels.__all__) == {*NAMES, *only_compiled}
    for name in NAMES:
        assert callable(getattr(retrograd.kernels, name)) and callable(getattr(retrograd.textbook, name))


@pytest.mark.parametrize("name", NAMES)
def test_same_signatures(name: str) -> None:
    """Names of parameters, their kinds and defaults; a caller by keyword cannot tell the sets apart."""

    def parameters(kernel: FunctionType) -> list[tuple[Any, ...]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(kernel).parameters.values()]

    assert parameters(getattr(retrograd.kernels, name)) == parameters(getattr(retrograd.textbook, name))


# ---------------------------------------------------------------- the same bits

Call = Callable[[Any, np.random.Generator, type, str], Any]


def _x(rng: np.random.Generator, dtype: type, layout: str, *shape: int) -> np.ndarray:
    return LAYOUTS[layout](numbers(rng, shape, dtype))


def _one(name: str) -> Call:
    return lambda k, rng, dtype, layout: getattr(k, name)(np.abs(_x(rng, dtype, layout, 4, 17, 41, 40)))


def _two(name: str) -> Call:
    return lambda k, rng, dtype, layout: getattr(k, name)(
        _x(rng, dtype, layout, 4, 17, 41, 40), _x(rng, dtype, "contiguous", 4, 17, 41, 40)
    )


def _trio(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, np.ndarray]]:
    window = conv_window((23, 22), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = _x(rng, dtype, layout, 8, 35, 23, 22), _x(rng, dtype, "contiguous", 40, 35, 3, 3)
    g = _x(rng, dtype, layout, 8, 40, 23, 22)
    yield "conv", k.conv(x, w, w[:, 0, 0, 0].copy(), window)
    yield "conv_input_grad", k.conv_input_grad(g, w, None, window)
    yield "conv_weight_grad", k.conv_weight_grad(x, g, window)


def _depthwise(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, np.ndarray]]:
    window = conv_window((23, 22), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 33)
    x, w = _x(rng, dtype, layout, 8, 33, 23, 22), _x(rng, dtype, "contiguous", 33, 1, 3, 3)
    g = _x(rng, dtype, layout, 8, 33, *window.output)
    yield "conv", k.conv(x, w, None, window)
    yield "conv_input_grad", k.conv_input_grad(g, w, None, window)
    yield "conv_weight_grad", k.conv_weight_grad(x, g, window)


def _pooling(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    window = pool_window((41, 40), 3, 2, 1)
    x, g = _x(rng, dtype, layout, 6, 17, 41, 40), _x(rng, dtype, layout, 6, 17, *window.output)
    y, indices = k.max_pool(x, window)
    yield "max_pool", (y, indices)
    yield "max_pool_grad", k.max_pool_grad(g, indices, window)
    yield "max_pool_gather", k.max_pool_gather(x, indices)
    yield "avg_pool", k.avg_pool(x, window, False)
    yield "avg_pool_grad", k.avg_pool_grad(g, window, True)


def _batch_norm(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 17, 41, 40), _x(rng, dtype, layout, 8, 17, 41, 40)
    weight, bias = _x(rng, dtype, "contiguous", 17), _x(rng, dtype, "contiguous", 17)
    y, mean, variance = k.batch_norm(x, weight, bias, 1e-5)
    yield "batch_norm", (y, mean, variance)
    yield "batch_norm_grad", k.batch_norm_grad(g, x, weight, mean, variance, 1e-5)
    yield "channel_affine", k.channel_affine(x, weight, bias)


def _softmax(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 17, 41, 20), _x(rng, dtype, layout, 8, 17, 41, 20)
    for axis in range(4):
        yield "softmax", k.softmax(x, axis)
        yield "log_softmax", k.log_softmax(x, axis)
        yield "softmax_grad", k.softmax_grad(g, x, axis)
        yield "log_softmax_grad", k.log_softmax_grad(g, x, axis)
    x, labels = _x(rng, dtype, layout, 9000, 10), rng.integers(0, 10, 9000)
    loss, log = k.cross_entropy(x, labels)
    yield "cross_entropy", (loss, log)
    yield "cross_entropy_grad", k.cross_entropy_grad(loss, log, labels)


def _reductions(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axes in ((0,), (1,), (3,), (0, 2, 3), (1, 3), (0, 1, 2, 3)):
        for name in ("sum", "prod", "amax", "amin"):
            yield name, getattr(k, name)(x, axes, False)
        for order in (1, 2):
            yield "norm", k.norm(x, order, axes, True)
    for axis in range(4):
        yield "max", k.max(x, axis)
        yield "min", k.min(x, axis)
    line = _x(rng, dtype, "contiguous", 70001)
    yield "max", k.max(line, 0)


def _moments(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axes in ((0,), (1,), (3,), (0, 2, 3), (1, 3), (0, 1, 2, 3)):
        mean, squares = k.moments(x, axes)
        yield "moments", (mean, squares)
        yield "moments_grad", k.moments_grad(squares, x, mean)
        y = k.logsumexp(x, axes)
        yield "logsumexp", y
        yield "logsumexp_grad", k.logsumexp_grad(mean, x, y)
        yield "ties", k.ties(mean, x, x.max(axes, keepdims=True))
        yield "signed", k.signed(mean, x)
        yield "spread", k.spread(mean, x.shape)


def _picks(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axis in range(4):
        for largest in (True, False):
            indices = k.topk(x, 5, axis, largest)
            yield "topk", indices
            y = k.pick(x, indices, axis)
            yield "pick", y
            yield "place", k.place(y, indices, axis, x.shape[axis])


def _scans(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, y = _x(rng, dtype, layout, 8, 17, 41, 20), _x(rng, dtype, layout, 8, 17, 41, 20)
    for axis in range(4):
        for reverse in (False, True):
            yield "cumsum", k.cumsum(x, axis, reverse)
            yield "linear_scan", k.linear_scan(x, y, axis, reverse)
        yield "cumprod", k.cumprod(x, axis)


def _group_norm(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 18, 41, 40), _x(rng, dtype, layout, 8, 18, 41, 40)
    w, b = _x(rng, dtype, "contiguous", 18), _x(rng, dtype, "contiguous", 18)
    for groups in (1, 6, 18):
        y, mean, inverse = k.group_norm(x, groups, w, b, 1e-5)
        yield "group_norm", (y, mean, inverse)
        yield "group_norm_grad", k.group_norm_grad(g, x, groups, w, mean, inverse)
    w, b = _x(rng, dtype, "contiguous", 41, 40), _x(rng, dtype, "contiguous", 41, 40)
    for centred in (True, False):
        y, mean, inverse = k.layer_norm(x, w, b, 1e-5, centred)
        yield "layer_norm", (y, mean, inverse)
        yield "layer_norm_grad", k.layer_norm_grad(g, x, w, mean, inverse, centred, True)


def _products(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    for M, K, N in ((150, 700, 130), (1, 3000, 100), (1000, 20, 8), (8, 5000, 8)):
        yield "matmul", k.matmul(_x(rng, dtype, layout, M, K), _x(rng, dtype, "contiguous", K, N))


def _broadcasts(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, y = _x(rng, dtype, layout, 4, 17, 41, 40), _x(rng, dtype, "contiguous", 17, 1, 1)
    for name in ("add", "sub", "mul", "div"):
        yield name, getattr(k, name)(x, y)
    yield "power", k.power(np.abs(x), 1.7)
    yield "scale", k.scale(x, 0.3)


def _steps(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    shapes = [(300, 301), (64, 17, 3, 3), (7,), (1,)]
    p, g, m = ([_x(rng, dtype, "contiguous", *shape) for shape in shapes] for _ in range(3))
    v = [np.abs(x) for x in m]
    w = [np.abs(x) for x in m]
    momentum = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "maximize": False}
    betas = {"step": 2, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "maximize": False}
    k.sgd_step(p, g, m, dampening=0.1, nesterov=False, **momentum)
    yield "sgd_step", (*p, *m)
    k.adam_step(p, g, m, v, w, decoupled=False, **betas)
    yield "adam_step", (*p, *m, *v, *w)
    k.adamax_step(p, g, m, v, **betas)
    yield "adamax_step", (*p, *m, *v)
    k.nadam_step(p, g, m, v, mu=0.8, mu_next=0.85, mu_product=0.7, decoupled=True, **betas)
    yield "nadam_step", (*p, *m, *v)
    k.radam_step(p, g, m, v, rectification=0.5, decoupled=True, **betas)
    yield "radam_step", (*p, *m, *v)
    k.rmsprop_step(p, g, v, m, w, alpha=0.9, eps=1e-3, **momentum)
    yield "rmsprop_step", (*p, *m, *v, *w)
    k.adagrad_step(p, g, v, lr=0.1, eps=1e-3, weight_decay=0.1, maximize=True)
    yield "adagrad_step", (*p, *v)
    k.adadelta_step(p, g, v, w, lr=0.1, rho=0.9, eps=1e-3, weight_decay=0.1, maximize=True)
    yield "adadelta_step", (*p, *v, *w)
    k.average_step(p, g, weight=0.3)
    yield "average_step", (*p,)
    k.limit_step(p, factor=1.7, most=1.0)
    yield "limit_step", (*p,)
    yield "norm_of_all", (np.array([k.norm_of_all(p, largest=False), k.norm_of_all(p, largest=True)]),)


_ONE = ("neg", "exp", "log", "sqrt", "relu", "sigmoid", "tanh")
_TWO = ("add", "sub", "mul", "div", "relu_grad", "sigmoid_grad", "tanh_grad")


def _elementwise(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    for name in _ONE:
        yield name, _one(name)(k, rng, dtype, layout)
    for name in _TWO:
        yield name, _two(name)(k, rng, dtype, layout)


FAMILIES = {
    "convolution": _trio,
    "depthwise": _depthwise,
    "matmul": _products,
    "elementwise": _elementwise,
    "broadcasting": _broadcasts,
    "reduction": _reductions,
    "moments": _moments,
    "pick": _picks,
    "scan": _scans,
    "group_norm": _group_norm,
    "pooling": _pooling,
    "normalization": _batch_norm,
    "softmax": _softmax,
    "optimizer": _steps,
}


def outcome(kernels: Any, family: str, dtype: type, layout: str) -> list[tuple[str, list[bytes]]]:
    return [(name, bits(result)) for name, result in FAMILIES[family](kernels, np.random.default_rng(0), dtype, layout)]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


def differing(first: list[tuple[str, list[bytes]]], second: list[tuple[str, list[bytes]]]) -> list[str]:
    return [name for (name, a), (_, b) in zip(first, second, strict=True) if a != b]


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_same_bits_on_every_number_of_threads(
    threads: Callable[[int], None], family: str, dtype: type, layout: str
) -> None:
    """The number of threads decides who does a task, never what a task is. (NumPy has no such number.)"""
    threads(1)
    alone = outcome(retrograd.kernels, family, dtype, layout)
    for count in (2, 3):
        threads(count)
        assert not differing(alone, outcome(retrograd.kernels, family, dtype, layout)), f"with {count} threads"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_same_bits_again(kernel_set: Any, family: str, dtype: type) -> None:
    first = outcome(kernel_set, family, dtype, "contiguous")
    outcome(kernel_set, "broadcasting", dtype, "channels_last")  # leaves other numbers in the memory that is used again
    assert not differing(first, outcome(kernel_set, family, dtype, "contiguous"))


def test_the_families_hold_every_kernel() -> None:
    called = {
        name
        for family in FAMILIES.values()
        for name, _ in family(retrograd.textbook, np.random.default_rng(0), np.float32, "contiguous")
    }
    assert called == set(NAMES)
