"""Distributions built from others: Independent, TransformedDistribution and MixtureSameFamily."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_int
from ..ops.reduce.statistics import logsumexp
from . import constraints
from .discrete import Categorical
from .distribution import Distribution, Shape, summed_last
from .transforms import ComposeTransform, Transform

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


# ---- Independent: batch axes as event axes --------------------------------------------------------------------------


class Independent(Distribution):
    """A distribution whose last batch axes become event axes, over which ``log_prob`` is summed.

    validate_args: whether values are checked

    Raises:
        ValueError: the batch has fewer axes.
    """

    base_dist: Distribution
    reinterpreted_batch_ndims: int

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if not isinstance(base_distribution, Distribution):
            kind = type(base_distribution).__name__
            raise TypeError(f"Independent: base_distribution is {kind}, needs a Distribution")
        batch = base_distribution.batch_shape
        count = as_int("Independent", "reinterpreted_batch_ndims", reinterpreted_batch_ndims)
        if not 0 <= count <= len(batch):
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims={count} must be from 0 to {len(batch)}, the number of axes of "
                f"batch_shape={batch}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        kept = len(batch) - count
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        own = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *own))
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """True if samples are differentiable with respect to the parameters."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """True if ``enumerate_support`` is available."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The support of the base distribution, for all elements of an event."""
        found = self.base_dist.support
        if constraints.is_dependent(found) or not self.reinterpreted_batch_ndims:
            return found
        return constraints.independent(found, self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values, differentiable with respect to the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of log_prob over an event's elements."""
        return summed_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum of the entropies of an event's elements."""
        return summed_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values, if no batch axis has become an event axis.

        Raises:
            NotImplementedError: a batch axis has become an event axis.
        """
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: enumerate_support needs reinterpreted_batch_ndims=0")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


# ---- Distributions of transformed variables -------------------------------------------------------------------------


class TransformedDistribution(Distribution):
    """The distribution of y = transform(x), where x is drawn from ``base_distribution``.

    transforms: one ``Transform``, or a list of them, applied in order

    validate_args: whether values are checked

    Raises:
        ValueError: a transform is not a Transform, or does not match the event.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        if not isinstance(base_distribution, Distribution):
            kind = type(base_distribution).__name__
            raise TypeError(f"TransformedDistribution: base_distribution is {kind}, needs a Distribution")
        parts = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Transform) for part in parts):
            raise ValueError(f"TransformedDistribution: {transforms!r} must be a Transform or a list of them")
        self.transforms: list[Any] = [*parts]
        shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        needed = whole.domain.event_dim
        if len(shape) < needed:
            raise ValueError(
                f"TransformedDistribution: base_distribution has the shape {shape}, the transforms need {needed} axes"
            )
        # axes of the batch that the transforms need become axes of the event
        more = needed - len(base_distribution.event_shape)
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        after = whole.forward_shape(shape)
        event_dim = whole.codomain.event_dim + max(len(base_distribution.event_shape) - needed, 0)
        cut = len(after) - event_dim
        super().__init__(after[:cut], after[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        inner: Shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(inner[: len(inner) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """True if samples are differentiable with respect to the parameters."""
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 and not constraints.is_dependent(found) else found

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Transformed random values, without a gradient."""
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Transformed random values, differentiable with respect to the parameters of base and transforms."""
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """log_prob of x with transform(x) = value, minus the logarithm of the transforms' Jacobian determinant."""
        self._validate_sample(value)
        event_dim, y = len(self._event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            total = total - summed_last(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            y = x
        return total + summed_last(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``, for increasing and decreasing transforms."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self._transformed(self.base_dist.icdf(self._monotone(value)))

    def _monotone(self, p: Tensor) -> Tensor:
        """Return p, or 1 - p if the composed transform is decreasing."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int):
            return p if sign == 1 else 1 - p
        return sign * (p - 0.5) + 0.5

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.transforms})"


# ---- Mixtures of distributions of one family ------------------------------------------------------------------------


class MixtureSameFamily(Distribution):
    """A mixture of K components, the last batch axis of ``component_distribution``, chosen by a Categorical.

    validate_args: whether values are checked

    Raises:
        ValueError: the mixture is not a Categorical, or the shapes do not match.
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
        """Return the distribution with its parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._component = self._component.expand((*batch_shape, self._count))
        new._mixture = self._mixture.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """The support of the components."""
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
        """The probabilities (..., K, 1, ...), which broadcast with the components' means."""
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
