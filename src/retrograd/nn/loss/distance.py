"""Distances and similarities as layers."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.product.distance import cosine_similarity, pairwise_distance
from ..layer import layer
from ..module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


@layer
class CosineSimilarity(Module):
    """sum x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along axis dim; see ``cosine_similarity``."""

    dim: int = 1
    eps: float = 1e-8

    _shown = ()  # as in PyTorch

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """(sum |x1 - x2 + eps|^p)^(1/p) along the last axis, kept with extent 1 if keepdim; see ``pairwise_distance``."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
