"""Classification losses as layers."""

from __future__ import annotations

from dataclasses import KW_ONLY

from ...engine.tensor import Tensor
from ...ops.loss.binary import binary_cross_entropy, binary_cross_entropy_with_logits, multilabel_soft_margin_loss
from ...ops.loss.classification import cross_entropy, nll_loss
from ...ops.loss.margin import multi_margin_loss, multilabel_margin_loss, soft_margin_loss
from ..layer import layer
from .base import Loss

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "SoftMarginLoss",
]


@layer
class CrossEntropyLoss(Loss):
    """Cross entropy of softmax(x) and the target: -weight[t] * log(softmax(x))[t] per element.

    x (N, C, *D) or (C,); target int64 class indices (N, *D) or (), or probabilities of x's shape.

    weight: (C,), one factor per class. Targets equal to ignore_index do not count. label_smoothing: share of the
    uniform distribution mixed into every target. reduction: "mean" (over the targets that count, by their weights),
    "sum" or "none".

    Raises:
        ValueError: an argument is out of range, or the shapes do not fit.
        TypeError: a dtype is wrong.
        IndexError: a label is not a class; the message says which.
    """

    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100
    label_smoothing: float = 0.0

    _limits = {"label_smoothing": ("between 0 and 1", lambda label_smoothing: 0.0 <= label_smoothing <= 1.0)}

    _older = ("size_average", "ignore_index", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


@layer
class NLLLoss(Loss):
    """-weight[t] * x[t] for log-probabilities x; see ``nll_loss``.

    x (N, C, *D) or (C,); target int64 (N, *D) or (). weight: (C,) one factor per class. Targets equal to ignore_index
    do not count. reduction: "mean" (over the targets that count, by their weights), "sum" or "none".
    """

    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100

    _older = ("size_average", "ignore_index", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


@layer
class BCELoss(Loss):
    """Binary cross entropy of probabilities; see ``binary_cross_entropy``.

    input and target of equal shape; weight: factors of the losses, broadcast.
    """

    weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


@layer
class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of logits; see ``binary_cross_entropy_with_logits``.

    input and target of equal shape; weight: factors of the losses; pos_weight: factors of the positive terms; both are
    broadcast.
    """

    weight: Tensor | None = None
    _: KW_ONLY
    pos_weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


@layer
class MultiLabelSoftMarginLoss(Loss):
    """The mean over classes of the binary cross entropy of logits; see ``multilabel_soft_margin_loss``.

    input, target (..., C); weight: factors of the classes. reduction: "mean", "sum" or "none", over (...).
    """

    weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


@layer
class MultiMarginLoss(Loss):
    """weight[t] sum over c != t of max(0, margin - x[t] + x[c])^p / C; see ``multi_margin_loss``.

    x (N, C) or (C,); target int64 (N,) or (). p: 1 or 2. weight: (C,) one factor per class. reduction: "mean", "sum"
    or "none".

    Raises:
        ValueError: p is neither 1 nor 2, or the reduction is unknown.
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None

    _limits = {"p": ("1 or 2", lambda p: p in (1, 2))}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(Loss):
    """sum over targets j and other classes i of max(0, 1 - x[j] + x[i]) / C; see ``multilabel_margin_loss``.

    x (N, C) or (C,); target of the same shape, int64: a row's classes, ended by -1. reduction: "mean", "sum", "none".
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + exp(-target input)) for targets of 1 and -1; see ``soft_margin_loss``."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return soft_margin_loss(input, target, reduction=self.reduction)
