"""Optimiser steps against the oracle: one number at a time, in any layout, many tensors in one call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, memory
from strategies import DTYPES, LAYOUTS, Source, dtypes, examples, many_examples, seeds, shapes

WRITABLE = tuple(sorted(set(LAYOUTS) - {"read_only", "expanded"}))
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
ADAM = {"step": 3, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


def judge(arrays: Sequence[np.ndarray], before: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """The arrays have changed as expected, to a few roundings, and what surrounds them in memory has not."""
    for array, old, new in zip(arrays, before, expected, strict=True):
        assert_close(array, new, 8 * np.finfo(array.dtype).eps * (1 + np.abs(old) + np.abs(new)))


def surroundings(arrays: Sequence[np.ndarray]) -> int:
    """How many NaNs there are around the arrays; the arrays themselves have none."""
    return sum(int(np.isnan(block).sum()) for block in memory(arrays))


def sgd(kernels: Any, p: list[np.ndarray], g: list[np.ndarray], m: list[np.ndarray], **settings: Any) -> None:
    old = [np.array(x, np.float64) for x in p]
    old_m = [np.array(x, np.float64) for x in m] or [np.zeros(x.shape) for x in p]
    gradients, guards = [x.copy() for x in g], surroundings([*p, *m])
    new, new_m = [x.copy() for x in old], [x.copy() for x in old_m]
    for n, x in enumerate(old):
        for at in product(*map(range, x.shape)):
            new[n][at], new_m[n][at] = naive.sgd_step(float(x[at]), float(g[n][at]), float(old_m[n][at]), **settings)
    assert kernels.sgd_step(p, g, m, **settings) is None
    judge(p, old, new)
    judge(m, old_m[: len(m)], new_m[: len(m)])
    judge(g, gradients, [x.astype(np.float64) for x in gradients])
    assert surroundings([*p, *m]) == guards


def adam(
    kernels: Any, p: list[np.ndarray], g: list[np.ndarray], m: list[np.ndarray], v: list[np.ndarray], **settings: Any
) -> None:
    old, guards = [[np.array(x, np.float64) for x in arrays] for arrays in (p, m, v)], surroundings([*p, *m, *v])
    gradients = [x.copy() for x in g]
    new = [[x.copy() for x in arrays] for arrays in old]
    for n, x in enumerate(p):
        for at in product(*map(range, x.shape)):
            numbers = (float(old[0][n][at]), float(g[n][at]), float(old[1][n][at]), float(old[2][n][at]))
            for arrays, value in zip(new, naive.adam_step(*numbers, **settings), strict=True):
                arrays[n][at] = value
    assert kernels.adam_step(p, g, m, v, **settings) is None
    for arrays, before, expected in zip((p, m, v), old, new, strict=True):
        judge(arrays, before, expected)
    judge(g, gradients, [x.astype(np.float64) for x in gradients])
    assert surroundings([*p, *m, *v]) == guards


def squared(arrays: list[np.ndarray]) -> list[np.ndarray]:
    for x in arrays:
        np.multiply(x, x, out=x)
    return arrays


tensors = st.lists(shapes(limit=80), min_size=0, max_size=6)
order = st.tuples(*[st.sampled_from(WRITABLE)] * 3)
number = st.sampled_from((0.0, 0.01, 0.5))


def check_sgd(kernels: Any, shapes: list[tuple[int, ...]], source: Source, settings: tuple[float, ...]) -> None:
    lr, momentum, weight_decay, with_buffers = settings
    p, g, m = source.arrays(*shapes), source.arrays(*shapes), source.arrays(*shapes)
    buffers = m if momentum or with_buffers else []
    sgd(kernels, p, g, buffers, lr=lr, momentum=momentum, weight_decay=weight_decay)


def check_adam(kernels: Any, shapes: list[tuple[int, ...]], source: Source, settings: tuple[float, ...]) -> None:
    lr, beta, weight_decay, step = settings
    p, g, m, v = (source.arrays(*shapes) for _ in range(4))
    options = {"lr": lr, "beta1": beta, "beta2": 0.999, "eps": 1e-3, "weight_decay": weight_decay, "step": int(step)}
    adam(kernels, p, g, m, squared(v), **options)


@examples(60)
@given(shapes=tensors, seed=seeds, dtype=dtypes, turns=order, settings=st.tuples(number, number, number, st.booleans()))
def test_sgd(kernel_set: Any, shapes: Any, seed: Any, dtype: type, turns: Any, settings: Any) -> None:
    check_sgd(kernel_set, shapes, Source(seed, dtype, turns), settings)


@examples(60)
@given(
    shapes=tensors,
    seed=seeds,
    dtype=dtypes,
    turns=order,
    settings=st.tuples(number, number, number, st.sampled_from((1, 2, 10, 1000, 100_000))),
)
def test_adam(kernel_set: Any, shapes: Any, seed: Any, dtype: type, turns: Any, settings: Any) -> None:
    check_adam(kernel_set, shapes, Source(seed, dtype, turns), settings)


@pytest.mark.nightly
@many_examples(2000)
@given(
    shapes=tensors,
    seed=seeds,
    dtype=dtypes,
    turns=order,
    settings=st.tuples(number, number, number, st.sampled_from((1, 2, 10, 1000, 100_000))),
)
def test_steps_nightly(kernel_set: Any, shapes: Any, seed: Any, dtype: type, turns: Any, settings: Any) -> None:
    check_sgd(kernel_set, shapes, Source(seed, dtype, turns), (*settings[:3], True))
    check_adam(kernel_set, shapes, Source(seed, dtype, turns), settings)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parameter", WRITABLE)
@pytest.mark.parametrize("gradient", sorted(LAYOUTS))
def test_layouts(kernel_set: Any, parameter: str, gradient: str, dtype: type) -> None:
    """A weight and its gradient rarely share one, and neither does the buffer that a checkpoint brought back."""
    shape = (5, 3, 2, 4)
    for buffer in ("contiguous", "channels_last"):
        turns = (parameter, gradient, buffer, buffer)
        source = Source(np.random.default_rng(0), dtype, turns)
        p, g, m, v = source.arrays(shape, shape, shape, shape)
        sgd(kernel_set, [p], [g], [m], **SGD)
        adam(kernel_set, [p], [g], [m], squared([v]), **ADAM)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_tensors_in_one_call(kernel_set: Any, dtype: type) -> None:
    """Extents across the vector widths, empty ones, single numbers, and one larger than a task."""
    sizes = [(n,) for n in range(40)] + [(), (0, 3), (190, 191), (64, 3, 3, 3)]
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    sgd(kernel_set, source.arrays(*sizes), source.arrays(*sizes), source.arrays(*sizes), **SGD)
    sgd(kernel_set, source.arrays(*sizes), source.arrays(*sizes), [], **{**SGD, "momentum": 0.0})
    p, g, m, v = (source.arrays(*sizes) for _ in range(4))
    adam(kernel_set, p, g, m, squared(v), **ADAM)


def test_no_tensors(kernel_set: Any) -> None:
    kernel_set.sgd_step([], [], [], **SGD)
    kernel_set.adam_step([], [], [], [], **ADAM)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_steps(kernel_set: Any, dtype: type) -> None:
    """Buffers that begin as zeros, as an optimiser's do."""
    shapes = [(7, 5), (3,)]
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    p, m = source.arrays(*shapes), [np.zeros(shape, dtype) for shape in shapes]
    for _ in range(5):
        sgd(kernel_set, p, source.arrays(*shapes), m, **SGD)
    m, v = ([np.zeros(shape, dtype) for shape in shapes] for _ in range(2))
    for step in range(1, 6):
        adam(kernel_set, p, source.arrays(*shapes), m, v, **{**ADAM, "step": step})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_inf_stay_in_their_places(kernel_set: Any, value: float) -> None:
    for extent in (1, 17, 40):
        at = extent // 2
        for name in ("sgd", "adam"):
            p, g, m, v = (np.full(extent, start, np.float32) for start in (1, 0.5, 0, 0))
            g[at] = value
            if name == "sgd":
                kernel_set.sgd_step([p], [g], [m], **SGD)
            else:
                kernel_set.adam_step([p], [g], [m], [v], **ADAM)
            assert not np.isfinite(p[at]) and np.isfinite(np.delete(p, at)).all()


def test_zero_gradient_and_zero_average(kernel_set: Any) -> None:
    """Adam divides 0 by eps."""
    p, g, m, v = (np.full(5, start) for start in (2.0, 0.0, 0.0, 0.0))
    kernel_set.adam_step([p], [g], [m], [v], **{**ADAM, "weight_decay": 0.0})
    assert (p == 2).all() and not m.any() and not v.any()
