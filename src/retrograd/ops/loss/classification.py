"""Losses of one class out of many: cross entropy and the negative log-likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ..broadcasting import expand
from ..dtype import require_float, require_same
from ..kernel_set import kernels
from ..reduction import sum
from ..shape import Reshape
from ..softmax import log_softmax, softmax
from .elements import check_reduction, reduce

__all__ = ["cross_entropy", "nll_loss"]

IGNORE_INDEX = -100  # PyTorch's default: no class


class CrossEntropy(Function):
    """-(1 - e) log p[label] - e mean(log p) at each place, p = softmax(x) over axis 1 and e the smoothing

    x (N, C, *D), labels (N, *D) int64: classes, or -1 for what does not count and has the loss 0 -> (N, *D), or their
    sum times the factor where that is not None.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: np.ndarray, factor: float | None, smoothing: float) -> Tensor:
        loss, tops, logs = kernels.cross_entropy(x.data, labels, smoothing)
        ctx.save_for_backward(x, labels, tops, logs)
        ctx.factor, ctx.smoothing = factor, smoothing
        return wrap(_total(loss, factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, labels, tops, logs = ctx.saved_tensors
        g = _spread(g, labels.shape, ctx.factor)
        return CrossEntropyGrad.apply(g, x, labels, tops, logs, ctx.smoothing), None, None, None


class CrossEntropyGrad(Function):
    """g (p - (1 - e) [class == label] - e / C), and 0 where the label is -1

    tops, logs: the maximum of x and log sum exp(x - maximum), as arrays: they make p, and no gradient flows through.
    """

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, labels: np.ndarray, tops: np.ndarray, logs: np.ndarray, smoothing: float
    ) -> Tensor:
        ctx.save_for_backward(g, x, labels)
        ctx.smoothing = smoothing
        return wrap(kernels.cross_entropy_grad(g.data, x.data, labels, smoothing, tops, logs))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_g, want_x, *_), (g, x, labels) = ctx.needs_input_grad, ctx.saved_tensors
        classes, dtype = x.data.shape[1], x.data.dtype
        each = np.arange(classes).reshape(-1, *[1] * (labels.ndim - 1)) == labels[:, None]
        goal = np.asarray((1 - ctx.smoothing) * each + ctx.smoothing / max(classes, 1), dtype)
        v = v * wrap(np.asarray(labels >= 0, dtype)[:, None])
        p = softmax(x, 1)
        gg = sum(v * (p - wrap(goal)), 1) if want_g else None
        gx = _with_classes(g) * p * (v - sum(v * p, 1, True)) if want_x else None
        return gg, gx, None, None, None, None


class NegativeLogLikelihood(Function):
    """-x[n, labels[n, d], d], and 0 where the label is -1; x (N, C, *D), labels (N, *D) -> (N, *D), or their sum times
    the factor where that is not None
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: np.ndarray, factor: float | None) -> Tensor:
        ctx.save_for_backward(x.data, labels)
        ctx.factor = factor
        return wrap(_total(kernels.nll_loss(x.data, labels), factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, labels = ctx.saved_tensors
        return NegativeLogLikelihoodGrad.apply(_spread(g, labels.shape, ctx.factor), x, labels), None, None


class NegativeLogLikelihoodGrad(Function):
    """-g put where the labels are, into zeros like x: the transpose of NegativeLogLikelihood"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: np.ndarray, labels: np.ndarray) -> Tensor:
        ctx.save_for_backward(labels)
        return wrap(kernels.nll_loss_grad(g.data, x, labels))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (labels,) = ctx.saved_tensors
        return NegativeLogLikelihood.apply(v, labels, None), None, None


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of softmax(x) over axis 1 against class indices or class probabilities; x is the input.

    x (N, C, *D) or (C,); target int64 (N, *D) or (), or like x with probabilities.
    Per element: -weight[t] * log(softmax(x))[t]; with label smoothing e, each target is a mixture of (1-e) of the class
    and e of the uniform distribution. "mean" divides by the sum of the weights of the targets, or by the number of
    elements where targets are probabilities; targets equal to ``ignore_index`` count nowhere.

    Raises:
        TypeError: x or weight are not of one floating-point type, or the target is of a wrong one.
        ValueError: the shapes do not fit, the reduction is unknown, or label_smoothing is not in [0, 1].
        IndexError: a label is no class, named with its place.
    """
    name = "cross_entropy"
    require_float(name, input)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"{name}: label_smoothing={label_smoothing} must lie in [0, 1]")
    check_reduction(name, reduction)
    if isinstance(target, Tensor) and target.data.dtype.kind == "f":
        return _against_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    return _against_labels(name, CrossEntropy, input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood -weight[t] * x[t] for log-probabilities x: the input (N, C, *D) or (C,).

    target int64 (N, *D) or (); weights, ``ignore_index`` and "mean" as in ``cross_entropy``.

    Raises:
        TypeError: x or weight are not of one floating-point type, or the target is not int64.
        ValueError: the shapes do not fit, the weight requires a gradient, or the reduction is unknown.
        IndexError: a label is no class, named with its place.
    """
    require_float("nll_loss", input)
    return _against_labels("nll_loss", NegativeLogLikelihood, input, target, weight, ignore_index, reduction, None)


