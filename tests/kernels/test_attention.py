from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive_attention as naive
from comparison import assert_close
from kernels.sets import textbook_at_night
from strategies import DTYPES

# batch, heads, heads that share one of the keys, queries, keys, features, features of the values
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 2, 2, 3, 5, 4, 3),
]
BLOCKS = [
    (1, 2, 2, 70, 100, 16, 20),
    (1, 1, 1, 20, 97, 70, 33),
]
EMPTY = [(0, 1, 1, 2, 2, 2, 2), (1, 1, 1, 0, 2, 2, 2), (1, 1, 1, 2, 0, 2, 2), (1, 1, 1, 2, 2, 2, 0)]


def operands(shape: tuple[int, ...], dtype: type) -> list[np.ndarray]:
    B, H, G, L, S, E, Ev = shape
    rng = np.random.default_rng(shape)
    shapes = (B, H, L, E), (B, H // G, S, E), (B, H // G, S, Ev), (B, H, L, Ev)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def a_bias(shape: tuple[int, ...], dtype: type, kind: str) -> np.ndarray | None:
    B, H, _, L, S, *_ = shape
    rng = np.random.default_rng(1)
    if kind == "none":
        return None
    if kind == "per key":  # as a padding mask: repeated, without memory of its own
        return np.broadcast_to(np.where(rng.random((B, 1, 1, S)) < 0.3, -np.inf, 0.0).astype(dtype), (B, H, L, S))
    return np.where(rng.random((B, H, L, S)) < 0.2, -np.inf, rng.standard_normal((B, H, L, S))).astype(dtype)


@pytest.mark.parametrize("kind", ["none", "per key", "full"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_the_definition(kernel_set: Any, shape: tuple[int, ...], dtype: type, causal: bool, kind: str) -> None:
    check(kernel_set, shape, dtype, causal, kind)


@pytest.mark.pairwise
@textbook_at_night
@pytest.mark.parametrize("kind", ["none", "per key", "full"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
def test_of_several_blocks(kernel_set: Any, shape: tuple[int, ...], dtype: type, causal: bool, kind: str) -> None:
    check(kernel_set, shape, dtype, causal, kind)


def check(kernel_set: Any, shape: tuple[int, ...], dtype: type, causal: bool, kind: str) -> None:
    q, k, v, g = operands(shape, dtype)
    bias = a_bias(shape, dtype, kind)
    y, log_sum = kernel_set.attention(q, k, v, bias, 0.3, causal)
    wide = [x.astype(np.float64) for x in (q, k, v, g)]
    expected, logs, gradients = naive.attention(*wide, bias, 0.3, causal)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    assert_close(y, expected.astype(dtype), tolerance)
    assert_close(log_sum, logs.astype(dtype), tolerance)
    found = kernel_set.attention_grad(g, q, k, v, y, log_sum, bias, 0.3, causal, (True, True, True))
    scale = max(np.abs(gradient).max() for gradient in gradients)  # a slope may be a difference of equal numbers
    for one, other in zip(found, gradients, strict=True):
        assert one.dtype == dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=10 * tolerance * scale)


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_empty(kernel_set: Any, shape: tuple[int, ...]) -> None:
    q, k, v, g = operands(shape, np.float32)
    y, log_sum = kernel_set.attention(q, k, v, None, 1.0, False)
    assert y.shape == g.shape and log_sum.shape == q.shape[:3] and not y.any()
    found = kernel_set.attention_grad(g, q, k, v, y, log_sum, None, 1.0, False, (True, True, True))
    for gradient, x in zip(found, (q, k, v), strict=True):
        assert gradient.shape == x.shape and not gradient.any()


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_nobody_asked_for_are_not_computed(kernel_set: Any, wanted: tuple[bool, ...]) -> None:
    q, k, v, g = operands(SHAPES[1], np.float64)
    y, log_sum = kernel_set.attention(q, k, v, None, 0.5, False)
    every = kernel_set.attention_grad(g, q, k, v, y, log_sum, None, 0.5, False, (True, True, True))
    some = kernel_set.attention_grad(g, q, k, v, y, log_sum, None, 0.5, False, wanted)
    for want, one, other in zip(wanted, some, every, strict=True):
        if want:
            np.testing.assert_array_equal(one, other)
        else:
            assert one is None


def test_rows_apart_in_memory_stay_there(kernel_set: Any) -> None:
    """As a projection leaves them: (B, L, H, E) seen as (B, H, L, E); and without any order."""
    q, k, v, g = operands((2, 3, 1, 20, 30, 8, 8), np.float32)
    y, log_sum = kernel_set.attention(q, k, v, None, 0.5, True)
    gradients = kernel_set.attention_grad(g, q, k, v, y, log_sum, None, 0.5, True, (True,) * 3)
    for axes in ((0, 2, 1, 3), (0, 3, 2, 1)):
        other = [x.transpose(axes).copy().transpose(axes) for x in (q, k, v, g)]
        before = [x.copy() for x in other]
        again, logs = kernel_set.attention(*other[:3], None, 0.5, True)
        assert_close(again, y, 1e-6)
        found = kernel_set.attention_grad(other[3], *other[:3], again, logs, None, 0.5, True, (True,) * 3)
        for one, two in zip(found, gradients, strict=True):
            assert_close(one, two, 1e-5)
        for x, copy in zip(other, before, strict=True):
            np.testing.assert_array_equal(x, copy)


def test_nan_reaches_its_own_queries(kernel_set: Any) -> None:
    q, k, v, _ = operands((1, 2, 1, 70, 100, 4, 4), np.float32)
    q[0, 1, 69, 2] = np.nan
    y, log_sum = kernel_set.attention(q, k, v, None, 0.5, False)
    wrong = np.isnan(y)
    assert wrong[0, 1, 69].all() and wrong.sum() == 4
    assert np.isnan(log_sum[0, 1, 69]) and np.isnan(log_sum).sum() == 1
    v[0, 0, 3, 1] = np.inf
    y, _ = kernel_set.attention(q, k, v, None, 0.5, False)
    assert np.isposinf(y[0, 0, :, 1]).all()


def test_scores_that_would_overflow(kernel_set: Any) -> None:
    q = np.full((1, 1, 2, 1), 100.0, np.float32)
    k = np.array([10.0, -10.0, 10.0], np.float32).reshape(1, 1, 3, 1)
    v = np.array([1.0, 2.0, 4.0], np.float32).reshape(1, 1, 3, 1)
    y, log_sum = kernel_set.attention(q, k, v, None, 1.0, False)
    np.testing.assert_allclose(y, 2.5)
    np.testing.assert_allclose(log_sum, 1000 + np.log(2), rtol=1e-6)


def test_a_query_that_sees_nothing(kernel_set: Any) -> None:
    q, k, v, g = operands((1, 1, 1, 3, 4, 2, 2), np.float64)
    bias = np.zeros((1, 1, 3, 4))
    bias[0, 0, 1] = -np.inf
    y, log_sum = kernel_set.attention(q, k, v, bias, 1.0, False)
    assert not y[0, 0, 1].any() and log_sum[0, 0, 1] == 0
    gq, gk, gv = kernel_set.attention_grad(g, q, k, v, y, log_sum, bias, 1.0, False, (True,) * 3)
    assert not gq[0, 0, 1].any() and np.isfinite(gk).all() and np.isfinite(gv).all()
