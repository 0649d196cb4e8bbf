"""The relaxed categorical distribution: shares of K classes with a gradient to the parameter (Gumbel softmax)."""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.arguments.checks import is_number
from ..ops.reduce.statistics import logsumexp
from ..ops.special.gamma import lgamma
from . import constraints
from .over_categorical import OverCategorical
from .relaxed import Relaxed
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs, uniform

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


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
        """With its parameter expanded to another batch_shape."""
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
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)
