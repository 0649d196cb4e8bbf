from __future__ import annotations

import re

import numpy as np
import pytest

from ops.battery import check, kernels_of_backward, numbers
from retrograd.autograd import grad, gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops import loss
from retrograd.ops.loss.classification import CrossEntropy, CrossEntropyGrad, Labels
from retrograd.ops.normalization.softmax import LogSoftmaxGrad, SoftmaxGrad


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
    np.testing.assert_allclose(x.softmax(1).array[0], [1, 0])
    np.testing.assert_allclose(x.log_softmax(1).array[0], [0, -1000])


LABELS = np.array([2, 0, 1, 2])


def test_cross_entropy_of_rows() -> None:
    x, labels = numbers(4, 3), np.array([2, -1, 1, 2])
    known = Labels("cross_entropy", (4, 3), labels, None, -1)
    counted, goal = (labels >= 0) * 1.0, 0.8 * (np.arange(3) == labels[:, None]) + 0.2 / 3
    wanted = lambda a: -(goal * logs(a)).sum(1) * counted  # noqa: E731
    check(lambda t: CrossEntropy.apply(t, known, 0.2, "none"), (x,), wanted, rtol=1e-11)

    def of(g: Tensor, x: Tensor) -> Tensor:
        tops = x.array.max(1)
        sums = np.exp(x.array - tops[:, None]).sum(1)
        return CrossEntropyGrad.apply(g, x, known, tops, np.log(sums), 0.2, None)

    check(of, (numbers(4), x), lambda g, x: (g * counted)[:, None] * (np.exp(logs(x)) - goal), rtol=1e-11)


def expected_loss(x, t, weight, ignore, reduction, smoothing):
    """Compute the loss from its definition, element by element."""
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


@pytest.mark.pairwise
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
    np.testing.assert_allclose(y.array, wanted, rtol=1e-12, atol=1e-12)
    if not smoothing:
        z = F.nll_loss(Tensor(logs(x, 1 if x.ndim > 1 else 0)), Tensor(t), tensor, **options)
        np.testing.assert_allclose(z.array, wanted, rtol=1e-12, atol=1e-12)
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


@pytest.mark.pairwise
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
    np.testing.assert_array_equal(x.grad.array[0], [0, 0])


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
    assert kernels_of_backward(lambda v: F.cross_entropy(v, t), x, {0}) == ["cross_entropy_grad"]
    assert kernels_of_backward(lambda v: v.softmax(1), x, {0}) == ["softmax_grad"]
    assert kernels_of_backward(lambda v: v.log_softmax(1), x, {0}) == ["log_softmax_grad"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x, t: F.cross_entropy(x, Tensor(np.array([0, 1, 2, 12]))),
            IndexError,
            "cross_entropy: target[3] = 12 is not a class: input.shape=(4, 3) has classes 0 to 2 (1 such labels",
        ),
        (lambda x, t: F.cross_entropy(x, Tensor(np.array([0, -1, 2, 0]))), IndexError, "target[1] = -1 is not a class"),
        (lambda x, t: F.cross_entropy(x, Tensor(np.array([3, 0, 0, 0])), ignore_index=3), AssertionError, None),
        (
            lambda x, t: F.cross_entropy(x.reshape(2, 3, 2), Tensor(np.array([[0, 1], [5, 2]]))),
            IndexError,
            "target[1, 0] = 5 is not a class",
        ),
        (lambda x, t: F.cross_entropy(x[0], Tensor(np.array(3))), IndexError, "target = 3 is not a class"),
        (lambda x, t: F.nll_loss(x, Tensor(np.array([0, 0, 3, 0]))), IndexError, "target[2] = 3 is not a class"),
        (lambda x, t: F.cross_entropy(x, t[:3]), ValueError, "cross_entropy: input.shape=(4, 3), target.shape=(3,)"),
        (
            lambda x, t: F.cross_entropy(x, t.bool()),
            TypeError,
            "target is bool; class indices must be int64",
        ),
        (
            lambda x, t: F.cross_entropy(x, t.array),
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
        (lambda x, t: F.cross_entropy(x, t, x[0].float()), TypeError, "input is float64, weight is float32"),
        (lambda x, t: F.cross_entropy(x, t, x[0].clone().requires_grad_()), ValueError, "weight requires a gradient"),
        (lambda x, t: F.cross_entropy(x, x[:3]), ValueError, "target.shape=(3, 3), input.shape=(4, 3); probabilities"),
        (lambda x, t: F.cross_entropy(x, x, ignore_index=1), ValueError, "ignore_index=1 is for class indices"),
        (lambda x, t: F.softmax(x, 2), IndexError, "softmax: dim=2 is out of range; 2 axes allow -2 to 1"),
        (lambda x, t: F.log_softmax(t, 0), TypeError, "log_softmax: input is int64"),
        (lambda x, t: F.mse_loss(t, t), TypeError, "mse_loss: input is int64"),
    ],
)
def test_messages(call, error: type[Exception], message: str | None) -> None:
    x, t = Tensor(np.zeros((4, 3))), Tensor(LABELS)
    if message is None:
        assert call(x, t).item() == pytest.approx(np.log(3))
        return
    with pytest.raises(error, match=re.escape(message)):
        call(x, t)


