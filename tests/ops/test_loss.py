from __future__ import annotations

import re

import numpy as np
import pytest

from ops.battery import check, kernels_of_backward, numbers
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.loss import CrossEntropy, CrossEntropyGrad
from retrograd.ops.softmax import LogSoftmaxGrad, SoftmaxGrad


def logs(x: np.ndarray, axis: int = 1) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dim: int) -> None:
    x = numbers(2, 3, 2)
    check(lambda t: t.softmax(dim), (x,), lambda a: np.exp(logs(a, dim)), rtol=1e-11)
    check(lambda t: t.log_softmax(dim), (x,), lambda a: logs(a, dim), rtol=1e-11)


@pytest.mark.parametrize("axis", [0, 1])
def test_gradient_kernels_are_operators(axis: int) -> None:
    g, y = numbers(2, 3), numbers(2, 3, seed=1)
    check(
        lambda g, y: SoftmaxGrad.apply(g, y, axis),
        (g, y),
        lambda g, y: y * (g - (g * y).sum(axis, keepdims=True)),
        rtol=1e-11,
    )
    check(
        lambda g, y: LogSoftmaxGrad.apply(g, y, axis),
        (g, y),
        lambda g, y: g - np.exp(y) * g.sum(axis, keepdims=True),
        rtol=1e-11,
    )


def test_softmax_does_not_overflow() -> None:
    x = Tensor(np.array([[1000.0, 0.0], [-1000.0, -1001.0]]))
    np.testing.assert_allclose(x.softmax(1).data[0], [1, 0])
    np.testing.assert_allclose(x.log_softmax(1).data[0], [0, -1000])


LABELS = np.array([2, 0, 1, 2])


def test_cross_entropy_of_rows() -> None:
    picked = lambda a: -logs(a)[np.arange(4), LABELS]  # noqa: E731
    x = numbers(4, 3)
    check(lambda t: CrossEntropy.apply(t, Tensor(LABELS)), (x,), picked, rtol=1e-11)
    onehot = np.eye(3)[LABELS]
    check(
        lambda g, p: CrossEntropyGrad.apply(g, p, Tensor(LABELS)),
        (numbers(4), logs(x)),
        lambda g, p: g[:, None] * (np.exp(p) - onehot),
        rtol=1e-11,
    )


def expected_loss(x, t, weight, ignore, reduction, smoothing):
    """From the definition, element by element."""
    flat = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1]) if x.ndim > 1 else x[None]
    rows, labels = logs(flat), t.reshape(-1)
    classes = flat.shape[1]
    weight = np.ones(classes) if weight is None else weight
    losses, total = [], 0.0
    for row, label in zip(rows, labels, strict=True):
        if label == ignore:
            losses.append(0.0)
            continue
        losses.append(-(1 - smoothing) * weight[label] * row[label] - smoothing / classes * (weight * row).sum())
        total += weight[label]
    if reduction == "none":
        return np.reshape(losses, t.shape)
    return np.sum(losses) / (total if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (3,)], ids=str)
def test_cross_entropy(shape, ignore, weighted, smoothing, reduction) -> None:
    x = numbers(*shape)
    t = np.resize(LABELS, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if t.size > 2:
        t.flat[1] = ignore
    w = numbers(3, low=0.5) if weighted else None
    tensor = None if w is None else Tensor(w)
    options = {"ignore_index": ignore, "reduction": reduction}
    wanted = expected_loss(x, t, w, ignore, reduction, smoothing)

    y = F.cross_entropy(Tensor(x), Tensor(t), tensor, label_smoothing=smoothing, **options)
    np.testing.assert_allclose(y.data, wanted, rtol=1e-12, atol=1e-12)
    if not smoothing:
        z = F.nll_loss(Tensor(logs(x, 1 if x.ndim > 1 else 0)), Tensor(t), tensor, **options)
        np.testing.assert_allclose(z.data, wanted, rtol=1e-12, atol=1e-12)
    assert gradcheck(
        lambda v: F.cross_entropy(v, Tensor(t), tensor, label_smoothing=smoothing, **options),
        [Tensor(x, requires_grad=True)],
    )


def test_second_derivatives() -> None:
    x, t = Tensor(numbers(4, 3), requires_grad=True), Tensor(LABELS)
    assert gradgradcheck(lambda v: F.cross_entropy(v, t), [x])
    w = Tensor(numbers(3, low=0.5))
    assert gradgradcheck(lambda v: F.cross_entropy(v, t, w, ignore_index=1, label_smoothing=0.2), [x])
    assert gradgradcheck(lambda v: F.nll_loss(v, t, w), [x])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (3,)], ids=str)
def test_probabilities_as_target(shape, weighted: bool, reduction: str) -> None:
    x, p = numbers(*shape), numbers(*shape, seed=1, low=0.1)
    axis = 1 if len(shape) > 1 else 0
    w = numbers(3, low=0.5) if weighted else np.ones(3)
    column = w.reshape(3, *(1,) * (len(shape) - 1 - axis))
    losses = -(column * (0.8 * p + 0.2 / 3) * logs(x, axis)).sum(axis)
    wanted = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]
    check(
        lambda a, b: F.cross_entropy(
            a,
            b,
            Tensor(w.astype(a.dtype)) if weighted else None,
            reduction=reduction,
            label_smoothing=0.2,
        ),
        (x, p),
        lambda *_: wanted,
        rtol=1e-11,
    )