def _against_labels(
    name: str,
    loss: type[Function],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float | None,
) -> Tensor:
    check_reduction(name, reduction)
    check_labels(name, input, target)
    x, labels = input, target.data
    if x.data.ndim == 1:
        x, labels = Reshape.apply(x, (1, x.data.size)), labels.reshape(1)
    classes, dtype = x.data.shape[1], x.data.dtype
    inside = refuse_labels(name, input, target.data, classes, ignore_index)
    per_class = _class_weights(name, weight, x, differentiable=False)
    ignores = not inside or 0 <= ignore_index < classes
    counted = labels != ignore_index
    if ignores:
        labels = np.where(counted, labels, -1)
    options = () if smoothing is None else (float(smoothing) if per_class is None else 0.0,)
    if per_class is None:
        factor: float | None = None if reduction == "none" else 1.0
        if reduction == "mean":
            count = np.count_nonzero(counted) if ignores else labels.size
            factor = 1.0 / count if count else np.nan
        losses = loss.apply(x, labels, factor, *options)
        return Reshape.apply(losses, ()) if factor is None and input.data.ndim == 1 else losses

    weights = wrap(np.asarray(np.where(counted, per_class.data[labels], 0), dtype))
    losses = loss.apply(x, labels, None, *options) * weights
    if smoothing:
        spread = sum(log_softmax(x, 1) * _along_classes(per_class, x), 1)
        spread = spread * wrap(np.asarray(counted, dtype))
        losses = losses * (1.0 - smoothing) - spread * (smoothing / classes)
    if reduction == "mean":
        return sum(losses) / sum(weights)
    return reduce(name, losses if input.data.ndim > 1 else Reshape.apply(losses, ()), reduction)


def _against_probabilities(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    name, shape = "cross_entropy", x.data.shape
    require_same(name, "x", x, "target", target)
    if target.data.shape != shape or not shape:
        raise ValueError(
            f"{name}: target of probabilities has shape {target.data.shape}, x has {shape}; they must be equal "
            f"(class indices are int64)"
        )
    if ignore_index != IGNORE_INDEX:
        raise ValueError(f"{name}: ignore_index={ignore_index} is for class indices, target holds probabilities")
    axis = 1 if len(shape) > 1 else 0
    goals = target
    if label_smoothing:
        goals = goals * (1.0 - label_smoothing) + label_smoothing / shape[axis]
    per_class = _class_weights(name, weight, x, differentiable=True)
    if per_class is not None:
        goals = goals * _along_classes(per_class, x)
    losses = -sum(goals * log_softmax(x, axis), axis)
    return reduce(name, losses, reduction)


def _total(loss: np.ndarray, factor: float | None) -> np.ndarray:
    return loss if factor is None else np.asarray(np.add.reduce(loss, axis=None) * factor, loss.dtype)


def _spread(g: Tensor, shape: tuple[int, ...], factor: float | None) -> Tensor:
    """The upstream gradient of each place."""
    return g if factor is None else expand(g * factor, shape)


def _with_classes(g: Tensor) -> Tensor:
    """g (N, *D) as (N, 1, *D)"""
    return Reshape.apply(g, (g.data.shape[0], 1, *g.data.shape[1:]))


def _along_classes(per_class: Tensor, x: Tensor) -> Tensor:
    """per_class (C,) as it broadcasts to x (N, C, *D) or (C,)"""
    return Reshape.apply(per_class, (-1,) + (1,) * (x.data.ndim - 2)) if x.data.ndim > 2 else per_class


def _class_weights(name: str, weight: Tensor | None, x: Tensor, differentiable: bool) -> Tensor | None:
    if weight is None:
        return None
    require_same(name, "x", x, "weight", weight)
    classes = x.data.shape[min(1, x.data.ndim - 1)]
    if weight.data.shape != (classes,):
        raise ValueError(f"{name}: weight.shape={weight.data.shape}, needs ({classes},), one per class")
    if weight.requires_grad and not differentiable:
        raise ValueError(f"{name}: weight requires a gradient, which this loss does not give; use weight.detach()")
    return weight


def check_labels(name: str, x: Tensor, target: Any) -> None:
    """Refuse a target that is not int64 of x's shape without the axis of classes.

    Raises:
        TypeError: it is no Tensor of int64.
        ValueError: its shape does not fit.
    """
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}: target is {type(target).__name__}, needs a Tensor of int64 class indices")
    if target.data.dtype != np.int64:
        raise TypeError(f"{name}: target is {target.data.dtype}, x is {x.data.dtype}; class indices must be int64")
    shape = x.data.shape
    if not shape or target.data.shape != (shape[:1] + shape[2:] if len(shape) > 1 else ()):
        raise ValueError(
            f"{name}: x.shape={shape}, target.shape={target.data.shape}; "
            f"x (N, C, *D) needs target (N, *D), x (C,) needs ()"
        )


def refuse_labels(name: str, x: Tensor, labels: np.ndarray, classes: int, ignored: int | None) -> bool:
    """Whether all labels are classes; others than ``ignored`` are refused.

    Raises:
        IndexError: a label is no class; names the first one and its place.
    """
    # a negative label is a huge one when its bits are read without a sign: one comparison for both ends
    if not labels.size or np.maximum.reduce(labels.view(np.uint64), axis=None) < classes:
        return True
    outside = (labels < 0) | (labels >= classes)
    wrong = np.argwhere(outside if ignored is None else outside & (labels != ignored))
    if len(wrong):
        place = tuple(map(int, wrong[0]))
        where = f"target[{', '.join(map(str, place))}]" if place else "target"
        way_out = "" if ignored is None else f"; one that shall not count must be {_IGNORED[name]}{ignored}"
        raise IndexError(
            f"{name}: {where} = {labels[place]} is no class: x.shape={x.data.shape} has classes 0 to {classes - 1} "
            f"({len(wrong)} such labels{way_out})"
        )
    return False


_IGNORED = {"cross_entropy": "ignore_index=", "nll_loss": "ignore_index=", "multilabel_margin_loss": ""}
