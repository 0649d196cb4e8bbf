"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.reduce.statistics import logsumexp
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of K components, which are the last axis of ``component_distribution``'s batch, chosen by a Categorical.

    validate_args: whether values are checked

    Raises:
        ValueError: the mixture is no Categorical, or the shapes do not fit.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"MixtureSameFamily: {mixture_distribution!r} must be a Categorical")
        own, shape = mixture_distribution.param_shape, component_distribution.batch_shape
        if not shape or own[-1] != shape[-1] or (own[:-1] and own[:-1] != shape[:-1]):
            raise ValueError(
                f"MixtureSameFamily: component_distribution.batch_shape={shape} must end in the number of components "
                f"of the mixture, whose shape is {own}"
            )
        self._mixture, self._component, self._count = mixture_distribution, component_distribution, shape[-1]
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With the parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._component = self._component.expand((*batch_shape, self._count))
        new._mixture = self._mixture.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the components."""
        return self._component.support

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the component's index."""
        return self._mixture

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component

    def _weights(self) -> Tensor:
        """The probabilities (..., K, 1, ...) beside the components' means."""
        probs: Tensor = self._mixture.probs
        return probs.reshape(*probs.array.shape, *(1,) * len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self._weights() * self._component.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Tensor:
        """The mean of the variances plus the variance of the means."""
        along = -1 - len(self._event_shape)
        inner = (self._weights() * self._component.variance).sum(along)
        apart = self._component.mean - self.mean.unsqueeze(along)
        return inner + (self._weights() * apart * apart).sum(along)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        found = self._component.cdf(self._padded(value))
        return (found * self._mixture.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the weighted sum of the densities."""
        self._validate_sample(value)
        return logsumexp(self._component.log_prob(self._padded(value)) + self._mixture.logits, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values."""
        with no_grad():
            events = len(self._event_shape)
            chosen = self._mixture.expand(self._batch_shape).sample(sample_shape)
            values = self._component.sample(sample_shape)
            places = chosen.reshape(*chosen.array.shape, 1, *(1,) * events)
            along = values.array.ndim - events - 1
            shape = (*values.array.shape[:along], 1, *self._event_shape)
            return values.gather(along, places.expand(shape)).squeeze(along)

    def _padded(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - len(self._event_shape))

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self._mixture}, {self._component})"
