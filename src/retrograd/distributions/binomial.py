"""The binomial distribution: successes among trials."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..arrays import to_host
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..kernel_set import exact, kernels
from ..ops.pointwise.activation import softplus
from ..ops.special.gamma import lgamma
from . import constraints
from .utils import broadcast_all, drawn, require_one
from .with_probability import WithProbability

__all__ = ["Binomial"]


class Binomial(WithProbability):
    """The number of successes among ``total_count`` trials with the probability ``probs``, or with ``logits``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a parameter is out of range.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        **WithProbability.arg_constraints,
    }

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one("Binomial", probs, logits)
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        super().__init__(None if probs is None else given, given if probs is None else None, validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        """The integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    def _expanded(self) -> Any:
        return "total_count", self._given

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """floor((total_count + 1) probs), at most total_count"""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts, in the parameters' type."""
        shape = self._extended_shape(sample_shape)
        why = "the parameters of random numbers"
        count = to_host(exact("cast")(self.total_count.array, np.dtype(np.int64)), why)
        with no_grad():
            wide = kernels.cast(self.probs.array, np.dtype(np.float64))
            probs = to_host(kernels.clamp(wide, 0.0, 1.0), why)
            return drawn(lambda generator: generator.binomial(count, probs, shape), self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """log of n! / (k! (n - k)!) p**k (1 - p)**(n - k), k the value and n total_count"""
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        return ways + value * logits - n * softplus(logits)
