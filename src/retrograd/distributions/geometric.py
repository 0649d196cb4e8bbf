"""The geometric distribution: failures before the first success."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import all_true
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.pointwise.activation import softplus
from . import constraints
from .utils import broadcast_all, uniform
from .with_probability import WithProbability

__all__ = ["Geometric"]


class Geometric(WithProbability):
    """The number of failures before the first success, which has probability ``probs``; or ``logits``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a probability is not in (0, 1].
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if not self._validate_args or probs is None:
            return
        if not all_true(constraints.positive.check(self.probs).array, "whether probabilities are above 0"):
            raise ValueError(f"Geometric: probs={self.probs} must be above 0")

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1"""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        """(1 / probs - 1) / probs"""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """floor(log(u) / log(1 - probs)), with u uniform in (0, 1)"""
        with no_grad(), np.errstate(divide="ignore"):
            u = uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """value log(1 - probs) + log(probs)"""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value.xlogy(1 - probs) + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        return (softplus(self.logits) - self.probs * self.logits) / self.probs
