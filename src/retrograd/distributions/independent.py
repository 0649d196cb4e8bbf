"""Axes of a batch as axes of an event."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.arguments.checks import as_int
from . import constraints
from .distribution import Distribution
from .utils import summed_last

__all__ = ["Independent"]


class Independent(Distribution):
    """``base_distribution`` with the last axes of its batch as axes of an event, over which ``log_prob`` is summed.

    validate_args: whether values are checked

    Raises:
        ValueError: the batch has fewer axes.
    """

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
        """With the parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        own = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *own))
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether values have a gradient to the parameters."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether ``enumerate_support`` is there."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the base distribution, for all elements of an event."""
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
        """Random values with a gradient to the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of log_prob over an event's elements."""
        return summed_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum of the entropies of an event's elements."""
        return summed_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, where no axis of the batch has become one of the event.

        Raises:
            NotImplementedError: one has.
        """
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: enumerate_support is there for reinterpreted_batch_ndims=0 alone")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
