"""Margin and ranking losses: hinge, multi-class margin, cosine, triplet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import ones
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import (
    are_floats,
    are_integers,
    as_callable,
    as_flag,
    as_index,
    as_int64,
    as_real,
    as_truth,
    copy_for_backward,
    require_float,
    require_number,
    require_tensor,
)
from ..dtypes.promotion import floats, promote
from ..pointwise.piecewise import clamp, minimum, where
from ..pointwise.pointwise import Gradients
from ..product.distance import as_float_pair, pairwise_distance, row_cosine
from ..reduce.reduction import sum
from ..shape.broadcasting import broadcast_shape, expand
from ..shape.shape import Reshape
from .base import ElementLoss, accepts_size_average, check_reduction, constant, matched, reduce, refuse_gradient, signs
from .classification import check_labels, refuse_labels

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


# ---- Classification: multi-class, multi-label and soft margin losses -------------------------------------------------


class SoftMargin(ElementLoss, term="soft_margin"):
    """log(1 + exp(-t x))"""


class MultiMargin(Function):
    """sum over c != labels[n] of max(0, z[n, c])^p / C with z[n, c] = margin - x[n, labels[n]] + x[n, c]"""

    gradient = "x: g p max(0, z)**(p - 1) / C for the other classes, minus their sum for the label's"

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: np.ndarray, p: int, margin: float) -> Tensor:
        ctx.save_for_backward(x, labels)
        ctx.p, ctx.margin = p, margin
        return wrap(kernels.multi_margin_loss(x.array, labels, p, margin))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, labels = ctx.saved_tensors
        rows, classes = x.array.shape
        each = Reshape.apply(g, (rows, 1))
        slopes = kernels.multi_margin_loss_slopes(x.array, labels, ctx.margin)  # for p = 1, piecewise constant
        if ctx.p == 1:
            return each * wrap(slopes), None, None, None
        # h[n, c] is added at c and subtracted at the label
        own, active = kernels.multi_margin_masks(slopes, labels)
        z = x - sum(where(wrap(own), x, 0.0), 1, True) + ctx.margin
        h = each * where(wrap(active), z * (2 / classes if classes else 0.0), 0.0)
        return where(wrap(own), -sum(h, 1, True), h), None, None, None


class MultilabelMargin(Function):
    """sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / C"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, targets: np.ndarray) -> Tensor:
        ctx.save_for_backward(x, targets)
        return wrap(kernels.multilabel_margin_loss(x.array, targets))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, targets = ctx.saved_tensors
        slopes = kernels.multilabel_margin_loss_slopes(x.array, targets)
        return Reshape.apply(g, (len(slopes), 1)) * wrap(slopes), None


@accepts_size_average
@operator(records=SoftMargin)
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target input)) for targets of 1 and -1, averaged, summed or unreduced; computed without overflow.

    Raises:
        TypeError: input is not a floating-point Tensor, or target is floating-point of another type.
        ValueError: the target requires a gradient, the shapes do not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(soft_margin_loss, locals())) is not None:
        return seen
    name = "soft_margin_loss"
    check_reduction(name, reduction)
    require_float(name, input)
    target = refuse_gradient(name, "target", signs(name, target, input))
    return SoftMargin.apply(reduction, (), *matched(name, input, target))


def _require_classes(name: str, shape: tuple[int, ...], classes: int) -> None:
    if not classes:
        raise ValueError(f"{name}: input.shape={shape} has no classes, needs (N, C) or (C,) with C of at least 1")


@accepts_size_average
@operator(records=MultiMargin)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """weight[t] sum over c != t of max(0, margin - input[t] + input[c])^p / C for the class t of each row.

    input (N, C), target (N,) int64; or (C,) and () or (1,). p: 1 or 2. weight: (C,). Averaged over rows, summed or
    unreduced.

    Raises:
        TypeError: input and weight are not of one floating-point type, or target is not int64.
        ValueError: p is neither 1 nor 2, the shapes do not fit, there are no classes, the weight requires a gradient,
            or the reduction is unknown.
        IndexError: a label is not a class.
    """
    if interpreters and (seen := interpreted(multi_margin_loss, locals())) is not None:
        return seen
    name = "multi_margin_loss"
    check_reduction(name, reduction)
    require_float(name, input)
    if p not in (1, 2):
        raise ValueError(f"{name}: p={p} must be 1 or 2")
    if input.array.ndim > 2:
        raise ValueError(f"{name}: input.shape={input.array.shape} must be (N, C) or (C,)")
    rows = input if input.array.ndim == 2 else Reshape.apply(input, (1, input.array.size))
    # the target of a single row may be () or (1,)
    labeled = rows if isinstance(target, Tensor) and target.array.shape == (1,) else input
    target = check_labels(name, labeled if labeled.array.ndim else Reshape.apply(input, (1,)), target)
    classes, labels = rows.array.shape[1], copy_for_backward(target.array)
    _require_classes(name, input.array.shape, classes)
    refuse_labels(name, labeled.array.shape or (1,), labels, classes, None)
    constant(name, "weight", weight, input)
    if weight is not None and weight.array.shape != (classes,):
        raise ValueError(f"{name}: weight.shape={weight.array.shape}, needs ({classes},), one per class")
    labels = labels.reshape(-1)
    losses = MultiMargin.apply(rows, labels, int(p), as_real(name, "margin", margin))
    if weight is not None:
        losses = losses * wrap(exact("lines")(weight.array, labels, 0))
    return reduce(name, losses if target.array.ndim else Reshape.apply(losses, ()), reduction)


