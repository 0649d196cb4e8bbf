"""Pointwise losses, CTC and margins against the oracle; cross entropy is tested with softmax."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import naive
import naive_loss
from comparison import assert_close, assert_equal, run
from retrograd.formulas.losses import LOSSES, minus_first
from strategies import DTYPES, LAYOUTS

# loss -> numbers, range of x, range of t (None: signs)
CASES: dict[str, tuple[tuple[float, ...], tuple[float, float], tuple[float, float] | None]] = {
    "squared_error": ((), (-2, 2), (-2, 2)),
    "absolute_error": ((), (-2, 2), (-2, 2)),
    "smooth_absolute_error": ((0.7,), (-2, 2), (-2, 2)),
    "huber": ((0.7,), (-2, 2), (-2, 2)),
    "binary_cross_entropy": ((), (0.05, 0.95), (0, 1)),
    "binary_cross_entropy_with_logits": ((), (-30, 30), (0, 1)),
    "weighted_binary_cross_entropy_with_logits": ((), (-30, 30), (0, 1)),
    "kullback_leibler": ((), (-3, 0), (0.1, 1)),
    "kullback_leibler_of_logs": ((), (-3, 0), (-3, 0)),
    "poisson": ((0.01,), (0.1, 4), (0, 5)),
    "poisson_of_logs": ((), (-2, 2), (0, 5)),
    "gaussian": ((), (-2, 2), (-2, 2)),
    "soft_margin": ((), (-30, 30), None),
    "hinge": ((0.6,), (-2, 2), None),
    "ranking": ((0.3,), (-2, 2), (-2, 2)),
}
THREE = {"weighted_binary_cross_entropy_with_logits": (0.5, 2.0), "gaussian": (0.5, 2.0), "ranking": (-2.0, 2.0)}
GRADIENTS = [
    (name, of) for name in CASES for of, gradient in enumerate(LOSSES[name].gradients) if gradient is not minus_first
]


def operands(name: str, shape: tuple[int, ...], dtype: type, layout: str = "contiguous") -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(3)
    numbers, x, t = CASES[name]
    arrays = [random.uniform(*x, shape)]
    arrays.append(np.where(random.random(shape) < 0.5, -1.0, 1.0) if t is None else random.uniform(*t, shape))
    if name in THREE:
        arrays.append(random.uniform(*THREE[name], shape))
    return tuple(LAYOUTS[layout](np.asarray(a, dtype)) for a in arrays)


def arrays_of(kernel: Any, *name: Any, g: np.ndarray | None, xs: tuple[Any, ...], numbers: Any, factor: Any) -> Any:
    """Pass each array as a separate argument, so that ``run`` sees it."""
    count = 0 if g is None else 1

    def call(*arrays: np.ndarray) -> np.ndarray:
        return kernel(*name, *arrays[:count], arrays[count:], numbers, factor)

    call.__name__ = kernel.__name__
    return run(call, *(() if g is None else (g,)), *xs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_elements(kernel_set: Any, name: str, dtype: type) -> None:
    numbers, eps = CASES[name][0], float(np.finfo(dtype).eps)
    for shape in ((), (1,), (5, 7), (3, 4, 2, 3), (0,), (2, 0)):
        xs = operands(name, shape, dtype)
        wanted = naive_loss.element_loss(name, xs, numbers)
        scale = 60 * eps * (1 + np.abs(wanted))
        assert_close(
            arrays_of(kernel_set.element_loss, name, g=None, xs=xs, numbers=numbers, factor=None), wanted, scale
        )
        total = arrays_of(kernel_set.element_loss, name, g=None, xs=xs, numbers=numbers, factor=0.3)
        assert_close(total, np.asarray(wanted.sum() * 0.3), np.asarray(scale.sum()) + 1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "of"), GRADIENTS)
def test_slopes(kernel_set: Any, name: str, of: int, dtype: type) -> None:
    numbers, eps = CASES[name][0], float(np.finfo(dtype).eps)
    for shape in ((), (5, 7), (3, 4, 2, 3), (0,)):
        xs = operands(name, shape, dtype)
        slope = naive_loss.element_slope(name, xs, numbers, of)
        g = np.asarray(np.random.default_rng(1).standard_normal(shape), dtype)
        tolerance = (1e-7 + 60 * eps) * (1 + np.abs(slope)) * 3
        each = arrays_of(kernel_set.element_loss_grad, name, of, g=g, xs=xs, numbers=numbers, factor=None)
        assert_close(each, slope * g, tolerance)
        one = np.asarray(-1.5, dtype)
        every = arrays_of(kernel_set.element_loss_grad, name, of, g=one, xs=xs, numbers=numbers, factor=0.3)
        assert_close(every, slope * -0.45, tolerance)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("name", ["huber", "gaussian"])
def test_layouts(kernel_set: Any, name: str, layout: str) -> None:
    """Also operands that lie in memory in different orders."""
    numbers = CASES[name][0]
    xs = operands(name, (3, 5, 4, 2), np.float64, layout)
    plain = tuple(np.ascontiguousarray(a) for a in xs)
    g = np.random.default_rng(1).standard_normal((3, 5, 4, 2))
    mixed = (xs[0], *plain[1:])
    for given in (xs, mixed, (plain[0], *xs[1:])):
        for factor, upstream in ((None, g), (0.5, np.asarray(2.0))):
            y = kernel_set.element_loss(name, given, numbers, factor)
            np.testing.assert_allclose(y, kernel_set.element_loss(name, plain, numbers, factor), rtol=1e-13)
            gx = kernel_set.element_loss_grad(name, 0, upstream, given, numbers, factor)
            wanted = kernel_set.element_loss_grad(name, 0, upstream, plain, numbers, factor)
            np.testing.assert_allclose(gx, wanted, rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_more_than_one_task(kernel_set: Any, name: str) -> None:
    numbers = CASES[name][0]
    xs = operands(name, (41, 1003), np.float32)
    wide = tuple(a.astype(np.float64) for a in xs)
    each = kernel_set.element_loss(name, wide, numbers, None)
    found = kernel_set.element_loss(name, xs, numbers, None)
    np.testing.assert_allclose(found, each, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(kernel_set.element_loss(name, xs, numbers, 1.0), each.sum(), rtol=1e-5)


def test_infinities_and_nan(kernel_set: Any) -> None:
    x = np.array([inf, -inf, np.nan, 3.0, inf])
    zero = np.zeros(5)
    square, absolute = "squared_error", "absolute_error"
    assert_equal(kernel_set.element_loss(square, (x, zero), (), None), np.array([inf, inf, np.nan, 9, inf]))
    assert_equal(kernel_set.element_loss(absolute, (x, zero), (), None), np.array([inf, inf, np.nan, 3, inf]))
    slope = kernel_set.element_loss_grad(square, 0, np.asarray(1.0), (x, zero), (), 1.0)
    assert_equal(slope, np.array([inf, -inf, np.nan, 6, inf]))
    slope = kernel_set.element_loss_grad(absolute, 0, np.asarray(1.0), (x, zero), (), 1.0)
    assert_equal(slope, np.array([1, -1, 0, 1, 1]))
    slope = kernel_set.element_loss_grad(absolute, 0, np.ones(1), (np.ones(1), np.ones(1)), (), None)
    assert_equal(slope, np.zeros(1))
    large = np.array([1e4, -1e4, 800.0, -800.0])
    loss = kernel_set.element_loss("binary_cross_entropy_with_logits", (large, np.zeros(4)), (), None)
    assert_equal(loss, np.array([1e4, 0, 800, 0]))
    assert_equal(kernel_set.element_loss("soft_margin", (large, np.ones(4)), (), None), np.array([0, 1e4, 0, 800]))
    ends = np.array([0.0, 1, 0, 1]), np.array([0.0, 1, 1, 0])
    name = "binary_cross_entropy"
    assert_equal(kernel_set.element_loss(name, ends, (), None), np.array([0.0, 0, 100, 100]))
    assert np.isnan(kernel_set.element_loss(name, (np.array([-0.1, 1.1, np.nan]), np.zeros(3)), (), None)).all()
    small = np.array([1e-20, 1e-9])  # log(1 - x) is -x
    np.testing.assert_allclose(kernel_set.element_loss(name, (small, np.zeros(2)), (), None), small, rtol=1e-8)
    logs, name = np.array([-inf, -1.0]), "kullback_leibler"
    assert_equal(kernel_set.element_loss(name, (np.array([-1.0, -2]), np.zeros(2)), (), None), np.zeros(2))
    assert_equal(kernel_set.element_loss(name, (logs, np.array([1.0, 1])), (), None), np.array([inf, 1]))


# ---------------------------------------------------------------- CTC


def ctc_case(T: int, N: int, C: int, dtype: type, seed: int = 0) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    x = naive.log_softmax(random.standard_normal((T, N, C)) * 2, 2).astype(dtype)
    targets = random.integers(0, C - 1, (N, 3))  # the last class is the blank
    inputs, lengths = random.integers(0, T + 1, N), random.integers(0, 4, N)
    inputs[:2], lengths[:3] = T, (3, 2, 0)
    targets[0] = targets[0, 0]
    return x, targets, inputs, lengths, C - 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "C"), [(5, 3), (4, 4), (1, 2), (6, 2)])
def test_ctc(kernel_set: Any, T: int, C: int, dtype: type) -> None:
    case = ctc_case(T, 8, C, dtype, seed=T)
    wanted, given = naive_loss.ctc(*case)
    assert np.isinf(wanted).any() and np.isfinite(wanted).any()
    eps = float(np.finfo(dtype).eps)
    loss, alpha = run(kernel_set.ctc_loss, *case)
    assert_close(loss, wanted, 60 * eps * (1 + np.abs(wanted)))
    assert alpha.shape == (8, T, 7)
    g = np.random.default_rng(1).standard_normal(8).astype(dtype)
    inside = np.arange(T)[:, None] < case[2]
    expected = np.where(inside[..., None], (np.exp(case[0].astype(np.float64)) - given) * g[:, None], 0)
    for zero in (False, True):
        gx = run(kernel_set.ctc_loss_grad, g, *case, loss, alpha, zero)
        hopeless = np.where(inside, 0.0 if zero else np.nan, 0)[:, np.isinf(wanted), None]
        expected[:, np.isinf(wanted)] = hopeless
        assert_close(gx, expected, 400 * eps)


def test_ctc_of_any_strides_and_a_copied_alpha(kernel_set: Any) -> None:
    x, targets, inputs, lengths, blank = ctc_case(9, 4, 21, np.float64)
    loss, alpha = kernel_set.ctc_loss(x, targets, inputs, lengths, blank)
    other = np.asfortranarray(x), targets[:, ::-1][:, ::-1], np.repeat(inputs, 2)[::2], lengths, blank
    again, _ = run(kernel_set.ctc_loss, *other)
    assert_equal(again, loss)
    g = np.repeat(np.arange(1.0, 5), 2)[::2]
    gx = run(kernel_set.ctc_loss_grad, g, *other, loss, alpha.copy(), True)
    assert_equal(gx, kernel_set.ctc_loss_grad(g, x, targets, inputs, lengths, blank, loss, alpha, True))


def test_ctc_of_many_states_and_classes(kernel_set: Any) -> None:
    """Wider than a register; the sets agree, and through log_softmax each row of the gradient sums to 0."""
    random = np.random.default_rng(0)
    x = naive.log_softmax(random.standard_normal((60, 3, 37)), 2)
    targets, inputs, lengths = random.integers(1, 37, (3, 25)), np.array([60, 55, 60]), np.array([25, 17, 1])
    loss, alpha = kernel_set.ctc_loss(x, targets, inputs, lengths, 0)
    gx = kernel_set.ctc_loss_grad(np.ones(3), x, targets, inputs, lengths, 0, loss, alpha, False)
    np.testing.assert_allclose(gx.sum(2), 0, atol=1e-10)
    rest = np.array([kernel_set.ctc_loss(x + 1e-6 * d, targets, inputs, lengths, 0)[0] for d in (1, -1)])
    np.testing.assert_allclose((rest[0] - rest[1]) / 2e-6, -inputs, rtol=1e-6)  # each path gets e^T times likelier


def test_ctc_of_nothing(kernel_set: Any) -> None:
    none = np.zeros(0, np.int64)
    loss, alpha = run(kernel_set.ctc_loss, np.zeros((4, 0, 3)), np.zeros((0, 2), np.int64), none, none, 0)
    assert loss.shape == (0,)
    gx = kernel_set.ctc_loss_grad(
        np.zeros(0), np.zeros((4, 0, 3)), np.zeros((0, 2), np.int64), none, none, 0, loss, alpha, False
    )
    assert gx.shape == (4, 0, 3)
    two = np.zeros(2, np.int64)
    loss, _ = run(kernel_set.ctc_loss, np.zeros((0, 2, 3)), np.zeros((2, 1), np.int64), two, np.array([0, 1]), 0)
    assert_equal(loss, np.array([0, inf]))


# ---------------------------------------------------------------- margins


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 7), (1, 1), (3, 33), (0, 3), (90, 200)])
def test_margins(kernel_set: Any, shape: tuple[int, int], dtype: type) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(dtype)
    labels = random.integers(0, shape[1], shape[0])
    wide, eps = x.astype(np.float64), float(np.finfo(dtype).eps)
    check = shape[0] * shape[1] < 1000  # differences of every element take long
    for p, margin in ((1, 1.0), (2, 0.4)):
        wanted = naive_loss.multi_margin(wide, labels, p, margin)
        assert_close(run(kernel_set.multi_margin_loss, x, labels, p, margin), wanted, 60 * eps * (1 + wanted))
        slopes = run(kernel_set.multi_margin_loss_slopes, x, labels, margin)
        if check:
            wanted = naive_loss.slope_of_rows(lambda a, m=margin: naive_loss.multi_margin(a, labels, 1, m), wide)
            assert_close(slopes, wanted, 1e-7 + 60 * eps)
    targets = random.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)
    targets[1:2, 1:] = -1
    targets[2:3, 0] = -1
    few = targets.copy()
    few[:, 3:] = -1
    for goals in (targets, few) if check else (few,):
        wanted = naive_loss.multilabel_margin(wide, goals)
        assert_close(run(kernel_set.multilabel_margin_loss, x, goals), wanted, 200 * eps * (1 + wanted))
        slopes = run(kernel_set.multilabel_margin_loss_slopes, x, goals)
        if check:
            wanted = naive_loss.slope_of_rows(lambda a, t=goals: naive_loss.multilabel_margin(a, t), wide)
            assert_close(slopes, wanted, 1e-7 + 60 * eps)


def test_nan_in_a_row(kernel_set: Any) -> None:
    x = np.array([[0.0, np.nan, 1], [0, 1, 2]])
    assert_equal(np.isnan(kernel_set.multi_margin_loss(x, np.array([0, 0]), 1, 1.0)), np.array([1.0, 0]))
    first = np.array([[0, -1, -1], [0, -1, -1]])
    assert_equal(np.isnan(kernel_set.multilabel_margin_loss(x, first)), np.array([1.0, 0]))
