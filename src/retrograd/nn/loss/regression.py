"""Regression losses as layers."""

from __future__ import annotations

from dataclasses import KW_ONLY

from ...engine.tensor import Tensor
from ...ops.loss.regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from ..layer import layer
from .base import Loss

__all__ = ["HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"]


class MSELoss(Loss):
    """(input - target)^2; see ``mse_loss``.

    input and target of equal shape.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """|input - target|; see ``l1_loss``.

    input and target of equal shape.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return l1_loss(input, target, reduction=self.reduction)


@layer
class SmoothL1Loss(Loss):
    """0.5 z^2 / beta where z = |input - target| < beta, else z - 0.5 beta; see ``smooth_l1_loss``.

    beta: at least 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: beta is negative, or the reduction is unknown.
    """

    _: KW_ONLY
    beta: float = 1.0

    _limits = {"beta": ("at least 0", lambda beta: beta >= 0)}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)


@layer
class HuberLoss(Loss):
    """0.5 z^2 where z = |input - target| < delta, else delta (z - 0.5 delta); see ``huber_loss``.

    delta: above 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: delta is not above 0, or the reduction is unknown.
    """

    reduction: str = "mean"
    delta: float = 1.0

    _limits = {"delta": ("above 0", lambda delta: delta > 0)}

    _older = ()

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return huber_loss(input, target, delta=self.delta, reduction=self.reduction)
