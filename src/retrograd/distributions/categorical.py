"""The categorical distribution: one of K classes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..arrays import arange, full
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..ops.arguments.checks import require_float
from ..ops.random.sampling import multinomial
from ..ops.reduce.statistics import logsumexp
from . import constraints
from .distribution import Distribution
from .utils import enumerated, lazy_property, logits_to_probs, probs_to_logits, require_one

__all__ = ["Categorical"]


class Categorical(Distribution):
    """A class from 0 to K - 1, with probabilities proportional to ``probs`` (..., K) or to exp(``logits``).

    Values are int64 (...). Exactly one of the two is given; both attributes are normalised.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, there is no axis, or a probability is negative or not finite.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        require_one("Categorical", probs, logits)
        given: Any = probs if logits is None else logits
        self._given = "probs" if logits is None else "logits"
        require_float("Categorical", given, self._given)
        if given.array.ndim < 1:
            raise ValueError(f"Categorical: {self._given} has no axis, needs (..., K)")
        if logits is None:
            self.probs = given / given.sum(-1, True)
        else:
            self.logits = given - logsumexp(given, -1, True)
        self._num_events = given.array.shape[-1]
        super().__init__(given.array.shape[:-1], (), validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        """The integers from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1."""
        return logits_to_probs(self.logits)

    def _expanded(self) -> Any:
        return (self._given,)

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        shape: tuple[int, ...] = self.__dict__[self._given].array.shape
        return shape

    @property
    def mean(self) -> Tensor:
        """NaN"""
        return wrap(full(self._batch_shape, np.nan, self.probs.array.dtype, like=self.probs.array))

    @property
    def mode(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN"""
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Classes, int64."""
        shape = tuple(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            found = multinomial(rows, math.prod(shape), True)
            return found.t().reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a class."""
        self._validate_sample(value)
        logits, places = self.logits, value.long()
        if value.array.shape != self._batch_shape:
            shape = np.broadcast_shapes(value.array.shape, self._batch_shape)
            logits, places = logits.expand((*shape, self._num_events)), places.expand(shape)
        return logits.gather(-1, places.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum of p log(p)"""
        logits = self.logits.clamp(min=float(np.finfo(self.logits.array.dtype).min))
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes 0 to K - 1 along a new first axis."""
        return enumerated(arange(self._num_events), self._batch_shape, expand)
