"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.arguments.checks import require_float
from ..ops.pointwise.piecewise import where
from ..ops.special.gamma import digamma, lgamma
from . import constraints
from .distribution import Distribution
from .gamma_sample import standard_gamma

__all__ = ["Dirichlet"]


class Dirichlet(Distribution):
    """The Dirichlet distribution on K shares that sum to 1; ``concentration`` (..., K).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: the concentration has no axis, or is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        require_float("Dirichlet", concentration, "concentration")
        if concentration.array.ndim < 1:
            raise ValueError("Dirichlet: concentration has no axis, needs (..., K)")
        self.concentration = concentration
        shape = concentration.array.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration over its sum"""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) over its sum, with at least 0; the largest one where all are below 1"""
        shares = (self.concentration - 1).clamp(min=0)
        mode = shares / shares.sum(-1, True)
        below = (self.concentration < 1).all(-1, True)
        one = (self.concentration == self.concentration.amax(-1, True)).to(mode.dtype)
        return where(below, one, mode)

    @property
    def variance(self) -> Tensor:
        """m (1 - m) / (total + 1), m the mean and total the sum of the concentration"""
        total = self.concentration.sum(-1, True)
        return self.mean * (1 - self.mean) / (total + 1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Gamma variables over their sum."""
        parts = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of (a - 1) log(value), minus that of lgamma(a), plus lgamma of the sum of a, the concentration."""
        self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        a, k = self.concentration, self.concentration.array.shape[-1]
        total = a.sum(-1)
        return lgamma(a).sum(-1) - lgamma(total) - (k - total) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)
