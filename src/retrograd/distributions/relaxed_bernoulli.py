"""The relaxed Bernoulli distribution: values between 0 and 1 with a gradient to the parameter."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.arguments.checks import is_number
from ..ops.pointwise.activation import softplus
from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    require_one,
    uniform,
)

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Distribution):
    """The logit of a ``RelaxedBernoulli`` variable.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none of probs and logits are given, or a probability is not in [0, 1].

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one("LogitRelaxedBernoulli", probs, logits)
        self.temperature = temperature
        if probs is None:
            (self.logits,) = broadcast_all(logits)
        else:
            (self.probs,) = broadcast_all(probs)
        self._given = "logits" if probs is None else "probs"
        super().__init__(self.__dict__[self._given].array.shape, (), validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of 1 at temperature 0."""
        return logits_to_probs(self.logits, True)

    def _expanded(self) -> Any:
        return (self._given,)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With its parameter expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """(log(u) - log(1 - u) + logits) / temperature, with u uniform in (0, 1)"""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform(shape, probs))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """log(t) + d - 2 softplus(d) with d = logits - value t and t the temperature"""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        d = logits - value * self.temperature
        t = self.temperature
        (t,) = broadcast_all(t) if is_number(t) else (t,)
        return t.log() + d - softplus(d) * 2


class RelaxedBernoulli(TransformedDistribution):
    """The sigmoid of (logits + logistic noise) / temperature, which approaches a Bernoulli variable at temperature 0.

    validate_args: whether parameters and values are checked

    Raises: as ``LogitRelaxedBernoulli``.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return self.base_dist.logits  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        """The probability of 1 at temperature 0."""
        return self.base_dist.probs  # type: ignore[attr-defined]
