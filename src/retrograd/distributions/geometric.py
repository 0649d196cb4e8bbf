"""The geometric distribution: failures before the first success."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.pointwise.activation import softplus
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits, require_one, uniform

__all__ = ["Geometric"]


class Geometric(Distribution):
    """The number of failures before the first success, which has probability ``probs``; or ``logits``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a probability is not in (0, 1].
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        require_one("Geometric", probs, logits)
        if probs is None:
            (self.logits,) = broadcast_all(logits)
        else:
            (self.probs,) = broadcast_all(probs)
        self._given = "logits" if probs is None else "probs"
        super().__init__(self.__dict__[self._given].array.shape, (), validate_args)
        if self._validate_args and probs is not None and not (self.probs.array > 0).all():
            raise ValueError(f"Geometric: probs={self.probs} must be above 0")

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of success."""
        return logits_to_probs(self.logits, True)

    def _expanded(self) -> Any:
        return (self._given,)

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