@accepts_size_average
@operator(records=MultilabelMargin)
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """sum over targets j and other classes i of max(0, 1 - input[j] + input[i]) / C in each row.

    input (N, C), (C,) or (); target of the same shape, int64: a row's classes, terminated by -1 if there are
    fewer than C. Averaged over rows, summed or unreduced.

    Raises:
        TypeError: input is not a floating-point Tensor, or the target is not int64.
        ValueError: the shapes differ or have more than two axes, there are no classes, or the reduction is unknown.
        IndexError: a target is neither a class nor -1.
    """
    if interpreters and (seen := interpreted(multilabel_margin_loss, locals())) is not None:
        return seen
    name = "multilabel_margin_loss"
    check_reduction(name, reduction)
    require_float(name, input)
    shape = input.array.shape
    target = as_index(name, target, "target", "a Tensor of int64 class indices")
    if target.array.shape != shape or len(shape) > 2:
        raise ValueError(
            f"{name}: input.shape={shape}, target.shape={target.array.shape}; both must be (N, C) or both (C,)"
        )
    rows, targets = shape if len(shape) == 2 else (1, *(shape or (1,))), copy_for_backward(target.array)
    _require_classes(name, shape, rows[1])
    refuse_labels(name, shape or (1,), targets, rows[1], -1)
    losses = MultilabelMargin.apply(Reshape.apply(input, rows), targets.reshape(rows))
    return reduce(name, losses if len(shape) == 2 else Reshape.apply(losses, ()), reduction)


# ---- Distances and similarities: ranking, pair and triplet losses ----------------------------------------------------

_NEVER_ZERO = 1e-12  # added to squared norms, as in PyTorch
Metric = Callable[[Tensor, Tensor], Tensor]


class Hinge(ElementLoss, term="hinge"):
    """x where t = 1, max(0, margin - x) where t = -1; their sum for any other t"""


class Ranking(ElementLoss, term="ranking"):
    """max(0, margin - w (x - t))"""


@accepts_size_average
@operator(records=Hinge)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1; averaged, summed or unreduced.

    input: distances; target: 1 for similar pairs, -1 for dissimilar ones, int64, bool or of input's type, without
    gradient. Shapes are broadcast. Integer input gives integer losses; the margin is truncated.

    Raises:
        TypeError: input is not a Tensor of numbers, target is floating-point of another type, or reduction="mean" with
            integers.
        ValueError: the target requires a gradient, the shapes do not broadcast, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(hinge_embedding_loss, locals())) is not None:
        return seen
    name = "hinge_embedding_loss"
    check_reduction(name, reduction)
    if are_integers(input):
        return _hinge_of_integers(name, input, target, as_int64(name, "margin", margin), reduction)
    require_float(name, input)
    x, t = matched(name, input, refuse_gradient(name, "target", signs(name, target, input)))
    return Hinge.apply(reduction, (as_real(name, "margin", margin),), x, t)


@accepts_size_average
@operator(records=Ranking, dtypes="if")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target (input1 - input2)): target 1 ranks input1 higher, -1 ranks input2 higher.

    All three have the same number of axes and are broadcast. The inputs may hold integers; target: int64 or of the
    inputs' type. Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor of numbers, or target is floating-point of another type than the inputs.
        ValueError: the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(margin_ranking_loss, locals())) is not None:
        return seen
    name = "margin_ranking_loss"
    check_reduction(name, reduction)
    x1, x2 = (input1, input2) if are_floats(input1, input2) else as_float_pair(name, input1=input1, input2=input2)
    require_number(name, target, "target")
    t = signs(name, target, x1)
    if not input1.array.ndim == input2.array.ndim == t.array.ndim:
        raise ValueError(
            f"{name}: input1.shape={input1.array.shape}, input2.shape={input2.array.shape} and "
            f"target.shape={t.array.shape} must have the same number of axes"
        )
    shape = broadcast_shape(name, broadcast_shape(name, x1.array.shape, x2.array.shape), t.array.shape)
    numbers = (as_real(name, "margin", margin),)
    return Ranking.apply(reduction, numbers, expand(x1, shape), expand(x2, shape), expand(t, shape))


