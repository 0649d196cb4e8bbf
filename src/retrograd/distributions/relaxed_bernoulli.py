"""The relaxed Bernoulli distribution: values between 0 and 1 with a gradient to the parameter."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.arguments.checks import is_number
from ..ops.pointwise.activation import softplus
from . import constraints
from .relaxed import Relaxed
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, uniform
from .with_probability import WithProbability

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(WithProbability):
    """The logit of a ``RelaxedBernoulli`` variable.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none of probs and logits are given, or a probability is not in [0, 1].

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

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


class RelaxedBernoulli(Relaxed):
    """The sigmoid of (logits + logistic noise) / temperature, which approaches a Bernoulli variable at temperature 0.

    validate_args: whether parameters and values are checked

    Raises: as ``LogitRelaxedBernoulli``.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    arg_constraints = WithProbability.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)
