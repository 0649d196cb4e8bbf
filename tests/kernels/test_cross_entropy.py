"""Cross entropy and negative log-likelihood of labels against the oracle, for rows and for image positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, assert_equal, run
from strategies import CHANNELS, DTYPES, LAYOUTS, Source, examples, seeds, sources


def check(kernels: Any, x: np.ndarray, labels: np.ndarray, g: np.ndarray, smoothing: float = 0.0) -> None:
    eps, classes = float(np.finfo(x.dtype).eps), x.shape[1]
    loss, tops, logs, _ = run(kernels.cross_entropy, x, labels, smoothing)
    expected = naive.cross_entropy(x, labels, smoothing)
    assert_close(loss, expected, eps * (8 + classes**0.5 + 4 * np.abs(expected)))
    with np.errstate(all="ignore"):
        distance = np.minimum(np.abs(x - tops[:, None]).max(1, initial=0), 800)
    gx = run(kernels.cross_entropy_grad, g, x, labels, smoothing, tops, logs)
    expected = naive.cross_entropy_grad(g, x, labels, smoothing)
    assert_close(gx, expected, eps * (16 + classes**0.5 + distance[:, None]))


@examples(60)
@given(
    seed=seeds,
    source=sources,
    N=st.integers(0, 33),
    C=st.sampled_from((*CHANNELS, 10, 130)),
    factor=st.sampled_from((1.0, 20.0)),
    step=st.sampled_from((1, 2, -1)),
    smoothing=st.sampled_from((0.0, 0.2, 1.0)),
)
def test_rows(
    kernel_set: Any, seed: Any, source: Source, N: int, C: int, factor: float, step: int, smoothing: float
) -> None:
    x, g = source.arrays((N, C), (N,))
    labels = seed.integers(-1, C, 2 * N)[: N * abs(step)][::step]
    check(kernel_set, (x * factor).astype(x.dtype), labels, g, smoothing)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_label(kernel_set: Any, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    for C in CHANNELS:
        x, g = source.arrays((C, C), (C,))
        check(kernel_set, x, np.arange(C), g, 0.1)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("shape", [(7, 10), (3, 5, 4, 2), (2, 7, 9), (2, 40, 19, 29), (0, 3, 2), (2, 3, 0)], ids=str)
def test_places(kernel_set: Any, shape: tuple[int, ...], layout: str, dtype: type) -> None:
    """(N, C, *D) gives the same results as its positions as rows (N * D, C), in every layout."""
    if layout not in ("contiguous", "channels_last", "fortran") and shape[1] == 40:
        return
    source = Source(np.random.default_rng(0), dtype, (layout,))
    x, g = source.arrays(shape, shape[:1] + shape[2:])
    labels = source.rng.integers(-1, shape[1], g.shape)
    rows, flat, eps = np.moveaxis(x, 1, -1).reshape(-1, shape[1]), labels.reshape(-1), float(np.finfo(dtype).eps)
    for smoothing in (0.0, 0.3):
        loss, tops, logs, _ = run(kernel_set.cross_entropy, x, labels, smoothing)
        assert_close(loss.reshape(-1), naive.cross_entropy(rows, flat, smoothing), 60 * eps)
        gx = run(kernel_set.cross_entropy_grad, g, x, labels, smoothing, tops, logs)
        wanted = naive.cross_entropy_grad(g.reshape(-1), rows, flat, smoothing)
        assert_close(np.moveaxis(gx, 1, -1).reshape(rows.shape), wanted, 60 * eps)
    (loss, _), gx = run(kernel_set.nll_loss, x, labels), run(kernel_set.nll_loss_grad, g, x, labels)
    counted = np.flatnonzero(flat >= 0)
    picked, put = np.zeros(len(flat)), np.zeros(rows.shape)
    picked[counted] = -rows[counted, flat[counted]]
    put[counted, flat[counted]] = -g.reshape(-1)[counted]
    assert_equal(loss.reshape(-1), picked)
    assert_equal(np.moveaxis(gx, 1, -1).reshape(rows.shape), put)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5000, 10), (70, 700)])
def test_larger_than_one_task(kernel_set: Any, shape: tuple[int, int], dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    x, g = source.arrays((200, shape[1]), (200,))
    labels = source.rng.integers(-1, shape[1], 200)
    times = shape[0] // 200 + 1
    loss, tops, logs, _ = run(kernel_set.cross_entropy, np.tile(x, (times, 1)), np.tile(labels, times), 0.1)
    wanted = naive.cross_entropy(x, labels, 0.1)
    assert_close(loss, np.tile(wanted, times), 200 * float(np.finfo(dtype).eps))
    wide = np.tile(g, times), np.tile(x, (times, 1)), np.tile(labels, times)
    gx = kernel_set.cross_entropy_grad(*wide, 0.1, tops, logs)
    assert_equal(gx, np.tile(gx[:200], (times, 1)).astype(np.float64))


@pytest.mark.parametrize("columns", [False, True])
def test_certain_and_impossible_labels(kernel_set: Any, columns: bool) -> None:
    """A label of probability 0 costs inf, and its gradient is still finite; NaN stays in its own row."""
    x = np.array([[0, -np.inf], [0, -np.inf], [1e4, 0], [np.nan, 0], [-np.inf, -np.inf], [-np.inf, 0]], np.float32)
    labels, g = np.array([0, 1, 1, 0, 0, -1]), np.array([1, 2, 3, 1, 1, 1], np.float32)
    if columns:  # the classes are not innermost
        x, labels, g = np.ascontiguousarray(x.T)[None], labels[None], g[None]
    loss, tops, logs, _ = run(kernel_set.cross_entropy, x, labels, 0.0)
    assert_equal(loss.reshape(-1), np.array([0, np.inf, 1e4, np.nan, np.nan, 0]))
    gx = run(kernel_set.cross_entropy_grad, g, x, labels, 0.0, tops, logs)
    nan = [np.nan, np.nan]
    expected = np.array([[0, 0], [2, -2], [3, -3], nan, nan, [0, 0]], np.float64)
    assert_equal(gx[0].T if columns else gx, expected)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "fortran", "reversed"])
@pytest.mark.parametrize("shape", [(5, 3), (9, 70), (3000, 7), (2, 5, 4, 3), (2, 33, 40, 70), (0, 4), (3, 0)], ids=str)
def test_weights_and_labels_that_do_not_count(
    kernel_set: Any, shape: tuple[int, ...], layout: str, dtype: type
) -> None:
    """With weights, a factor and a single g, the results are those of the plain kernels multiplied at each position."""
    source = Source(np.random.default_rng(0), dtype, (layout,))
    rng, classes, ignored = source.rng, shape[1], min(2, shape[1] - 1)
    x, g = source.arrays(shape, shape[:1] + shape[2:])
    labels = rng.integers(-1, classes + 1, g.shape)
    weight = np.repeat(rng.uniform(0.5, 2, classes), 2)[::2].astype(dtype)
    wrong = ((labels < 0) | (labels >= classes)) & (labels != ignored)
    counts = ~wrong & (labels != ignored)
    each = np.where(counts, np.append(weight, 1)[np.where(counts, labels, -1)], 0)
    eps = float(np.finfo(dtype).eps)

    plain = np.where(counts, labels, -1)
    one, tops, logs, _ = kernel_set.cross_entropy(x, plain, 0.2)
    loss, *known, sums = run(kernel_set.cross_entropy, x, labels, 0.2, ignored, weight)
    assert_close(loss, one * each, 4 * eps * np.abs(one * each))
    assert_equal(np.array(known), np.array([tops, logs]))
    wanted = [(one * each).sum(dtype=np.float64), each.sum(), wrong.sum()]
    assert_close(sums, np.array(wanted), eps * (4 + 60 * np.array(wanted)))
    picked, sums = run(kernel_set.nll_loss, x, labels, ignored, weight)
    alone, _ = kernel_set.nll_loss(x, plain)
    assert_close(picked, alone * each, 4 * eps * np.abs(alone * each))
    wanted[0] = (alone * each).sum(dtype=np.float64)
    assert_close(sums, np.array(wanted), eps * (4 + 60 * np.abs(alone * each).sum() + 60 * wanted[1]))

    for upstream in (g, np.asarray(0.7, dtype)):
        share = (np.broadcast_to(upstream, g.shape) * each * 0.3).astype(dtype)
        gx = run(kernel_set.cross_entropy_grad, upstream, x, labels, 0.2, tops, logs, ignored, weight, 0.3)
        wanted_gx = kernel_set.cross_entropy_grad(share, x, plain, 0.2, tops, logs)
        assert_close(gx, wanted_gx, 8 * eps * np.abs(wanted_gx))
        gx = run(kernel_set.nll_loss_grad, upstream, x, labels, ignored, weight, 0.3)
        wanted_gx = kernel_set.nll_loss_grad(share, x, plain)
        assert_close(gx, wanted_gx, 8 * eps * np.abs(wanted_gx))
