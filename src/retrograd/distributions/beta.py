"""The beta distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.pointwise.piecewise import where
from ..ops.special.gamma import digamma, lgamma
from . import constraints
from .distribution import Distribution
from .gamma_sample import standard_gamma
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(Distribution):
    """The beta distribution with the density x**(a - 1) (1 - x)**(b - 1) / B(a, b), a and b the concentrations.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: a parameter is not positive, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """a / (a + b)"""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """(a - 1) / (a + b - 2); of concentrations below 1 the end with the larger one, NaN if they are equal"""
        a, b = self.concentration1 - 1, self.concentration0 - 1
        high, low = a.clamp(min=0), b.clamp(min=0)
        mode = high / (high + low)
        ends = (a > b).to(mode.dtype).masked_fill(a == b, math.nan)
        return where((a < 0) & (b < 0), ends, mode)

    @property
    def variance(self) -> Tensor:
        """a b / ((a + b)**2 (a + b + 1))"""
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total * total * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """x / (x + y) of two gamma variables"""
        shape = self._extended_shape(sample_shape)
        x, y = (standard_gamma(each.expand(shape)) for each in (self.concentration1, self.concentration0))
        return x / (x + y)

    def log_prob(self, value: Tensor) -> Tensor:
        """(a - 1) log(value) + (b - 1) log(1 - value) - log B(a, b)"""
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return (a - 1).xlogy(value) + (b - 1).xlogy(1 - value) + lgamma(a + b) - lgamma(a) - lgamma(b)

    def entropy(self) -> Tensor:
        """log B(a, b) - (a - 1) digamma(a) - (b - 1) digamma(b) + (a + b - 2) digamma(a + b)"""
        a, b = self.concentration1, self.concentration0
        total = a + b
        inner = (total - 2) * digamma(total) - (a - 1) * digamma(a) - (b - 1) * digamma(b)
        return lgamma(a) + lgamma(b) - lgamma(total) + inner
