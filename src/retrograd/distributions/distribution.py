"""The base class of distributions."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ..arrays import all_true
from ..engine.arguments import as_list
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..ops.arguments.checks import as_truth
from . import constraints
from .utils import Shape

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of them.

    A sample has the shape sample_shape + batch_shape + event_shape: ``sample_shape`` is what is asked for, the
    distributions of a batch have different parameters, and an event is one value of one of them.

    validate_args: whether parameters and values are checked; by default they are

    Source: the contract of torch.distributions.Distribution.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = True
    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = constraints.dependent

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape: Shape = tuple(as_list(type(self).__name__, "batch_shape", batch_shape, "a tuple of ints"))
        self._event_shape: Shape = tuple(as_list(type(self).__name__, "event_shape", event_shape, "a tuple of ints"))
        if validate_args is not None:
            self._validate_args = as_truth(type(self).__name__, "validate_args", validate_args)
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            if name not in self.__dict__ or constraints.is_dependent(constraint):
                continue  # the other form of a parameter, or one that cannot be checked by itself
            value = self.__dict__[name]
            if not all_true(constraint.check(value).array, "whether parameters are allowed"):
                raise ValueError(
                    f"{type(self).__name__}: {name} must satisfy {constraint!r}, but has other values: {value}; "
                    "validate_args=False leaves out the check"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check what they are given.

        Raises:
            TypeError: value is neither True nor False.
        """
        Distribution._validate_args = as_truth("set_default_validate_args", "value", value)

    @property
    def batch_shape(self) -> Shape:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one value of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values with a gradient to the parameters, where ``has_rsample``."""
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample: its values have no gradient to the parameters; use sample"
        )

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``"""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability: the inverse of ``cdf``."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)"""
        return self.entropy().exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The distribution with its parameters expanded to another batch_shape."""
        shape = tuple(as_list(type(self).__name__, "batch_shape", batch_shape, "a tuple of ints"))
        new: Self = type(self).__new__(type(self)) if _instance is None else _instance
        kept = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and name in self._expanded():
                value = value.expand(shape + value.array.shape[kept:])
            elif isinstance(value, Tensor):
                continue  # lazily computed
            new.__dict__[name] = value
        new._batch_shape = shape
        return new

    def _expanded(self) -> Any:
        """The names of the parameters."""
        return self.arg_constraints

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError or TypeError unless the value has a fitting shape and lies in the support."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise ValueError(f"{name}: value is {type(value).__name__}, needs a Tensor")
        if not self._validate_args:
            return
        event = len(self._event_shape)
        shape = value.array.shape
        if len(shape) < event or shape[len(shape) - event :] != self._event_shape:
            raise ValueError(f"{name}: value.shape={shape} must end in event_shape={self._event_shape}")
        lead = shape[: len(shape) - event]
        try:
            if lead != self._batch_shape:
                np.broadcast_shapes(lead, self._batch_shape)
        except ValueError:
            raise ValueError(
                f"{name}: value.shape={shape} does not broadcast with batch_shape={self._batch_shape} and "
                f"event_shape={self._event_shape}"
            ) from None
        support = self.support
        if constraints.is_dependent(support):
            return
        if not all_true(support.check(value).array, "whether a value is in the support"):
            raise ValueError(
                f"{name}: the value must satisfy {support!r}, but has others: {value.detach()}; validate_args=False "
                "leaves out the check"
            )

    def __repr__(self) -> str:
        parts = []
        for name in self._expanded():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                parts.append(f"{name}: {value.item() if value.array.size == 1 else value.array.shape}")
        return f"{type(self).__name__}({', '.join(parts)})"
