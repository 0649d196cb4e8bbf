"""The multinomial distribution: how often each class is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.index.embedding import one_hot
from ..ops.special.gamma import lgamma
from . import constraints
from .over_categorical import OverCategorical

__all__ = ["Multinomial"]


class Multinomial(OverCategorical):
    """The counts of K classes in ``total_count`` draws of a ``Categorical``; values (..., K).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: total_count is not an int of at least 0. And as ``Categorical``.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(total_count, bool) or not isinstance(total_count, int) or total_count < 0:
            raise ValueError(f"Multinomial: total_count={total_count!r} must be an int of at least 0")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Counts that are at least 0."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.probs * (1 - self.probs) * self.total_count

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts, in probs' type."""
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            return one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """lgamma(n + 1) - sum of lgamma(value + 1) + sum of value log(probs), n the sum of the value"""
        self._validate_sample(value)
        value = value.to(self.logits.dtype)
        logits = self.logits.masked_fill((value == 0) & (self.logits == -np.inf), 0.0)
        return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
