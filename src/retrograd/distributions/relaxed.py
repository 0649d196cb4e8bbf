"""Relaxed (Gumbel-softmax) distributions: RelaxedBernoulli and RelaxedOneHotCategorical."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.argument_checks import is_number
from ..ops.pointwise.activation import softplus
from ..ops.reduce.statistics import logsumexp
from ..ops.special import lgamma
from . import constraints
from .composite import TransformedDistribution
from .discrete import OverCategorical, WithProbability
from .distribution import broadcast_all, clamp_probs, uniform
from .transforms import ExpTransform, SigmoidTransform

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "Relaxed", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


# ---- Base class of relaxed distributions ----------------------------------------------------------------------------


class Relaxed(TransformedDistribution):
    """A continuous distribution that approaches a discrete one as its temperature approaches 0.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    base_dist: Any

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the odds, or of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities at temperature 0."""
        return self.base_dist.probs


# ---- The relaxed Bernoulli distribution: differentiable values between 0 and 1 --------------------------------------


class LogitRelaxedBernoulli(WithProbability):
    """The logit of a ``RelaxedBernoulli`` variable.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither of probs and logits is given, or a probability is not in [0, 1].

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
        """Return the distribution with its parameter expanded to another batch_shape."""
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
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)


# ---- The relaxed categorical distribution (Gumbel softmax): differentiable weights of K classes ---------------------


class ExpRelaxedCategorical(OverCategorical):
    """The logarithm of a ``RelaxedOneHotCategorical`` variable.

    validate_args: whether parameters and values are checked

    Raises: as ``Categorical``.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._temperature: Tensor = broadcast_all(temperature)[0] if is_number(temperature) else temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameter expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._temperature = self._temperature
        return new

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self._temperature

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The log_softmax of (logits + Gumbel noise) / temperature."""
        shape = self._extended_shape(sample_shape)
        noise = -(-clamp_probs(uniform(shape, self.logits)).log()).log()
        scores = (self.logits + noise) / self._temperature
        return scores - logsumexp(scores, -1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._validate_sample(value)
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        log_scale = lgamma((self._temperature * 0 + k).detach()) + self._temperature.log() * (k - 1)
        score = logits - value * self._temperature
        return (score - logsumexp(score, -1, True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(Relaxed):
    """The softmax of (logits + Gumbel noise) / temperature, which approaches a unit vector at temperature 0.

    validate_args: whether parameters and values are checked

    Raises: as ``Categorical``.

    Source: C. Maddison et al., "The concrete distribution", 2017.
    """

    arg_constraints = OverCategorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)
