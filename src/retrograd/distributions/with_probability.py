"""Base class of distributions whose parameter is the probability of one outcome."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits, require_one

__all__ = ["WithProbability"]


class WithProbability(Distribution):
    """A distribution with the probability ``probs`` or with ``logits``, log(probs / (1 - probs)); one of them is given.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or none are given, or a probability is not in [0, 1].
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        require_one(type(self).__name__, probs, logits)
        self._given = "logits" if probs is None else "probs"
        (given,) = broadcast_all(logits if probs is None else probs)
        self.__dict__[self._given] = given
        super().__init__(given.array.shape, (), validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability."""
        return logits_to_probs(self.logits, True)

    def _expanded(self) -> Any:
        return (self._given,)

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        shape: tuple[int, ...] = self.__dict__[self._given].array.shape
        return shape
