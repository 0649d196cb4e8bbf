"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, uniform

__all__ = ["Gumbel"]

_EULER = 0.5772156649015329


class Gumbel(Distribution):
    """The Gumbel distribution: P(X <= x) = exp(-exp(-(x - loc) / scale)). Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """loc + scale times Euler's constant"""
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc

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