def test_losses_warn_before_they_broadcast() -> None:
    x, t = Tensor(np.zeros((2, 1))), Tensor(np.array([1.0, 3.0]))
    for name in ("l1_loss", "smooth_l1_loss", "huber_loss"):
        with pytest.warns(UserWarning, match=re.escape(f"{name}: input.shape=(2, 1) and target.shape=(2,) differ")):
            assert getattr(F, name)(x, t).array.shape == ()
    with pytest.warns(UserWarning, match="kl_div: reduction='mean' divides by the number of elements"):
        F.kl_div(x, x)


def test_empty_batches_and_no_classes() -> None:
    """The mean of no losses is NaN, their sum 0; a margin to other classes needs classes."""
    for many in (2, 0):
        rows = Tensor(np.zeros((0, many)), requires_grad=True)
        labels = Tensor(np.zeros((0, many), np.int64))
        for name in ("mse_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "multilabel_margin_loss"):
            if not many and name == "multilabel_margin_loss":
                continue
            target = labels if "label" in name else rows.detach()
            assert np.isnan(getattr(F, name)(rows, target).array), name
            total = getattr(F, name)(rows, target, reduction="sum")
            total.backward()
            assert total.item() == 0 and rows.grad.shape == (0, many), name
            assert getattr(F, name)(rows, target, reduction="none").array.size == 0
    none = F.multilabel_soft_margin_loss(Tensor(np.zeros((3, 0))), Tensor(np.zeros((3, 0))), reduction="none")
    assert none.shape == (3,) and np.isnan(none.array).all()  # means over no classes
    for shape in ((0,), (3, 0), (0, 0)):
        x = Tensor(np.zeros(shape))
        with pytest.raises(ValueError, match=r"multilabel_margin_loss: input.shape=.* has no classes, needs \(N, C\)"):
            F.multilabel_margin_loss(x, x.long())
    with pytest.raises(ValueError, match=r"multi_margin_loss: input.shape=\(0, 0\) has no classes"):
        F.multi_margin_loss(x, Tensor(np.zeros(0, np.int64)))


def test_an_unknown_reduction_is_refused_by_all() -> None:
    x, t, labels = Tensor(np.full((2, 3), 0.5)), Tensor(np.ones((2, 3))), Tensor(np.array([0, 1]))
    three = {"gaussian_nll_loss", "margin_ranking_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"}
    of_labels = {"cross_entropy", "nll_loss", "multi_margin_loss"}
    for name in loss.__all__:
        args = (x, t, t) if name in three else (x, labels) if name in of_labels else (x, t)
        if name == "multilabel_margin_loss":
            args = (x, Tensor(np.zeros((2, 3), np.int64)))
        if name == "cosine_embedding_loss":
            args = (x, t, labels)
        if name == "ctc_loss":
            args = (x, labels, [2], [2])
        with pytest.raises(ValueError, match=f"{name}: reduction='batch' must be .*'mean', 'sum' or 'none'"):
            getattr(F, name)(*args, reduction="batch")


def test_values_by_hand() -> None:
    """For each loss, a value that can be checked on paper."""
    x, t = Tensor(np.array([0.5, -2.0])), Tensor(np.array([0.0, 1.0]))
    signs = Tensor(np.array([1, -1]))

    def of(name: str, *args: Tensor, **options: object) -> list[float]:
        return getattr(F, name)(*args, reduction="none", **options).array.tolist()

    assert of("mse_loss", x, t) == [0.25, 9]
    assert of("l1_loss", x, t) == [0.5, 3]
    assert of("smooth_l1_loss", x, t) == [0.125, 2.5] and of("smooth_l1_loss", x, t, beta=2.0) == [0.0625, 2]
    assert of("huber_loss", x, t) == [0.125, 2.5] and of("huber_loss", x, t, delta=2.0) == [0.125, 4]
    assert of("hinge_embedding_loss", x, signs) == [0.5, 3]
    assert of("margin_ranking_loss", x, t, signs, margin=0.25) == [0, 0]
    assert of("gaussian_nll_loss", x, t, Tensor(np.ones(2))) == [0.125, 4.5]
    assert of("poisson_nll_loss", x, t, log_input=False, eps=3.0) == [0.5, -2]
    zero, half = Tensor(np.zeros(2)), Tensor(np.full(2, 0.5))
    two = np.log(2)
    for name in ("binary_cross_entropy_with_logits", "soft_margin_loss"):
        np.testing.assert_allclose(of(name, zero, half if name[0] == "b" else signs), [two, two], rtol=1e-15)
    np.testing.assert_allclose(of("binary_cross_entropy", half, t), [two, two], rtol=1e-15)
    np.testing.assert_allclose(of("kl_div", zero, half), [-two / 2, -two / 2], rtol=1e-15)
    rows = Tensor(np.array([[0.0, 1.0, 3.0]]))
    assert of("multi_margin_loss", rows, Tensor(np.array([1]))) == [1.0]  # 3 / 3
    assert of("multilabel_margin_loss", rows, Tensor(np.array([[1, -1, 0]]))) == [1.0]
    right = Tensor(np.array([[3.0, 0.0], [0.0, 4.0]]))
    other = Tensor(np.array([[0.0, 4.0], [0.0, 1.0]]))
    np.testing.assert_allclose(of("cosine_embedding_loss", right, other, signs), [1, 1], rtol=1e-12)
    assert of("triplet_margin_loss", right, right, other, eps=0.0, p=1.0) == [0, 0]
    assert of("triplet_margin_loss", right, other, right, eps=0.0, p=2.0) == [6, 4]
    # two times, classes of 1/2: of the four paths, three read as (1)
    even = Tensor(np.log(np.full((2, 1, 2), 0.5)))
    found = F.ctc_loss(even, Tensor(np.array([[1]])), [2], [1], reduction="sum")
    np.testing.assert_allclose(found.array, -np.log(3 / 4), rtol=1e-14)


def test_integers_and_numbers_where_they_are_welcome() -> None:
    x, signs = Tensor(numbers(3)), np.array([1, -1, 1])
    for name in ("soft_margin_loss", "hinge_embedding_loss"):
        a, b = (getattr(F, name)(x, Tensor(s)).array for s in (signs, signs.astype(np.float64)))
        assert a == b
    assert F.gaussian_nll_loss(x, x, 2.0).array == pytest.approx(np.log(2) / 2)
    assert F.gaussian_nll_loss(x, x, 0.0, eps=1.0).array == 0


def test_gradients_reach_weights_and_targets() -> None:
    """They are supported where PyTorch supports them, and rejected elsewhere, see below."""
    x, t, w = (Tensor(numbers(2, 3, seed=k, low=0.2), requires_grad=True) for k in range(3))
    assert gradcheck(lambda x, t, w: F.mse_loss(x, t, weight=w), [x, t, w])
    assert gradcheck(lambda x, t, w: F.huber_loss(x, t, weight=w, delta=0.3), [x, t, w])
    assert gradcheck(lambda x, t, w: F.multilabel_soft_margin_loss(x, t, w), [x, t, w])
    per_class = Tensor(numbers(3, low=0.5), requires_grad=True)
    assert gradgradcheck(lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.1), [x, t, per_class])