def test_an_ignored_row_may_hold_anything_finite_in_its_best_class() -> None:
    x = Tensor(np.array([[-np.inf, 0.0], [1.0, 2.0]]), requires_grad=True)
    y = F.cross_entropy(x, Tensor(np.array([-100, 1])))
    y.backward()
    assert np.isfinite(y.item())
    np.testing.assert_array_equal(x.grad.data[0], [0, 0])


def test_a_mean_of_nothing_is_nan() -> None:
    assert np.isnan(F.cross_entropy(Tensor(np.zeros((0, 3))), Tensor(np.zeros(0, np.int64))).item())
    assert np.isnan(F.cross_entropy(Tensor(np.zeros((1, 3))), Tensor(np.array([-100]))).item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse(reduction: str) -> None:
    reduce = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}[reduction]
    check(
        lambda x, y: F.mse_loss(x, y, reduction=reduction),
        (numbers(2, 3), numbers(2, 3, seed=1)),
        lambda x, y: reduce((x - y) ** 2),
    )


def test_mse_warns_before_it_broadcasts() -> None:
    with pytest.warns(UserWarning, match=re.escape("mse_loss: input.shape=(2, 1) and target.shape=(2,) differ")):
        y = F.mse_loss(Tensor(np.zeros((2, 1))), Tensor(np.array([1.0, 3.0])))
    assert y.item() == 5


def test_few_kernels_per_backward() -> None:
    t = Tensor(LABELS)
    x = (numbers(4, 3),)
    assert kernels_of_backward(lambda v: F.cross_entropy(v, t), x, {0}) == ["cross_entropy_grad", "scale"]
    assert kernels_of_backward(lambda v: v.softmax(1), x, {0}) == ["softmax_grad"]
    assert kernels_of_backward(lambda v: v.log_softmax(1), x, {0}) == ["log_softmax_grad"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x, t: F.cross_entropy(x, Tensor(np.array([0, 1, 2, 12]))),
            IndexError,
            "cross_entropy: target[3] = 12 is no class: x.shape=(4, 3) has classes 0 to 2 (1 such labels",
        ),
        (lambda x, t: F.cross_entropy(x, Tensor(np.array([0, -1, 2, 0]))), IndexError, "target[1] = -1 is no class"),
        (lambda x, t: F.cross_entropy(x, Tensor(np.array([3, 0, 0, 0])), ignore_index=3), AssertionError, None),
        (
            lambda x, t: F.cross_entropy(x.reshape(2, 3, 2), Tensor(np.array([[0, 1], [5, 2]]))),
            IndexError,
            "target[1, 0] = 5 is no class",
        ),
        (lambda x, t: F.cross_entropy(x[0], Tensor(np.array(3))), IndexError, "cross_entropy: target = 3 is no class"),
        (lambda x, t: F.nll_loss(x, Tensor(np.array([0, 0, 3, 0]))), IndexError, "nll_loss: target[2] = 3 is no class"),
        (lambda x, t: F.cross_entropy(x, t[:3]), ValueError, "cross_entropy: x.shape=(4, 3), target.shape=(3,)"),
        (
            lambda x, t: F.cross_entropy(x, t.bool()),
            TypeError,
            "target is bool, x is float64; class indices must be int64",
        ),
        (
            lambda x, t: F.cross_entropy(x, t.data),
            TypeError,
            "target is ndarray, needs a Tensor of int64 class indices",
        ),
        (lambda x, t: F.cross_entropy(t, t), TypeError, "cross_entropy: input is int64"),
        (
            lambda x, t: F.cross_entropy(x, t, reduction="avg"),
            ValueError,
            "reduction='avg' must be 'mean', 'sum' or 'none'",
        ),
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=2), ValueError, "label_smoothing=2 must lie in [0, 1]"),
        (lambda x, t: F.cross_entropy(x, t, x[0, :2]), ValueError, "weight.shape=(2,), needs (3,), one per class"),
        (lambda x, t: F.cross_entropy(x, t, x[0].float()), TypeError, "x is float64, weight is float32"),
        (lambda x, t: F.cross_entropy(x, t, x[0].clone().requires_grad_()), ValueError, "weight requires a gradient"),
        (lambda x, t: F.cross_entropy(x, x[:3]), ValueError, "target of probabilities has shape (3, 3), x has (4, 3)"),
        (lambda x, t: F.cross_entropy(x, x, ignore_index=1), ValueError, "ignore_index=1 is for class indices"),
        (lambda x, t: F.softmax(x, 2), IndexError, "softmax: dim=2 is out of range; 2 axes allow -2 to 1"),
        (lambda x, t: F.log_softmax(t, 0), TypeError, "log_softmax: input is int64"),
        (lambda x, t: F.mse_loss(x, t), TypeError, "mse_loss: target is int64"),
    ],
)
def test_messages(call, error: type[Exception], message: str | None) -> None:
    x, t = Tensor(np.zeros((4, 3))), Tensor(LABELS)
    if message is None:
        assert call(x, t).item() == pytest.approx(np.log(3))
        return
    with pytest.raises(error, match=re.escape(message)):
        call(x, t)
