"""Discrete distributions: Bernoulli, geometric, binomial, Poisson, categorical and multinomial."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..arrays import all_true, arange, eye, full, to_host
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact, kernels
from ..ops.argument_checks import require_float
from ..ops.index.embedding import one_hot
from ..ops.pointwise.activation import softplus
from ..ops.random.sampling import multinomial, poisson
from ..ops.reduce.statistics import logsumexp
from ..ops.special import lgamma
from . import constraints
from .distribution import (
    Distribution,
    broadcast_all,
    draw_numpy,
    enumerated,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    require_one,
    uniform,
)

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "OverCategorical",
    "Poisson",
    "WithProbability",
]


# ---- Base class of distributions whose parameter is the probability of one outcome ----------------------------------


class WithProbability(Distribution):
    """Base class of distributions with a probability ``probs`` or ``logits``, log(probs / (1 - probs)).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither is given, or a probability is not in [0, 1].
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


# ---- The Bernoulli distribution: 1 with a probability, else 0 -------------------------------------------------------


class Bernoulli(WithProbability):
    """1 with probability ``probs``, else 0. ``logits`` is log(probs / (1 - probs)). Exactly one is given.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither is given, or a probability is not in [0, 1].
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 where probs is above 1/2, NaN where it is 1/2"""
        return (self.probs > 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, np.nan)

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw zeros and ones."""
        with no_grad():
            drawn = uniform(self._extended_shape(sample_shape), self.probs) < self.probs
            return drawn.to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """log(probs) for 1, log(1 - probs) for 0"""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - softplus(logits)

    def entropy(self) -> Tensor:
        """-p log(p) - (1 - p) log(1 - p)"""
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        return enumerated(arange(2, dtype=self.probs.array.dtype), self._batch_shape, expand)


# ---- The geometric distribution: failures before the first success --------------------------------------------------


class Geometric(WithProbability):
    """The number of failures before the first success, with success probability ``probs`` or ``logits``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither is given, or a probability is not in (0, 1].
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if not self._validate_args or probs is None:
            return
        if not all_true(constraints.positive.check(self.probs).array, "whether probabilities are above 0"):
            raise ValueError(f"Geometric: probs={self.probs} must be above 0")

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1"""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        """(1 / probs - 1) / probs"""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """floor(log(u) / log(1 - probs)), with u uniform in (0, 1)"""
        with no_grad(), np.errstate(divide="ignore"):
            u = uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """value log(1 - probs) + log(probs)"""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value.xlogy(1 - probs) + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        return (softplus(self.logits) - self.probs * self.logits) / self.probs


# ---- The binomial distribution: successes among trials --------------------------------------------------------------


class Binomial(WithProbability):
    """The number of successes in ``total_count`` trials with success probability ``probs`` or ``logits``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither is given, or a parameter is out of range.
    """

    total_count: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        **WithProbability.arg_constraints,
    }

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one("Binomial", probs, logits)
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        super().__init__(None if probs is None else given, given if probs is None else None, validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        """The integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    def _expanded(self) -> Any:
        return "total_count", self._given

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """floor((total_count + 1) probs), at most total_count"""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts, in the parameters' type."""
        shape = self._extended_shape(sample_shape)
        why = "the parameters of random numbers"
        count = to_host(exact("cast")(self.total_count.array, np.dtype(np.int64)), why)
        with no_grad():
            wide = kernels.cast(self.probs.array, np.dtype(np.float64))
            probs = to_host(kernels.clamp(wide, 0.0, 1.0), why)
            return draw_numpy(lambda generator: generator.binomial(count, probs, shape), self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of n! / (k! (n - k)!) p**k (1 - p)**(n - k), k the value and n total_count"""
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        return ways + value * logits - n * softplus(logits)


# ---- The Poisson distribution ---------------------------------------------------------------------------------------


class Poisson(Distribution):
    """The Poisson distribution with the mean ``rate``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: rate is negative.
    """

    rate: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """rate"""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """rate, rounded down"""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """rate"""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """value log(rate) - rate - lgamma(value + 1)"""
        self._validate_sample(value)
        value, rate = broadcast_all(value, self.rate)
        return value.xlogy(rate) - rate - lgamma(value + 1)


# ---- The categorical distribution: one of K classes -----------------------------------------------------------------


class Categorical(Distribution):
    """A class from 0 to K - 1, with probabilities proportional to ``probs`` (..., K) or to exp(``logits``).

    Values are int64 (...). Exactly one of the two is given; both attributes are normalized.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: both or neither is given, there is no axis, or a probability is negative or not finite.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        require_one("Categorical", probs, logits)
        given: Any = probs if logits is None else logits
        self._given = "probs" if logits is None else "logits"
        require_float("Categorical", given, self._given)
        if given.array.ndim < 1:
            raise ValueError(f"Categorical: {self._given} has no axis, needs (..., K)")
        if logits is None:
            self.probs = given / given.sum(-1, True)
        else:
            self.logits = given - logsumexp(given, -1, True)
        self._num_events = given.array.shape[-1]
        super().__init__(given.array.shape[:-1], (), validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        """The integers from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1."""
        return logits_to_probs(self.logits)

    def _expanded(self) -> Any:
        return (self._given,)

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        shape: tuple[int, ...] = self.__dict__[self._given].array.shape
        return shape

    @property
    def mean(self) -> Tensor:
        """NaN"""
        return wrap(full(self._batch_shape, np.nan, self.probs.array.dtype, like=self.probs.array))

    @property
    def mode(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN"""
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw classes, int64."""
        shape = tuple(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            found = multinomial(rows, math.prod(shape), True)
            return found.t().reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a class."""
        self._validate_sample(value)
        logits, places = self.logits, value.long()
        if value.array.shape != self._batch_shape:
            shape = np.broadcast_shapes(value.array.shape, self._batch_shape)
            logits, places = logits.expand((*shape, self._num_events)), places.expand(shape)
        return logits.gather(-1, places.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum of p log(p)"""
        logits = self.logits.clamp(min=float(np.finfo(self.logits.array.dtype).min))
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes 0 to K - 1 along a new first axis."""
        return enumerated(arange(self._num_events), self._batch_shape, expand)


# ---- Base class of distributions whose values are built from those of a `Categorical` -------------------------------


class OverCategorical(Distribution):
    """Base class of distributions of vectors (..., K) with the parameters of a ``Categorical`` of K classes.

    validate_args: whether parameters and values are checked

    Raises: as ``Categorical``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameter expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self._categorical.param_shape


# ---- The categorical distribution with unit vectors as values -------------------------------------------------------


class OneHotCategorical(OverCategorical):
    """A ``Categorical`` whose values are unit vectors (..., K) of probs' type.

    validate_args: whether parameters and values are checked

    Raises: as ``Categorical``.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The unit vector of the most probable class."""
        return one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw unit vectors."""
        return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of the class whose element is 1."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """-sum of p log(p)"""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The K unit vectors along a new first axis."""
        n = self._event_shape[0]
        unit = eye(n, dtype=self.probs.array.dtype, like=self.probs.array)
        values = wrap(unit.reshape((n, *(1,) * len(self._batch_shape), n)))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A ``OneHotCategorical`` whose values pass gradients straight through to ``probs``.

    Source: Y. Bengio et al., "Estimating or propagating gradients through stochastic neurons", 2013.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw unit vectors with the gradient of probs."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


# ---- The multinomial distribution: how often each class is drawn ----------------------------------------------------


class Multinomial(OverCategorical):
    """The counts of K classes in ``total_count`` draws of a ``Categorical``; values (..., K).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: total_count is not an int of at least 0. And as ``Categorical``.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(total_count, bool) or not isinstance(total_count, int) or total_count < 0:
            raise ValueError(f"Multinomial: total_count={total_count!r} must be an int of at least 0")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Counts that are at least 0."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.probs * (1 - self.probs) * self.total_count

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts, in probs' type."""
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            return one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """lgamma(n + 1) - sum of lgamma(value + 1) + sum of value log(probs), n the sum of the value"""
        self._validate_sample(value)
        value = value.to(self.logits.dtype)
        logits = self.logits.masked_fill((value == 0) & (self.logits == -np.inf), 0.0)
        return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
