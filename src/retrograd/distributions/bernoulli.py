"""The Bernoulli distribution: 1 with a probability, else 0."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.pointwise.activation import softplus
from . import constraints
from .distribution import Distribution
from .utils import (
    broadcast_all,
    enumerated,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    require_one,
    uniform,
)

__all__ = ["Bernoulli"]


class Bernoulli(Distribution):
    """1 with probability ``probs``, else 0; or with ``logits``, log(probs / (1 - probs)). Exactly one is given.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a probability is not in [0, 1].
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        require_one("Bernoulli", probs, logits)
        if probs is None:
            (self.logits,) = broadcast_all(logits)
        else:
            (self.probs,) = broadcast_all(probs)
        self._given = "logits" if probs is None else "probs"
        super().__init__(self.__dict__[self._given].array.shape, (), validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return logits_to_probs(self.logits, True)

    def _expanded(self) -> Any:
        return (self._given,)

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        shape: tuple[int, ...] = self.__dict__[self._given].array.shape
        return shape

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
        return enumerated(np.arange(2, dtype=self.probs.array.dtype), self._batch_shape, expand)