@accepts_size_average
@operator(dtypes="bif")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(input1, input2) where the target is 1, max(0, cos(input1, input2) - margin) where it is -1.

    input1, input2 (N, D), target (N,); or (D,), (D,) and (). target: int64 or of the inputs' type, without gradient;
    any other value gives 0. Averaged, summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor, or target is floating-point of another type than the inputs.
        ValueError: the shapes do not fit, the target requires a gradient, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(cosine_embedding_loss, locals())) is not None:
        return seen
    name = "cosine_embedding_loss"
    check_reduction(name, reduction)
    x1, x2 = input1, input2
    if not are_floats(x1, x2):
        x1, x2 = floats(name, integers=True, input1=x1, input2=x2)
    t = refuse_gradient(name, "target", signs(name, target, x1)).array
    if t.ndim > 1 or {x1.array.ndim, x2.array.ndim} != {t.ndim + 1}:
        raise ValueError(
            f"{name}: input1.shape={x1.array.shape}, input2.shape={x2.array.shape}, target.shape={t.shape}; "
            f"(N, D), (N, D) and (N,), or (D,), (D,) and () are needed"
        )
    shape = broadcast_shape(name, x1.array.shape, x2.array.shape)
    rows = shape if t.ndim else (1, *shape)
    x1, x2 = (expand(x, shape).reshape(rows) for x in (x1, x2))
    cosine = row_cosine(x1, x2, _NEVER_ZERO).reshape(shape[:-1])
    broadcast_shape(name, cosine.array.shape, t.shape)
    margin = as_real(name, "margin", margin)
    slope, start = kernels.cosine_embedding_slopes(cosine.array, t, margin, x1.array.dtype)
    return reduce(name, cosine * wrap(slope) + wrap(start), reduction)


@accepts_size_average
@operator(records=Ranking, dtypes="if")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the ``pairwise_distance`` along the last axis.

    The three inputs are (N, D) or (D,) and are broadcast. p, eps: parameters of the distance. swap: use the distance of
    positive and negative where it is smaller than that of anchor and negative (Balntas et al. 2016). Averaged,
    summed or unreduced.

    Raises:
        TypeError: an operand is not a Tensor of numbers.
        ValueError: the margin is not above 0, the shapes do not fit, or the reduction is unknown.
    """
    if interpreters and (seen := interpreted(triplet_margin_loss, locals())) is not None:
        return seen

    def metric(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, metric, margin, swap, reduction)


@operator(records=Ranking, dtypes="if")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Metric | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with any function of two tensors as the distance (default: ``pairwise_distance``).

    Raises: as ``triplet_margin_loss``.
    """
    if interpreters and (seen := interpreted(triplet_margin_with_distance_loss, locals())) is not None:
        return seen
    name = "triplet_margin_with_distance_loss"
    metric = pairwise_distance if distance_function is None else distance_function
    swap = as_truth(name, "swap", swap)
    return _triplet(name, anchor, positive, negative, metric, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    metric: Metric,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    check_reduction(name, reduction)
    as_callable(name, "distance_function", metric)
    margin = as_real(name, "margin", margin)
    if not margin > 0:
        raise ValueError(f"{name}: margin={margin:g} must be above 0")
    for label, x in (("anchor", anchor), ("positive", positive), ("negative", negative)):
        require_number(name, x, label)
    if not anchor.array.ndim == positive.array.ndim == negative.array.ndim:
        raise ValueError(
            f"{name}: anchor.shape={anchor.array.shape}, positive.shape={positive.array.shape} and "
            f"negative.shape={negative.array.shape} must have the same number of axes"
        )
    near, far = metric(anchor, positive), metric(anchor, negative)
    if as_flag(name, "swap", swap):
        far = minimum(far, metric(positive, negative))
    far, near = promote(name, far, near)
    shape = broadcast_shape(name, far.array.shape, near.array.shape)
    always = wrap(ones(shape, near.array.dtype, like=near.array))
    return Ranking.apply(reduction, (margin,), expand(far, shape), expand(near, shape), always)


def _hinge_of_integers(name: str, x: Tensor, target: Tensor, margin: int, reduction: str) -> Tensor:
    require_tensor(name, target, "target")
    broadcast_shape(name, x.array.shape, target.array.shape)
    losses = where(target == 1, x, 0) + where(target == -1, clamp(margin - x, 0), 0)
    return reduce(name, losses, reduction)
