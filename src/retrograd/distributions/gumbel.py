"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from ..engine.tensor import Tensor
from .location_scale import LocationScale
from .utils import uniform

__all__ = ["Gumbel"]

_EULER = 0.5772156649015329


class Gumbel(LocationScale):
    """The Gumbel distribution: P(X <= x) = exp(-exp(-(x - loc) / scale)). Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """loc + scale times Euler's constant"""
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Tensor:
        """(pi scale)**2 / 6"""
        return self.scale * self.scale * (math.pi**2 / 6)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc - scale log(-log(u)), with u uniform in (0, 1)"""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """-z - exp(-z) - log(scale) with z = (value - loc) / scale"""
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """exp(-exp(-(value - loc) / scale))"""
        self._validate_sample(value)
        return (-(-(value - self.loc) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """loc - scale log(-log(value))"""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """log(scale) + 1 + Euler's constant"""
        return self.scale.log() + (1 + _EULER)
