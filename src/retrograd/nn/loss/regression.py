"""Regression losses as layers."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.loss.regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from .base import Loss

__all__ = ["HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"]


class MSELoss(Loss):
    """(input - target)^2; see ``mse_loss``.

    input and target of equal shape. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """|input - target|; see ``l1_loss``.

    input and target of equal shape. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """0.5 z^2 / beta where z = |input - target| < beta, else z - 0.5 beta; see ``smooth_l1_loss``.

    beta: at least 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: beta is negative, or the reduction is unknown.
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        if not beta >= 0:
            raise ValueError(f"SmoothL1Loss: beta={beta} must be at least 0")
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)


class HuberLoss(Loss):
    """0.5 z^2 where z = |input - target| < delta, else delta (z - 0.5 delta); see ``huber_loss``.

    delta: above 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: delta is not above 0, or the reduction is unknown.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        if not delta > 0:
            raise ValueError(f"HuberLoss: delta={delta} must be above 0")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return huber_loss(input, target, delta=self.delta, reduction=self.reduction)