def test_second_derivatives_of_a_ranking_are_0_where_it_is_not_wrong_whatever_it_holds() -> None:
    """Where margin - t (x1 - x2) is negative or NaN, max(0, ...) passes no gradient on."""
    one, two, t = (
        Tensor(np.array(data), requires_grad=True)
        for data in ([np.nan, 3.0, np.inf, 1.0], [1.0, 1.0, np.inf, 2.0], [1.0, 1.0, 1.0, np.nan])
    )
    g = Tensor(np.array([2.0, 3.0, 5.0, 7.0]), requires_grad=True)
    loss = F.margin_ranking_loss(one, two, t, reduction="none")
    found = grad(loss, [one, two, t], g, create_graph=True)
    for first, plain, wanted in zip(
        found,
        grad(loss, [one, two, t], g),
        ([0, 0, 0, np.nan], [0, 0, 0, np.nan], [np.nan, 0, np.nan, 0]),  # 0 times its value
        strict=True,
    ):
        np.testing.assert_array_equal(first.array, wanted)
        np.testing.assert_array_equal(plain.array, wanted)
        for second in grad(first.sum(), [one, two, t, g], retain_graph=True, allow_unused=True):
            assert second is None or not second.array.any()


def test_the_slope_of_softplus_at_0_is_a_half_where_it_is_recorded() -> None:
    """The recorded gradient consists of two pieces that meet at 0."""
    x, t = (Tensor(np.zeros(1), requires_grad=True) for _ in range(2))
    y = F.binary_cross_entropy_with_logits(x, t, pos_weight=Tensor(np.array([3.0])), reduction="sum")
    (gt,) = grad(y, [t], create_graph=True)  # 2 log(1 + exp(-x)) - x
    (found,) = grad(gt, [x], create_graph=True)
    (third,) = grad(found, [x])
    assert found.array == -2 and third.array == 0.5


