"""Margin losses of classification: multi-class, multi-label, and the soft margin of signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..arguments.checks import as_index, as_real, require_float
from ..memory.private import private
from ..pointwise.operands import Gradients
from ..pointwise.piecewise import where
from ..reduce.reduction import sum
from ..shape.shape import Reshape
from .classification import check_labels, refuse_labels
from .elements import ElementLoss, check_reduction, constant, matched, reduce, refuse_gradient, signs
from .older import averaged

__all__ = ["multi_margin_loss", "multilabel_margin_loss", "soft_margin_loss"]


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
        slopes = kernels.multi_margin_loss_slopes(x.array, labels, ctx.margin)  # of p = 1: piecewise constant
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


@averaged
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


@averaged
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

    input (N, C), target (N,) int64; or (C,) and () or (1,). p: 1 or 2. weight: (C,). Averaged over rows, summed or as
    it is.

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
    whole = rows if isinstance(target, Tensor) and target.array.shape == (1,) else input
    target = check_labels(name, whole if whole.array.ndim else Reshape.apply(input, (1,)), target)
    classes, labels = rows.array.shape[1], private(target.array)
    _require_classes(name, input.array.shape, classes)
    refuse_labels(name, whole.array.shape or (1,), labels, classes, None)
    constant(name, "weight", weight, input)
    if weight is not None and weight.array.shape != (classes,):
        raise ValueError(f"{name}: weight.shape={weight.array.shape}, needs ({classes},), one per class")
    labels = labels.reshape(-1)
    losses = MultiMargin.apply(rows, labels, int(p), as_real(name, "margin", margin))
    if weight is not None:
        losses = losses * wrap(exact("lines")(weight.array, labels, 0))
    return reduce(name, losses if target.array.ndim else Reshape.apply(losses, ()), reduction)


@averaged
@operator(records=MultilabelMargin)
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """sum over targets j and other classes i of max(0, 1 - input[j] + input[i]) / C in each row.

    input (N, C), (C,) or (); target of the same shape, int64: a row's classes, ended by -1 where there are
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
    rows, targets = shape if len(shape) == 2 else (1, *(shape or (1,))), private(target.array)
    _require_classes(name, shape, rows[1])
    refuse_labels(name, shape or (1,), targets, rows[1], -1)
    losses = MultilabelMargin.apply(Reshape.apply(input, rows), targets.reshape(rows))
    return reduce(name, losses if len(shape) == 2 else Reshape.apply(losses, ()), reduction)
