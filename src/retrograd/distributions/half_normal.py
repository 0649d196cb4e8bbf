"""The distribution of the absolute value of a normal variable."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.special.normal import ndtri
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, standard_normal

__all__ = ["HalfNormal"]


class HalfNormal(Distribution):
    """The absolute value of a normal variable with mean 0 and standard deviation ``scale``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """scale sqrt(2 / pi)"""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.scale * 0

    @property
    def variance(self) -> Tensor:
        """scale**2 (1 - 2 / pi)"""
        return self.scale * self.scale * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """|scale * a standard normal number|"""
        return (self.scale * standard_normal(self._extended_shape(sample_shape), self.scale)).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """log(2) and the normal density's logarithm; -inf below 0"""
        self._validate_sample(value)
        z = value / self.scale
        found = z * z * -0.5 - self.scale.log() + 0.5 * math.log(2 / math.pi)
        return found.masked_fill(value < 0, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """erf(value / (scale sqrt(2)))"""
        self._validate_sample(value)
        return (value / self.scale * math.sqrt(0.5)).erf()

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self.scale * ndtri((value + 1) * 0.5)

    def entropy(self) -> Tensor:
        """(log(pi / 2) + 1) / 2 + log(scale)"""
        return self.scale.log() + 0.5 * (math.log(math.pi / 2) + 1)
