"""The gamma distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.special.gamma import digamma, igamma, lgamma
from . import constraints
from .distribution import Distribution
from .gamma_sample import standard_gamma
from .utils import broadcast_all

__all__ = ["Gamma"]


class Gamma(Distribution):
    """The gamma distribution with the density rate**a x**(a - 1) exp(-rate x) / gamma(a), a the ``concentration``.

    Values have a gradient to both parameters. ``cdf`` has none to the concentration.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: a parameter is not positive, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration / rate"""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, at least 0"""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """concentration / rate**2"""
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A standard gamma variable, divided by rate."""
        return standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """a log(rate) + (a - 1) log(value) - rate value - lgamma(a), a the concentration"""
        self._validate_sample(value)
        a = self.concentration
        return a * self.rate.log() + (a - 1).xlogy(value) - self.rate * value - lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """igamma(concentration, rate value)"""
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """a - log(rate) + lgamma(a) + (1 - a) digamma(a), a the concentration"""
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)
