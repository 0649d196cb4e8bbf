"""The uniform distribution on an interval."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..arrays import all_true
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, uniform

__all__ = ["Uniform"]


class Uniform(Distribution):
    """The uniform distribution on [low, high): Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: low is not below high, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.array.shape, (), validate_args)
        if not self._validate_args:
            return
        if not all_true(kernels.lt(self.low.array, self.high.array), "whether intervals are empty"):
            raise ValueError(f"Uniform: low={self.low} must be below high={self.high}")

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        """[low, high]"""
        return constraints.interval(self.low.detach(), self.high.detach())

    @property
    def mean(self) -> Tensor:
        """(low + high) / 2"""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are as probable"""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        """(high - low) / sqrt(12)"""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """(high - low)**2 / 12"""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) u, with u uniform in (0, 1)"""
        return self.low + uniform(self._extended_shape(sample_shape), self.low) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low), and -inf outside [low, high)"""
        self._validate_sample(value)
        outside = (value < self.low) | (value >= self.high)
        return (-(self.high - self.low).log()).expand(outside.array.shape).masked_fill(outside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """(value - low) / (high - low), from 0 to 1"""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """low + (high - low) value"""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)"""
        return (self.high - self.low).log()
