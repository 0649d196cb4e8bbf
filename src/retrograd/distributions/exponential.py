"""The exponential distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, uniform

__all__ = ["Exponential"]


class Exponential(Distribution):
    """The exponential distribution with the rate ``rate``: the density is rate exp(-rate x), for x >= 0.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: rate is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate"""
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.rate * 0

    @property
    def stddev(self) -> Tensor:
        """1 / rate"""
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        """1 / rate**2"""
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(u) / rate, with u uniform in (0, 1)"""
        return -uniform(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """log(rate) - rate value"""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-rate value)"""
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - value) / rate"""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log(rate)"""
        return 1 - self.rate.log()
