"""Ranking and embedding losses as layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY

from ...engine.tensor import Tensor
from ...ops.loss.ranking import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ..layer import layer
from .base import Loss

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


@layer
class HingeEmbeddingLoss(Loss):
    """input where the target is 1, max(0, margin - input) where it is -1; see ``hinge_embedding_loss``."""

    margin: float = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


@layer
class MarginRankingLoss(Loss):
    """max(0, margin - target (input1 - input2)); see ``margin_ranking_loss``."""

    margin: float = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


@layer
class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where the target is 1, max(0, cos(input1, input2) - margin) where it is -1; see
    ``cosine_embedding_loss``.
    """

    margin: float = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


@layer
class TripletMarginLoss(Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the distance of order p; see
    ``triplet_margin_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False

    _limits = {"margin": ("above 0", lambda margin: margin > 0)}

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


@layer
class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss with any function of two tensors as the distance (default: ``pairwise_distance``).

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False

    _limits = {"margin": ("above 0", lambda margin: margin > 0)}

    _older = ()

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
