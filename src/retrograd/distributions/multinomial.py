"""The multinomial distribution: how often each class is drawn."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.index.embedding import one_hot
from ..ops.special.gamma import lgamma
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each of K classes comes in ``total_count`` draws, see ``Categorical``; values (..., K).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: total_count is not an int of at least 0. And as ``Categorical``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}

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
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With its parameter expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Counts that are at least 0."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self._categorical.param_shape

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
