"""Base class of relaxed distributions, with the parameters of the distribution that is transformed."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from .transformed_distribution import TransformedDistribution

__all__ = ["Relaxed"]


class Relaxed(TransformedDistribution):
    """A continuous distribution that approaches a discrete one as its temperature approaches 0.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    base_dist: Any

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the odds, or of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities at temperature 0."""
        return self.base_dist.probs
