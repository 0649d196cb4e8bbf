"""The categorical distribution with unit vectors as values."""

from __future__ import annotations

from typing import Any

from ..arrays import eye
from ..engine.tensor import Tensor, wrap
from ..ops.index.embedding import one_hot
from . import constraints
from .over_categorical import OverCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategorical):
    """``Categorical`` whose values are unit vectors (..., K) of probs' type.

    validate_args: whether parameters and values are checked

    Raises: as ``Categorical``.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The unit vector of the most probable class."""
        return one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Unit vectors."""
        return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of the class whose element is 1."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """-sum of p log(p)"""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The K unit vectors along a new first axis."""
        n = self._event_shape[0]
        unit = eye(n, dtype=self.probs.array.dtype, like=self.probs.array)
        values = wrap(unit.reshape((n, *(1,) * len(self._batch_shape), n)))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` whose values have the gradient of ``probs``.

    Source: Y. Bengio et al., "Estimating or propagating gradients through stochastic neurons", 2013.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Unit vectors with the gradient of probs."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
