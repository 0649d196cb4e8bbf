"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ..engine.tensor import Tensor
from ..ops.pointwise.density import normal_log_density
from ..ops.special.normal import ndtr, ndtri
from .location_scale import LocationScale
from .utils import standard_normal

__all__ = ["Normal"]

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``: Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """scale"""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """scale**2"""
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * a standard normal number"""
        return self.loc + self.scale * standard_normal(self._extended_shape(sample_shape), self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        """-(value - loc)**2 / (2 scale**2) - log(scale) - log(2 pi) / 2"""
        self._validate_sample(value)
        return normal_log_density(value, self.loc, self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        self._validate_sample(value)
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi) / 2 + log(scale)"""
        return self.scale.log() + (0.5 + _HALF_LOG_TAU)
