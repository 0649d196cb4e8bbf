"""Losses as layers."""

from __future__ import annotations

from ..engine.tensor import Tensor
from ..ops.loss import cross_entropy, mse_loss
from .module import Module

__all__ = ["CrossEntropyLoss", "MSELoss"]


def _check_reduction(name: str, reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction={reduction!r} must be 'mean', 'sum' or 'none'")
    return reduction


class CrossEntropyLoss(Module):
    """The cross entropy of softmax(x) against a target: -weight[t] * log(softmax(x))[t] per element.

    x (N, C, *D) or (C,); target int64 class indices (N, *D) or (), or probabilities of x's shape.

    weight: (C,) one factor per class. Targets equal to ignore_index do not count. label_smoothing e mixes
    e of the uniform distribution into every target. reduction: "mean" (over the targets that count, by their
    weights), "sum" or "none".

    Raises:
        ValueError: an argument is out of range, or the shapes do not fit.
        TypeError: a dtype is wrong.
        IndexError: a label is no class; says which.
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = _check_reduction("CrossEntropyLoss", reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"CrossEntropyLoss: label_smoothing={label_smoothing} must be between 0 and 1")
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Module):
    """(x - target)**2, averaged ("mean"), summed ("sum") or as it is ("none"); x and target of one shape.

    Raises:
        ValueError: the reduction is unknown, or the shapes do not broadcast.
        TypeError: x or target is no floating point Tensor.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _check_reduction("MSELoss", reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, reduction=self.reduction)