def test_a_loss_and_its_gradient_are_one_kernel_each() -> None:
    x, t = numbers(4, 3), Tensor(numbers(4, 3, seed=1, low=0.1))
    for name in ("mse_loss", "binary_cross_entropy_with_logits", "poisson_nll_loss", "gaussian_nll_loss"):
        more = (t,) if name == "gaussian_nll_loss" else ()
        found = kernels_of_backward(lambda v, n=name, m=more: getattr(F, n)(v, t, *m), (x,), {0})
        assert found == ["element_loss_grad"], name


def test_ctc_has_no_second_derivative_and_says_so() -> None:
    x = Tensor(logs(numbers(4, 1, 3), 2), requires_grad=True)
    y = F.ctc_loss(x, Tensor(np.array([[1, 2]])), [4], [2])
    (gx,) = grad([y], [x], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad([gx.sum()], [x])


ONE = Tensor(np.zeros((2, 1, 3)))
NEW_MESSAGES = [
    (lambda x: F.smooth_l1_loss(x, x, beta=-1), ValueError, "smooth_l1_loss: beta=-1 must be at least 0"),
    (lambda x: F.huber_loss(x, x, delta=0), ValueError, "huber_loss: delta=0 must be above 0"),
    (lambda x: F.mse_loss(x, x, weight=x[0]), ValueError, "mse_loss: weight.shape=(3,) and input.shape=(4, 3) must"),
    (lambda x: F.binary_cross_entropy(x, x.float()), TypeError, "input is float64, target is float32"),
    (lambda x: F.binary_cross_entropy(x - 0.5, x), ValueError, "binary_cross_entropy: input[0, 0] = -0.5 must lie in"),
    (lambda x: F.binary_cross_entropy(x, x, x[:, :2]), ValueError, "shapes (4, 3) and (4, 2) do not broadcast"),
    (
        lambda x: F.binary_cross_entropy(x, x, Tensor(np.ones((2, 4, 3)))),
        ValueError,
        "weight.shape=(2, 4, 3) does not broadcast to input.shape=(4, 3)",
    ),
    (
        lambda x: F.binary_cross_entropy(x, x, x.clone().requires_grad_()),
        ValueError,
        "binary_cross_entropy: weight requires a gradient, which this loss does not compute; use weight.detach()",
    ),
    (
        lambda x: F.binary_cross_entropy_with_logits(x, x, pos_weight=Tensor(np.ones((2, 4, 3)))),
        ValueError,
        "pos_weight.shape=(2, 4, 3) does not broadcast to (4, 3)",
    ),
    (lambda x: F.multilabel_soft_margin_loss(x[0, 0], x[0, 0]), ValueError, "input has no axes, needs (..., C)"),
    (lambda x: F.gaussian_nll_loss(x, x, -1.0), ValueError, "gaussian_nll_loss: var contains -1"),
    (
        lambda x: F.soft_margin_loss(x, x.clone().requires_grad_()),
        ValueError,
        "soft_margin_loss: target requires a gradient",
    ),
    (
        lambda x: F.hinge_embedding_loss(x, x.clone().requires_grad_()),
        ValueError,
        "hinge_embedding_loss: target requires a gradient",
    ),
    (lambda x: F.margin_ranking_loss(x, x, x[0]), ValueError, "target.shape=(3,) must have the same number of axes"),
    (lambda x: F.multi_margin_loss(x, x), TypeError, "multi_margin_loss: target is float64"),
    (
        lambda x: F.multi_margin_loss(x, Tensor(LABELS), weight=x[0, :2]),
        ValueError,
        "multi_margin_loss: weight.shape=(2,), needs (3,), one per class",
    ),
    (
        lambda x: F.multi_margin_loss(x.reshape(2, 2, 3), Tensor(LABELS)),
        ValueError,
        "input.shape=(2, 2, 3) must be (N, C) or (C,)",
    ),
    (lambda x: F.triplet_margin_loss(x, x, x[0]), ValueError, "negative.shape=(3,) must have the same number of axes"),
    (lambda x: F.pairwise_distance(x, x, p=np.nan), ValueError, "pairwise_distance: p=nan must be a number"),
    (lambda x: F.pairwise_distance(x[0, 0], x[0, 0]), ValueError, "x1 and x2 have no axes, need (..., D)"),
    (lambda x: F.ctc_loss(x[0], x, [1], [1]), ValueError, "ctc_loss: log_probs.shape=(3,) must be (T, N, C)"),
    (lambda x: F.ctc_loss(ONE, x, [1], [1]), TypeError, "ctc_loss: targets is float64, needs a Tensor of int64"),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [1], [1], 3), ValueError, "blank=3 is not a class: log_probs.shape=(2"),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [3], [1]), ValueError, "input_lengths contains 3, but log_probs.shape="),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [1, 1], [1]), ValueError, "input_lengths has 2 entries, log_probs has"),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [1.5], [1]), TypeError, "ctc_loss: input_lengths[0]=1.5 must be an int"),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [1], [-1]), ValueError, "target_lengths contains -1; lengths"),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS), [1], [3]), ValueError, "targets.shape=(4,), needs (N, S) or (3,)"),
    (
        lambda x: F.ctc_loss(ONE, Tensor(LABELS.reshape(2, 2)), [1], [3]),
        ValueError,
        "targets.shape=(2, 2), needs (1, S) with S at least 3, the greatest of target_lengths",
    ),
    (lambda x: F.ctc_loss(ONE, Tensor(LABELS + 1), [1], [4]), IndexError, "label 0 of target 0 is 3; the classes are"),
]


@pytest.mark.parametrize(("call", "error", "message"), NEW_MESSAGES)
def test_more_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.zeros((4, 3))))


@pytest.mark.parametrize("double", ["anchor", "positive", "negative"])
def test_triplets_of_mixed_types(double: str) -> None:
    names = ("anchor", "positive", "negative")
    arrays = dict(zip(names, np.random.default_rng(0).normal(size=(3, 5, 3)), strict=True))
    given = {
        name: Tensor(array if name == double else array.astype(np.float32), requires_grad=True)
        for name, array in arrays.items()
    }
    value = F.triplet_margin_loss(**given, margin=5.0)
    assert value.dtype == np.float64
    value.backward()
    apart = {name: arrays["anchor"] - arrays[name] + 1e-6 for name in names[1:]}
    near, far = (np.linalg.norm(apart[name], axis=1, keepdims=True) for name in names[1:])
    assert value.item() == pytest.approx((5 + near - far).mean(), rel=1e-5)
    np.testing.assert_allclose(given["positive"].grad.array, -apart["positive"] / near / 5, rtol=1e-4)
    np.testing.assert_allclose(given["negative"].grad.array, apart["negative"] / far / 5, rtol=1e-4)
