"""Distributions of transformed variables."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import Shape, summed_last

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of y = transform(x), x of ``base_distribution``; one ``Transform`` or a list of them, in order.

    validate_args: whether values are checked

    Raises:
        ValueError: the transforms are no Transforms, or do not fit the event.
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
        """With the parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        inner: Shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(inner[: len(inner) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether values have a gradient to the parameters."""
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
        """Transformed random values, with a gradient to the parameters of the base distribution and the transforms."""
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
        """p, or 1 - p if the transforms together decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int):
            return p if sign == 1 else 1 - p
        return sign * (p - 0.5) + 0.5

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.transforms})"
