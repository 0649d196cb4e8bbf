"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from ..engine.tensor import Tensor
from .location_scale import LocationScale
from .utils import uniform

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """The Cauchy distribution with the density 1 / (pi scale (1 + ((x - loc) / scale)**2)); it has no moments.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """NaN"""
        return self.loc * math.nan

    @property
    def variance(self) -> Tensor:
        """NaN"""
        return self.loc * math.nan

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale tan(pi (u - 1/2)), with u uniform in (0, 1)"""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(pi) - log(scale) - log(1 + ((value - loc) / scale)**2)"""
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """atan((value - loc) / scale) / pi + 1/2"""
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale tan(pi (value - 1/2))"""
        return self.loc + self.scale * ((value - 0.5) * math.pi).tan()

    def entropy(self) -> Tensor:
        """log(4 pi scale)"""
        return self.scale.log() + math.log(4 * math.pi)
