"""The Poisson distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.random.sampling import poisson
from ..ops.special.gamma import lgamma
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(Distribution):
    """The Poisson distribution with the mean ``rate``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: rate is negative.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """rate"""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """rate, rounded down"""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """rate"""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts."""
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """value log(rate) - rate - lgamma(value + 1)"""
        self._validate_sample(value)
        value, rate = broadcast_all(value, self.rate)
        return value.xlogy(rate) - rate - lgamma(value + 1)
