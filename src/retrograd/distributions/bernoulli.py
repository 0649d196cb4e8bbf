"""The Bernoulli distribution: 1 with a probability, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import arange
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.pointwise.activation import softplus
from . import constraints
from .utils import broadcast_all, enumerated, uniform
from .with_probability import WithProbability

__all__ = ["Bernoulli"]


class Bernoulli(WithProbability):
    """1 with probability ``probs``, else 0; or with ``logits``, log(probs / (1 - probs)). Exactly one is given.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a probability is not in [0, 1].
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 where probs is above 1/2, NaN where it is 1/2"""
        return (self.probs > 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, np.nan)

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Zeros and ones."""
        with no_grad():
            drawn = uniform(self._extended_shape(sample_shape), self.probs) < self.probs
            return drawn.to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log(probs) of 1, log(1 - probs) of 0"""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - softplus(logits)

    def entropy(self) -> Tensor:
        """-p log(p) - (1 - p) log(1 - p)"""
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        return enumerated(arange(2, dtype=self.probs.array.dtype), self._batch_shape, expand)
