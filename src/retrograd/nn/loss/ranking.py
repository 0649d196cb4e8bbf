"""Ranking and embedding losses as layers."""

from __future__ import annotations

from collections.abc import Callable

from ...engine.tensor import Tensor
from ...ops.loss.ranking import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from .base import Loss

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class HingeEmbeddingLoss(Loss):
    """input where the target is 1, max(0, margin - input) where it is -1; see ``hinge_embedding_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(Loss):
    """max(0, margin - target (input1 - input2)); see ``margin_ranking_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where the target is 1, max(0, cos(input1, input2) - margin) where it is -1; see
    ``cosine_embedding_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the distance of order p; see
    ``triplet_margin_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        _above_zero("TripletMarginLoss", margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss with any function of two tensors as the distance (default: ``pairwise_distance``).

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        _above_zero("TripletMarginWithDistanceLoss", margin)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


def _above_zero(name: str, margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"{name}: margin={margin} must be above 0")
